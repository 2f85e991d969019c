"""Files over HTTP: the ways in, before Django and behind it.

    POST /api/attachments?name=<file name>     the body is the file -> 201 {"id", "name", "mimeType", "size"}
    GET  /threads/<id>/attachments/<id>        the file, as a download

By key, or by session (a POST then with its CSRF token and from our own origin). `UploadDoor` is this before Django,
which would take in all of a body before anybody could look at it: what says that it is too large is refused unread, and
what grows too large is read no further. `upload_view` is the same behind Django, for projects that mount only the
urls, and for whoever is not let in.
"""

from __future__ import annotations

import io
import re
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from django.core.handlers.asgi import ASGIRequest
from django.db import DatabaseError
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.middleware.csrf import CsrfViewMiddleware
from django.utils.translation import gettext
from django.views.decorators.csrf import csrf_exempt

from chatsite.accounts import addresses
from chatsite.accounts.keys import key_in
from chatsite.chat import access, db
from chatsite.chat.access import Credential
from chatsite.chat.api import doors
from chatsite.chat.api.exchange import Reply, error_body, json_reply, refusal
from chatsite.chat.files.downloads import download
from chatsite.chat.files.uploads import Pieces, pieces_of_form, take
from chatsite.chat.problems import Invalid, KeyRefused, NotStored, Problem
from chatsite.languages import speak_to

UPLOAD = "/api/attachments"
FILE = re.compile(r"/threads/([^/]+)/attachments/([A-Za-z0-9_-]{1,64})")
NOBODY = "This needs an API key: send it as `Authorization: Bearer <key>` or `x-api-key`."
WITHOUT_CSRF = "This came with a cookie but without its CSRF token. Send the token as `X-CSRFToken`."


class Gone(Exception):
    """Whoever sent it has left."""


async def _upload(user: Any, query: Mapping[str, str], pieces: Pieces, length: int | None) -> Reply:
    name = query.get("name", "")
    if not name:
        raise Invalid(
            gettext("name: say what the file is called, as `POST /api/attachments?name=report.pdf`.")
        )
    row = await take(user, name, pieces, length)
    told = {"id": row.public_id, "name": row.name, "mimeType": row.mime_type, "size": row.size}
    return json_reply(HTTPStatus.CREATED, told)


@csrf_exempt  # checked below, for those who came by cookie
async def upload_view(request: HttpRequest) -> HttpResponseBase:
    headers = {name.lower(): value for name, value in request.headers.items()}
    key = key_in(headers.get("authorization", ""), headers.get("x-api-key", ""))
    credential = Credential(key) if key is not None else Credential(session_key=request.session.session_key)
    try:
        user = await db.read(access.entering, credential, addresses.of_request(request))
    except KeyRefused as problem:
        return doors.as_django(refusal(problem))
    except DatabaseError:
        return doors.as_django(refusal(NotStored()))
    if user is None:
        return doors.as_django(json_reply(401, error_body("unauthorized", NOBODY)))
    if request.method != "POST":
        return doors.as_django(json_reply(405, error_body("method_not_allowed", "Use POST.")))
    refused = CsrfViewMiddleware(lambda _: HttpResponse()).process_view(request, _checked, (), {})
    if key is None and refused is not None:
        return doors.as_django(json_reply(403, error_body("csrf", WITHOUT_CSRF)))
    try:
        reply = await _upload(user, request.GET.dict(), pieces_of_form(request), _length_of(headers))
    except Problem as problem:
        reply = refusal(problem)
    except DatabaseError:
        reply = refusal(NotStored())
    return doors.as_django(reply)


class UploadDoor:
    """Whoever is not known here goes on to Django, which leads to the login, or says 401."""

    def __init__(self, otherwise: Any) -> None:
        self.otherwise = otherwise

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        headers = {
            name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]
        }
        asks = _asks(scope)
        credential = doors.credential_of(headers)
        if asks is None or credential is None or not doors.is_fit(scope, headers):
            await self.otherwise(scope, receive, send)
            return
        speak_to(headers, program=credential.key is not None)
        try:
            user = await db.read(access.entering, credential, addresses.of_scope(scope))
        except KeyRefused as problem:
            await doors.send_reply(refusal(problem), receive, send)
            return
        except DatabaseError:
            await doors.send_reply(refusal(NotStored()), receive, send)
            return
        if user is None:
            await self.otherwise(scope, receive, send)
            return
        reply = await _answered(scope, headers, credential, user, asks, receive)
        if reply is not None:
            await doors.send_reply(reply, receive, send)


def _asks(scope: Any) -> tuple[str, ...] | None:
    """What is asked for: () an upload, or a thread's id and a file's."""
    if scope["path"] == UPLOAD and scope["method"] == "POST":
        return ()
    match = FILE.fullmatch(scope["path"])
    return match.groups() if match and scope["method"] == "GET" else None


async def _answered(
    scope: Any,
    headers: Mapping[str, str],
    credential: Credential,
    user: Any,
    asks: tuple[str, ...],
    receive: Any,
) -> Reply | None:
    """None when nobody waits for an answer any more."""
    try:
        if asks:
            return await download(user, *asks)
        if credential.key is None and not _is_by_our_page(scope):
            return json_reply(403, error_body("csrf", WITHOUT_CSRF), CLOSE)
        return await _upload(user, doors.query_of(scope), _body(receive), _length_of(headers))
    except Gone:
        return None
    except Problem as problem:
        reply = refusal(problem)
        return Reply(reply.status, reply.body, {**reply.headers, **CLOSE})
    except DatabaseError:
        return refusal(NotStored())


CLOSE = {"Connection": "close"}
"""The rest of the body may still be on its way, and nobody reads it."""


def _is_by_our_page(scope: Any) -> bool:
    """Django's own check, of the request without its body."""
    bare = [pair for pair in scope["headers"] if pair[0] not in (b"content-type", b"content-length")]
    request = ASGIRequest({**scope, "headers": bare}, io.BytesIO())
    check = CsrfViewMiddleware(lambda _: HttpResponse())
    check.process_request(request)
    return check.process_view(request, _checked, (), {}) is None


def _checked() -> None:
    """What the check looks at to learn that a view is not exempt."""


def _length_of(headers: Mapping[str, str]) -> int | None:
    length = headers.get("content-length", "")
    return int(length) if length.isascii() and length.isdigit() and len(length) < 20 else None


async def _body(receive: Any) -> Pieces:
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise Gone
        if message.get("body"):
            yield message["body"]
        if not message.get("more_body", False):
            return
