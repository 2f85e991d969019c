"""Second factors: an app's codes, recovery codes, and who must have one. (Passkeys: tests/browser/test_passkeys.py.)"""

from __future__ import annotations

import re
import time

import pytest
from allauth.mfa.models import Authenticator
from allauth.mfa.totp.internal.auth import format_hotp_value, hotp_value
from django.contrib.auth.models import User
from django.test import Client

from chatsite.accounts import doors, invitations
from chatsite.audit.models import Entry
from chatsite.operator import setup_link
from tests.accounts.test_login import SECRET, sign_in, signed_in

ACTIVATE = "/accounts/2fa/totp/activate/"
ASKED = "/accounts/2fa/authenticate/"
DUE = "/accounts/2fa/due/"


def code_of(secret: str, steps: int = 0) -> str:
    return format_hotp_value(hotp_value(secret, int(time.time()) // 30 + steps))


def shown_secret(page: str) -> str:
    return re.search(r"<code>([A-Z2-7=]{20,})</code>", page)[1]


def shown_codes(page: str) -> list[str]:
    return re.findall(r"\d{8}", re.search(r"<pre>([\d\s]*)</pre>", page)[1])


def fresh() -> Client:
    """Signed in, and asked for the password a moment ago."""
    client = Client()
    sign_in(client)
    client.post("/accounts/reauthenticate/", {"password": SECRET})
    return client


def with_app(person: User) -> tuple[str, list[str]]:
    """The secret of an app that is set up, and the recovery codes."""
    client = fresh()
    secret = shown_secret(client.get(ACTIVATE).text)
    codes = client.post(ACTIVATE, {"code": code_of(secret)}, follow=True).text
    return secret, shown_codes(codes)


def test_an_app_is_set_up_by_a_picture_and_a_code_and_then_asked_for(person):
    secret, codes = with_app(person)
    assert len(codes) == 10
    client = Client()
    assert sign_in(client, next="/threads/t/").headers["Location"] == ASKED
    assert not signed_in(client)
    assert client.get("/accounts/").status_code == 302
    assert client.post(ASKED, {"code": "000000"}).status_code == 200
    assert not signed_in(client)
    assert client.post(ASKED, {"code": code_of(secret, 1)}).headers["Location"] == "/threads/t/"
    assert signed_in(client)


def test_the_picture_needs_nothing_that_the_policy_forbids(person):
    page = fresh().get(ACTIVATE).text
    assert 'src="data:image/svg+xml;base64,' in page
    assert "<style" not in page
    assert " style=" not in page
    assert page.count("<script") == page.count("<script src=")


def test_a_code_opens_once(person):
    secret, _ = with_app(person)
    code = code_of(secret, 1)
    for leads in (302, 200):
        client = Client()
        sign_in(client)
        assert client.post(ASKED, {"code": code}).status_code == leads


@pytest.mark.django_db(transaction=True)
def test_of_two_processes_that_get_a_code_at_once_one_takes_it():
    from concurrent.futures import ThreadPoolExecutor

    from django.db import connection

    secret, _ = with_app(User.objects.create_user("ada", password=SECRET))
    code = code_of(secret, 1)
    clients = [Client() for _ in range(4)]
    for client in clients:
        sign_in(client)

    def attempt(client: Client) -> int:
        try:
            return client.post(ASKED, {"code": code}).status_code
        finally:
            connection.close()

    with ThreadPoolExecutor(4) as pool:
        assert sorted(pool.map(attempt, clients)) == [200, 200, 200, 302]


def test_a_recovery_code_opens_once_and_is_not_shown_again(person):
    _, codes = with_app(person)
    for leads in (302, 200):
        client = Client()
        sign_in(client)
        assert client.post(ASKED, {"code": codes[3]}).status_code == leads
    client = fresh()
    assert not set(codes) & set(
        re.findall(r"\d{8}", client.get("/accounts/2fa/recovery-codes/", follow=True).text)
    )


def test_the_secret_is_not_kept_in_the_clear(person):
    secret, codes = with_app(person)
    kept = str(list(Authenticator.objects.values()))
    assert secret not in kept
    assert not any(code in kept for code in codes)


def test_a_code_cannot_be_guessed(person, client):
    with_app(person)
    sign_in(client)
    most = doors.DOORS["code"].account.most
    assert [client.post(ASKED, {"code": "000000"}).status_code for _ in range(most)] == [200] * most
    assert client.post(ASKED, {"code": "000000"}).status_code == 429
    other = Client(REMOTE_ADDR="192.0.2.9")
    sign_in(other)
    assert other.post(ASKED, {"code": "000000"}).status_code == 429


def test_factors_are_changed_only_by_who_has_just_shown_the_password(person):
    client = Client()
    sign_in(client)
    for path in (ACTIVATE, "/accounts/2fa/recovery-codes/generate/", "/accounts/2fa/webauthn/add/"):
        assert client.get(path).headers["Location"].startswith("/accounts/reauthenticate/"), path
        assert client.post(path, {"code": "1"}).headers["Location"].startswith("/accounts/reauthenticate/"), (
            path
        )


def test_what_is_added_and_removed_is_on_record(person, django_capture_on_commit_callbacks):
    with django_capture_on_commit_callbacks(execute=True):
        with_app(person)
    client = Client()
    client.force_login(person)
    client.post("/accounts/reauthenticate/", {"password": SECRET})
    assert client.post("/accounts/2fa/totp/deactivate/").status_code == 302
    kinds = list(Entry.objects.filter(action__startswith="factor.").values_list("action", "facts__factor"))
    assert kinds == [
        ("factor.added", "totp"),
        ("factor.added", "recovery_codes"),
        ("factor.removed", "totp"),
        ("factor.removed", "recovery_codes"),
    ]
    assert sign_in(Client()).headers["Location"] == "/"


# -- who must have one ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("required", "staff", "asked"),
    [("none", True, False), ("staff", False, False), ("staff", True, True), ("all", False, True)],
)
def test_who_must_have_a_factor_is_not_signed_in_without_one(
    required, staff, asked, person, client, settings
):
    settings.MFA_REQUIRED = required
    User.objects.update(is_staff=staff)
    assert sign_in(client).headers["Location"] == (DUE if asked else "/")
    assert signed_in(client) is not asked


def test_setting_it_up_leads_on_to_the_page_that_was_asked_for(person, client, settings):
    settings.MFA_REQUIRED = "all"
    sign_in(client, next="/threads/t/")
    assert client.get("/accounts/").status_code == 302
    secret = shown_secret(client.get(DUE).text)
    wrong = client.post(DUE, {"code": "000000"})
    assert "That is not the code." in wrong.text
    assert not signed_in(client)
    ready = client.post(DUE, {"code": code_of(secret)})
    assert len(shown_codes(ready.text)) == 10
    assert 'href="/threads/t/"' in ready.text
    assert signed_in(client)
    assert Entry.objects.filter(action="factor.added").exists()
    other = Client()
    assert sign_in(other).headers["Location"] == ASKED


def test_the_last_factor_stays_where_there_must_be_one(person, settings):
    with_app(person)
    settings.MFA_REQUIRED = "all"
    client = Client()
    client.force_login(person)
    client.post("/accounts/reauthenticate/", {"password": SECRET})
    page = client.post("/accounts/2fa/totp/deactivate/")
    assert "add another one first" in page.text
    assert Authenticator.objects.filter(type="totp").exists()


@pytest.mark.parametrize("way", ["setup link", "invitation"])
def test_no_other_way_in_leads_past_it(way, db, client, settings):
    settings.MFA_REQUIRED = "all"
    if way == "setup link":
        path = f"/setup/{setup_link.renew_link()}/"
    else:
        path = f"/accounts/invitation/{invitations.invite()[1]}/"
    form = {"username": "grace", "password1": SECRET, "password2": SECRET}
    assert client.post(path, form).headers["Location"] == DUE
    assert not signed_in(client)


def test_nor_does_the_last_passkey_go_where_there_must_be_one(person, settings):
    rows = [Authenticator.objects.create(user=person, type="webauthn", data={"name": n}) for n in "ab"]
    settings.MFA_REQUIRED = "all"
    client = Client()
    client.force_login(person)
    client.post("/accounts/reauthenticate/", {"password": SECRET})
    for row, left in zip(rows, (1, 1), strict=True):
        client.post(f"/accounts/2fa/webauthn/{row.pk}/remove/")
        assert Authenticator.objects.count() == left


def test_nobody_removes_a_factor_of_somebody_else(person):
    other = User.objects.create_user("eve", password=SECRET)
    row = Authenticator.objects.create(user=other, type="webauthn", data={"name": "theirs"})
    client = fresh()
    for what in ("remove", "edit"):
        assert client.post(f"/accounts/2fa/webauthn/{row.pk}/{what}/", {"name": "mine"}).status_code == 404
    row.refresh_from_db()
    assert row.data["name"] == "theirs"


def test_the_page_for_it_is_for_nobody_who_has_not_shown_a_password(db, client):
    for path in (DUE, ASKED):
        assert client.get(path).headers["Location"] == "/accounts/login/"
        assert client.post(path, {"code": "123456"}).headers["Location"] == "/accounts/login/"
