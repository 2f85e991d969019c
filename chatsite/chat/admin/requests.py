"""What a model was sent in a turn, put together again, and what was new in it.

    rebuilt    the branch's messages by name, the others as they were kept, the files of the thread, through the codec
               that sent them; then the rest of the body, which is kept as it was
    exact      the digest of that is the digest of what went out. Else the page says that something was changed since
    shown      with secrets hidden; the headers by name

A model that is called in this process (the demo model) has no wire: its request is shown in our own words.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from agent.errors import AgentError
from agent.messages import Message, Transcript
from agent.providers.base import ToolSpec, TurnRequest
from agent.wire import anthropic, openai_chat
from agent.wire.jsontext import dump
from agent.wire.parts import load_parts
from chatsite.adminkit.masking import HIDDEN, masked_json
from chatsite.chat.files import attachments
from chatsite.chat.files.attaching import with_files
from chatsite.chat.files.types import IMAGES
from chatsite.chat.models import Message as MessageRow
from chatsite.chat.models import RequestConfig, Run, Thread, Turn
from chatsite.chat.rows import branches, values
from chatsite.chat.runs.requests import as_json, digest_of
from chatsite.chat.runs.responses import known_keys

CODECS: dict[str, ModuleType] = {codec.PATH: codec for codec in (openai_chat, anthropic)}


@dataclass(frozen=True, slots=True)
class Rebuilt:
    """A turn's request. `lost` counts the messages that are gone; `exact` is None where nothing went over a wire."""

    turn: Turn
    body: dict[str, Any]
    headers: tuple[tuple[str, str], ...]
    lost: int
    exact: bool | None

    @property
    def messages(self) -> list[Any]:
        return self.body.get("messages") or []


@dataclass(frozen=True, slots=True)
class Difference:
    """What a request has that the one before had not: messages, and values of the rest of it (name, old, new)."""

    removed: tuple[str, ...]
    added: tuple[str, ...]
    same: int
    changed: tuple[tuple[str, str, str], ...]


class Requests:
    """The requests of one thread. Its messages are read once."""

    def __init__(self, thread: Thread) -> None:
        self._thread = thread
        self._rows = {row.pk: row for row in thread.messages.all()}
        self._by_id = {row.public_id: row for row in self._rows.values()}
        self._files = attachments.of_thread(thread)

    def rebuilt(self, turn: Turn) -> Rebuilt:
        config = RequestConfig.objects.filter(digest=turn.config).first()
        if config is None:
            return Rebuilt(turn, {}, (), lost=0, exact=False)
        known = json.loads(config.data)
        messages, lost = self._messages(turn)
        codec = CODECS.get(turn.path)
        if codec is None or known["body"] is None:
            body = {**known["asked"], "messages": [as_json(message) for message in messages]}
            return Rebuilt(turn, without_secrets(body), (), lost, exact=None)
        body = self._body(codec, known, messages)
        exact = not lost and digest_of(dump(body).encode()) == turn.digest
        return Rebuilt(turn, without_secrets(body), tuple(_headers(codec)), lost, exact)

    def before(self, turn: Turn) -> Turn | None:
        """The request before this one: of its run, else the last of an older run of the thread."""
        turns = Turn.objects.defer("response")
        older = turns.filter(run=turn.run, number__lt=turn.number).order_by("-number").first()
        if older is not None:
            return older
        runs = turns.filter(run__thread=self._thread, run__lt=turn.run_id)
        return runs.order_by("-run", "-number").first()

    def answer(self, turn: Turn) -> MessageRow | None:
        return self._by_id.get(turn.message_id)

    def _messages(self, turn: Turn) -> tuple[list[Message], int]:
        head = self._by_id.get(turn.head)
        branch = [values.message_of(row) for row in branches.path_to(self._rows, head.pk if head else None)]
        places = {message.id: place for place, message in enumerate(branch)}
        found: list[Message] = []
        lost = 0
        for piece in json.loads(turn.pieces):
            if isinstance(piece, dict):
                found.append(_message(piece))
                continue
            place = places.get(piece[0])
            here = branch[place : place + piece[1]] if place is not None else []
            found += here
            lost += piece[1] - len(here)
        return found, lost

    def _body(self, codec: ModuleType, known: Mapping[str, Any], messages: list[Message]) -> dict[str, Any]:
        asked = known["asked"]
        files = self._files
        if not attachments.takes_images(asked["model"]):
            files = {id: row for id, row in files.items() if row.mime_type not in IMAGES}
        request = TurnRequest(
            model=asked["model"],
            transcript=with_files(Transcript(messages), files),
            message_id="",
            tools=tuple(ToolSpec(**tool) for tool in asked["tools"]),
            tool_choice=asked["toolChoice"],
            system=asked["system"],
            parameters=asked["parameters"],
        )
        try:
            encoded = codec.encode_request(request)
        except AgentError:  # it takes less than it did then
            encoded = {}
        return {
            name: encoded.get(name) if name == "messages" else value for name, value in known["body"].items()
        }


def difference(old: Rebuilt | None, new: Rebuilt) -> Difference:
    before = [dump(message) for message in old.messages] if old else []
    now = [dump(message) for message in new.messages]
    same = 0
    for one, other in zip(before, now, strict=False):
        if one != other:
            break
        same += 1
    changed = tuple(_changed(old.body if old else {}, new.body)) if old else ()
    return Difference(tuple(map(_pretty, before[same:])), tuple(map(_pretty, now[same:])), same, changed)


def turns_of(run: Run) -> Sequence[Turn]:
    return list(run.turn_rows.order_by("number").defer("response"))


def _changed(old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    for name in [*new, *(name for name in old if name not in new)]:
        if name != "messages" and old.get(name) != new.get(name):
            yield name, _value(old, name), _value(new, name)


def _value(body: Mapping[str, Any], name: str) -> str:
    return dump(body[name]) if name in body else "–"


def _pretty(text: str) -> str:
    return json.dumps(json.loads(text), indent=2, ensure_ascii=False)


def without_secrets(body: dict[str, Any]) -> dict[str, Any]:
    """The same without what looks like a secret, and without the keys of the endpoints."""
    hidden: dict[str, Any] = masked_json(body, known_keys())
    return hidden


def _headers(codec: ModuleType) -> Iterator[tuple[str, str]]:
    """What the codec sends besides, where the key stands hidden."""
    yield from codec.headers(HIDDEN).items()
    yield "content-type", "application/json"


def _message(kept: Mapping[str, Any]) -> Message:
    return Message(
        kept["id"], kept["role"], load_parts(kept["parts"]), kept["finishReason"], kept["metadata"]
    )
