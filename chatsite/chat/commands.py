"""What a command does: `perform`, for every door.

It asks "may this user?" once, does it, and answers at once; a run is a task of its own. The commands themselves, and
how each is written, are in `command_values`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from django.db import DatabaseError, DataError, IntegrityError
from django.utils.translation import gettext

from agent.approvals import Resolution
from agent.messages import Message, Part, TextPart, ToolResultPart
from chatsite.chat import (
    access,
    actions,
    actions_steering,
    allowance,
    attachments,
    choosing,
    db,
    draining,
    eventlog,
    news,
    organizing,
    rounds,
    runner,
)
from chatsite.chat.actions import Given, Start
from chatsite.chat.agents import agents, catalog_for
from chatsite.chat.choices import Json, kept
from chatsite.chat.command_values import (
    Answer,
    Branch,
    Command,
    Configure,
    Continue,
    Edit,
    Forget,
    Fork,
    OneAnswer,
    Organize,
    Remove,
    Restore,
    Retry,
    Said,
    Send,
    Stop,
)
from chatsite.chat.conf import setting
from chatsite.chat.heartbeat import PROCESS
from chatsite.chat.models import Run, Thread, new_public_id
from chatsite.chat.problems import Busy, Conflict, Invalid, Missing, NotStored, Problem, TooLong
from chatsite.phrases import number

STEERS = {
    "branch": actions_steering.show_branch,
    "remove": actions_steering.remove,
    "restore": actions_steering.take_back,
}


@dataclass(frozen=True, slots=True)
class Done:
    """What a command did: the run it began or stopped, None when there was nothing to stop."""

    thread: Thread
    run: Run | None = None
    fresh: bool = True


async def perform(
    user: Any,
    thread_id: str,
    command: Command,
    *,
    door: str,
    run_id: str | None = None,
    message: Message | None = None,
    given: Given | None = None,
) -> Done:
    """Do it, or raise a `problems.Problem` that says in words why not.

    `message`: a user message with parts of its own (from `/api/chat`), in place of the command's bare text; `given`:
    what the run begins with besides.
    """
    thread = await thread_for(user, thread_id)
    begins = partial(_start, user, door=door, run_id=run_id, given=given)
    match command:
        case Send():
            sent = await _sent(user, command, message)
            start = await begins(command.model, thread.model)
            return await _run(user, actions.send_message, thread=thread, start=start, **sent)
        case Retry():
            start = await begins(command.model, thread.model)
            return await _run(user, actions.retry, thread=thread, start=start, message_id=command.message_id)
        case Edit():
            sent = {**await _sent(user, command, message), "message_id": command.message_id}
            start = await begins(command.model, thread.model)
            return await _run(user, actions_steering.edit, thread=thread, start=start, **sent)
        case Branch() | Remove() | Restore():
            thread = await _asked(STEERS[command.type], thread=thread, message_id=command.message_id)
            eventlog.channel_of(thread.pk).look_into_rows()
            news.thread_changed(thread.pk)
            return Done(thread)
        case Fork():
            new = await _asked(
                actions_steering.fork, thread=thread, message_id=command.message_id, owner=user
            )
            return Done(new)
        case Continue():
            start = await begins(command.model, thread.model, goes_on=True)
            return await _run(user, actions.continue_lost, thread=thread, start=start, run_id=command.run_id)
        case Answer():
            return await _run(
                user,
                actions.answer,
                thread=thread,
                by=user,
                resolutions=await db.read(_resolutions, thread, command.answers),
                always=await db.read(_tools_to_allow, thread, command.answers),
                tools=agents().tools_with(allowed=await allowance.of(user)),
                start=await begins("", thread.model, goes_on=True),
            )
        case Forget():
            await _asked(actions.drop_rule, thread=thread, tool_name=command.tool)
            eventlog.channel_of(thread.pk).forget_rule(command.tool)
            news.thread_changed(thread.pk)
            return Done(thread)
        case Organize():
            changes = command.model_dump(exclude={"type"})
            thread = await _asked(organizing.organize, thread=thread, **changes)
            if command.deleted:
                runner.stop_thread(thread.pk)
            eventlog.channel_of(thread.pk).retitle(thread.title)
            news.thread_changed(thread.pk)
            return Done(thread)
        case Configure():
            return Done(await _configure(user, thread, command))
        case Stop():
            return Done(thread, await stop(thread, command.run_id))


async def stop(thread: Thread, run_id: str | None = None) -> Run | None:
    """Stop the thread's run (the one of that id), wherever it is; None when there was none. The caller has asked who
    may."""
    # First, and without the database: it may be busy.
    stopped = runner.stop_thread(thread.pk, run_id=run_id)
    run = await _asked(actions.request_stop, thread=thread, run_id=run_id, run_pk=stopped)
    if run is not None and not runner.stop(run.pk):
        news.stop_run(run.pk)
    return run


async def begin_thread(
    user: Any,
    command: Send,
    *,
    door: str,
    public_id: str | None = None,
    run_id: str | None = None,
    message: Message | None = None,
    given: Given | None = None,
    choices: Json | None = None,
) -> Done:
    """A new thread of the user's with its first message. Missing when `public_id` is another's thread.

    It has these `choices` (`choices.Choices` as JSON), else those of the preset that the command names.
    """
    rounds.begin()
    if public_id is not None and not access.sane_thread_id(public_id):
        raise Invalid(gettext("threadId: 1 to 200 printable characters, no slash or backslash among them."))
    sent = await _sent(user, command, message)
    preset = await db.read(choosing.preset_of, user, command.preset) if command.preset else None
    stored = preset.model if preset else ""
    start = await _start(user, command.model, stored, door=door, run_id=run_id, given=given)
    return await _run(
        user,
        actions.open_thread,
        owner=user,
        public_id=public_id,
        start=start,
        choices=preset.choices if preset and choices is None else choices,
        taken=Missing,
        **sent,
    )


async def client_results(
    user: Any,
    thread: Thread,
    results: Sequence[ToolResultPart],
    *,
    door: str,
    model: str = "",
    run_id: str | None = None,
    given: Given | None = None,
) -> Done:
    """Go on with what the thread's client says of the calls it was asked to run."""
    start = await _start(user, model, thread.model, goes_on=True, door=door, run_id=run_id, given=given)
    return await _run(user, actions.take_client_results, thread=thread, results=results, start=start)


async def thread_for(user: Any, thread_id: str) -> Thread:
    """The user's thread, or Missing."""
    rounds.begin()  # also for who only reads: a run of a process that died would never end for them
    try:
        return await db.read(access.thread_for, user, thread_id)
    except access.NotFound:
        raise Missing from None
    except DatabaseError as error:
        raise NotStored from error


def check_text(text: str) -> None:
    """Raises Invalid or TooLong, in words, for a text that cannot be sent."""
    limit = setting("CHAT_MESSAGE_MAX_CHARS")
    if not text.strip():
        raise Invalid(gettext("The message is empty. Write something, then send."))
    if len(text) > limit:
        words = gettext(
            "The message has %(size)s characters; %(most)s is the most. Shorten it or send it in pieces."
        )
        raise TooLong(words % {"size": number(len(text)), "most": number(limit)})
    if "\x00" in text:
        raise Invalid(
            gettext("The message holds a NUL character, which cannot be stored. Remove it and send again.")
        )
    if any("\ud800" <= character <= "\udfff" for character in text):
        raise Invalid(
            gettext("The message holds half a character (a lone surrogate). Remove it and send again.")
        )


def _resolutions(thread: Thread, answers: list[OneAnswer]) -> list[Resolution]:
    calls = dict(
        thread.interrupts.filter(public_id__in=[answer.interrupt_id for answer in answers]).values_list(
            "public_id", "tool_call_id"
        )
    )
    return [
        Resolution(
            tool_call_id=calls.get(answer.interrupt_id, ""),
            interrupt_id=answer.interrupt_id,
            status=answer.status,
            edited_args=answer.edited_args if answer.status == "approved" else None,
            reason=answer.reason if answer.status == "denied" else "",
        )
        for answer in answers
    ]


def _tools_to_allow(thread: Thread, answers: list[OneAnswer]) -> set[str]:
    ids = [answer.interrupt_id for answer in answers if answer.always and answer.status == "approved"]
    return set(thread.interrupts.filter(public_id__in=ids).values_list("tool_name", flat=True))


async def _sent(user: Any, command: Said, message: Message | None) -> dict[str, Any]:
    """What of a send goes to its action, checked."""
    parts: tuple[Part, ...] = ()
    if command.attachments:
        parts = await db.read(attachments.parts_of, user, command.attachments)
    if message is not None:
        parts = message.parts
    text = message.text if message is not None else command.text
    if text.strip() or all(isinstance(part, TextPart) for part in parts):
        check_text(text)
    if command.client_id and not access.sane_id(command.client_id):
        raise Invalid(gettext("The message's id must be 1 to 200 printable characters."))
    client_id = command.client_id or new_public_id()
    if command.text.strip() and message is None:
        parts = (*parts, TextPart(command.text))
    return {"client_id": client_id, "message": message or Message(id=client_id, role="user", parts=parts)}


async def _configure(user: Any, thread: Thread, command: Configure) -> Thread:
    fields = command.model_dump(include={"system", "tools_off", "parameters"})
    changes = {name: value for name, value in fields.items() if value is not None}
    catalog, model = await catalog_for(user), command.model
    if command.preset is not None:
        preset = await db.read(choosing.preset_of, user, command.preset)
        changes = {**kept(preset.choices).model_dump(), **changes}
        model = model or (catalog.pick(stored=preset.model) if preset.model else None)
    if model is not None:
        model = catalog.pick(model)
    thread = await _asked(choosing.configure, thread=thread, changes=changes, model=model)
    news.thread_changed(thread.pk)
    return thread


async def _start(
    user: Any,
    asked: str,
    stored: str = "",
    *,
    door: str,
    goes_on: bool = False,
    run_id: str | None = None,
    given: Given | None = None,
) -> Start:
    """How a run of this process begins, with the model that was asked for, else the thread's own."""
    model = (await catalog_for(user)).to_run(asked, stored, goes_on=goes_on)
    return Start(model, PROCESS, door, run_id, given or {}, (await allowance.of(user)).accounts)


async def _run(user: Any, action: Any, *, taken: type[Problem] = Busy, **asked: Any) -> Done:
    """Begin a run and make its task, as one piece of work of the server's own.

    Whoever asked may be cancelled at any moment (a browser that leaves); a run that is kept must be at work.
    """
    if "message" in asked:
        attachments.check_taken(asked["message"], asked["start"].model)
    work = asyncio.ensure_future(_begin_and_start(user, action, taken, asked))
    _beginning.add(work)
    work.add_done_callback(_beginning.discard)
    return await asyncio.shield(work)


_beginning: set[asyncio.Future[Done]] = set()


async def _begin_and_start(user: Any, action: Any, taken: type[Problem], asked: dict[str, Any]) -> Done:
    with draining.beginning():
        begun = await _asked(action, taken=taken, **asked)
        ours = begun.run.state in Run.ACTIVE and begun.run.owner == PROCESS
        if begun.fresh or (ours and not runner.is_here(begun.run.pk)):
            runner.start(begun, user)
    return Done(begun.thread, begun.run, begun.fresh)


async def _asked(action: Any, *, taken: type[Problem] = Busy, **asked: Any) -> Any:
    """An action in its transaction. Two at once: a constraint lets one win, and the other looks once more."""
    for last_try in (False, True):
        try:
            return await db.write(action, **asked)
        except IntegrityError as error:
            if last_try:
                raise _broken_by(error, taken) from error
        except DataError as error:
            raise Invalid(gettext("This holds something that the database cannot store.")) from error
        except DatabaseError as error:
            raise NotStored from error
    raise AssertionError("unreachable")


def _broken_by(error: IntegrityError, taken: type[Problem]) -> Problem:
    """What stands in the way, by the constraint: PostgreSQL gives its name, SQLite its columns."""
    said = str(error)
    if "chat_one_active_run_a_thread" in said or said.endswith("failed: chat_run.thread_id"):
        return Busy()
    if "foreign key" in said.lower():
        return Missing()  # the thread was deleted meanwhile
    if "chat_thread" in said and "public_id" in said:
        return taken()
    return Conflict(
        gettext("Something else was stored under this id in the same moment. Send it again with another id.")
    )
