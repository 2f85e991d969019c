"""A thread as a file, and back: everything a person would miss, nothing that only this server knows.

    read_file(json text)     -> ThreadFile        what may come in; raises Invalid, naming the place
    file_of(thread)          -> ThreadFile        all branches of it
    take_in(owner, file)     -> Thread            a new thread of that owner: one transaction, which the caller holds
    markdown_of(state)       -> str               the branch that is shown, for people

Rule 1: what is exported and taken in again is exported equal: ids, times, branches, usage.
Rule 2: a file is a text that anybody may have written. No call of it ever runs: the ledger, questions and standing
rules do not travel, and a run that was at work or waited is a cancelled one in the file.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import Annotated, Any, Literal

from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    TypeAdapter,
    ValidationError,
    model_validator,
)
from pydantic.alias_generators import to_camel

from agent.messages import FilePart, ImagePart, Message, TextPart, ToolCallPart, ToolResultPart
from agent.text import storable
from agent.wire.jsontext import plain
from agent.wire.parts import dump_parts, load_parts
from chatsite.chat import attachments, choices, models, row_values, transfer_facts
from chatsite.chat.access import sane_id
from chatsite.chat.choices import Choices
from chatsite.chat.models import Run, Thread
from chatsite.chat.problems import Invalid
from chatsite.chat.state import ThreadState

MAX_BYTES = 50 * 1024 * 1024
MAX_MESSAGES = 50_000

State = Run.State
LEFT_OPEN = {State.QUEUED, State.RUNNING, State.INTERRUPTED, State.LOST}
"""What such a run waited for does not travel, so it is over."""


def _known(value: Any) -> Any:
    if not (isinstance(value, str) and sane_id(value)):
        raise ValueError("an id is printable text of 1 to 200 characters")
    return value


Id = Annotated[str, BeforeValidator(_known)]
Text = Annotated[str, BeforeValidator(lambda value: storable(value) if isinstance(value, str) else value)]
Values = Annotated[dict[str, Any], BeforeValidator(lambda value: plain(value, text=storable))]
Moment = Annotated[datetime, Field(ge=datetime(1970, 1, 1, tzinfo=UTC), lt=datetime(9999, 1, 1, tzinfo=UTC))]


class _Entry(BaseModel):
    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, extra="forbid")


class _Text(_Entry):
    type: Literal["text"]
    text: Text


class _Thinking(_Entry):
    type: Literal["thinking"]
    text: Text
    signature: Text | None = None
    redacted: Text | None = None
    duration_ms: int | None = None


class _Call(_Entry):
    type: Literal["tool-call"]
    id: Id
    name: Text
    arguments: Text
    provider_executed: Literal[True] | None = None
    edited: Text | None = None


class GivenEntry(_Entry):
    """A picture or another file; `transfer_files` says where its bytes are."""

    mime_type: Text | None = None
    data: Text | None = None
    url: Text | None = None
    name: Text | None = None


class ImageEntry(GivenEntry):
    type: Literal["image"]


class FileEntry(GivenEntry):
    type: Literal["file"]
    kind: Literal["audio", "video", "document"]


class _Result(_Entry):
    type: Literal["tool-result"]
    tool_call_id: Id
    content: Text | list[Annotated[_Text | ImageEntry | FileEntry, Field(discriminator="type")]]
    error: Text | None = None
    duration_ms: int | None = None


_Part = Annotated[_Text | _Thinking | _Call | _Result | ImageEntry | FileEntry, Field(discriminator="type")]
_PARTS: TypeAdapter[list[Any]] = TypeAdapter(list[_Part])


def _readable(metadata: dict[str, Any]) -> dict[str, Any]:
    transfer_facts.check(metadata, _PARTS)
    return metadata


class RunEntry(_Entry):
    id: Id
    parent: Id | None = None
    state: Literal["finished", "cancelled", "failed"]
    model: Text = Field(default="", max_length=200)
    stop_reason: Text = Field(default="", max_length=100)
    finish_reason: Text = Field(default="", max_length=20)
    error: Text = ""
    error_code: Text = Field(default="", max_length=100)
    turns: int = Field(default=0, ge=0, lt=2**31)
    usage: list[Annotated[Values, AfterValidator(transfer_facts.counted)]] = []
    created_at: Moment
    finished_at: Moment | None = None


class MessageEntry(_Entry):
    """`parts` as `agent.wire.parts` writes and reads them. `parent` stands before it in the list."""

    id: Id
    parent: Id | None = None
    run: Id | None = None
    role: Literal["system", "developer", "user", "assistant", "tool"]
    parts: list[_Part]
    finish_reason: Literal["stop", "length", "content_filter", "tool_calls"] | None = None
    metadata: Annotated[Values, AfterValidator(_readable)] = {}
    created_at: Moment


class ThreadFile(_Entry):
    format: Literal["threadloom-thread"] = "threadloom-thread"
    version: Literal[1] = 1
    title: Text = Field(default="", max_length=200)
    model: Text = Field(default="", max_length=200)
    choices: Choices = Field(default_factory=Choices)
    created_at: Moment
    updated_at: Moment
    head: Id | None = None
    runs: list[RunEntry] = Field(default=[], max_length=MAX_MESSAGES)
    messages: list[MessageEntry] = Field(default=[], max_length=MAX_MESSAGES)

    @model_validator(mode="after")
    def _hangs_together(self) -> ThreadFile:
        runs = _in_order("runs", self.runs)
        messages = _in_order("messages", self.messages)
        for place, message in enumerate(self.messages):
            if message.run is not None and message.run not in runs:
                raise ValueError(f"messages[{place}].run: there is no run {message.run!r}")
        if self.head is not None and self.head not in messages:
            raise ValueError(f"head: there is no message {self.head!r}")
        return self

    def as_json(self) -> str:
        return self.model_dump_json(by_alias=True, exclude_none=True, indent=1)


def _in_order(name: str, entries: list[RunEntry] | list[MessageEntry]) -> set[str]:
    """Their ids. Raises when one is there twice, or has a parent that does not stand before it."""
    seen: set[str] = set()
    for place, entry in enumerate(entries):
        if entry.id in seen:
            raise ValueError(f"{name}[{place}].id: {entry.id!r} is there twice")
        if entry.parent is not None and entry.parent not in seen:
            raise ValueError(f"{name}[{place}].parent: {entry.parent!r} does not stand before it")
        seen.add(entry.id)
    return seen


def too_large() -> str:
    return gettext("The file is too large: %(most)s MB is the limit.") % {"most": MAX_BYTES // 2**20}


def read_file(text: str | bytes) -> ThreadFile:
    if len(text) > MAX_BYTES:
        raise Invalid(too_large())
    try:
        file = ThreadFile.model_validate_json(text)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in first["loc"]).lstrip(
            "."
        )
        why = first["msg"].removeprefix("Value error, ")
        said = gettext("This is not a thread that was exported here.")
        raise Invalid(f"{said} {f'{place}: ' if place else ''}{why}"[:500]) from None
    except RecursionError:
        raise Invalid(
            gettext("This is not a thread that was exported here: it is nested too deep.")
        ) from None
    _check_no_references(file)
    return file


def _check_no_references(file: ThreadFile) -> None:
    """A file holds what it shows: a reference would be one to whatever lies on this server."""
    for place, said in enumerate(file.messages):
        results = [part.content for part in said.parts if isinstance(part, _Result)]
        inner = [part for content in results if not isinstance(content, str) for part in content]
        for part in [*said.parts, *inner]:
            if isinstance(part, GivenEntry) and (part.url or "").lower().startswith(attachments.SCHEME):
                words = gettext("messages[%(place)s]: it refers to a file that this one does not hold.")
                raise Invalid(words % {"place": place})


# -- out -----------------------------------------------------------------------------------------------------


def file_of(thread: Thread, path: Iterable[models.Message] | None = None) -> ThreadFile:
    """All branches of a thread but what is deleted; or one branch, and the runs that told it."""
    runs = list(thread.runs.order_by("pk"))
    if path is None:
        rows = _parents_first(list(thread.messages.filter(deleted_at=None).order_by("pk")))
    else:
        rows = list(path)
        runs = [run for run in runs if run.pk in {row.run_id for row in rows}]
    run_ids = {run.pk: run.public_id for run in runs}
    ids = {row.pk: row.public_id for row in rows}
    return ThreadFile(
        title=thread.title,
        model=thread.model,
        choices=choices.kept(thread.choices),
        created_at=thread.created_at,
        updated_at=thread.updated_at,
        head=ids.get(thread.head_id) if thread.head_id else None,
        runs=[_run_entry(run, run_ids) for run in runs],
        messages=[
            MessageEntry(
                id=row.public_id,
                parent=ids.get(row.parent_id) if row.parent_id else None,
                run=run_ids.get(row.run_id) if row.run_id else None,
                role=row.role,
                parts=row.parts,  # type: ignore[arg-type]  # pydantic makes the entries
                finish_reason=row.finish_reason or None,
                metadata=row.metadata,
                created_at=row.created_at,
            )
            for row in rows
        ],
    )


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


# -- in ------------------------------------------------------------------------------------------------------


def take_in(owner: Any, file: ThreadFile) -> Thread:
    """A new thread of the owner's with what the file holds. Caller holds the transaction."""
    thread = Thread.objects.create(
        owner=owner,
        title=file.title,
        model=file.model,
        choices=file.choices.as_json(),
        created_at=file.created_at,
        updated_at=file.updated_at,
    )
    runs: dict[str, Run] = {}
    for entry in file.runs:
        values = entry.model_dump(exclude={"id", "parent"})
        runs[entry.id] = Run.objects.create(
            thread=thread,
            public_id=entry.id,
            parent=runs.get(entry.parent or ""),
            door="import",
            log=Run.Log.PRUNED,
            booked=True,  # it was used elsewhere
            **values,
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
    attachments.use(thread, map(row_values.message_of, rows.values()))
    if file.head is not None:
        Thread.objects.filter(pk=thread.pk).update(head=rows[file.head])
        thread.head = rows[file.head]
    return thread


# -- for people ----------------------------------------------------------------------------------------------

_SPEAKERS = {"user": _("You"), "assistant": _("Assistant"), "system": _("System"), "developer": _("System")}


def markdown_of(state: ThreadState) -> str:
    """The branch that is shown, as Markdown: what was said, and each tool call with its result, folded as code."""
    lines = [f"# {state.title or gettext('Thread')}"]
    results = {
        part.tool_call_id: part
        for segment in state.segments
        for message in segment.messages
        for part in message.tool_results
    }
    for segment in state.segments:
        for message in segment.messages:
            if message.role != "tool" and (said := list(_said(message, results))):
                lines += [f"## {_SPEAKERS[message.role]}", *said]
        if segment.run.error:
            lines.append(f"> {segment.run.error}")
    return "\n\n".join(lines) + "\n"


def _said(message: Message, results: dict[str, ToolResultPart]) -> Iterator[str]:
    for part in message.parts:
        match part:
            case TextPart(text=text) if text.strip():
                yield text.strip("\n")
            case ToolCallPart():
                yield f"**{part.name}**"
                yield _fenced(part.used_arguments, "json")
                if (result := results.get(part.id)) is not None:
                    content = result.content
                    yield _fenced(content if isinstance(content, str) else _files(content), "")
            case ImagePart() | FilePart():
                yield _files((part,))


def _fenced(text: str, language: str) -> str:
    longest = max((len(run) for run in _backticks(text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{language}\n{text}\n{fence}"


def _backticks(text: str) -> Iterator[str]:
    for line in text.splitlines():
        bare = line.lstrip()
        yield bare[: len(bare) - len(bare.lstrip("`"))]


def _files(parts: tuple[Any, ...]) -> str:
    named = (part.text if isinstance(part, TextPart) else f"[{_name_of(part)}]" for part in parts)
    return "\n".join(named)


def _name_of(part: ImagePart | FilePart) -> str:
    if part.name:
        return part.name
    return part.mime_type or (gettext("image") if isinstance(part, ImagePart) else gettext("file"))
