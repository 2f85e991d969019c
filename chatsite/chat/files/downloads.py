"""A file on its way out, to whoever has the thread: as a download, never as a page of this site."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from django.utils.http import content_disposition_header
from django.utils.translation import gettext

from chatsite.chat import commands, db
from chatsite.chat.api.exchange import Reply
from chatsite.chat.files import disk
from chatsite.chat.files.types import TEXT
from chatsite.chat.files.uploads import CHUNK
from chatsite.chat.models import Attachment
from chatsite.chat.problems import Missing

SAFE = {
    "X-Content-Type-Options": "nosniff",
    "Content-Security-Policy": "default-src 'none'; sandbox",
    "Cache-Control": "private, max-age=3600",
    "Cross-Origin-Resource-Policy": "same-origin",
}


async def download(user: Any, thread_id: str, id: str) -> Reply:
    thread = await commands.thread_for(user, thread_id)
    return await file_reply(await db.read(thread.attachments.filter(public_id=id).first))


async def file_reply(row: Attachment | None) -> Reply:
    if row is None:
        raise Missing(gettext("There is no such file."))
    path = disk.path_of(row.digest)
    if not await asyncio.to_thread(path.is_file):
        raise Missing(gettext("This file is not on the server any more."))
    return Reply(200, _pieces_of(path), headers_of(row))


def headers_of(row: Attachment) -> dict[str, str]:
    return {
        "Content-Type": "text/plain; charset=utf-8" if row.mime_type == TEXT else row.mime_type,
        "Content-Length": str(row.size),
        "Content-Disposition": content_disposition_header(as_attachment=True, filename=row.name)
        or "attachment",
        **SAFE,
    }


async def _pieces_of(path: Path) -> AsyncIterator[bytes]:
    with await asyncio.to_thread(path.open, "rb") as file:
        while piece := await asyncio.to_thread(file.read, CHUNK):
            yield piece
