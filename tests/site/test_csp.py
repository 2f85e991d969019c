"""The policy that every page carries."""

import pytest
from django.http import HttpResponse
from django.test import AsyncRequestFactory, RequestFactory

from chatsite.middleware import PolicyHeadersMiddleware

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; "
    "connect-src 'self'; manifest-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)


@pytest.mark.django_db
@pytest.mark.parametrize(
    "path", ["/accounts/login/", "/admin/login/", "/healthz", "/setup/x/", "/no/such/page"]
)
def test_every_page_has_the_policy(path, client):
    headers = client.get(path).headers
    assert headers["Content-Security-Policy"] == POLICY
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["X-Frame-Options"] == "DENY"
    assert headers["Referrer-Policy"] == "same-origin"
    assert "camera=()" in headers["Permissions-Policy"]


@pytest.mark.django_db
@pytest.mark.parametrize("path", ["/accounts/login/", "/admin/login/", "/setup/x/"])
def test_no_page_needs_anything_inline_or_from_elsewhere(path, client):
    page = client.get(path).text
    assert "<style" not in page
    assert " style=" not in page
    assert " onclick=" not in page
    assert "://" not in page.replace("http://www.w3.org", "")
    assert page.count("<script") == page.count("<script src=")


def test_a_response_with_a_policy_of_its_own_keeps_it():
    strict = {"Content-Security-Policy": "sandbox"}
    answer = PolicyHeadersMiddleware(lambda request: HttpResponse(headers=strict))(RequestFactory().get("/"))
    assert answer.headers["Content-Security-Policy"] == "sandbox"


async def test_it_stays_on_the_event_loop():
    async def view(request):
        return HttpResponse()

    answer = await PolicyHeadersMiddleware(view)(AsyncRequestFactory().get("/"))
    assert answer.headers["Content-Security-Policy"] == POLICY
