"""What `manage.py doctor` asks a running server, through whatever stands in front of it.

    GET /healthz/seen      who this process is, and how the request looked when it arrived
    GET /healthz/stream    `TICKS` server-sent events, one each `EVERY` seconds, with the heads of a real stream
    ws  /ws/healthz/       the same over a WebSocket, then an echo

Each needs `?token=`: the time, signed with SECRET_KEY, at most `HOLDS` seconds old. For whoever has none there is
nothing here: what it tells of the inside is for the one who runs it. An ASGI application, so that it is before
Django, where the real streams are.
"""

from __future__ import annotations

import asyncio
import json
from typing import Any
from urllib.parse import parse_qs

from django.core import signing

from chatsite.chat.process.heartbeat import PROCESS
from chatsite.chat.readers.stream import HEADERS as STREAM_HEADERS

HOLDS = 60
TICKS = 5
EVERY = 0.25
SALT = "chatsite.operator.probe"
SEEN = (b"host", b"x-forwarded-proto", b"x-forwarded-for", b"x-forwarded-host", b"x-real-ip")


def new_token() -> str:
    return signing.TimestampSigner(salt=SALT).sign("doctor")


def _is_asked_by_the_doctor(scope: Any) -> bool:
    given = parse_qs(scope.get("query_string", b"").decode("latin-1")).get("token", [""])[0]
    try:
        signing.TimestampSigner(salt=SALT).unsign(given, max_age=HOLDS)
    except signing.BadSignature:
        return False
    return True


class Probe:
    """HTTP below /healthz/; what is not for it goes to `otherwise`, which has its own 404."""

    def __init__(self, otherwise: Any) -> None:
        self._otherwise = otherwise

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        door = {"/healthz/seen": _seen, "/healthz/stream": _stream}.get(scope["path"])
        if door is None or scope["method"] != "GET" or not _is_asked_by_the_doctor(scope):
            await self._otherwise(scope, receive, send)
        else:
            await door(scope, send)


async def _seen(scope: Any, send: Any) -> None:
    headers = dict(scope["headers"])
    told = {
        "process": PROCESS,
        "scheme": scope.get("scheme", "http"),
        "headers": {name.decode(): headers[name].decode("latin-1") for name in SEEN if name in headers},
    }
    await _answer(send, {"Content-Type": "application/json", "Cache-Control": "no-store"})
    await send({"type": "http.response.body", "body": json.dumps(told).encode()})


async def _stream(scope: Any, send: Any) -> None:
    await _answer(send, STREAM_HEADERS)
    for number in range(TICKS):
        await send({"type": "http.response.body", "body": f"data: {number}\n\n".encode(), "more_body": True})
        await asyncio.sleep(EVERY)
    await send({"type": "http.response.body"})


async def _answer(send: Any, headers: dict[str, str]) -> None:
    encoded = [(name.lower().encode(), value.encode()) for name, value in headers.items()]
    await send({"type": "http.response.start", "status": 200, "headers": encoded})


async def probe_socket(scope: Any, receive: Any, send: Any) -> None:
    await receive()  # that it connects
    if not _is_asked_by_the_doctor(scope):
        await send({"type": "websocket.close", "code": 4404})
        return
    await send({"type": "websocket.accept"})
    for number in range(TICKS):
        await send({"type": "websocket.send", "text": str(number)})
        await asyncio.sleep(EVERY)
    heard = await receive()
    if heard["type"] == "websocket.receive":
        await send({"type": "websocket.send", "text": heard.get("text") or ""})
        await send({"type": "websocket.close", "code": 1000})
