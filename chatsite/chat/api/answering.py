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
from dataclasses import asdict
from typing import Any

from django.db import DatabaseError

from agent.errors import InvalidRequest
from agent.messages import Message as UserMessage
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
    thread, run = await _begun_before(user, wanted)
    if run is None:
        try:
            done = await _begin_at_last(user, wanted, thread)
        except Unanswerable as problem:
            # An answer that cannot be taken is told as AG-UI tells it, and nothing was begun.
            return Reply(200, refused_run(wanted, problem), STREAM_HEADERS)
        except (Busy, Conflict):
            # Perhaps by this very request, which came twice at once.
            thread, run = await _begun_before(user, wanted)
            if run is None:
                raise
        else:
            thread, run = done.thread, done.run
    assert thread is not None
    assert run is not None
    return stream_of(thread, run, asked)


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


async def _begun_before(user: Any, wanted: RunInput) -> tuple[Thread | None, Run | None]:
    """The thread, if the user has it, and the run of that id, if it began earlier."""
    try:
        thread = await commands.thread_for(user, wanted.thread_id)
    except Missing:
        return None, None
    return thread, await db.read(Run.objects.filter(thread=thread, public_id=wanted.run_id).first)


async def _begin_at_last(user: Any, wanted: RunInput, thread: Thread | None) -> Done:
    """Begin it, also where the run in its way is one that its own client has just left."""
    try:
        return await _begin(user, wanted, thread)
    except Busy:
        if thread is None or not await stop_what_was_left(thread):
            raise
    return await _begin(user, wanted, thread)


async def _begin(user: Any, wanted: RunInput, thread: Thread | None) -> Done:
    start = _start_of(wanted)
    if thread is not None:
        resumed = await _resume(user, wanted, thread, start)
        if resumed is not None:
            return resumed
    elif wanted.resume:
        raise Missing()
    if thread is not None and wanted.forwarded_props.get("continue") is True:
        again = Continue(model=start.pop("model"), run_id=wanted.parent_run_id)
        return _own(await commands.perform(user, thread.public_id, again, **start), wanted)
    message = wanted.last_user_message
    if message is None:
        raise Invalid("messages: there is no user message to answer, and nothing here waits for an answer.")
    model, chosen = start.pop("model"), start["given"].get("choices")
    if thread is None or await _new_message(thread, wanted) is not None:
        message = await uploads.with_files_kept(user, message)
    send = Send(text="", client_id=message.id, model=model)
    if thread is None:
        try:
            begun = await commands.begin_thread(
                user, send, public_id=wanted.thread_id, message=message, choices=chosen, **start
            )
            return _own(begun, wanted)
        except Missing:
            # It is there by now: another request of the user's came first, or it is somebody else's.
            thread = await commands.thread_for(user, wanted.thread_id)
    if await _new_message(thread, wanted) is None:
        await _check_same(thread, message)
        again = Retry(model=model, message_id=message.id)
        return await commands.perform(user, thread.public_id, again, **start)
    return _own(await commands.perform(user, thread.public_id, send, message=message, **start), wanted)


async def _resume(user: Any, wanted: RunInput, thread: Thread, start: dict[str, Any]) -> Done | None:
    """Take up what the thread waits for. None when the body answers none of it."""
    results = await db.read(pending_results, thread, wanted.tool_results)
    if results:
        start["given"]["clientResults"] = dump_parts(results)
    if wanted.resume:
        answers = Answer(answers=await db.read(answers_of, thread, wanted.resume))
        begun = {key: value for key, value in start.items() if key != "model"}
        return await commands.perform(user, thread.public_id, answers, **begun)
    if results and await _new_message(thread, wanted) is None:
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


async def _check_same(thread: Thread, message: UserMessage) -> None:
    """A known message is answered anew, and an edited one has to come under an id of its own."""
    known = await db.read(Message.objects.filter(thread=thread, public_id=message.id, role="user").first)
    if known is not None and known.text != message.text:
        raise Conflict("This message is here already, with another text. Send the new text under a new id.")


async def _new_message(thread: Thread, wanted: RunInput) -> UserMessage | None:
    """The body's last user message, when the thread has not got it yet."""
    message = wanted.last_user_message
    if message is None:
        return None
    known = Message.objects.filter(thread=thread, public_id=message.id, role="user")
    return None if await db.read(known.exists) else message
