"""What is refused before any application is asked: a key in the open, and a body that stops coming."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
import pytest

from chatsite.operator.gate import Gate
from tests.communicators import WebsocketCommunicator

KEY = {"Authorization": "Bearer tl_nobody"}
FAR, HERE = "203.0.113.5", "127.0.0.1"
DOORS = [
    ("/v1/chat/completions", "code"),
    ("/v1/messages", "type"),
    ("/api/chat", "code"),
    ("/api/attachments", "code"),
    ("/threads/t1/events", "code"),
]


async def answers(scope: Any, receive: Any, send: Any) -> None:
    """An application that takes in the body, as most do."""
    size, message = 0, {"more_body": True}
    while message.get("more_body"):
        message = await receive()
        size += len(message.get("body", b""))
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": str(size).encode()})


@pytest.fixture
def over_https(settings):
    settings.SECURE_SSL_REDIRECT = True
    settings.SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https")


async def asked(path: str, address: str, headers: dict[str, str]) -> httpx.Response:
    transport = httpx.ASGITransport(app=Gate(answers), client=(address, 1))
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as http:
        return await http.post(path, headers=headers, content=b"body")


@pytest.mark.parametrize(("path", "field"), DOORS)
async def test_a_key_over_http_is_refused_in_words_and_never_redirected(path, field, over_https):
    for more in ({}, {"X-Forwarded-Proto": "http"}):
        answer = await asked(path, FAR, KEY | more)
        assert answer.status_code == 403
        assert answer.headers["connection"] == "close"
        error = answer.json()["error"]
        assert "Use https, and make a new key" in error["message"]
        assert error[field] == {"code": "https_required", "type": "permission_error"}[field]
    assert (await asked(path, FAR, {"x-api-key": "tl_nobody"})).status_code == 403


@pytest.mark.parametrize(
    ("address", "headers", "is_let_through"),
    [
        (FAR, {"X-Forwarded-Proto": "https"}, True),
        (HERE, {}, True),  # over no wire
        ("::1", {}, True),
        (HERE, {"X-Forwarded-Proto": "http"}, False),  # by a proxy on this machine
        (HERE, {"X-Forwarded-For": FAR}, False),
        ("", {}, False),
    ],
)
async def test_what_a_proxy_vouches_for_and_what_this_machine_asks_is_let_through(
    address, headers, is_let_through, over_https
):
    answer = await asked("/v1/messages", address, KEY | headers)
    assert (answer.status_code == 200) is is_let_through


async def test_without_https_and_without_a_key_nobody_is_stopped(settings):
    assert (await asked("/v1/messages", FAR, KEY)).status_code == 200
    settings.SECURE_SSL_REDIRECT = True
    assert (await asked("/v1/messages", FAR, {})).status_code == 200
    assert (await asked("/metrics", FAR, KEY)).status_code == 200  # its token is asked for from inside


async def test_a_socket_by_key_over_http_is_not_opened(over_https):
    async def opens(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "websocket.accept"})

    for headers, is_opened in (
        ([(b"x-api-key", b"tl_nobody")], False),
        ([(b"x-api-key", b"tl_nobody"), (b"x-forwarded-proto", b"https")], True),
    ):
        talk = WebsocketCommunicator(Gate(opens), "/ws/threads/t1/", headers=headers)
        assert (await talk.connect())[0] is is_opened


async def test_a_body_that_stops_coming_is_refused_and_its_application_hears_that_nobody_is_there(settings):
    settings.BODY_IDLE_SECONDS = 0.02
    heard, told = [], []

    async def application(scope: Any, receive: Any, send: Any) -> None:
        for _ in range(3):
            heard.append(await receive())
        await send({"type": "http.response.start", "status": 200, "headers": []})

    pieces = [{"type": "http.request", "body": b"ha", "more_body": True}]

    async def receive() -> Any:
        return pieces.pop() if pieces else await asyncio.Event().wait()

    async def send(message: Any) -> None:
        told.append(message)

    scope = {"type": "http", "method": "POST", "path": "/v1/messages", "headers": [(b"content-length", b"4")]}
    await Gate(application)(scope, receive, send)
    assert [message["type"] for message in heard] == ["http.request", "http.disconnect", "http.disconnect"]
    assert [message.get("status") for message in told] == [408, None]
    assert b"body came for 0.02 seconds" in told[1]["body"]


async def test_an_answer_that_began_before_its_body_was_whole_is_not_answered_again(settings):
    settings.BODY_IDLE_SECONDS = 0.02
    told: list[Any] = []
    cut, gone = asyncio.Event(), asyncio.Event()

    async def application(scope: Any, receive: Any, send: Any) -> None:
        listening = asyncio.create_task(receive())
        await asyncio.sleep(0)  # it waits for the body
        await send({"type": "http.response.start", "status": 413, "headers": []})
        await cut.wait()
        gone.set()
        assert (await listening)["type"] == "http.disconnect"

    async def receive() -> Any:
        try:
            await gone.wait()
        except asyncio.CancelledError:
            cut.set()  # the time for a piece of the body is over
            raise
        return {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        told.append(message)

    scope = {"type": "http", "method": "POST", "path": "/v1/messages", "headers": [(b"content-length", b"4")]}
    async with asyncio.timeout(60):
        await Gate(application)(scope, receive, send)
    assert [message.get("status") for message in told] == [413]
