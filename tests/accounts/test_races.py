"""Two forms at once, for what there may be only once: one wins, the other is told so in words, and nothing is a 500."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from allauth.account.models import EmailAddress
from django.contrib.auth.models import Group, User
from django.db import connection
from django.db.models import QuerySet
from django.db.models.signals import pre_save
from django.test import Client
from django.urls import reverse

from chatsite.accounts import invitations
from chatsite.accounts.models import Invitation
from chatsite.audit.models import Entry
from chatsite.catalog.models import Endpoint, Model, Route
from chatsite.chat.models import Preset
from chatsite.operator.setup_link import renew_link
from chatsite.policies.models import GroupPolicy, UserPolicy
from tests.accounts.test_login import SECRET

NEW = {"username": "grace", "password1": SECRET, "password2": SECRET}
NO_ROUTES = {"routes-TOTAL_FORMS": "0", "routes-INITIAL_FORMS": "0"}
NO_BUDGET = {"budget-TOTAL_FORMS": "0", "budget-INITIAL_FORMS": "0"}


@pytest.fixture
def looks_too_early(monkeypatch) -> Iterator[Callable[[type], None]]:
    """Whoever asks whether there is such a row is told no, until one of this kind is about to be written: as for a form
    that is looked at before the other one is committed."""
    eyes, real = threading.Event(), QuerySet.exists

    def open_eyes(**_: object) -> None:
        eyes.set()

    def blind_for(model: type) -> None:
        pre_save.connect(open_eyes, sender=model)
        monkeypatch.setattr(
            QuerySet, "exists", lambda self: (self.model is not model or eyes.is_set()) and real(self)
        )

    yield blind_for
    for model in (User, Group, EmailAddress, Endpoint, Model, Route, GroupPolicy, UserPolicy, Preset):
        pre_save.disconnect(open_eyes, sender=model)


def of_users() -> dict[str, object]:
    return NEW | {"usable_password": "true"}


def of_group_policy() -> dict[str, object]:
    group = Group.objects.create(name="team")
    GroupPolicy.objects.create(group=group)
    return {"group": group.pk, "allowed_models": "", "tools": ""} | NO_BUDGET


def of_everybody_else() -> dict[str, object]:
    GroupPolicy.objects.create(group=None)
    return {"group": "", "allowed_models": "", "tools": ""} | NO_BUDGET


def of_user_policy() -> dict[str, object]:
    UserPolicy.objects.create(user=User.objects.get(username="grace"))
    return {"user_name": "grace"}


def of_endpoint() -> dict[str, object]:
    Endpoint.objects.create(name="local", base_url="https://x/v1")
    return {"name": "local", "dialect": "openai", "base_url": "https://y/v1", "api_key": "", "headers": ""}


def of_model() -> dict[str, object]:
    Model.objects.create(name="house")
    return {"name": "house"} | NO_ROUTES


def of_preset() -> dict[str, object]:
    Preset.objects.create(owner=None, name="brief", model="")
    return {"name": "brief", "model": "", "system": "", "tools_off": ""}


def of_address() -> dict[str, object]:
    grace = User.objects.get(username="grace")
    EmailAddress.objects.create(user=grace, email="grace@example.org", verified=True)
    other = User.objects.create_user("eve")
    return {"user": other.pk, "email": "grace@example.org", "verified": "on"}


def of_group() -> dict[str, object]:
    Group.objects.create(name="team")
    return {"name": "team"}


FORMS = {
    "auth_user": (User, of_users, "already exists"),
    "auth_group": (Group, of_group, "already exists"),
    "account_emailaddress": (EmailAddress, of_address, "unique_verified_email"),
    "policies_grouppolicy": (GroupPolicy, of_group_policy, "already exists"),
    "policies_grouppolicy ": (GroupPolicy, of_everybody_else, "a policy for everybody else already"),
    "policies_userpolicy": (UserPolicy, of_user_policy, "has limits of their own already"),
    "catalog_endpoint": (Endpoint, of_endpoint, "already exists"),
    "catalog_model": (Model, of_model, "already exists"),
    "chat_preset": (Preset, of_preset, "another preset of this name"),
}


@pytest.mark.parametrize("page", FORMS)
def test_a_form_of_the_admin_that_lost_says_what_is_there_by_now(page, admin, looks_too_early):
    model, prepare, words = FORMS[page]
    User.objects.create_user("grace")
    form = prepare()
    before, told = model.objects.count(), Entry.objects.count()
    looks_too_early(model)
    answer = admin.post(reverse(f"admin:{page.strip()}_add"), form)
    assert answer.status_code == 200
    assert words in answer.text, answer.context["errors"]
    assert (model.objects.count(), Entry.objects.count()) == (before, told)


def test_a_model_that_two_route_at_once_says_so(admin, looks_too_early):
    endpoint = Endpoint.objects.create(name="local", base_url="https://x/v1")
    model = Model.objects.create(name="house")
    Route.objects.create(model=model, endpoint=endpoint)
    form = {"name": "house", "routes-TOTAL_FORMS": "1", "routes-INITIAL_FORMS": "0", "routes-0-model": model.pk,
            "routes-0-endpoint": endpoint.pk, "routes-0-position": "1"}  # fmt: skip
    looks_too_early(Route)
    answer = admin.post(reverse("admin:catalog_model_change", args=[model.pk]), form)
    assert answer.status_code == 200
    assert "There is a route to this endpoint already." in answer.text, answer.context["errors"]
    assert Route.objects.count() == 1


@pytest.mark.django_db(transaction=True)
def test_of_two_who_take_one_name_by_two_invitations_at_once_one_is_asked_for_another(monkeypatch):
    paths = [f"/accounts/invitation/{invitations.invite()[1]}/" for _ in range(2)]
    both_are_good, accept, first = threading.Barrier(2, timeout=20), invitations.accept, threading.local()

    def accept_together(*given):
        if not hasattr(first, "over"):
            first.over = both_are_good.wait()
        return accept(*given)

    monkeypatch.setattr(invitations, "accept", accept_together)

    def attempt(path: str) -> tuple[int, bool]:
        try:
            answer = Client().post(path, NEW)
            return answer.status_code, "already exists" in answer.content.decode()
        finally:
            connection.close()

    with ThreadPoolExecutor(2) as pool:
        assert sorted(pool.map(attempt, paths)) == [(200, True), (302, False)]
    assert User.objects.count() == 1
    assert Invitation.objects.filter(used_at=None).count() == 1  # theirs, for another name


def test_of_two_who_prove_one_address_by_invitations_at_once_one_has_it(db, client, looks_too_early):
    grace = User.objects.create_user("someone")
    EmailAddress.objects.create(user=grace, email="grace@example.org", verified=True)
    made, token = invitations.invite(email="grace@example.org")
    Invitation.objects.filter(pk=made.pk).update(mailed=True)
    looks_too_early(EmailAddress)
    assert client.post(f"/accounts/invitation/{token}/", NEW).status_code == 302
    assert [row.user.username for row in EmailAddress.objects.filter(verified=True)] == ["someone"]
    assert User.objects.get(username="grace").email == "grace@example.org"


@pytest.mark.django_db(transaction=True)
def test_a_name_that_was_taken_meanwhile_is_said_to_who_signs_up(client, settings, looks_too_early):
    settings.SIGNUP = True
    User.objects.create_user("grace")
    looks_too_early(User)
    answer = client.post("/accounts/signup/", NEW)
    assert answer.status_code == 200
    assert "already exists" in answer.text


def test_a_name_that_was_taken_meanwhile_is_said_to_the_first_administrator(db, client, looks_too_early):
    User.objects.create_user("grace")
    token = renew_link()
    looks_too_early(User)
    answer = client.post(reverse("setup", args=[token]), NEW)
    assert answer.status_code == 200
    assert "already exists" in answer.text
    assert client.post(reverse("setup", args=[token]), NEW | {"username": "ada"}).status_code == 302


@pytest.mark.django_db(transaction=True)
def test_an_address_that_another_proves_at_the_same_time_is_not_proven_twice(person, client, looks_too_early):
    other = User.objects.create_user("eve")
    EmailAddress.objects.create(user=other, email="ada@example.org", verified=True)
    mine = EmailAddress.objects.create(user=person, email="ada@example.org")
    from allauth.account.models import EmailConfirmationHMAC

    looks_too_early(EmailAddress)
    client.force_login(person)
    answer = client.post(f"/accounts/confirm-email/{EmailConfirmationHMAC(mine).key}/", follow=True)
    assert answer.status_code == 200
    mine.refresh_from_db()
    assert not mine.verified
