"""What `check` says of a project that leads nowhere, whatever its own code does meanwhile."""

from __future__ import annotations

import sys

import pytest

from chatsite.chat.checks import people_can_sign_in
from chatsite.wired import unwired


@pytest.mark.parametrize("address", ["/nowhere/", "no-such-name", "admin:no-such-name", ""])
def test_a_sign_in_that_leads_nowhere_is_a_warning(settings, address):
    settings.LOGIN_URL = address
    (warning,) = people_can_sign_in()
    assert warning.id == "chat.W004"
    assert address in warning.msg


@pytest.mark.parametrize(
    "address", ["login", "/in/?next=/", "https://id.example.org/in", "//id.example.org/in", "admin:login"]
)
def test_one_that_leads_somewhere_is_none(settings, address):
    settings.LOGIN_URL = {"/in/?next=/": f"{settings.LOGIN_URL}?next=/"}.get(address, address)
    if address == "login":
        settings.LOGIN_URL = "account_login"
    assert people_can_sign_in() == []


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("import os; os.environ['NO_SUCH_KEY_OF_THE_SERVER']", "NO_SUCH_KEY_OF_THE_SERVER"),
        ("raise RuntimeError('an app is not installed')", "an app is not installed"),
        ("other = 1", "application"),
    ],
)
def test_an_application_that_cannot_be_imported_is_a_sentence(settings, tmp_path, monkeypatch, body, said):
    (tmp_path / "broken_asgi.py").write_text(body)
    monkeypatch.syspath_prepend(tmp_path)
    settings.ASGI_APPLICATION = "broken_asgi.application"
    try:
        why = unwired("chatsite.chat.routing")
    finally:
        sys.modules.pop("broken_asgi", None)
    assert "cannot be imported" in why
    assert said in why
