"""`/api/chat`: the loop for programs, as AG-UI 1.0 (https://docs.ag-ui.com) over SSE.

    POST                        RunAgentInput -> the run's events, one RUN_FINISHED or RUN_ERROR last
    GET ?threadId=              the thread's messages, its active run: a page restores itself from it
    GET ?runId=                 the events of that run from its start, for a page that comes while it is under way

The thread on the server is the record. Of a body only its last user message counts; a known one is answered anew,
from there. A known `runId` is never a second run: its log is replayed from the start, or from behind
`Last-Event-ID`.

Closing the connection is these clients' only Stop: when nobody else reads the thread within `GRACE` seconds the
run is stopped, unless `forwardedProps.onDisconnect` is `continue` or the run was begun from the page. A new message
in that time is not made to wait for it.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Container, Mapping
from contextlib import aclosing
from dataclasses import asdict, dataclass, field
from http import HTTPStatus
from typing import Any

from django.db import DatabaseError

from agent.errors import InvalidRequest
from agent.events import Event, RunError, RunStarted, ToolCallResult
from agent.messages import Message as UserMessage
from agent.wire.agui import (
    RunInput,
    decode_run_input,
    dump_parts,
    encode_event_json,
    encode_interrupt,
    encode_ui_messages,
    load_parts,
)
from agent.wire.sse import encode_sse
from chatsite.chat import access, commands, db, eventlog, news, questions, runner, store
from chatsite.chat.access import Credential
from chatsite.chat.agents import agents
from chatsite.chat.api_resume import answers_of, pending_results
from chatsite.chat.commands import Answer, Done, Retry, Send
from chatsite.chat.conf import setting
from chatsite.chat.models import Message, Run, Thread
from chatsite.chat.problems import Busy, Invalid, Missing, NotStored, Problem, Unanswerable
from chatsite.chat.store import Cursor
from chatsite.chat.stream import HEADERS as STREAM_HEADERS
from chatsite.chat.stream import Frames, Recheck, guarded

log = logging.getLogger(__name__)

DOOR = "api"
GRACE = 2.0
NOTICED = 0.2
"""Seconds in which a client's leaving is noticed: its next request may come on another connection, and be faster."""
STOPPED = 2.0
"""Seconds in which a run that is stopped has its end."""
CONTINUE = "continue"
MAX_BODY = 20 * 1024 * 1024
"""Bytes. A client sends its whole history each time, images included."""


@dataclass(frozen=True, slots=True)
class Asked:
    """A request, whichever skin it came through. Header names are lower case."""

    method: str
    headers: Mapping[str, str]
    query: Mapping[str, str]
    body: bytes
    credential: Credential


@dataclass(frozen=True, slots=True)
class Reply:
    status: int
    body: bytes | AsyncIterator[bytes]
    headers: Mapping[str, str] = field(default_factory=dict)


class Refused(Exception):
    """An answer that is no stream: status, code, words."""

    def __init__(self, status: int, code: str, words: str, **headers: str) -> None:
        super().__init__(words)
        self.status, self.code, self.headers = status, code, headers


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
                return await _join(user, asked)
            case "GET":
                return await _restore(user, asked)
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
    wanted = _run_input(asked)
    thread, run = await _begun_before(user, wanted)
    if run is None:
        try:
            done = await _begin_at_last(user, wanted, thread)
        except Unanswerable as problem:
            # An answer that cannot be taken is told as AG-UI tells it, and nothing was begun.
            return Reply(200, _refused_run(wanted, problem), STREAM_HEADERS)
        thread, run = done.thread, done.run
    assert thread is not None
    assert run is not None
    return _stream(thread, run, asked)


def _stream(thread: Thread, run: Run, asked: Asked) -> Reply:
    after = store.parse_cursor(asked.headers.get("last-event-id", ""))
    number = after.number if after is not None and after.run_id == run.public_id else 0
    frames = guarded(_events_of(thread, run, number), Recheck(asked.credential, thread.public_id))
    return Reply(200, frames, STREAM_HEADERS)


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
        if thread is None or not await _stop_what_was_left(thread):
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
    message = wanted.last_user_message
    if message is None:
        raise Invalid("messages: there is no user message to answer, and nothing here waits for an answer.")
    model = start.pop("model")
    send = Send(text="", client_id=message.id, model=model)
    if thread is None:
        try:
            begun = await commands.begin_thread(
                user, send, public_id=wanted.thread_id, message=message, **start
            )
            return _own(begun, wanted)
        except Missing:
            # It is there by now: another request of the user's came first, or it is somebody else's.
            thread = await commands.thread_for(user, wanted.thread_id)
    if await _new_message(thread, wanted) is None:
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
    if wanted.forwarded_props.get("onDisconnect") == CONTINUE:
        given["onDisconnect"] = CONTINUE
    return {"door": DOOR, "run_id": wanted.run_id, "given": given, "model": model}


def _own(done: Done, wanted: RunInput) -> Done:
    """The same message came several times at once under different run ids: the first one has it."""
    if done.run is not None and done.run.public_id != wanted.run_id:
        raise Busy()
    return done


async def _new_message(thread: Thread, wanted: RunInput) -> UserMessage | None:
    """The body's last user message, when the thread has not got it yet."""
    message = wanted.last_user_message
    if message is None:
        return None
    known = Message.objects.filter(thread=thread, public_id=message.id, role="user")
    return None if await db.read(known.exists) else message


async def _refused_run(wanted: RunInput, problem: Unanswerable) -> AsyncIterator[bytes]:
    started = RunStarted(thread_id=wanted.thread_id, run_id=wanted.run_id, parent_run_id=wanted.parent_run_id)
    for event in (started, RunError(message=str(problem), code=problem.code)):
        yield encode_sse(encode_event_json(event))


async def _events_of(thread: Thread, run: Run, after: int) -> Frames:
    channel = eventlog.channel_of(thread.pk)
    stays = run.door != DOOR or run.given.get("onDisconnect") == CONTINUE
    brought = {part.tool_call_id for part in load_parts(run.given.get("clientResults", ()))}
    finished = False
    try:
        async with aclosing(eventlog.follow_run(channel, run.pk, run.public_id, after)) as batches:
            async for heard in batches:
                yield (
                    b"".join(
                        encode_sse(
                            encode_event_json(event, echo_input=False),
                            id=str(Cursor(run.public_id, number)),
                        )
                        for number, event in heard.events
                        if not _is_brought(event, brought)
                    )
                    or None
                )
        finished = True
    finally:
        if not finished and not stays:
            task = asyncio.ensure_future(_stop_if_alone(channel, thread, run))
            _leaving[task] = run.pk
            task.add_done_callback(_leaving.pop)


def _is_brought(event: Event, brought: Container[str]) -> bool:
    """A result that came with the run's own request. Its client has it, and AG-UI's would have it twice."""
    return isinstance(event, ToolCallResult) and event.tool_call_id in brought


_leaving: dict[asyncio.Task[None], int] = {}
"""Keys of runs whose reader went away just now, by the task that waits whether it comes back."""


async def _stop_if_alone(channel: eventlog.Channel, thread: Thread, run: Run) -> None:
    await asyncio.sleep(GRACE)
    if channel.readers > 0 or runner.stop(run.pk, "the client went away"):
        return
    # It runs in another process, if it runs.
    try:
        # This one, and not whatever its thread does by now.
        await db.write(_request_stop, run.pk)
    except DatabaseError as error:
        log.warning("run %s: nobody reads it, and it could not be stopped: %s", run.public_id, error)
    news.stop_run(run.pk)


def _request_stop(run_pk: int) -> None:
    Run.objects.filter(pk=run_pk, state__in=Run.ACTIVE).update(stop_requested=True)


async def _stop_what_was_left(thread: Thread) -> bool:
    """Stop the thread's run if nobody reads it any more; True when it is over.

    Whoever stopped it did so by leaving, and asks for something else now.
    """
    channel = eventlog.channel_of(thread.pk)
    for _ in range(10):
        left = [work for work in runner.running_here() if work.run_pk in _leaving.values()]
        tasks = [work.task for work in left if work.thread_pk == thread.pk and work.task is not None]
        if tasks and channel.readers == 0:
            runner.stop_thread(thread.pk, "the client went away")
            await asyncio.wait(tasks, timeout=STOPPED)
            return all(task.done() for task in tasks)
        await asyncio.sleep(NOTICED / 10)
    return False


# -- GET -----------------------------------------------------------------------------------------------------


async def _join(user: Any, asked: Asked) -> Reply:
    run_id = asked.query["runId"]
    runs = Run.objects.filter(thread__owner=user, public_id=run_id).select_related("thread").order_by("-pk")
    run = await db.read(runs.first) if access.sane_id(run_id) else None
    if run is None:
        raise Missing()
    return _stream(await commands.thread_for(user, run.thread.public_id), run, asked)


async def _restore(user: Any, asked: Asked) -> Reply:
    thread_id = asked.query.get("threadId", "")
    if not thread_id:
        raise Refused(422, "invalid_request", "threadId: say which thread, as `GET /api/chat?threadId=<id>`.")
    thread = await commands.thread_for(user, thread_id)
    state = await eventlog.state_now(eventlog.channel_of(thread.pk), thread)
    unanswered = await db.read(lambda: list(thread.interrupts.filter(status="open").select_related("run")))
    interrupts = [questions.interrupt_of(row) for row in unanswered]
    times = await db.read(_times_of, thread.pk)
    messages = encode_ui_messages(store.transcript_of(state), times, interrupts)
    limit, before = asked.query.get("limit"), asked.query.get("before")
    page, has_more = _page(messages, limit, before)
    active = state.active_run
    return json_reply(
        200,
        {
            "threadId": thread.public_id,
            "messages": page,
            "activeRun": {"runId": active.id} if active is not None else None,
            "interrupts": {
                "runId": unanswered[-1].run.public_id,
                "pending": [encode_interrupt(interrupt) for interrupt in interrupts],
            }
            if unanswered
            else None,
            # `truncated` and `cursor` are TanStack's words.
            "page": {"truncated": True, "cursor": page[0]["id"]} if has_more else {"truncated": False},
            "cursor": state.cursor,
        },
        {"Cache-Control": "no-store"},
    )


def _page(messages: list[Any], limit: str | None, before: str | None) -> tuple[list[Any], bool]:
    """The last `limit` messages in front of the one with id `before`, and whether there are older ones."""
    if before is not None:
        places = [place for place, message in enumerate(messages) if message["id"] == before]
        if not places:
            raise Invalid("before: there is no message of that id in this thread.")
        messages = messages[: places[0]]
    if limit is None:
        return messages, False
    if not (limit.isascii() and limit.isdigit() and len(limit) <= 5 and 0 < int(limit) <= 10_000):
        raise Invalid("limit: must be a whole number from 1 to 10000.")
    return messages[-int(limit) :], len(messages) > int(limit)


def _times_of(thread_pk: int) -> dict[str, str]:
    rows = Message.objects.filter(thread_id=thread_pk).values_list("public_id", "created_at")
    return {public_id: created_at.isoformat() for public_id, created_at in rows}


def refusal(problem: Problem) -> Reply:
    return json_reply(problem.status, error_body(problem.code, str(problem)))


def json_reply(status: int, body: Any, headers: Mapping[str, str] | None = None) -> Reply:
    text = json.dumps(body, ensure_ascii=True, separators=(",", ":"))
    return Reply(
        int(status),
        text.encode(),
        {"Content-Type": "application/json", "X-Content-Type-Options": "nosniff", **(headers or {})},
    )


def error_body(code: str, message: str) -> dict[str, Any]:
    return {"error": {"code": code, "message": message}}


def too_large() -> Reply:
    words = f"The body is larger than {MAX_BODY // 1024 // 1024} MB, which is the most taken here."
    return json_reply(
        HTTPStatus.REQUEST_ENTITY_TOO_LARGE, error_body("too_large", words), {"Connection": "close"}
    )
