"""Invitations: a link that makes one account, once."""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from io import StringIO

import pytest
from allauth.account.models import EmailAddress
from django.contrib.auth.models import Group, Permission, User
from django.core.management import CommandError, call_command
from django.db import connection
from django.db.models import F
from django.test import Client

from chatsite.accounts import invitations
from chatsite.accounts.models import Invitation
from chatsite.audit.models import Entry
from tests.accounts.test_login import SECRET, signed_in

FORM = {"username": "grace", "password1": SECRET, "password2": SECRET}
ADD = "/admin/accounts/invitation/add/"


def link(**asked: object) -> str:
    _, token = invitations.invite(**asked)
    return f"/accounts/invitation/{token}/"


@pytest.fixture
def writers(db) -> Group:
    return Group.objects.create(name="writers")


def test_the_link_makes_an_account_in_its_groups_and_signs_in(writers, client):
    path = link(email="Grace@example.org", groups=[writers])
    assert "Grace@example.org" in client.get(path).text
    answer = client.post(path, FORM | {"is_staff": "on", "is_superuser": "on", "email": "evil@example.org"})
    assert (answer.status_code, answer.headers["Location"]) == (302, "/")
    grace = User.objects.get()
    assert list(grace.groups.all()) == [writers]
    assert (grace.email, grace.is_staff, grace.is_superuser) == ("Grace@example.org", False, False)
    assert signed_in(client)
    # The link was handed over by a person, so nobody has proven the address.
    assert not EmailAddress.objects.get().verified
    facts = Entry.objects.get(action="invitation.used").facts
    assert facts == {"groups": "writers"}


@pytest.mark.parametrize("ending", ["used", "revoked", "old", "guessed"])
def test_a_link_that_is_over_is_said_to_be_worth_nothing(ending, db, client):
    path = link(days=1)
    match ending:
        case "used":
            Client().post(path, FORM)
        case "revoked":
            assert invitations.revoke(Invitation.objects.get())
        case "old":
            Invitation.objects.update(expires_at=F("expires_at") - timedelta(days=1))
        case "guessed":
            path = "/accounts/invitation/guess/"
    before = User.objects.count()
    for answer in (client.get(path), client.post(path, FORM | {"username": "eve"})):
        assert answer.status_code == 404
        assert "worth nothing" in answer.text
    assert User.objects.count() == before


def test_a_form_with_a_mistake_keeps_the_invitation(db, client):
    path = link()
    assert client.post(path, FORM | {"password2": "another"}).status_code == 200
    assert "holds no @" in client.post(path, FORM | {"username": "a@b.c"}).text
    assert client.post(path, FORM).status_code == 302


def test_who_has_an_account_does_not_use_it_up_by_looking(person, client):
    client.force_login(person)
    path = link()
    assert "You have an account already" in client.get(path).text
    client.post(path, FORM)
    assert User.objects.count() == 1
    assert Client().get(path).status_code == 200


@pytest.mark.django_db(transaction=True)
def test_of_two_who_accept_at_once_one_gets_the_account():
    path = link()

    def attempt(name: str) -> int:
        try:
            return Client().post(path, FORM | {"username": name}).status_code
        finally:
            connection.close()

    with ThreadPoolExecutor(4) as pool:
        codes = sorted(pool.map(attempt, ["ada", "eve", "mallory", "oscar"]))
    assert codes == [302, 404, 404, 404]
    assert User.objects.count() == 1


def test_the_token_is_kept_as_a_hash_and_is_in_no_log(db, caplog):
    _, token = invitations.invite(email="a@example.org")
    assert token not in str(Invitation.objects.values().get())
    assert token not in str(list(Entry.objects.values()))
    assert len(token) >= 43


def test_the_command_prints_the_link_and_refuses_what_cannot_be(writers, client, settings):
    out = StringIO()
    call_command("invite", "--email", "grace@example.org", "--groups", "writers", "--days", "3", stdout=out)
    path = re.search(r"http://127\.0\.0\.1:\d+(/accounts/invitation/\S+)", out.getvalue())[1]
    assert client.get(path).status_code == 200
    for arguments, words in (
        (["--groups", "nobody"], "There is no group 'nobody'"),
        (["--days", "0"], "write a number from 1 to 90"),
        (["--email", "nonsense"], "is no address"),
    ):
        with pytest.raises(CommandError, match=words):
            call_command("invite", *arguments)
    assert Invitation.objects.count() == 1


def test_with_a_mail_server_it_is_mailed_and_using_it_proves_the_address(db, client, mailoutbox, settings):
    settings.HAS_MAIL = True
    call_command("invite", "--email", "grace@example.org", stdout=StringIO())
    path = re.search(r"http://\S+?(/accounts/invitation/\S+)", mailoutbox[0].body)[1]
    client.post(path, FORM)
    assert EmailAddress.objects.get().verified


# -- in the admin --------------------------------------------------------------------------------------------


def test_an_administrator_makes_one_and_sees_its_link_once(admin, writers):
    shown = admin.post(ADD, {"email": "grace@example.org", "groups": [writers.pk], "days": "7"})
    path = re.search(r'value="http://testserver(/accounts/invitation/[^"]+)"', shown.text)[1]
    assert "no-store" in shown.headers["Cache-Control"]
    made = Invitation.objects.get()
    assert (made.made_by.username, list(made.groups.all())) == ("root", [writers])
    for page in ("/admin/accounts/invitation/", f"/admin/accounts/invitation/{made.pk}/change/"):
        assert path.split("/")[-2] not in admin.get(page).text
    assert Client().post(path, FORM).status_code == 302
    assert admin.get("/admin/accounts/invitation/?open=no").text.count(">grace@example.org<") == 1


def test_an_administrator_takes_one_back(admin):
    path = link()
    chosen = {"action": "revoke", "_selected_action": [Invitation.objects.get().pk]}
    assert "Revoked 1 invitation." in admin.post("/admin/accounts/invitation/", chosen, follow=True).text
    assert Client().get(path).status_code == 404


def test_who_is_no_superuser_invites_into_their_own_groups_alone(writers, client):
    clerk = User.objects.create_user("clerk", is_staff=True)
    mine = Group.objects.create(name="clerks")
    clerk.groups.add(mine)
    client.force_login(clerk)
    assert client.get(ADD).status_code == 403
    clerk.user_permissions.add(Permission.objects.get(codename="add_invitation"))
    assert "Select a valid choice" in client.post(ADD, {"groups": [writers.pk], "days": "7"}).text
    assert "Copy what is here now" in client.post(ADD, {"groups": [mine.pk], "days": "7"}).text


def test_an_invitation_into_many_groups_of_long_names_is_on_record_too(db):
    groups = [Group.objects.create(name=f"{number:02} {'x' * 140}") for number in range(20)]
    made, _ = invitations.invite(groups=groups)
    assert made.groups.count() == 20
    assert Entry.objects.get(action="invitation.made").facts["groups"].startswith("00 xxx")
