"""What is used is shown to the person and to administrators, and when it comes back."""

from __future__ import annotations

from decimal import Decimal

import pytest
from django.contrib.auth.models import Group, User
from django.test import Client
from django.urls import reverse

from chatsite.policies.meters import meters_of
from chatsite.policies.models import GroupBudget, GroupPolicy, Used
from chatsite.policies.quotas import Account, Amount, admit, settle
from chatsite.policies.values import Limits


@pytest.fixture
def person(db) -> User:
    return User.objects.create_user("ada")


def logged_in(user: User) -> Client:
    client = Client()
    client.force_login(user)
    return client


@pytest.fixture
def used(person) -> User:
    group = Group.objects.create(name="team")
    group.user_set.add(person)
    policy = GroupPolicy.objects.create(group=group, tokens_per_day=1000, runs_at_once=3)
    GroupBudget.objects.create(policy=policy, cost_per_month=Decimal(40))
    mine = Account(f"user:{person.pk}", Limits(tokens_per_day=1000))
    team = Account(f"group:{group.pk}", Limits(cost_per_month=Decimal(40)), "team")
    admit([mine, team], "a", Amount())
    settle("a", Amount(250, Decimal(10)))
    admit([mine, team], "b", Amount(9))
    return person


def test_a_meter_says_what_is_used_of_which_limit_and_when_it_comes_back(used):
    shown = [(each.limit, each.group, each.figures, each.share) for each in meters_of(used.pk)]
    assert shown == [
        ("tokens_per_day", "", "250 / 1,000", 25),
        ("runs_at_once", "", "1 / 3", 33),
        ("cost_per_month", "team", "10.00 / 40.00", 25),
    ]
    assert [each.back.startswith("comes back") for each in meters_of(used.pk)] == [True, False, True]


def test_what_was_used_in_an_earlier_window_is_not_shown(used):
    Used.objects.update(since="2001-01")
    assert [each.used for each in meters_of(used.pk)] == [0, 1, 0]


def test_the_account_page_has_the_meters_of_whom_something_limits(used):
    shown = logged_in(used).get(reverse("account")).text
    assert "Tokens today" in shown
    assert "of the group “team”" in shown
    assert "<meter" in shown
    assert "<meter" not in logged_in(User.objects.create_user("bob")).get(reverse("account")).text


def test_an_administrator_sees_who_used_what(used):
    root = logged_in(User.objects.create_superuser("root"))
    shown = root.get(reverse("admin:policies_used_changelist")).text
    assert "user ada" in shown
    assert "group team" in shown
    assert root.get(reverse("admin:policies_used_add")).status_code == 403
