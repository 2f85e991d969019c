"""A session that somebody else may know the key of becomes nobody's: whoever signs in gets another key."""

from __future__ import annotations

import pytest
from django.contrib.auth.models import User
from django.contrib.sessions.models import Session
from django.test import Client

from chatsite.accounts import invitations
from chatsite.operator import setup_link
from tests.accounts.test_factors import ASKED, code_of, with_app
from tests.accounts.test_login import SECRET, sign_in, signed_in

NEW = {"username": "grace", "password1": SECRET, "password2": SECRET}


def by_password(client: Client) -> None:
    sign_in(client)


def by_a_second_factor(client: Client) -> None:
    secret, _ = with_app(User.objects.get(username="ada"))
    sign_in(client)
    client.post(ASKED, {"code": code_of(secret, 1)})


def by_an_invitation(client: Client) -> None:
    client.post(f"/accounts/invitation/{invitations.invite()[1]}/", NEW)


def by_the_setup_link(client: Client) -> None:
    client.post(f"/setup/{setup_link.renew_link()}/", NEW)


@pytest.mark.parametrize("comes_in", [by_password, by_a_second_factor, by_an_invitation, by_the_setup_link])
def test_whichever_way_somebody_comes_in_their_session_has_a_new_key(comes_in, person, client):
    session = client.session
    session["planted"] = "by whoever knows this key"
    session.save()
    planted = session.session_key
    comes_in(client)
    assert signed_in(client)
    assert client.session.session_key != planted
    assert not Session.objects.filter(session_key=planted).exists()


def test_a_session_of_somebody_else_is_not_taken_over_with_what_is_in_it(person, client):
    client.force_login(User.objects.create_user("eve"))
    session = client.session
    session["of_eve"] = "hers"
    session.save()
    client.force_login(person)
    assert "of_eve" not in client.session
