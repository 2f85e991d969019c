"""A thread over a WebSocket: the same commands and events as over HTTP.

    connect   ws/threads/<threadId>/?after=<cursor>     by session cookie, `Authorization: Bearer` or `x-api-key`
    receive   a command as JSON (`commands`), with an optional `id` that the answer repeats
    send      {"cursor", "event": <AG-UI event>}         each event, numbered
              {"type": "done"|"problem", "id"?, ...}     the answer to a command
              {"type": "restart", "retryAfterMs"}        the server goes: come back then, with the last cursor

A handler never waits for a run: following is a task of its own, so a Stop is heard at once.
"""

from __future__ import annotations

import asyncio
import json
import logging
from contextlib import aclosing, suppress
from typing import Any
from urllib.parse import parse_qs

from channels.generic.websocket import AsyncWebsocketConsumer
from django.db import DatabaseError
from pydantic import ValidationError

from chatsite.accounts import addresses
from chatsite.accounts.keys import key_in
from chatsite.chat import access, commands, db
from chatsite.chat.access import Credential
from chatsite.chat.commands.values import CommandAdapter
from chatsite.chat.problems import Invalid, KeyOutOfScope, KeyRefused, Missing, NotStored, Problem
from chatsite.chat.process import draining
from chatsite.chat.readers import cursors, following
from chatsite.chat.readers.cursors import Cursor
from chatsite.chat.readers.stream import Recheck, numbered_json
from chatsite.languages import speak_to

log = logging.getLogger(__name__)

NOT_FOUND = 4404
NOT_LOGGED_IN = 4401
KEY_OUT_OF_SCOPE = 4403
TOO_MANY_KEYS = 4429
BROKE = 1011
SERVICE_RESTART = 1012
TRY_AGAIN_LATER = 1013


class ThreadConsumer(AsyncWebsocketConsumer):
    async def connect(self) -> None:
        self.following: asyncio.Task[None] | None = None
        self.thread_id = self.scope["url_route"]["kwargs"]["thread_id"]
        self.credential = credential_of(self.scope)
        speak_to({}, program=True)
        try:
            self.user = await db.read(access.entering, self.credential, addresses.of_scope(self.scope))
            thread = await commands.thread_for(self.user, self.thread_id)
        except (Missing, KeyRefused) as problem:
            # Accepted first: a refused handshake reaches a browser as 1006, which tells its page nothing.
            await self.accept()
            await self.close(self._why_not(problem))
            return
        except DatabaseError as error:
            log.warning("a socket could not be opened: %s", error)
            await self.accept()
            await self.close(TRY_AGAIN_LATER)
            return
        await self.accept()
        after = parse_qs(self.scope.get("query_string", b"").decode("latin-1")).get("after", [""])[0]
        self.following = asyncio.create_task(self._follow(thread, cursors.parse_cursor(after)))

    async def disconnect(self, code: int) -> None:
        if self.following is not None:
            self.following.cancel()

    async def receive(self, text_data: str | None = None, bytes_data: bytes | None = None) -> None:
        asked: Any = None
        try:
            self.user = await db.read(self.credential.user)  # it may have been revoked since
            if self.user is None:
                await self.close(NOT_LOGGED_IN)
                return
            asked = _json_of(text_data)
            command = CommandAdapter.validate_python(
                {key: value for key, value in asked.items() if key != "id"}
            )
            done = await commands.perform(self.user, self.thread_id, command, door="websocket")
        except ValidationError as error:
            await self._answer(asked, type="problem", code="invalid_request", message=_first_error(error))
        except DatabaseError:
            await self._answer(asked, type="problem", code=NotStored.code, message=str(NotStored.words))
        except KeyOutOfScope:  # it was taken from the key since
            await self.close(KEY_OUT_OF_SCOPE)
        except Problem as problem:
            more = {} if problem.retry_after is None else {"retryAfter": problem.retry_after}
            await self._answer(asked, type="problem", code=problem.code, message=str(problem), **more)
        else:
            elsewhere = done.thread.public_id != self.thread_id
            more = {"threadId": done.thread.public_id} if elsewhere else {}
            await self._answer(asked, type="done", runId=done.run.public_id if done.run else None, **more)

    def _why_not(self, problem: Problem) -> int:
        if isinstance(problem, KeyRefused):
            return KEY_OUT_OF_SCOPE if isinstance(problem, KeyOutOfScope) else TOO_MANY_KEYS
        return NOT_FOUND if self.user is not None else NOT_LOGGED_IN

    async def _answer(self, asked: Any, **answer: Any) -> None:
        if isinstance(asked, dict) and isinstance(asked.get("id"), str | int):
            answer["id"] = asked["id"]
        # ASCII: the id that is sent back may hold half a surrogate pair, which no frame can.
        with suppress(OSError):  # who asked has left meanwhile
            await self.send(text_data=json.dumps(answer))

    async def _follow(self, thread: Any, after: Cursor | None) -> None:
        try:
            await self._tell_all(thread, after)
        except Exception:
            # Whatever it was, a socket that tells no more must not stay open: its client comes back with a cursor.
            log.exception("thread %s: a follower broke", thread.public_id)
            await self.close(BROKE)

    async def _tell_all(self, thread: Any, after: Cursor | None) -> None:
        # Both servers say in the middle of a send that the client has left; `disconnect` is then on its way.
        recheck = Recheck(self.credential, thread.public_id)
        with suppress(OSError):
            async with aclosing(following.follow_events(thread, after)) as batches:
                async for heard in batches:
                    if not await recheck.holds():
                        await self.close(NOT_LOGGED_IN)
                        return
                    for number, event in heard.events:
                        await self.send(text_data=numbered_json(heard.run_id, number, event))
            await self.send(
                text_data=json.dumps({"type": "restart", "retryAfterMs": draining.back_after_ms()})
            )
            await self.close(SERVICE_RESTART, "service restart")


def credential_of(scope: Any) -> Credential:
    """A connection's key, else its session."""
    headers = dict(scope.get("headers", ()))
    key = key_in(
        headers.get(b"authorization", b"").decode("latin-1"), headers.get(b"x-api-key", b"").decode("latin-1")
    )
    if key is not None:
        return Credential(key)
    session = scope.get("session")
    return Credential(session_key=session.session_key if session is not None else None)


def _json_of(text: str | None) -> dict[str, Any]:
    try:
        asked = json.loads(text or "")
    except (ValueError, RecursionError):
        asked = None
    if not isinstance(asked, dict):
        raise Invalid('Send one JSON object, such as {"type": "send", "text": "Hello"}.')
    return asked


def _first_error(error: ValidationError) -> str:
    first = error.errors(include_url=False)[0]
    path = ".".join(str(step) for step in first["loc"])
    return f"{path}: {first['msg']}" if path else first["msg"]
