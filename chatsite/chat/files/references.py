"""References to attachments: what a message's part says in the place of bytes."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace

from django.urls import reverse

from agent.messages import FilePart, ImagePart, Message, Part, Transcript
from chatsite.chat.files.types import AUDIO, IMAGES
from chatsite.chat.models import Attachment

SCHEME = "attachment:"
_REFERENCE = re.compile(r"attachment:([A-Za-z0-9_-]{1,64})")

Given = ImagePart | FilePart


def id_in(url: str | None) -> str | None:
    """The attachment that a part's address names; None for any other address."""
    match = _REFERENCE.fullmatch(url or "")
    return match[1] if match else None


def ids_in(messages: Iterable[Message]) -> list[str]:
    """The attachments that messages refer to, each once, in order."""
    found = (id_in(part.url) for message in messages for part in message.parts if isinstance(part, Given))
    return list(dict.fromkeys(id for id in found if id is not None))


def names_in(message: Message) -> str:
    return ", ".join(part.name for part in message.parts if isinstance(part, Given) and part.name)


def part_of(row: Attachment) -> Given:
    url = SCHEME + row.public_id
    if row.mime_type in IMAGES:
        return ImagePart(row.mime_type, url=url, name=row.name)
    kind = "audio" if row.mime_type in AUDIO else "document"
    return FilePart(kind, row.mime_type, url=url, name=row.name)


def addressed(transcript: Transcript, thread_id: str) -> Transcript:
    """The transcript with addresses of this site in the place of references, for programs."""
    base = reverse("chat:attachment", args=[thread_id, "-"]).removesuffix("-")

    def at(part: Part) -> Part:
        id = id_in(part.url) if isinstance(part, Given) else None
        return replace(part, url=base + id) if isinstance(part, Given) and id is not None else part

    return Transcript(
        [replace(each, parts=tuple(map(at, each.parts))) if ids_in([each]) else each for each in transcript]
    )
