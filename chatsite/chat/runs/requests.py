"""What of each turn's request is kept, so that it can be shown exactly, without a copy of the conversation each time.

Rule 1: nothing is done per token. A provider's stream is handed on as it is; what is noted goes into the batch that
keeps the end of the turn, and is made there.
Rule 2: messages that the thread's branch holds are named and not copied: so many of it, from this one on. What a
middleware put in their place, or a last instruction, stands there itself. A turn costs the same in a long thread.
Rule 3: all else of a body (tools, system prompt, parameters) is one row for all requests that have it the same.
Rule 4: no key and no header is kept. A digest of the body as it went out says later whether what was rebuilt is that.
Rule 5: what came back stands in the same row; `responses` says what of it.

`KEEP_REQUESTS` switches it off. `admin.requests` puts them together again.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

from django.db.models import Exists, OuterRef
from django.utils import timezone

from agent import Provider
from agent.events import TurnEnd, TurnEvent
from agent.messages import Message, Transcript
from agent.providers.base import Sent, TurnRequest, is_native
from agent.wire import jsontext
from agent.wire.parts import dump_parts
from chatsite.chat.conf import setting
from chatsite.chat.models import RequestConfig, Turn
from chatsite.chat.rows import statements
from chatsite.chat.runs import responses
from chatsite.chat.runs.responses import NONE, Received

TOUCHED_EVERY = 3600.0
"""Seconds in which a process takes a configuration for kept that it has seen kept."""
UNUSED_FOR = timedelta(days=1)
REMOVED_AT_ONCE = 200
MOST_KNOWN = 1000

_kept: dict[str, float] = {}


@dataclass(slots=True)
class Note:
    """One request, as it was asked and as it went out. `base` is the thread's branch at that moment."""

    number: int
    asked: TurnRequest
    base: Transcript
    began_at: datetime
    sent: int = 0
    digest: str = ""
    url: str = ""
    path: str = ""
    size: int = 0
    body: dict[str, Any] = field(default_factory=dict)
    config: str = ""
    keys: tuple[str, ...] = ()
    received: Received | None = None

    def hear(self, sent: Sent) -> None:
        self.sent += 1
        self.digest = digest_of(sent.content)
        self.size = len(sent.content)
        self.url, self.path = sent.url, sent.path
        self.body = {name: None if name == "messages" else value for name, value in sent.body.items()}
        self.received = None

    def take(self, status: int, piece: bytes) -> None:
        """Of the last answer, as it comes."""
        if self.received is None:
            self.received = Received(status)
        self.received.add(piece)


class Noting:
    """A provider whose requests are noted. `number` says which turn it is, `note` takes what is noted."""

    def __init__(
        self,
        provider: Provider,
        *,
        branch: Callable[[], Transcript],
        number: Callable[[], int],
        note: Callable[[Note], None],
    ) -> None:
        self._provider = provider
        self._branch, self._number, self._note = branch, number, note
        self.native_output = is_native(provider)

    @property
    def name(self) -> str:
        return self._provider.name

    def stream(self, request: TurnRequest) -> AsyncIterator[TurnEvent | TurnEnd]:
        note = Note(self._number(), request, self._branch(), timezone.now())
        self._note(note)
        if not setting("KEEP_RESPONSES"):
            return self._provider.stream(replace(request, on_sent=note.hear))
        note.keys = responses.known_keys()
        return self._provider.stream(replace(request, on_sent=note.hear, on_received=note.take))


def digest_of(content: bytes) -> str:
    return hashlib.blake2b(content, digest_size=16).hexdigest()


# -- keeping (the caller holds the transaction) --------------------------------------------------------------


def keep(run_pk: int, note: Note) -> None:
    data = jsontext.dump(_config_of(note))
    digest = digest_of(data.encode())
    if time.monotonic() - _kept.get(digest, -TOUCHED_EVERY) >= TOUCHED_EVERY:
        row = {"digest": digest, "data": data, "touched_at": note.began_at}
        statements.upsert(RequestConfig, [row], unique=("digest",), update=("touched_at",))
    head, pieces = pieces_of(note.asked.transcript, note.base)
    received = note.received or NONE
    statements.append(
        Turn,
        {
            "run_id": run_pk,
            "number": note.number,
            "message_id": note.asked.message_id,
            "config": digest,
            "head": head,
            "pieces": jsontext.dump(pieces),
            "path": note.path,
            "url": note.url[:500],
            "digest": note.digest,
            "size": note.size,
            "sent": note.sent,
            "began_at": note.began_at,
            "status": received.status,
            "received": received.size,
            "response": received.packed(note.keys),
            "response_cut": received.is_cut,
        },
    )
    note.config = digest


def kept(notes: Sequence[Note]) -> None:
    """These are committed: what they have in common with others need not be written again for a while."""
    now = time.monotonic()
    for config in {note.config for note in notes}:
        if now - _kept.get(config, -TOUCHED_EVERY) >= TOUCHED_EVERY:
            if len(_kept) >= MOST_KNOWN:
                _kept.clear()
            _kept[config] = now


def _config_of(note: Note) -> dict[str, Any]:
    asked = note.asked
    spoken = {
        "model": asked.model,
        "system": asked.system,
        "parameters": dict(asked.parameters),
        "toolChoice": asked.tool_choice,
        "tools": [
            {"name": tool.name, "description": tool.description, "parameters": tool.parameters}
            for tool in asked.tools
        ],
    }
    return {"asked": spoken, "body": note.body or None}


def pieces_of(asked: Sequence[Message], base: Sequence[Message]) -> tuple[str, list[Any]]:
    """The messages of a request by those of a branch: `[id, count]` for a row of them, else the message itself; and the
    id of the last that is named."""
    places = {message.id: place for place, message in enumerate(base)}
    pieces: list[Any] = []
    head, follows = "", -1
    for message in asked:
        place = places.get(message.id)
        if place is None or not _same(base[place], message):
            pieces.append(as_json(message))
            follows = -1
            continue
        if place == follows:
            pieces[-1][1] += 1
        else:
            pieces.append([message.id, 1])
        head, follows = message.id, place + 1
    return head, pieces


def as_json(message: Message) -> dict[str, Any]:
    return {
        "id": message.id,
        "role": message.role,
        "parts": dump_parts(message.parts),
        "finishReason": message.finish_reason,
        "metadata": dict(message.metadata),
    }


def _same(one: Message, other: Message) -> bool:
    return one is other or (one.role, one.parts) == (other.role, other.parts)


# -- removing ------------------------------------------------------------------------------------------------


def remove_unused() -> bool:
    """Configurations that no request has any more. One in use was touched within the hour by whoever uses it."""
    unused = RequestConfig.objects.filter(touched_at__lt=timezone.now() - UNUSED_FOR)
    unused = unused.filter(~Exists(Turn.objects.filter(config=OuterRef("digest"))))
    return _remove(list(unused.values_list("pk", flat=True)[:REMOVED_AT_ONCE]))


def forget(digests: Sequence[str]) -> None:
    """The same at once, of these: they held what is erased."""
    used = set(Turn.objects.filter(config__in=digests).values_list("config", flat=True))
    gone = [digest for digest in digests if digest not in used]
    _remove(list(RequestConfig.objects.filter(digest__in=gone).values_list("pk", flat=True)))


def _remove(pks: list[int]) -> bool:
    return bool(pks) and bool(RequestConfig.objects.filter(pk__in=pks).delete()[0])
