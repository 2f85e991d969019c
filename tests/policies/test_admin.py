"""Policies in Django admin: written a line each, refused in words."""

from __future__ import annotations

import pytest
from django.contrib.auth.models import Group, Permission, User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from chatsite.audit.models import Entry
from chatsite.policies.models import GroupPolicy, Used, UserPolicy
from chatsite.policies.rules import policy_of

ADD, LIST = "admin:policies_grouppolicy_add", "admin:policies_grouppolicy_changelist"
NO_BUDGET = {"budget-TOTAL_FORMS": "0", "budget-INITIAL_FORMS": "0"}
BUDGET = {
    "budget-TOTAL_FORMS": "1",
    "budget-INITIAL_FORMS": "0",
    "budget-0-cost_per_month": "40",
}
FILLED = {
    "group": "",
    "allowed_models": "little-*\nhuge",
    "tools": "send_email: ask\n*: Deny",
    "tokens_per_day": "9",
}


@pytest.fixture
def admin(db) -> Client:
    client = Client()
    client.force_login(User.objects.create_superuser("root"))
    return client


def test_a_policy_is_written_a_line_each(admin):
    group = Group.objects.create(name="team")
    answer = admin.post(reverse(ADD), FILLED | BUDGET | {"group": group.pk})
    assert answer.status_code == 302, answer.text
    row = GroupPolicy.objects.get()
    assert (row.allowed_models, row.tools) == (["little-*", "huge"], {"send_email": "ask", "*": "deny"})
    assert (row.limits.tokens_per_day, row.budget.limits.cost_per_month) == (9, 40)
    shown = admin.get(reverse("admin:policies_grouppolicy_change", args=[row.pk])).text
    assert "*: deny\nsend_email: ask" in shown
    listed = admin.get(reverse(LIST)).text
    assert "team" in listed
    assert "9 tokens a day" in listed


def test_each_change_is_in_the_audit_log(admin):
    group = Group.objects.create(name="team")
    admin.post(reverse(ADD), FILLED | BUDGET | {"group": group.pk})
    change = reverse("admin:policies_grouppolicy_change", args=[GroupPolicy.objects.get().pk])
    admin.post(
        change, FILLED | NO_BUDGET | {"group": group.pk, "tools": "", "allowed_models": "m-" * 90 + "\n" * 9}
    )
    admin.post(change.replace("/change/", "/delete/"), {"post": "yes"})
    User.objects.create_user("ada")
    admin.post(reverse("admin:policies_userpolicy_add"), {"user_name": "ada", "runs_at_once": "2"})
    entries = list(Entry.objects.filter(action="policy.changed").order_by("number"))
    assert [(entry.actor_name, entry.subject, entry.facts["what"]) for entry in entries] == [
        ("root", "group team", "made"),
        ("root", "group team", "changed"),
        ("root", "group team", "deleted"),
        ("root", "user ada", "made"),
    ]
    assert entries[0].facts["tools"] == "*: deny, send_email: ask"
    assert (entries[1].facts["tools"], entries[0].facts["tokens_per_day"]) == ("", 9)
    assert entries[0].facts["together"] == "40.00 money a month"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"allowed_models": "a*b"}, "a * may stand at the end"),
        ({"tools": "mail"}, "allow, ask or deny"),
        ({"tools": "mail: perhaps"}, "allow, ask or deny"),
        ({"tools": "mail: ask\nmail: deny"}, "There are two lines for “mail”."),
        ({"tokens_per_day": "0"}, "greater than or equal to 1"),
        ({"group": ""}, "There is a policy for everybody else already."),
    ],
)
def test_what_cannot_be_is_refused_in_words(admin, change, words):
    GroupPolicy.objects.create()
    group = Group.objects.create(name="team")
    answer = admin.post(reverse(ADD), FILLED | NO_BUDGET | {"group": group.pk} | change)
    assert words in answer.text
    assert GroupPolicy.objects.count() == 1


def test_staff_without_the_permission_sees_no_policy(db):
    clerk = User.objects.create_user("clerk", is_staff=True)
    client = Client()
    client.force_login(clerk)
    assert client.get(reverse(LIST)).status_code == 403
    clerk.user_permissions.add(Permission.objects.get(codename="view_grouppolicy"))
    assert client.get(reverse(LIST)).status_code == 200
    assert client.post(reverse(ADD), FILLED | NO_BUDGET).status_code == 403


def test_limits_of_a_person_are_set_by_name(admin):
    person = User.objects.create_user("ada")
    add = reverse("admin:policies_userpolicy_add")
    assert "There is no user" in admin.post(add, {"user_name": "bob"}).text
    assert admin.post(add, {"user_name": "ada", "runs_at_once": "2"}).status_code == 302
    assert policy_of(person).limits.runs_at_once == 2
    assert "already" in admin.post(add, {"user_name": "ada"}).text
    change = reverse("admin:policies_userpolicy_change", args=[UserPolicy.objects.get().pk])
    assert admin.post(change, {"exempt": "on"}).status_code == 302
    assert not policy_of(person).has_limits


def test_the_list_of_usage_names_people_groups_and_keys_with_one_question_for_each_kind(admin):
    url = reverse("admin:policies_used_changelist")

    def asked(people: int) -> int:
        for number in range(people):
            user = User.objects.create_user(f"ada {people} {number}")
            Used.objects.create(subject=f"user:{user.pk}", span="day", since="2026-11-30")
        with CaptureQueriesContext(connection) as queries:
            text = admin.get(url).text
        assert f"user ada {people} 0" in text
        return len(queries)

    Used.objects.create(subject="key:77", span="day", since="2026-11-30")
    few = asked(1)
    assert asked(10) == few
    assert "key:77" in admin.get(url).text  # it is gone, and its figures are not
