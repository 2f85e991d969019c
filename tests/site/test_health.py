"""What a supervisor asks, and what a broken page answers."""

import pytest
from django.contrib.sessions.backends.db import SessionStore
from django.db import OperationalError, connection
from django.test import AsyncClient, RequestFactory
from django.test.utils import override_settings

from chatsite.operator.views import server_error


@pytest.mark.django_db
def test_a_site_that_works_says_ok(client):
    answer = client.get("/healthz")
    assert (answer.status_code, answer.text) == (200, "ok\n")
    assert answer.headers["Content-Type"] == "text/plain"


@pytest.mark.django_db
def test_a_database_that_is_down_is_told_without_details(client):
    def down(execute, sql, params, many, context):
        raise OperationalError("could not connect to db.internal as chat")

    with connection.execute_wrapper(down):
        answer = client.get("/healthz")
    assert (answer.status_code, answer.text) == (503, "The database does not answer.\n")


@pytest.mark.django_db
def test_it_is_not_sent_to_https(client):
    with override_settings(SECURE_SSL_REDIRECT=True):
        assert client.get("/healthz").status_code == 200
        assert client.get("/accounts/login/").status_code == 301


def test_an_error_page_that_fails_is_a_plain_line():
    broken = {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "OPTIONS": {"builtins": ["no.such"]},
    }
    with override_settings(TEMPLATES=[broken]):
        answer = server_error(RequestFactory().get("/"))
    assert (answer.status_code, answer.text) == (500, "Something went wrong on the server.\n")


@pytest.mark.django_db
async def test_a_page_that_cannot_reach_the_database_says_so_and_when_to_come_again(monkeypatch):
    def gone(*_):
        raise OperationalError("server closed the connection unexpectedly")

    monkeypatch.setattr(SessionStore, "load", gone)
    client = AsyncClient(raise_request_exception=False)
    client.cookies["threadloom_session"] = "some-session"
    answer = await client.get("/")
    assert answer.status_code == 503
    assert answer["Retry-After"] == "5"
    assert "try again in a moment" in answer.content.decode()
