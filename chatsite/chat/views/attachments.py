"""Files of a thread, for its owner and for whoever reads it by a link.

`upload_doors.UploadDoor` answers the first before Django where it can. The pages name a file relative to themselves
(`attachments/<id>`), so that each door sees by itself who asks.
"""

from __future__ import annotations

from django.http import HttpRequest, HttpResponseBase
from django.views.decorators.http import require_safe

from chatsite.chat import db, store
from chatsite.chat.actions import organizing
from chatsite.chat.api.doors import as_django
from chatsite.chat.api.exchange import refusal
from chatsite.chat.files import downloads, references
from chatsite.chat.models import Attachment
from chatsite.chat.problems import Missing
from chatsite.chat.views.door import door


@require_safe
@door
async def attachment(request: HttpRequest, thread_id: str, id: str) -> HttpResponseBase:
    return as_django(await downloads.download(request.person, thread_id, id))


@require_safe
async def shared_attachment(request: HttpRequest, token: str, id: str) -> HttpResponseBase:
    try:
        return as_django(await downloads.file_reply(await db.read(_shared, token, id)))
    except Missing as missing:
        return as_django(refusal(missing))


def _shared(token: str, id: str) -> Attachment | None:
    """The file, if what the link shows refers to it."""
    found = organizing.shared(token)
    if found is None:
        return None
    link, state = found
    if id not in references.ids_in(store.transcript_of(state)):
        return None
    return link.thread.attachments.filter(public_id=id).first()
