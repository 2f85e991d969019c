"""Signing in by an identity provider, over HTTP, with a provider that is there; and whatever it may get wrong."""

from __future__ import annotations

import html
import re
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import parse_qs, urlsplit

import httpx
import jwt
import pytest
from allauth.account.models import EmailAddress
from allauth.socialaccount.models import SocialAccount, SocialToken
from cryptography.hazmat.primitives.asymmetric import rsa
from django.contrib.auth.models import Group, User
from django.core.exceptions import ImproperlyConfigured
from django.db import connection
from django.test import Client

from chatsite.accounts.adapter_oidc import OidcAdapter
from chatsite.audit.models import Entry
from chatsite.settings_checks import check_oidc
from tests.accounts.test_login import SECRET, sign_in, signed_in
from tests.identity_provider import CLIENT, IdentityProvider
from tests.identity_provider import SECRET as CLIENT_SECRET


@pytest.fixture(scope="module")
def _provider() -> Iterator[IdentityProvider]:
    with IdentityProvider().in_thread() as provider:
        yield provider


@pytest.fixture
def provider(_provider: IdentityProvider, settings, db) -> IdentityProvider:
    _provider.reset()
    settings.OIDC_ISSUER = _provider.url
    settings.OIDC_NAME = "Example ID"
    app = {"provider_id": "oidc", "name": "Example ID", "client_id": CLIENT, "secret": CLIENT_SECRET}
    app["settings"] = {"server_url": _provider.url}
    settings.SOCIALACCOUNT_PROVIDERS = {"openid_connect": {"OAUTH_PKCE_ENABLED": True, "APPS": [app]}}
    return _provider


def leave(client: Client, start: str = "/accounts/oidc/login/", **form: str) -> str:
    """The address of the provider's page, to which ours sends the browser."""
    page = client.post(start, form)
    return html.unescape(re.search(r'content="0;url=([^"]+)"', page.text)[1])


def allowed(address: str, answer: str = "yes") -> str:
    """The path on our side to which the provider sends the browser back."""
    page = httpx.get(address, timeout=60).text
    form = {name: html.unescape(value) for name, value in re.findall(r'name="([^"]+)" value="([^"]*)"', page)}
    issuer = "{0.scheme}://{0.netloc}".format(urlsplit(address))
    back = urlsplit(
        httpx.post(f"{issuer}/authorize", data=form | {"answer": answer}, timeout=60).headers["Location"]
    )
    return f"{back.path}?{back.query}"


def come(client: Client, **form: str):
    return client.get(allowed(leave(client, **form)))


def test_the_first_sign_in_makes_the_account_and_the_next_one_finds_it(provider, client):
    answer = come(client, next="/threads/t/")
    assert (answer.status_code, answer.headers["Location"]) == (302, "/threads/t/")
    grace = User.objects.get()
    assert (grace.username, grace.email, grace.first_name) == ("grace", "grace@example.org", "Grace")
    assert not grace.has_usable_password()
    assert EmailAddress.objects.get().verified
    provider.person |= {"preferred_username": "hopper", "email": "other@example.org"}
    other = Client()
    come(other)
    assert other.session["_auth_user_id"] == str(grace.pk)
    assert not SocialToken.objects.exists()
    assert Entry.objects.filter(action="login.ok", facts__way="oidc").count() == 2


@pytest.mark.django_db(transaction=True)
def test_a_first_sign_in_from_two_tabs_at_once_makes_one_account(provider, monkeypatch):
    both_are_new, save, first = threading.Barrier(2, timeout=20), OidcAdapter.save_user, threading.local()

    def save_together(*given, **more):
        if not hasattr(first, "over"):
            first.over = both_are_new.wait()
        return save(*given, **more)

    monkeypatch.setattr(OidcAdapter, "save_user", save_together)
    tabs = [(client, allowed(leave(client))) for client in (Client(), Client())]

    def attempt(tab: tuple[Client, str]) -> tuple[int, bool]:
        try:
            answer = tab[0].get(tab[1])
            return answer.status_code, "Try again from the start." in answer.content.decode()
        finally:
            connection.close()

    with ThreadPoolExecutor(2) as pool:
        assert sorted(pool.map(attempt, tabs)) == [(302, False), (403, True)]
    assert (User.objects.count(), SocialAccount.objects.count()) == (1, 1)


def test_what_is_sent_is_bound_to_this_sign_in(provider, client):
    asked = {name: values[0] for name, values in parse_qs(urlsplit(leave(client)).query).items()}
    assert asked["code_challenge_method"] == "S256"
    assert asked["redirect_uri"] == "http://testserver/accounts/oidc/callback/"
    assert "openid" in asked["scope"].split()
    assert len(asked["state"]) >= 16
    assert len(asked["nonce"]) >= 24
    again = {name: values[0] for name, values in parse_qs(urlsplit(leave(client)).query).items()}
    assert all(asked[name] != again[name] for name in ("state", "nonce", "code_challenge"))


def forged(claims: dict) -> str:
    stranger = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    return jwt.encode(claims, stranger, algorithm="RS256", headers={"kid": "k1"})


HOUR = 3600
SPOILED = {
    "wrong issuer": lambda claims: claims | {"iss": "https://evil.example"},
    "wrong audience": lambda claims: claims | {"aud": "another-client"},
    "several audiences": lambda claims: claims | {"aud": [CLIENT, "another"]},
    "expired": lambda claims: claims | {"iat": time.time() - 2 * HOUR, "exp": time.time() - HOUR},
    "without an end": lambda claims: {name: value for name, value in claims.items() if name != "exp"},
    "not yet": lambda claims: claims | {"nbf": time.time() + HOUR},
    "wrong nonce": lambda claims: claims | {"nonce": "of another sign-in"},
    "no nonce": lambda claims: {name: value for name, value in claims.items() if name != "nonce"},
    "no subject": lambda claims: {name: value for name, value in claims.items() if name != "sub"},
}
SIGNED = {
    "alg none": lambda claims: jwt.encode(claims, None, algorithm="none", headers={"kid": "k1"}),
    "a stranger's key": forged,
    "a secret as key": lambda claims: jwt.encode(
        claims, CLIENT_SECRET * 3, algorithm="HS256", headers={"kid": "k1"}
    ),
    "an unknown key": lambda claims: forged(claims).replace("x", "y", 1),
    "no token": lambda claims: "",
    "nonsense": lambda claims: "a.b.c",
}


@pytest.mark.parametrize("what", [*SPOILED, *SIGNED])
def test_a_token_that_is_not_what_it_has_to_be_signs_nobody_in(what, provider, client):
    provider.spoil = SPOILED.get(what, provider.spoil)
    provider.sign = SIGNED.get(what, provider.sign)
    answer = come(client)
    assert answer.status_code == 403
    assert "was not what it has to be" in answer.text
    assert not signed_in(client)
    assert not User.objects.exists()
    assert Entry.objects.get().action == "login.failed"


def test_user_info_about_somebody_else_signs_nobody_in(provider, client):
    provider.told = provider.person | {"sub": "u-2"}
    assert come(client).status_code == 403
    assert not User.objects.exists()


def test_a_discovery_document_of_another_issuer_is_not_followed(provider, client):
    provider.issuer = "https://evil.example"
    answer = client.post("/accounts/oidc/login/")
    assert answer.status_code == 502
    assert "does not answer as it should" in answer.text


def test_a_provider_that_is_away_is_said_in_words(provider, client, settings):
    app = settings.SOCIALACCOUNT_PROVIDERS["openid_connect"]["APPS"][0]
    app["settings"] = {"server_url": "http://127.0.0.1:9"}
    assert client.post("/accounts/oidc/login/").status_code == 502


@pytest.mark.parametrize(
    "change", ["state of another browser", "no state", "state used twice", "code used twice"]
)
def test_an_answer_that_this_browser_did_not_ask_for_signs_nobody_in(change, provider, client):
    back = allowed(leave(client))
    match change:
        case "state of another browser":
            client = Client()
            client.get("/accounts/login/")
        case "no state":
            back = re.sub(r"state=[^&]*", "state=", back)
        case "state used twice":
            Client.get(client, back)
            client.post("/accounts/logout/")
        case "code used twice":
            Client().get("/")
            provider.codes.clear()
    assert client.get(back).status_code == 403
    assert not signed_in(client)


def test_who_refuses_there_is_not_signed_in_here(provider, client):
    answer = client.get(allowed(leave(client), "no"))
    assert "You did not sign in there." in answer.text
    assert not signed_in(client)


def test_it_begins_with_a_form_of_ours_and_leads_to_no_other_host(provider):
    assert Client().get("/accounts/oidc/login/").status_code == 405
    assert Client(enforce_csrf_checks=True).post("/accounts/oidc/login/").status_code == 403
    client = Client()
    assert come(client, next="https://evil.example/").headers["Location"] == "/"


def test_without_a_provider_there_is_no_such_page(db, client):
    assert "oidc" not in client.get("/accounts/login/").text
    assert client.post("/accounts/oidc/login/").status_code == 404
    assert client.get("/accounts/oidc/callback/").status_code == 404


def test_the_button_is_on_the_login_page(provider, client):
    page = client.get("/accounts/login/").text
    assert "Go on with Example ID" in page
    assert page.count("<script") == page.count("<script src=")


# -- whose account it is -------------------------------------------------------------------------------------


def test_an_address_that_is_not_proven_there_takes_over_nobody(provider, person, client):
    EmailAddress.objects.create(user=person, email="grace@example.org", verified=True, primary=True)
    provider.person |= {"email_verified": False}
    answer = come(client)
    assert answer.status_code == 403
    assert "There is an account with the address grace@example.org here." in answer.text
    assert not SocialAccount.objects.exists()


def test_nor_does_one_that_is_not_proven_here(provider, person, client):
    User.objects.update(email="grace@example.org")
    assert come(client).status_code == 403
    assert not signed_in(client)


def test_one_that_is_proven_on_both_sides_connects_the_two(provider, person, client):
    EmailAddress.objects.create(user=person, email="grace@example.org", verified=True, primary=True)
    assert come(client).status_code == 302
    assert client.session["_auth_user_id"] == str(person.pk)
    assert User.objects.count() == 1


def test_but_never_with_an_account_that_administers(provider, person, client):
    EmailAddress.objects.create(user=person, email="grace@example.org", verified=True, primary=True)
    User.objects.update(is_staff=True)
    assert come(client).status_code == 403
    assert not signed_in(client)


def test_an_address_that_nobody_has_and_nobody_has_proven_is_not_kept(provider, client):
    provider.person |= {"email_verified": False}
    assert come(client).status_code == 302
    assert User.objects.get().email == ""
    assert not EmailAddress.objects.exists()


def test_the_word_for_an_address_is_taken_from_where_the_address_is(provider, client):
    provider.spoil = lambda claims: {
        name: value for name, value in claims.items() if name != "email_verified"
    }
    come(client)
    assert not EmailAddress.objects.exists()


def test_the_same_subject_of_another_issuer_is_another_person(provider, client, settings):
    come(client)
    with IdentityProvider().in_thread() as other:
        other.person |= {"email": "other@example.org", "preferred_username": "other"}
        settings.OIDC_ISSUER = other.url
        settings.SOCIALACCOUNT_PROVIDERS["openid_connect"]["APPS"][0]["settings"] = {"server_url": other.url}
        come(Client())
    assert sorted(User.objects.values_list("username", flat=True)) == ["grace", "other"]


def test_who_signs_in_with_a_password_connects_the_two_themselves(provider, person):
    client = Client()
    sign_in(client)
    asked = client.post("/accounts/oidc/connect/")
    assert asked.headers["Location"].startswith("/accounts/reauthenticate/")
    client.post("/accounts/reauthenticate/", {"password": SECRET})
    back = client.get(allowed(leave(client, "/accounts/oidc/connect/")))
    assert back.headers["Location"] == "/accounts/"
    other = Client()
    come(other)
    assert other.session["_auth_user_id"] == str(person.pk)
    client.post("/accounts/oidc/disconnect/")
    assert not SocialAccount.objects.exists()


def test_nobody_is_let_in_whom_the_site_does_not_take(provider, client, settings):
    settings.OIDC_SIGNUP = False
    assert "by invitation" in come(client).text
    assert not User.objects.exists()


def test_a_deactivated_account_stays_out(provider, client):
    come(client)
    User.objects.update(is_active=False)
    other = Client()
    assert come(other).headers["Location"] == "/accounts/inactive/"
    assert not signed_in(other)


def test_who_signs_in_there_alone_gets_no_second_way_in_by_mail_and_may_make_keys(
    provider, client, mailoutbox
):
    come(client)
    page = client.get("/accounts/").text
    assert "Your second factor is asked for where you sign in." in page
    assert "/2fa/totp/activate/" not in page
    assert 'value="tl-' in client.post("/accounts/keys/make/", {"label": "laptop", "scopes": ["chat"]}).text
    answer = Client().post("/accounts/password/reset/", {"email": "grace@example.org"})
    assert answer.headers["Location"] == "/accounts/password/reset/done/"
    assert mailoutbox == []


def test_who_has_a_second_factor_here_shows_it_too(provider, client):
    from tests.accounts.test_factors import ASKED

    come(client)
    from allauth.mfa.totp.internal.auth import TOTP, generate_totp_secret

    TOTP.activate(User.objects.get(), generate_totp_secret())
    other = Client()
    assert come(other).headers["Location"] == ASKED
    assert not signed_in(other)


# -- what the provider says of them --------------------------------------------------------------------------


@pytest.mark.parametrize(("claim", "told"), [("groups", {}), ("realm_access.roles", {})])
def test_groups_follow_the_claim_at_each_sign_in(claim, told, provider, client, settings):
    settings.OIDC_GROUPS_CLAIM = claim
    for name in ("writers", "readers"):
        Group.objects.create(name=name)

    def say(*names: str) -> None:
        provider.person |= {"groups": [*names], "realm_access": {"roles": [*names]}}

    say("writers", "unknown here")
    come(client)
    grace = User.objects.get()
    assert [group.name for group in grace.groups.all()] == ["writers"]
    say("readers")
    come(Client())
    assert [group.name for group in grace.groups.all()] == ["readers"]
    provider.person.pop("groups"), provider.person.pop("realm_access")
    come(Client())
    assert not grace.groups.exists()
    assert not Group.objects.filter(name="unknown here").exists()


def test_without_the_setting_no_claim_gives_groups(provider, client):
    Group.objects.create(name="writers")
    provider.person |= {"groups": ["writers"]}
    come(client)
    assert not User.objects.get().groups.exists()


def test_the_administrators_group_makes_one_and_unmakes_one_but_not_the_last(provider, client, settings):
    settings.OIDC_GROUPS_CLAIM, settings.OIDC_ADMIN_GROUP = "groups", "admins"
    provider.person |= {"groups": ["admins"]}
    come(client)
    grace = User.objects.get()
    assert (grace.is_staff, grace.is_superuser) == (True, True)
    provider.person |= {"groups": []}
    come(Client())
    grace.refresh_from_db()
    assert grace.is_superuser
    User.objects.create_superuser("root")
    come(Client())
    grace.refresh_from_db()
    assert (grace.is_staff, grace.is_superuser) == (False, False)


@pytest.mark.parametrize(
    ("settings_", "words"),
    [
        (("https://id.example", "", "", ""), "OIDC_CLIENT_ID is not"),
        (("http://id.example", "c", "", ""), "write its https:// address"),
        (("https://id.example", "c", "admins", ""), "OIDC_GROUPS_CLAIM"),
    ],
)
def test_settings_that_cannot_be_stop_the_start(settings_, words):
    with pytest.raises(ImproperlyConfigured, match=re.escape(words)):
        check_oidc(*settings_)
    check_oidc("http://localhost:9000", "c", "", "")
