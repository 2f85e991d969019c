"""Which page a socket may be opened by, and under which of our names."""

from __future__ import annotations

from typing import Any

import pytest

from chatsite.origins import KnownOrigin
from tests.communicators import WebsocketCommunicator


async def opens(scope: Any, receive: Any, send: Any) -> None:
    await receive()
    await send({"type": "websocket.accept"})


async def is_opened(**headers: str) -> bool:
    told = [(name.encode(), value.encode()) for name, value in headers.items()]
    talk = WebsocketCommunicator(KnownOrigin(opens), "/ws/threads/t1/", headers=told)
    try:
        return (await talk.connect())[0]
    finally:
        await talk.disconnect()


@pytest.mark.parametrize(
    ("host", "origin", "is_ours"),
    [
        ("chat.example", None, True),
        ("chat.example", "http://chat.example", True),
        ("chat.example", "https://chat.example:443", True),
        ("chat.example:8000", "http://chat.example:8000", True),
        ("chat.example", "https://other.example", True),
        ("chat.example:8000", "http://chat.example", False),
        ("chat.example", "http://chat.example:8000", False),
        ("chat.example", "http://evil.example", False),
        ("chat.example", "http://chat.example.evil.example", False),
        ("chat.example", "http://evil.example/chat.example", False),
        ("chat.example", "http://chat.example@evil.example", False),
        ("chat.example", "null", False),
        ("chat.example", "file://", False),
        ("chat.example", "http://[", False),
        # A name of the attacker's that leads to this address by DNS: its pages are of that very origin.
        ("evil.example", "http://evil.example", False),
        ("evil.example", None, False),
        ("", None, False),
    ],
)
async def test_a_socket_opens_for_our_own_pages_under_our_own_names(host, origin, is_ours, settings):
    settings.ALLOWED_HOSTS = ["chat.example"]
    settings.CSRF_TRUSTED_ORIGINS = ["https://other.example"]
    headers = {"host": host} | ({"origin": origin} if origin is not None else {})
    assert await is_opened(**headers) is is_ours
