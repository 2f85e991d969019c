"""The two skins of `/api/chat`, over one `answering.answer`.

ChatApi    ASGI, before Django: for requests with a key, at a fifth of the cost of Django's handler
view       Django's handler, with its session and CSRF check: for those with a cookie
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping
from contextlib import aclosing
from typing import Any
from urllib.parse import parse_qs

from django.conf import settings
from django.db import DatabaseError
from django.http import HttpRequest, HttpResponse, HttpResponseBase, StreamingHttpResponse, parse_cookie
from django.http.request import split_domain_port, validate_host
from django.middleware.csrf import CsrfViewMiddleware
from django.views.decorators.csrf import csrf_exempt

from chatsite.accounts import addresses
from chatsite.accounts.keys import key_in
from chatsite.chat import access, db
from chatsite.chat.access import Credential
from chatsite.chat.api import exchange
from chatsite.chat.api.answering import answer
from chatsite.chat.api.exchange import Asked, Reply
from chatsite.chat.problems import KeyRefused, NotStored
from chatsite.languages import speak_to


@csrf_exempt  # checked below, for those who came by cookie: a program has none to be tricked with
async def view(request: HttpRequest) -> HttpResponseBase:
    """With a session: Django's handler. (Also for programs, where a project mounts only the urls.)"""
    headers = {name.lower(): value for name, value in request.headers.items()}
    key = key_in(headers.get("authorization", ""), headers.get("x-api-key", ""))
    credential = Credential(key) if key is not None else await db.read(_session_of, request)
    try:
        user = await db.read(access.entering, credential, addresses.of_request(request))
    except DatabaseError:
        return as_django(exchange.refusal(NotStored()))
    except KeyRefused as problem:
        return as_django(exchange.refusal(problem))
    if key is None and user is not None and request.method not in {"GET", "HEAD"}:
        refused = CsrfViewMiddleware(lambda _: HttpResponse()).process_view(request, _checked_by_csrf, (), {})
        if refused is not None:
            words = "This came with a cookie but without its CSRF token. Send the token as `X-CSRFToken`."
            return as_django(exchange.json_reply(403, exchange.error_body("csrf", words)))
    body = request.read(exchange.MAX_BODY + 1)
    if len(body) > exchange.MAX_BODY:
        return as_django(exchange.too_large())
    query = {name: values[-1] for name, values in request.GET.lists()}
    return as_django(await answer(user, Asked(request.method or "", headers, query, body, credential)))


def _session_of(request: HttpRequest) -> Credential:
    return Credential(session_key=request.session.session_key)


def _checked_by_csrf() -> None:
    """What Django's CSRF check looks at to learn that a view is not exempt."""


def as_django(reply: Reply) -> HttpResponseBase:
    if isinstance(reply.body, bytes):
        return HttpResponse(reply.body, status=reply.status, headers=dict(reply.headers))
    return StreamingHttpResponse(reply.body, status=reply.status, headers=dict(reply.headers))


Receive = Callable[[], Awaitable[Any]]
SendMessage = Callable[[Any], Awaitable[None]]


class ChatApi:
    """`/api/chat` as an ASGI application, for requests with a key; the others go to `otherwise`."""

    def __init__(self, otherwise: Any) -> None:
        self.otherwise = otherwise

    async def __call__(self, scope: Any, receive: Receive, send: SendMessage) -> None:
        reply = await _reply_to(scope, receive)
        if reply is None:
            await self.otherwise(scope, receive, send)
        else:
            await send_reply(reply, receive, send)


async def _reply_to(scope: Any, receive: Receive) -> Reply | None:
    """None without a key. What is held of the request ends here: its reply may be a stream of minutes."""
    headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}
    key = key_in(headers.get("authorization", ""), headers.get("x-api-key", ""))
    if key is None:
        return None
    speak_to(headers, program=True)
    if not settings.DEBUG and not is_known_host(headers.get("host", "")):
        return exchange.json_reply(400, exchange.error_body("bad_host", "This host is not served here."))
    credential = Credential(key)
    try:
        user = await db.read(access.entering, credential, addresses.of_scope(scope))
    except DatabaseError:
        return exchange.refusal(NotStored())
    except KeyRefused as problem:
        return exchange.refusal(problem)
    # Nobody's body is not read: 20 MB of it would be held for each key that somebody made up.
    body = await _body_of(receive) if user is not None else b""
    if body is None:
        return exchange.too_large()
    return await answer(user, Asked(scope["method"], headers, query_of(scope), body, credential))


def query_of(scope: Any) -> dict[str, str]:
    """The query's names, each with its last value."""
    query = parse_qs(scope.get("query_string", b"").decode("latin-1"))
    return {name: values[-1] for name, values in query.items()}


def is_known_host(host: str) -> bool:
    domain, _ = split_domain_port(host)
    return bool(domain) and validate_host(domain, settings.ALLOWED_HOSTS)


def credential_of(headers: Mapping[str, str]) -> Credential | None:
    """How a request says who it is: by a key, else by a session's cookie; None when it does not."""
    key = key_in(headers.get("authorization", ""), headers.get("x-api-key", ""))
    if key is not None:
        return Credential(key)
    session_key = parse_cookie(headers.get("cookie", "")).get(settings.SESSION_COOKIE_NAME)
    return Credential(session_key=session_key) if session_key else None


def is_fit(scope: Any, headers: Mapping[str, str]) -> bool:
    """Whether Django's own middleware would let it pass: a host that is served here, over https where that must be."""
    if addresses.is_in_the_open(scope):
        return False
    return settings.DEBUG or is_known_host(headers.get("host", ""))


async def _body_of(receive: Receive) -> bytes | None:
    """None when it is larger than we take."""
    pieces: list[bytes] = []
    size = 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            return b""
        size += len(message.get("body", b""))
        if size > exchange.MAX_BODY:
            return None
        pieces.append(message.get("body", b""))
        if not message.get("more_body", False):
            return b"".join(pieces)


async def send_reply(reply: Reply, receive: Receive, send: SendMessage) -> None:
    headers = [
        (name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in reply.headers.items()
    ]
    await send({"type": "http.response.start", "status": int(reply.status), "headers": headers})
    if isinstance(reply.body, bytes):
        await send({"type": "http.response.body", "body": reply.body})
        return
    sending = asyncio.ensure_future(_send_all(reply.body, send))
    leaving = asyncio.ensure_future(_gone(receive))
    try:
        await asyncio.wait({sending, leaving}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        # Whoever is not done is not needed any more: the reader has left, or has had everything.
        for task in (sending, leaving):
            if not task.done():
                task.cancel()
        await asyncio.gather(sending, leaving, return_exceptions=True)
    if not sending.cancelled() and (error := sending.exception()) is not None:
        raise error


async def _send_all(frames: AsyncIterator[bytes], send: SendMessage) -> None:
    async with aclosing(frames):
        async for frame in frames:
            await send({"type": "http.response.body", "body": frame, "more_body": True})
    await send({"type": "http.response.body", "body": b""})


async def unless_gone(work: Coroutine[Any, Any, Reply], receive: Receive) -> Reply | None:
    """What `work` gives; None when the client leaves before that."""
    working = asyncio.ensure_future(work)
    leaving = asyncio.ensure_future(_gone(receive))
    try:
        await asyncio.wait({working, leaving}, return_when=asyncio.FIRST_COMPLETED)
        return working.result() if working.done() else None
    finally:
        for task in (working, leaving):
            task.cancel()
        await asyncio.gather(working, leaving, return_exceptions=True)


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
