"""A thread as a file, and back: everything a person would miss, nothing that only this server knows.

    shape.read_file(json text)     -> ThreadFile    what may come in; raises Invalid, naming the place
    file_of(thread)                -> ThreadFile    all branches of it
    take_in(owner, file)           -> Thread        a new thread of that owner: one transaction, which the
                                                    caller holds
    markdown.markdown_of(state)    -> str           the branch that is shown, for people

Rule 1: what is exported and taken in again is exported equal: ids, times, branches, usage.
Rule 2: a file is a text that anybody may have written. No call of it ever runs: the ledger, questions and standing
rules do not travel, and a run that was at work or waited is a cancelled one in the file.
Rule 3: a thread that was put away or thrown away comes in as such. What was thrown away has its time from then on, to
be taken back or removed for good.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal

from django.utils import timezone

from agent.messages import Message
from agent.wire.parts import dump_parts, load_parts
from chatsite.chat import choices, models
from chatsite.chat.files import attachments
from chatsite.chat.models import Run, Thread
from chatsite.chat.rows import values
from chatsite.chat.transfer.shape import MessageEntry, RunEntry, ThreadFile

State = Run.State
LEFT_OPEN = {State.QUEUED, State.RUNNING, State.INTERRUPTED, State.LOST}
"""What such a run waited for does not travel, so it is over."""


def file_of(thread: Thread, path: Iterable[models.Message] | None = None) -> ThreadFile:
    """All branches of a thread but what is deleted; or one branch, and the runs that told it, as a thread that lies
    nowhere yet."""
    runs = list(thread.runs.order_by("pk"))
    if path is None:
        rows = _parents_first(list(thread.messages.filter(deleted_at=None).order_by("pk")))
    else:
        rows = list(path)
        runs = [run for run in runs if run.pk in {row.run_id for row in rows}]
    lies = _place_of(thread) if path is None else {}
    run_ids = {run.pk: run.public_id for run in runs}
    ids = {row.pk: row.public_id for row in rows}
    return ThreadFile(
        title=thread.title,
        model=thread.model,
        choices=choices.kept(thread.choices),
        created_at=thread.created_at,
        updated_at=thread.updated_at,
        **lies,
        head=ids.get(thread.head_id) if thread.head_id else None,
        runs=[_run_entry(run, run_ids) for run in runs],
        messages=[
            MessageEntry(
                id=row.public_id,
                parent=ids.get(row.parent_id) if row.parent_id else None,
                run=run_ids.get(row.run_id) if row.run_id else None,
                role=row.role,
                parts=row.parts,  # pydantic makes the entries
                finish_reason=row.finish_reason or None,
                metadata=row.metadata,
                created_at=row.created_at,
            )
            for row in rows
        ],
    )


def _place_of(thread: Thread) -> dict[str, Literal[True]]:
    dates = {"pinned": thread.pinned_at, "archived": thread.archived_at, "deleted": thread.deleted_at}
    return {name: True for name, since in dates.items() if since is not None}


def file_name(title: str) -> str:
    """Of letters and digits alone: it stands in a header and on somebody's disk."""
    words = "".join(sign if sign.isascii() and sign.isalnum() else " " for sign in title).split()
    return "-".join(words)[:60].lower() or "thread"


def _run_entry(run: Run, ids: dict[int, str]) -> RunEntry:
    over = run.state not in LEFT_OPEN
    return RunEntry(
        id=run.public_id,
        parent=ids.get(run.parent_id) if run.parent_id else None,
        state=run.state if over else State.CANCELLED,
        model=run.model,
        stop_reason=run.stop_reason if over else "cancelled",
        finish_reason=run.finish_reason,
        error=run.error if over else "",
        error_code=run.error_code if over else "",
        turns=run.turns,
        usage=run.usage,
        created_at=run.created_at,
        finished_at=run.finished_at,
    )


def _parents_first(rows: list[models.Message]) -> list[models.Message]:
    """By key, but a result that was put in front of another message has the newer key of the two."""
    known = {row.pk for row in rows}
    waiting: dict[int, list[models.Message]] = {}
    placed: set[int] = set()
    ordered: list[models.Message] = []
    for row in rows:
        if row.parent_id in known and row.parent_id not in placed:
            waiting.setdefault(row.parent_id, []).append(row)
            continue
        ready = [row]
        while ready:
            here = ready.pop()
            ordered.append(here)
            placed.add(here.pk)
            ready += reversed(waiting.pop(here.pk, []))
    return ordered


def take_in(owner: Any, file: ThreadFile) -> Thread:
    """A new thread of the owner's with what the file holds. Caller holds the transaction."""
    now = timezone.now()
    thread = Thread.objects.create(
        owner=owner,
        title=file.title,
        model=file.model,
        choices=file.choices.as_json(),
        created_at=file.created_at,
        updated_at=file.updated_at,
        pinned_at=now if file.pinned else None,
        archived_at=now if file.archived else None,
        deleted_at=now if file.deleted else None,
    )
    runs: dict[str, Run] = {}
    for entry in file.runs:
        given = entry.model_dump(exclude={"id", "parent"})
        runs[entry.id] = Run.objects.create(
            thread=thread,
            public_id=entry.id,
            parent=runs.get(entry.parent or ""),
            door="import",
            log=Run.Log.PRUNED,
            booked=True,  # it was used elsewhere
            **given,
        )
    rows: dict[str, models.Message] = {}
    for said in file.messages:
        parts = load_parts(part.model_dump(by_alias=True, exclude_none=True) for part in said.parts)
        parent, run = rows.get(said.parent or ""), runs.get(said.run or "")
        rows[said.id] = models.Message.objects.create(
            thread=thread,
            public_id=said.id,
            parent=parent,
            run=run,
            role=said.role,
            parts=dump_parts(parts),
            text=Message(id=said.id, role=said.role, parts=parts).text,
            finish_reason=said.finish_reason,
            metadata=said.metadata,
            created_at=said.created_at,
        )
    attachments.use(thread, map(values.message_of, rows.values()))
    if file.head is not None:
        Thread.objects.filter(pk=thread.pk).update(head=rows[file.head])
        thread.head = rows[file.head]
    return thread
