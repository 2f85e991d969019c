"""One's own account: profile, password, sessions, keys."""

from __future__ import annotations

import re

import pytest
from django.contrib.auth.models import User
from django.contrib.sessions.models import Session
from django.test import Client
from django.urls import reverse

from chatsite.accounts import keys, signins
from chatsite.accounts.models import ApiKey
from chatsite.audit.models import Entry
from chatsite.chat.access import Credential
from tests.accounts.test_login import LOGIN, SECRET, sign_in, signed_in

ACCOUNT = "/accounts/"
NEW = "an even longer secret"
FIREFOX = "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0"


@pytest.fixture
def ada(person) -> Client:
    """Signed in, and asked for the password a moment ago."""
    client = Client(headers={"User-Agent": FIREFOX})
    sign_in(client)
    client.post("/accounts/reauthenticate/", {"password": SECRET})
    return client


def elsewhere() -> Client:
    client = Client()
    sign_in(client)
    return client


def actions() -> list[str]:
    return list(Entry.objects.order_by("number").values_list("action", flat=True))


def test_the_page_is_for_who_is_signed_in(client, db):
    assert client.get(ACCOUNT).headers["Location"] == f"{LOGIN}?next={ACCOUNT}"
    for name in ("account_profile", "account_end_sessions", "account_make_key"):
        assert client.post(reverse(name)).headers["Location"].startswith(LOGIN)


def test_a_name_is_changed_and_nothing_else_can_be(ada, person):
    form = {
        "first_name": "Ada",
        "last_name": "L.",
        "is_staff": "on",
        "is_superuser": "on",
        "username": "root",
    }
    assert ada.post("/accounts/profile/", form).status_code == 302
    person.refresh_from_db()
    assert (person.first_name, person.username, person.is_staff, person.is_superuser) == (
        "Ada",
        "ada",
        False,
        False,
    )


def test_a_new_password_ends_every_other_session_and_keeps_this_one(ada):
    other = elsewhere()
    before = ada.session.session_key
    form = {"oldpassword": SECRET, "password1": NEW, "password2": NEW}
    assert ada.post("/accounts/password/change/", form).headers["Location"] == ACCOUNT
    assert ada.get(ACCOUNT).status_code == 200
    assert ada.session.session_key != before
    assert other.get(ACCOUNT).status_code == 302
    assert Credential(session_key=before).user() is None
    assert sign_in(Client(), "ada", NEW).status_code == 302
    assert "password.changed" in actions()


def test_the_old_password_is_asked_for_and_a_weak_new_one_refused(ada):
    for form in (
        {"oldpassword": "wrong", "password1": NEW, "password2": NEW},
        {"oldpassword": SECRET, "password1": "12345678", "password2": "12345678"},
        {"oldpassword": SECRET, "password1": NEW, "password2": "another"},
    ):
        assert ada.post("/accounts/password/change/", form).status_code == 200
    assert sign_in(Client()).status_code == 302


# -- sessions ------------------------------------------------------------------------------------------------


def test_sessions_are_told_apart_and_one_can_be_ended(ada):
    other = elsewhere()
    page = ada.get(ACCOUNT).text
    assert "Firefox on Linux" in page
    assert page.count("127.0.0.1") == 2
    path = re.search(r'action="(/accounts/sessions/\d+/end/)"', page)[1]
    ada.post(path)
    assert other.get(ACCOUNT).status_code == 302
    assert ada.get(ACCOUNT).status_code == 200


def test_signing_out_everywhere_ends_all_others_also_one_that_nobody_noted(ada, person):
    others = [elsewhere(), elsewhere()]
    person.sign_ins.exclude(session_key=ada.session.session_key).delete()
    ada.post("/accounts/sessions/end/")
    assert [other.get(ACCOUNT).status_code for other in others] == [302, 302]
    assert ada.get(ACCOUNT).status_code == 200
    entry = Entry.objects.get(action="logout.everywhere")
    assert (entry.actor_name, entry.facts["sessions"]) == ("ada", 2)


def test_an_open_stream_finds_nobody_once_its_session_has_ended(ada, person):
    other = elsewhere()
    held = Credential(session_key=other.session.session_key)
    assert held.user() == person
    ada.post("/accounts/sessions/end/")
    assert held.user() is None


def test_nobody_ends_a_session_of_somebody_else(ada, db):
    User.objects.create_user("eve", password=SECRET)
    eve = Client()
    sign_in(eve, "eve")
    row = User.objects.get(username="eve").sign_ins.get()
    assert ada.post(f"/accounts/sessions/{row.pk}/end/").status_code == 404
    assert eve.get(ACCOUNT).status_code == 200


def test_what_has_ended_is_not_listed(ada, person):
    elsewhere().post("/accounts/logout/")
    assert len(signins.live_of(person)) == 1
    Session.objects.all().delete()
    assert signins.live_of(person) == []


@pytest.mark.parametrize(
    ("agent", "name"),
    [
        (FIREFOX, "Firefox on Linux"),
        (
            "Mozilla/5.0 (iPhone; CPU iPhone OS 18_0 like Mac OS X) Version/18.0 Safari/604.1",
            "Safari on iPhone",
        ),
        ("Mozilla/5.0 (Windows NT 10.0) Chrome/140.0 Safari/537.36 Edg/140.0", "Edge on Windows"),
        ("<script>alert(1)</script>", ""),
        ("curl/8", ""),
    ],
)
def test_a_browser_is_named_as_people_know_it(agent, name):
    assert signins.browser_of(agent) == name


# -- keys ----------------------------------------------------------------------------------------------------

KEY = {"label": "laptop", "scopes": ["chat", "models"], "lasts": "90"}


def made_by(client: Client, **changes: object) -> str:
    found = re.search(r'value="(tl-[^"]+)"', client.post("/accounts/keys/make/", KEY | changes).text)
    return found[1] if found else ""


def test_a_key_is_made_with_scopes_and_an_end_and_shown_once(ada, person):
    key = made_by(ada)
    view = keys.look_up(key)
    assert (view.user_id, view.label, view.scopes) == (person.pk, "laptop", {"chat", "models"})
    assert (view.expires_at - ApiKey.objects.get().created_at).days in {89, 90}
    assert key not in ada.get(ACCOUNT).text
    assert "laptop" in ada.get(ACCOUNT).text
    assert "key.made" in actions()
    assert key not in str(list(Entry.objects.values()))


def test_the_limits_of_a_key_are_an_administrators_to_give(ada):
    made_by(ada, requests_per_minute="1000000", budget="1000000", allowed_models="x", user_name="root")
    row = ApiKey.objects.get()
    assert (row.requests_per_minute, row.budget, row.allowed_models, row.user.username) == (
        None,
        None,
        [],
        "ada",
    )


@pytest.mark.parametrize(
    "change", [{"label": ""}, {"scopes": []}, {"scopes": ["admin"]}, {"lasts": "99999"}, {"label": "x" * 101}]
)
def test_a_key_that_cannot_be_is_not_made(change, ada):
    assert made_by(ada, **change) == ""
    assert not ApiKey.objects.exists()


def test_a_revoked_key_is_dead_at_once_and_its_owners_alone_to_revoke(ada, db):
    key = made_by(ada)
    eve = Client()
    eve.force_login(User.objects.create_user("eve"))
    path = reverse("account_revoke_key", args=[ApiKey.objects.get().pk])
    assert eve.post(path).status_code == 404
    assert keys.look_up(key)
    ada.post(path)
    assert keys.look_up(key) is None
    assert actions()[-1] == "key.revoked"


def test_before_a_key_is_made_the_password_is_asked_again(person):
    client = elsewhere()
    asked = client.post("/accounts/keys/make/", KEY)
    assert asked.headers["Location"].startswith("/accounts/reauthenticate/")
    assert not ApiKey.objects.exists()
    made = client.post(asked.headers["Location"], {"password": SECRET, "next": "/accounts/keys/make/"})
    assert re.search(r'value="(tl-[^"]+)"', made.text)


def test_a_site_may_leave_keys_to_its_administrators(ada, settings):
    settings.OWN_KEYS = False
    assert "Keys are made by an administrator here." in ada.get(ACCOUNT).text
    assert ada.post("/accounts/keys/make/", KEY).status_code == 403


# -- a forgotten password ------------------------------------------------------------------------------------


def test_a_reset_by_mail_ends_all_sessions_and_works_once(person, mailoutbox, settings):
    from allauth.account.models import EmailAddress

    settings.HAS_MAIL = True
    EmailAddress.objects.create(user=person, email="ada@example.org", verified=True, primary=True)
    signed = elsewhere()
    client = Client()
    assert client.post("/accounts/password/reset/", {"email": "ada@example.org"}).status_code == 302
    link = re.search(r"http://testserver(/accounts/password/reset/key/\S+)", mailoutbox[0].body)[1]
    form = client.get(link, follow=True).redirect_chain[-1][0]
    assert client.post(form, {"password1": NEW, "password2": NEW}).status_code == 302
    assert signed.get(ACCOUNT).status_code == 302
    assert "worth nothing" in Client().get(link).text
    assert sign_in(Client(), "ada", NEW).status_code == 302


def test_an_address_that_nobody_has_gets_no_mail_and_the_same_answer(db, mailoutbox, client):
    answer = client.post("/accounts/password/reset/", {"email": "nobody@example.org"})
    assert answer.headers["Location"] == "/accounts/password/reset/done/"
    assert mailoutbox == []


def test_a_deactivated_account_is_dead_at_once_in_pages_sessions_and_keys(ada, person):
    key = made_by(ada)
    session = Credential(session_key=ada.session.session_key)
    User.objects.filter(pk=person.pk).update(is_active=False)
    assert ada.get(ACCOUNT).status_code == 302
    assert session.user() is None
    assert keys.look_up(key) is None
    other = Client()
    assert sign_in(other).status_code == 200
    assert not signed_in(other)
