"""Coming in with a password, and going."""

from __future__ import annotations

import re

import pytest
from allauth.account.models import EmailAddress
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse

LOGIN = "/accounts/login/"
SECRET = "a long enough secret"


def sign_in(client: Client, login: str = "ada", password: str = SECRET, **more: str):
    return client.post(LOGIN, {"login": login, "password": password, **more})


def signed_in(client: Client) -> bool:
    return "_auth_user_id" in client.session


@pytest.mark.parametrize("login", ["ada", " ada ", "ada@example.org", "ADA@example.org"])
def test_a_name_or_an_address_opens_with_the_password(login, person, client):
    User.objects.update(email="ada@example.org")
    answer = sign_in(client, login)
    assert (answer.status_code, answer.headers["Location"]) == (302, "/")
    assert signed_in(client)


def test_an_address_of_two_people_opens_for_nobody_but_who_has_proven_it(person, client):
    eve = User.objects.create_user("eve", email="ada@example.org", password="another long secret")
    User.objects.update(email="ada@example.org")
    assert sign_in(client, "ada@example.org").status_code == 200
    EmailAddress.objects.create(user=person, email="ada@example.org", verified=True, primary=True)
    assert sign_in(client, "ada@example.org", "another long secret").status_code == 200
    assert sign_in(client, "ada@example.org").status_code == 302
    assert client.session["_auth_user_id"] != str(eve.pk)


@pytest.mark.parametrize(
    ("login", "password"),
    [("ada", "wrong"), ("nobody", SECRET), ("nobody@example.org", "x"), ("off", SECRET)],
)
def test_the_words_do_not_tell_what_was_wrong(login, password, person, client):
    User.objects.create_user("off", password=SECRET, is_active=False)
    answer = sign_in(client, login, password)
    assert answer.status_code == 200
    assert answer.text.count("The name or the password is not right. Both mind capitals.") == 1
    assert not signed_in(client)


def test_every_attempt_costs_one_hash(person, client, monkeypatch):
    from django.contrib.auth.hashers import MD5PasswordHasher

    User.objects.create_user("keyless").set_unusable_password()
    User.objects.filter(username="ada").update(email="ada@example.org")
    hashed: list[str] = []
    encode = MD5PasswordHasher.encode
    monkeypatch.setattr(
        MD5PasswordHasher, "encode", lambda self, *given: hashed.append(given[0]) or encode(self, *given)
    )
    for login in ("ada", "ada@example.org", "nobody", "nobody@example.org", "keyless"):
        hashed.clear()
        sign_in(client, login, "wrong")
        assert len(hashed) == 1, login


@pytest.mark.parametrize(
    ("next_page", "leads_to"),
    [
        ("/threads/t1/", "/threads/t1/"),
        ("https://evil.example/", "/"),
        ("//evil.example/", "/"),
        ("https:evil.example", "/"),
        ("javascript:alert(1)", "/"),
        ("http://localhost/", "/"),
        ("\\\\evil.example", "/"),
    ],
)
def test_it_leads_to_a_page_of_this_very_host_and_nowhere_else(next_page, leads_to, person, client):
    assert sign_in(client, next=next_page).headers["Location"] == leads_to
    assert client.get(LOGIN, {"next": next_page}).headers["Location"] == leads_to


def test_a_session_gets_another_key_when_somebody_signs_in(person, client):
    session = client.session
    session["planted"] = "by whoever knows this key"
    session.save()
    before = session.session_key
    sign_in(client)
    assert client.session.session_key != before
    assert not client.session.exists(before)


def test_a_session_s_cookie_is_for_our_own_pages_and_for_no_script(person, client):
    cookie = sign_in(client).cookies["threadloom_session"]
    assert (cookie["httponly"], cookie["samesite"], cookie["domain"]) == (True, "Lax", "")


def test_a_form_of_another_site_signs_nobody_in(person):
    client = Client(enforce_csrf_checks=True)
    assert sign_in(client).status_code == 403


def test_signing_out_is_a_post_and_ends_the_session(person, client):
    sign_in(client)
    key = client.session.session_key
    assert client.get("/accounts/logout/").status_code == 200
    assert signed_in(client)
    assert client.post("/accounts/logout/").headers["Location"] == LOGIN
    assert not client.session.exists(key)


def test_the_admin_has_no_login_page_of_its_own(client, person):
    answer = client.get("/admin/", follow=True)
    assert answer.redirect_chain[-1][0] == f"{LOGIN}?next=/admin/"
    assert client.post("/admin/login/", {"username": "ada", "password": SECRET}).status_code == 302
    assert not signed_in(client)
    sign_in(client)
    refused = client.get("/admin/chat/run/", follow=True)
    assert refused.status_code == 403
    assert "signed in as <b>ada</b>" in refused.text
    assert 'name="next" value="/admin/chat/run/"' in refused.text  # another account comes to the same page


@pytest.mark.parametrize(
    ("asked", "comes_to"),
    [
        ("/admin/chat/run/?state=failed", "/admin/chat/run/?state=failed"),
        ("", "/admin/"),
        ("https://evil.example/admin/", "/admin/"),
        ("//evil.example/", "/admin/"),
        ("javascript:alert(1)", "/admin/"),
        ("/admin/login/?next=/admin/login/", "/admin/"),
    ],
)
def test_who_may_open_the_admin_and_is_signed_in_goes_on_to_it(client, person, asked, comes_to):
    User.objects.update(is_staff=True)
    sign_in(client)
    answer = client.get("/admin/login/", {"next": asked})
    assert (answer.status_code, answer.headers["Location"]) == (302, comes_to)


def test_nobody_makes_an_account_unless_the_site_says_so(client, settings, db):
    form = {"username": "eve", "email": "", "password1": SECRET, "password2": SECRET}
    assert "by invitation" in client.post("/accounts/signup/", form).text
    assert not User.objects.exists()
    assert "Make an account" not in client.get(LOGIN).text
    settings.SIGNUP = True
    assert "Make an account" in client.get(LOGIN).text
    assert "holds no @" in client.post("/accounts/signup/", form | {"username": "a@b.c"}).text
    assert client.post("/accounts/signup/", form).status_code == 302
    assert User.objects.get().username == "eve"
    assert not User.objects.get().is_staff


def test_who_signs_up_proves_the_address_first_and_nobody_else_is_held_up(
    client, settings, person, mailoutbox
):
    settings.SIGNUP = settings.HAS_MAIL = True
    settings.ACCOUNT_EMAIL_VERIFICATION = "mandatory"
    form = {"username": "eve", "email": "eve@example.org", "password1": SECRET, "password2": SECRET}
    assert client.post("/accounts/signup/", form).headers["Location"] == "/accounts/confirm-email/"
    assert not signed_in(client)
    again = Client()
    assert sign_in(again, "eve").headers["Location"] == "/accounts/confirm-email/"
    assert not signed_in(again)
    link = re.search(r"http://testserver(/accounts/confirm-email/\S+)", mailoutbox[0].body)[1]
    assert "Is eve@example.org yours?" in again.get(link).text
    again.post(link)
    assert sign_in(again, "eve@example.org").headers["Location"] == "/"
    User.objects.filter(pk=person.pk).update(email="ada@example.org")
    other = Client()
    assert sign_in(other).headers["Location"] == "/"  # whom an administrator made


def test_a_sign_up_with_an_address_that_is_taken_tells_nobody_so(client, settings, person, mailoutbox):
    settings.SIGNUP = settings.HAS_MAIL = True
    settings.ACCOUNT_EMAIL_VERIFICATION = "mandatory"
    EmailAddress.objects.create(user=person, email="ada@example.org", verified=True, primary=True)
    form = {"username": "eve", "email": "ada@example.org", "password1": SECRET, "password2": SECRET}
    assert client.post("/accounts/signup/", form).headers["Location"] == "/accounts/confirm-email/"
    assert User.objects.count() == 1
    assert mailoutbox[0].to == ["ada@example.org"]


def test_without_a_mail_server_the_reset_page_says_who_can_help(client, db):
    page = client.get(reverse("account_reset_password")).text
    assert "An administrator can make a link" in page
    assert 'name="email"' not in page


def test_a_page_of_the_chat_costs_no_page_of_accounts():
    """Their modules come with the first visitor: `start` is for what everybody needs."""
    import subprocess
    import sys
    import tempfile

    from tests.site.processes import ROOT, environment

    script = (
        "import chatsite.asgi, sys; from django.urls import reverse; reverse('login');"
        "heavy = {'requests', 'fido2', 'qrcode', 'jwt', 'allauth.account.views', 'allauth.account.forms'};"
        "print(sorted(heavy & set(sys.modules)))"
    )
    with tempfile.TemporaryDirectory() as folder:
        ended = subprocess.run(
            [sys.executable, "-c", script],
            cwd=ROOT,
            env=environment(DATA_DIR=folder, DEBUG="true"),
            capture_output=True,
            text=True,
            check=True,
        )
    assert ended.stdout.strip() == "[]"
