"""What a model gets of the files that messages refer to.

Rule: rows, events and the loop's transcript hold references; the bytes come in here, as a turn is asked for, and are
gone with it. So a first answer, a retry, a run that goes on with a lost one and every later turn read the same.

    image, PDF, audio    base64, as a part the codec writes in its protocol's words
    text, code           a fenced text part under the file's name
    what cannot go along a text part that says so: its file is gone, the model takes no images (MODEL_FACTS), or there
                         is more than `SENT_AT_ONCE`, of which the newest go
"""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator
from contextlib import aclosing
from dataclasses import replace

from agent import Provider
from agent.events import TurnEnd, TurnEvent
from agent.messages import FilePart, ImagePart, Message, Part, TextPart, Transcript
from agent.providers.base import TurnRequest, is_native
from chatsite.chat import db
from chatsite.chat.files import attachments, disk
from chatsite.chat.files.disk import MB
from chatsite.chat.files.references import id_in, ids_in
from chatsite.chat.files.types import IMAGES, TEXT, as_text
from chatsite.chat.models import Attachment, Thread

SENT_AT_ONCE = 22 * MB
"""Bytes of files in one request: base64 makes them 30 MB, and Anthropic takes 32 in all."""

GONE = "[The file {name} cannot be shown here.]"
LEFT_OUT = "[The file {name} is left out: this conversation holds more files than one request can.]"


class Attaching:
    """A provider that puts the files of one thread into what another one is asked."""

    def __init__(self, provider: Provider, thread: Thread) -> None:
        self._provider = provider
        self._thread = thread
        self.native_output = is_native(provider)

    @property
    def name(self) -> str:
        return self._provider.name

    def stream(self, request: TurnRequest) -> AsyncIterator[TurnEvent | TurnEnd]:
        if not ids_in(request.transcript):
            return self._provider.stream(request)
        return self._stream(request)

    async def _stream(self, request: TurnRequest) -> AsyncIterator[TurnEvent | TurnEnd]:
        rows = await db.read(attachments.of_thread, self._thread)
        if not attachments.takes_images(request.model):
            rows = {id: row for id, row in rows.items() if row.mime_type not in IMAGES}
        transcript = await asyncio.to_thread(with_files, request.transcript, rows)
        events = self._provider.stream(replace(request, transcript=transcript))
        async with aclosing(events) as told:
            async for event in told:
                yield event


def with_files(transcript: Transcript, rows: dict[str, Attachment]) -> Transcript:
    """The transcript with files in the place of references; a reference to none of `rows` is one to nothing."""
    sent = _sent(transcript, rows)
    return Transcript([_filled(message, rows, sent) for message in transcript])


def _sent(transcript: Transcript, rows: dict[str, Attachment]) -> set[str]:
    """The newest files that fit together."""
    left = SENT_AT_ONCE
    fits: set[str] = set()
    for id in ids_in(reversed(transcript)):
        if id in rows:
            left -= rows[id].size
            if left < 0 and fits:
                break
            fits.add(id)
    return fits


def _filled(message: Message, rows: dict[str, Attachment], sent: set[str]) -> Message:
    if not ids_in([message]):
        return message
    return replace(message, parts=tuple(_part(part, rows, sent) for part in message.parts))


def _part(part: Part, rows: dict[str, Attachment], sent: set[str]) -> Part:
    id = id_in(part.url) if isinstance(part, ImagePart | FilePart) else None
    if id is None or not isinstance(part, ImagePart | FilePart):
        return part
    row = rows.get(id)
    name = row.name if row is not None else part.name or "attached"
    if row is not None and id not in sent:
        return TextPart(LEFT_OUT.format(name=name))
    content = disk.read(row) if row is not None else None
    if row is None or content is None:
        return TextPart(GONE.format(name=name))
    if row.mime_type == TEXT:
        return TextPart(as_text(name, content))
    return replace(
        part, mime_type=row.mime_type, data=base64.b64encode(content).decode(), url=None, name=row.name
    )
