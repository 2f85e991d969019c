"""The form of a thread's file: what may stand in it.

    read_file(json text)     -> ThreadFile        raises Invalid, naming the place

A file is a text that anybody may have written. What is known of it here is all that `transfer` takes in.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Any, Literal

from django.utils.translation import gettext
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

from agent.text import storable
from agent.wire.jsontext import plain
from chatsite.chat.access import sane_id
from chatsite.chat.choices import Choices
from chatsite.chat.files import references
from chatsite.chat.problems import Invalid
from chatsite.chat.transfer import facts

MAX_BYTES = 50 * 1024 * 1024
MAX_MESSAGES = 50_000


def _known(value: Any) -> Any:
    if not (isinstance(value, str) and sane_id(value)):
        raise ValueError("an id is printable text of 1 to 200 characters")
    return value


Id = Annotated[str, BeforeValidator(_known)]
Text = Annotated[str, BeforeValidator(lambda value: storable(value) if isinstance(value, str) else value)]
Values = Annotated[dict[str, Any], BeforeValidator(lambda value: plain(value, text=storable))]
Moment = Annotated[datetime, Field(ge=datetime(1970, 1, 1, tzinfo=UTC), lt=datetime(9999, 1, 1, tzinfo=UTC))]


LATER = ConfigDict(defer_build=True)
"""What reads and checks is built when the first file comes: many a process never sees one."""


class _Entry(BaseModel):
    model_config = LATER | ConfigDict(alias_generator=to_camel, populate_by_name=True, extra="forbid")


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
    """A picture or another file; `transfer.attached` says where its bytes are."""

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
_PARTS: TypeAdapter[list[Any]] = TypeAdapter(list[_Part], config=LATER)


def _readable(metadata: dict[str, Any]) -> dict[str, Any]:
    facts.check(metadata, _PARTS)
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
    usage: list[Annotated[Values, AfterValidator(facts.counted)]] = []
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
    pinned: Literal[True] | None = None
    archived: Literal[True] | None = None
    deleted: Literal[True] | None = None
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
            if isinstance(part, GivenEntry) and (part.url or "").lower().startswith(references.SCHEME):
                words = gettext("messages[%(place)s]: it refers to a file that this one does not hold.")
                raise Invalid(words % {"place": place})
