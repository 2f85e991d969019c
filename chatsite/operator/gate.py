"""Before every application: what may not be answered at all is refused here, in the form of the door that was asked.

a key over plain http       403 where people come over https: it has been read by whoever stands in between, so it
                            gets no redirect (a client would send the body again, and the key every time)
a body that does not come   408 after BODY_IDLE_SECONDS without a byte of it; one that makes progress may take its time
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from django.conf import settings

from chatsite.accounts import addresses
from chatsite.accounts.keys import key_in
from chatsite.chat.api.exchange import error_body as chat_error
from chatsite.gateway import errors
from chatsite.gateway.caller import dialect_of

BY_KEY = ("/v1", "//v1/", "/api/", "/threads/", "/ws/")
"""Paths that a key opens. (That of /metrics is asked from inside, as /healthz is.)"""

DISCONNECT = {"type": "http.disconnect"}


class Gate:
    def __init__(self, application: Any) -> None:
        self._application = application

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] in ("http", "websocket"):
            headers = dict(scope["headers"])
            if _is_key_in_the_open(scope, headers):
                await _refuse_the_key(scope, headers, send)
                return
            if b"content-length" in headers or b"transfer-encoding" in headers:
                arriving = Arriving(scope, receive, send)
                receive, send = arriving.receive, arriving.send
        await self._application(scope, receive, send)


def _is_key_in_the_open(scope: Any, headers: Mapping[bytes, bytes]) -> bool:
    if not (settings.SECURE_SSL_REDIRECT and scope["path"].startswith(BY_KEY)):
        return False
    key = key_in(*(headers.get(name, b"").decode("latin-1") for name in (b"authorization", b"x-api-key")))
    return bool(key) and addresses.is_in_the_open(scope)


async def _refuse_the_key(scope: Any, headers: Mapping[bytes, bytes], send: Any) -> None:
    if scope["type"] == "websocket":
        await send({"type": "websocket.close"})
        return
    words = "An API key came over http, where others can read it. Use https, and make a new key in its place."
    await _refuse(send, HTTPStatus.FORBIDDEN, refusal(scope["path"], headers, 403, "https_required", words))


class Arriving:
    """A request whose body is on its way: when nothing of it comes for too long it is refused, and its application
    hears that the client has left."""

    def __init__(self, scope: Any, receive: Any, send: Any) -> None:
        self._scope, self._receive, self._send = scope, receive, send
        self._is_whole = self._is_late = self._is_answered = False

    async def receive(self) -> Any:
        if self._is_late:
            return DISCONNECT
        if self._is_whole or self._is_answered:
            return await self._receive()
        try:
            async with asyncio.timeout(settings.BODY_IDLE_SECONDS):
                message = await self._receive()
        except TimeoutError:
            if self._is_answered:  # meanwhile; an answer that is under way is no place for another
                return await self._receive()
            self._is_late = True
            await _refuse(
                self._send,
                HTTPStatus.REQUEST_TIMEOUT,
                late(self._scope["path"], dict(self._scope["headers"])),
            )
            return DISCONNECT
        self._is_whole = not message.get("more_body", False)
        return message

    async def send(self, message: Any) -> None:
        self._is_answered = True
        if not self._is_late:
            await self._send(message)


def late(path: str, headers: Mapping[bytes, bytes]) -> tuple[bytes, bytes]:
    words = f"Nothing of the request's body came for {settings.BODY_IDLE_SECONDS:g} seconds. Send it again."
    return refusal(path, headers, HTTPStatus.REQUEST_TIMEOUT, "body_timeout", words)


def refusal(
    path: str, headers: Mapping[bytes, bytes], status: int, code: str, words: str
) -> tuple[bytes, bytes]:
    """The content type and the body of what is refused at this path."""
    if path.startswith(("/v1", "//v1/")):
        refused = errors.Refused(status, code, words)
        return b"application/json", errors.error_body(dialect_of(path, dict(headers)), refused).encode()
    if path.startswith(("/api/", "/threads/")) and b"cookie" not in headers:
        return b"application/json", json.dumps(chat_error(code, words)).encode()
    return b"text/plain; charset=utf-8", f"{words}\n".encode()


async def _refuse(send: Any, status: int, answer: tuple[bytes, bytes]) -> None:
    """And the connection ends: the rest of the body is read by nobody."""
    kind, body = answer
    length = str(len(body)).encode()
    headers = [(b"content-type", kind), (b"content-length", length), (b"connection", b"close")]
    await send({"type": "http.response.start", "status": int(status), "headers": headers})
    await send({"type": "http.response.body", "body": body})
