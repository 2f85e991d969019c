"""`/api/chat`: the loop for programs, as AG-UI 1.0 (https://docs.ag-ui.com) over SSE.

    POST                        RunAgentInput -> the run's events, one RUN_FINISHED or RUN_ERROR last
    GET ?threadId=              the thread's messages, its active run: a page restores itself from it
    GET ?runId=                 the events of that run from its start, for a page that comes while it is under way

The thread on the server is the record. Of a body only its last user message counts; a known one is answered anew,
from there. A known `runId` is never a second run: its log is replayed from the start, or from behind
`Last-Event-ID`.
"""

from __future__ import annotations

import asyncio
import json
import logging
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

from django.db import DatabaseError

from agent.errors import InvalidRequest
from agent.messages import Message as UserMessage
from agent.messages import ToolResultPart
from agent.wire.agui import RunInput, decode_run_input, dump_parts
from chatsite.chat import choices, commands, db
from chatsite.chat.agents import agents
from chatsite.chat.api.exchange import DOOR, Asked, Refused, Reply, error_body, json_reply, refusal
from chatsite.chat.api.read import join, restore
from chatsite.chat.api.resume import answers_of, pending_results
from chatsite.chat.api.stream import CONTINUE, refused_run, stop_what_was_left, stream_of
from chatsite.chat.commands.acting import Done
from chatsite.chat.commands.values import Answer, Continue, Retry, Send
from chatsite.chat.conf import setting
from chatsite.chat.files import uploads
from chatsite.chat.models import Message, Run, Thread
from chatsite.chat.problems import Busy, Conflict, Invalid, Missing, NotStored, Problem, Unanswerable
from chatsite.chat.readers.stream import HEADERS as STREAM_HEADERS

log = logging.getLogger(__name__)

LONG_BODY = 256 * 1024
"""Bytes from which a body is read beside the loop: 20 MB of JSON would hold up everybody for a quarter of a second."""


async def answer(user: Any, asked: Asked) -> Reply:
    """The reply to a request of `user` (None: nobody we know). Never raises for what the request holds."""
    try:
        if user is None:
            raise Refused(
                401,
                "unauthorized",
                "This needs an API key: send it as `Authorization: Bearer <key>` or `x-api-key`.",
                **{"WWW-Authenticate": "Bearer"},
            )
        match asked.method:
            case "POST":
                return await _run(user, asked)
            case "GET" if "threadId" not in asked.query and "runId" in asked.query:
                return await join(user, asked)
            case "GET":
                return await restore(user, asked)
            case _:
                raise Refused(
                    405, "method_not_allowed", "Use POST to run and GET to read.", Allow="GET, POST"
                )
    except Refused as refused:
        return json_reply(refused.status, error_body(refused.code, str(refused)), refused.headers)
    except Problem as problem:
        return refusal(problem)
    except DatabaseError as error:
        log.warning("the database could not be used: %s", error)
        return refusal(NotStored())


# -- POST ----------------------------------------------------------------------------------------------------


async def _run(user: Any, asked: Asked) -> Reply:
    long = len(asked.body) > LONG_BODY
    wanted = await asyncio.to_thread(_run_input, asked) if long else _run_input(asked)
    known = await _known_of(user, wanted)
    if known is not None and known.run is not None:
        return stream_of(known.thread, known.run, asked)
    try:
        done = await _begin_at_last(user, wanted, known)
    except Unanswerable as problem:
        # An answer that cannot be taken is told as AG-UI tells it, and nothing was begun.
        return Reply(200, refused_run(wanted, problem), STREAM_HEADERS)
    except (Busy, Conflict):
        # Perhaps by this very request, which came twice at once.
        known = await _known_of(user, wanted)
        if known is None or known.run is None:
            raise
        return stream_of(known.thread, known.run, asked)
    assert done.run is not None
    return stream_of(done.thread, done.run, asked)


def _run_input(asked: Asked) -> RunInput:
    media_type = asked.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media_type != "application/json":
        raise Refused(415, "unsupported_media_type", "Send the body as `Content-Type: application/json`.")
    try:
        body = json.loads(asked.body)
    except (ValueError, RecursionError) as error:
        raise Refused(400, "invalid_json", f"The body is no JSON: {error}") from None
    try:
        return decode_run_input(body, max_text=setting("CHAT_MESSAGE_MAX_CHARS"))
    except InvalidRequest as error:
        raise Refused(413 if error.code == "too_large" else 422, error.code, str(error)) from None


@dataclass(frozen=True, slots=True)
class _Known:
    """What is there already of what a body speaks of."""

    thread: Thread
    run: Run | None
    """Of the body's `runId`: it began earlier."""
    results: list[ToolResultPart]
    """Those of the body's tool results that the thread waits for."""
    message: Message | None
    """The body's last user message."""


async def _known_of(user: Any, wanted: RunInput) -> _Known | None:
    """None when the user has no such thread. In one step: each costs as much as what it reads."""
    try:
        thread, (run, results, message) = await commands.looked_into(
            user, wanted.thread_id, partial(_look, wanted)
        )
    except Missing:
        return None
    return _Known(thread, run, results, message)


def _look(wanted: RunInput, thread: Thread) -> tuple[Run | None, list[ToolResultPart], Message | None]:
    run = Run.objects.filter(thread=thread, public_id=wanted.run_id).first()
    if run is not None:
        return run, [], None  # it is replayed, whatever else the body holds
    said = wanted.last_user_message
    known = said and Message.objects.filter(thread=thread, public_id=said.id, role="user").first()
    return None, pending_results(thread, wanted.tool_results), known


async def _begin_at_last(user: Any, wanted: RunInput, known: _Known | None) -> Done:
    """Begin it, also where the run in its way is one that its own client has just left."""
    try:
        return await _begin(user, wanted, known)
    except Busy:
        if known is None or not await stop_what_was_left(known.thread):
            raise
    return await _begin(user, wanted, await _known_of(user, wanted))


async def _begin(user: Any, wanted: RunInput, known: _Known | None) -> Done:
    start = _start_of(wanted)
    if known is not None:
        resumed = await _resume(user, wanted, known, start)
        if resumed is not None:
            return resumed
    elif wanted.resume:
        raise Missing()
    if known is not None and wanted.forwarded_props.get("continue") is True:
        again = Continue(model=start.pop("model"), run_id=wanted.parent_run_id)
        return _own(await commands.perform(user, known.thread.public_id, again, **start), wanted)
    message = wanted.last_user_message
    if message is None:
        raise Invalid("messages: there is no user message to answer, and nothing here waits for an answer.")
    model, chosen = start.pop("model"), start["given"].get("choices")
    if known is None or known.message is None:
        message = await uploads.with_files_kept(user, message)
    send = Send(text="", client_id=message.id, model=model)
    if known is None:
        try:
            begun = await commands.begin_thread(
                user, send, public_id=wanted.thread_id, message=message, choices=chosen, **start
            )
            return _own(begun, wanted)
        except Missing:
            # It is there by now: another request of the user's came first, or it is somebody else's.
            known = await _known_of(user, wanted)
            if known is None:
                raise
    if known.message is not None:
        _check_same(known.message, message)
        again = Retry(model=model, message_id=message.id)
        return await commands.perform(user, known.thread.public_id, again, **start)
    return _own(await commands.perform(user, known.thread.public_id, send, message=message, **start), wanted)


async def _resume(user: Any, wanted: RunInput, known: _Known, start: dict[str, Any]) -> Done | None:
    """Take up what the thread waits for. None when the body answers none of it."""
    thread, results = known.thread, known.results
    if results:
        start["given"]["clientResults"] = dump_parts(results)
    if wanted.resume:
        answers = Answer(answers=await db.read(answers_of, thread, wanted.resume))
        begun = {key: value for key, value in start.items() if key != "model"}
        return await commands.perform(user, thread.public_id, answers, **begun)
    is_new = wanted.last_user_message is not None and known.message is None
    if results and not is_new:
        return await commands.client_results(user, thread, results, **start)
    return None


def _start_of(wanted: RunInput) -> dict[str, Any]:
    """How the run begins, whatever begins it: door, id, model, and what the client brings along."""
    model = wanted.forwarded_props.get("model", "")
    if not isinstance(model, str):
        raise Invalid("forwardedProps.model: must be a string, the name of a model.")
    try:
        agents().tools_with(wanted.client_tools)
    except InvalidRequest as error:
        raise Invalid(f"tools: {error}") from None
    given: dict[str, Any] = {}
    if wanted.client_tools:
        given["clientTools"] = [asdict(spec) for spec in wanted.client_tools]
    if (asked := wanted.forwarded_props.get("choices")) is not None:
        try:
            given["choices"] = choices.read(asked).as_json()
        except Invalid as problem:
            raise Invalid(f"forwardedProps.choices: {problem}") from None
    if wanted.forwarded_props.get("onDisconnect") == CONTINUE:
        given["onDisconnect"] = CONTINUE
    return {"door": DOOR, "run_id": wanted.run_id, "given": given, "model": model}


def _own(done: Done, wanted: RunInput) -> Done:
    """The same message came several times at once under different run ids: the first one has it."""
    if done.run is not None and done.run.public_id != wanted.run_id:
        raise Busy()
    return done


def _check_same(known: Message, message: UserMessage) -> None:
    """A known message is answered anew, and an edited one has to come under an id of its own."""
    if known.text != message.text:
        raise Conflict("This message is here already, with another text. Send the new text under a new id.")
