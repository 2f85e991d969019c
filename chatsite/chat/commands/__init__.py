"""What a command does: `perform`, for every door.

It asks "may this user?" once, does it, and answers at once; a run is a task of its own.

    values   the commands themselves, and how each is written
    checks   what one says, checked and looked up
    acting   its action, carried out: the transaction, a second try, the task of its run
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeVar

from django.db import DatabaseError
from django.utils.translation import gettext

from agent.messages import Message, ToolResultPart
from chatsite.chat import access, actions, db, eventlog, runner
from chatsite.chat.actions import answering, choosing, continuing, organizing, steering
from chatsite.chat.actions.starting import Given
from chatsite.chat.agents import agents, catalog_for
from chatsite.chat.choices import Json, kept
from chatsite.chat.commands.acting import Done, begin_run, carry_out, start_of
from chatsite.chat.commands.checks import resolutions, sent_of, tools_to_allow
from chatsite.chat.commands.values import (
    Answer,
    Branch,
    Command,
    Configure,
    Continue,
    Edit,
    Forget,
    Fork,
    Organize,
    Remove,
    Restore,
    Retry,
    Send,
    Stop,
)
from chatsite.chat.limits import allowance
from chatsite.chat.models import Run, Thread
from chatsite.chat.problems import Invalid, Missing, NotStored
from chatsite.chat.process import news, rounds

T = TypeVar("T")

STEERS = {
    "branch": steering.show_branch,
    "remove": steering.remove,
    "restore": steering.take_back,
}


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
    begins = partial(start_of, user, door=door, run_id=run_id, given=given)
    match command:
        case Send():
            sent = await sent_of(user, command, message)
            start = await begins(command.model, thread.model)
            return await begin_run(user, actions.send_message, thread=thread, start=start, **sent)
        case Retry():
            start = await begins(command.model, thread.model)
            return await begin_run(
                user, actions.retry, thread=thread, start=start, message_id=command.message_id
            )
        case Edit():
            sent = {**await sent_of(user, command, message), "message_id": command.message_id}
            start = await begins(command.model, thread.model)
            return await begin_run(user, steering.edit, thread=thread, start=start, **sent)
        case Branch() | Remove() | Restore():
            thread = await carry_out(STEERS[command.type], thread=thread, message_id=command.message_id)
            eventlog.channel_of(thread.pk).look_into_rows()
            news.thread_changed(thread.pk)
            return Done(thread)
        case Fork():
            new = await carry_out(steering.fork, thread=thread, message_id=command.message_id, owner=user)
            return Done(new)
        case Continue():
            start = await begins(command.model, thread.model, goes_on=True)
            return await begin_run(
                user, continuing.continue_lost, thread=thread, start=start, run_id=command.run_id
            )
        case Answer():
            return await begin_run(
                user,
                answering.answer,
                thread=thread,
                by=user,
                resolutions=await db.read(resolutions, thread, command.answers),
                always=await db.read(tools_to_allow, thread, command.answers),
                tools=agents().tools_with(allowed=await allowance.of(user)),
                start=await begins("", thread.model, goes_on=True),
            )
        case Forget():
            await carry_out(answering.drop_rule, thread=thread, tool_name=command.tool)
            eventlog.channel_of(thread.pk).forget_rule(command.tool)
            news.thread_changed(thread.pk)
            return Done(thread)
        case Organize():
            changes = command.model_dump(exclude={"type"})
            thread = await carry_out(organizing.organize, thread=thread, **changes)
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
    run = await carry_out(actions.request_stop, thread=thread, run_id=run_id, run_pk=stopped)
    if run is not None and not runner.stop(run.pk):
        news.stop_run(run.pk)
    if run is None and stopped is not None:
        return await db.read(Run.objects.filter(pk=stopped).first)  # it has ended by our word already
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
    sent = await sent_of(user, command, message)
    preset = await db.read(choosing.preset_of, user, command.preset) if command.preset else None
    stored = preset.model if preset else ""
    start = await start_of(user, command.model, stored, door=door, run_id=run_id, given=given)
    return await begin_run(
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
    start = await start_of(user, model, thread.model, goes_on=True, door=door, run_id=run_id, given=given)
    return await begin_run(user, answering.take_client_results, thread=thread, results=results, start=start)


async def thread_for(user: Any, thread_id: str) -> Thread:
    """The user's thread, or Missing."""
    thread, _ = await looked_into(user, thread_id, lambda _: None)
    return thread


async def looked_into(user: Any, thread_id: str, look: Callable[[Thread], T]) -> tuple[Thread, T]:
    """The user's thread and what `look(thread)` finds of it, or Missing."""
    rounds.begin()  # also for who only reads: a run of a process that died would never end for them

    def both() -> tuple[Thread, T]:
        thread = access.thread_for(user, thread_id)
        return thread, look(thread)

    try:
        return await db.read(both)
    except access.NotFound:
        raise Missing from None
    except DatabaseError as error:
        raise NotStored from error


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
    thread = await carry_out(choosing.configure, thread=thread, changes=changes, model=model)
    news.thread_changed(thread.pk)
    return thread
