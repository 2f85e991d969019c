"""`GET /threads/<id>/events`: the events of a thread, in whichever way they get through.

    ?format=json | html     what comes (`stream`); ?after=<cursor> or `Last-Event-ID`: from where on
    (without wait)          Server-Sent Events, for as long as the reader stays
    ?wait=<seconds>         one answer, at once or when something came: where a proxy holds a stream back
        json    {"events": [{"cursor", "event"}], "cursor"}     `cursor` is where to ask from next
        html    fragments, the cursor in `X-Thread-Cursor`; 204 when nothing came

`EventsDoor` is this as an ASGI application before Django, whose handler keeps a thread waiting for each open stream.
`views.threads.events` is the same behind Django, for projects that mount only the urls, and for whoever is not let in.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Coroutine, Iterable, Mapping
from contextlib import aclosing
from typing import Any

from django.db import DatabaseError

from chatsite.accounts import addresses
from chatsite.chat import access, commands, db
from chatsite.chat.access import Credential
from chatsite.chat.api import doors
from chatsite.chat.api.exchange import Reply, refusal
from chatsite.chat.models import Thread
from chatsite.chat.problems import Invalid, KeyRefused, Missing, NotStored, Problem
from chatsite.chat.process import draining
from chatsite.chat.readers import cursors, following, stream
from chatsite.chat.readers.cursors import Cursor
from chatsite.languages import speak_to

LONGEST_WAIT = 25
"""Seconds. Many proxies give up on an answer after 30."""

CURSOR_HEADER = "X-Thread-Cursor"
FRESH = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}


async def answer(
    credential: Credential, thread: Thread, query: Mapping[str, str], last_event_id: str
) -> Reply:
    after = cursors.parse_cursor(last_event_id or query.get("after", ""))
    html = query.get("format") == "html"
    recheck = stream.Recheck(credential, thread.public_id)
    if "wait" in query:
        seconds = _seconds_of(query["wait"])
        look = _next_fragments if html else _next_events
        return await _poll(look(thread, after, recheck), seconds) or _nothing(after, html)
    frames = stream.html_frames if html else stream.json_frames
    return Reply(200, stream.guarded(frames(thread, after), recheck), stream.HEADERS)


def _seconds_of(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= 4):
        raise Invalid(f"wait: must be a whole number of seconds, at most {LONGEST_WAIT}.")
    return min(int(text), LONGEST_WAIT)


# -- one answer ----------------------------------------------------------------------------------------------


async def _poll(look: Coroutine[Any, Any, Reply | None], seconds: int) -> Reply | None:
    """What comes within so many seconds; whatever is there already, also within none."""
    try:
        async with asyncio.timeout(max(seconds, 0.5)):
            return await look
    except TimeoutError:
        return None


def _nothing(after: Cursor | None, html: bool) -> Reply:
    headers = {**FRESH, "Retry-After": "1"} if draining.is_leaving() else FRESH
    return Reply(204, b"", headers) if html else _json_reply((), after, headers)


async def _next_events(thread: Thread, after: Cursor | None, recheck: stream.Recheck) -> Reply | None:
    async with aclosing(following.follow_events(thread, after)) as batches:
        async for heard in batches:
            await _still_let_in(recheck)
            if heard.events:
                told = (stream.numbered_json(heard.run_id, number, event) for number, event in heard.events)
                return _json_reply(told, heard.cursor, FRESH)
    return None


def _json_reply(events: Iterable[str], cursor: Cursor | None, headers: Mapping[str, str]) -> Reply:
    body = f'{{"events":[{",".join(events)}],"cursor":{json.dumps(str(cursor or ""))}}}'
    return Reply(200, body.encode(), {"Content-Type": "application/json", **headers})


async def _next_fragments(thread: Thread, after: Cursor | None, recheck: stream.Recheck) -> Reply | None:
    async with aclosing(stream.html_changes(thread, after)) as changes:
        async for change in changes:
            await _still_let_in(recheck)
            if change is not None:
                headers = {"Content-Type": "text/html; charset=utf-8", CURSOR_HEADER: change.cursor}
                return Reply(200, change.html.encode(), {**headers, **FRESH})
    return None


async def _still_let_in(recheck: stream.Recheck) -> None:
    if not await recheck.holds():
        raise Missing


# -- the door before Django ----------------------------------------------------------------------------------

PATH = re.compile(r"/threads/([^/]+)/events")


class EventsDoor:
    """Takes what it can answer at once: a GET of somebody who is known. The rest is Django's."""

    def __init__(self, otherwise: Any) -> None:
        self.otherwise = otherwise

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        path = PATH.fullmatch(scope["path"])
        headers = {
            name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]
        }
        credential = doors.credential_of(headers)
        if path is None or credential is None or scope["method"] != "GET" or not doors.is_fit(scope, headers):
            await self.otherwise(scope, receive, send)
            return
        speak_to(headers, program=credential.key is not None)
        try:
            user = await db.read(access.entering, credential, addresses.of_scope(scope))
        except DatabaseError:
            await doors.send_reply(refusal(NotStored()), receive, send)
            return
        except KeyRefused as problem:
            await doors.send_reply(refusal(problem), receive, send)
            return
        if user is None:
            await self.otherwise(scope, receive, send)  # which leads to the login
            return
        asked = _reply(user, credential, path[1], doors.query_of(scope), headers.get("last-event-id", ""))
        reply = await doors.unless_gone(asked, receive)
        if reply is not None:
            await doors.send_reply(reply, receive, send)


async def _reply(
    user: Any, credential: Credential, thread_id: str, query: Mapping[str, str], last_event_id: str
) -> Reply:
    try:
        thread = await commands.thread_for(user, thread_id)
        return await answer(credential, thread, query, last_event_id)
    except Problem as problem:
        return refusal(problem)
    except DatabaseError:
        return refusal(NotStored())
