"""A database that is not there when a request comes: every door says so in words, in its own kind; no trace."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from tests.faults.sites import Site
from tests.faults.test_database import Postgres, postgres  # noqa: F401 - a fixture
from tests.server import SESSION_COOKIE, Person, Server
from tests.site.processes import opened_socket
from tests.standin import StandIn

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]

COMPLETION = {"model": "of-openai", "max_tokens": 5, "messages": [{"role": "user", "content": "Hello"}]}
PAGES = ["/", "/threads/{}/", "/archive", "/search?q=a", "/accounts/", "/admin/", "/admin/login/"]
FORMS = ["/threads/", "/threads/{}/send", "/accounts/login/", "/admin/login/"]
BY_PROGRAMS = [
    ("GET", "/api/chat?threadId={}"),
    ("POST", "/api/chat"),
    ("POST", "/api/attachments?name=a.txt"),
    ("GET", "/threads/{}/attachments/none"),
    ("GET", "/threads/{}/events"),
    ("GET", "/threads/{}/events?wait=0"),
]
OF_THE_GATEWAY = [
    ("GET", "/v1/models"),
    ("POST", "/v1/chat/completions"),
    ("POST", "/v1/messages"),
    ("POST", "/v1/messages/count_tokens"),
]


@pytest.mark.parametrize("kind", ["daphne", "uvicorn"])
async def test_each_door_says_so_in_its_own_kind(kind: str, postgres: Postgres, tmp_path, standin: StandIn):  # noqa: F811
    site = Site(tmp_path, standin, {"DATABASE_URL": postgres.url}, SERVER=kind)
    with site.server() as server:
        person = server.people(1, staff=True)[0]
        async with httpx.AsyncClient(base_url=server.url, timeout=60) as client:
            token = (await client.get("/accounts/login/")).cookies["csrftoken"]
            client.cookies.set(SESSION_COOKIE, person.session)
            server.news()
            postgres.die()
            await pages_say_so(client, {"X-CSRFToken": token})
            await programs_are_told(client, person, {"X-CSRFToken": token})
        assert await closed_with(server, {"Cookie": f"{SESSION_COOKIE}={person.session}"}) == 1013
        assert await closed_with(server, person.bearer) == 1013
        assert "Traceback" not in server.news()


async def pages_say_so(client: httpx.AsyncClient, by_our_page: dict[str, str]) -> None:
    for method, paths in (("GET", PAGES), ("POST", FORMS)):
        for path in paths:
            page = await client.request(method, path.format("t1"), headers=by_our_page)
            assert (page.status_code, page.headers["retry-after"]) == (503, "5"), path
            assert "<h1>Back in a moment</h1>" in page.text, path
            part = await client.request(
                method, path.format("t1"), headers={**by_our_page, "HX-Request": "true"}
            )
            assert part.status_code == 503, path
            assert part.text.startswith('<p class="notice error" role="alert">The server cannot reach'), path


async def programs_are_told(client: httpx.AsyncClient, person: Person, by_our_page: dict[str, str]) -> None:
    for who in (person.bearer, by_our_page):
        for method, path in BY_PROGRAMS:
            error = await error_of(client, method, path.format("t1"), who)
            assert error["code"] == "database_unavailable", path
            assert "try again" in error["message"], path
    for method, path in OF_THE_GATEWAY:
        error = await error_of(client, method, path, person.bearer)
        assert error["message"] == "Keys cannot be checked at the moment. Try again soon.", path
        assert error["type"] == ("api_error" if "messages" in path else "server_error"), path


async def error_of(client: httpx.AsyncClient, method: str, path: str, who: dict[str, str]) -> dict[str, Any]:
    answer = await client.request(method, path, json=COMPLETION if method == "POST" else None, headers=who)
    assert answer.status_code == 503, (path, answer.text)
    assert answer.headers["retry-after"], path
    error: dict[str, Any] = answer.json()["error"]
    return error


async def closed_with(server: Server, who: dict[str, str]) -> int | None:
    url = f"{server.url.replace('http', 'ws')}/ws/threads/t1/"
    async with opened_socket(url, additional_headers=who) as sock:
        await sock.wait_closed()
        return sock.close_code
