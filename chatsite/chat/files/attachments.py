"""Files that people attach: their rows.

    keep(owner, draft)      a row of the owner's; the bytes are `files.disk`
    parts_of(owner, ids)    what a message holds of them (`files.references`)
    use(thread, message)    the message's files belong to the thread from then on

Rule 1: a file is looked up by a thread that the asker has (`of_thread`), or by its owner before it is sent.
Rule 2: the row first, then the file. So whoever finds no row of a digest, while nobody can write one, may remove its
file (`files.removing`); a row whose file never came is one that nobody was told of.
Rule 3: the same content under the same name is one row of its owner's: sent twice, it is there once.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from django.contrib.auth import get_user_model
from django.db.models import Q, Sum
from django.utils import timezone
from django.utils.translation import gettext

from agent.messages import ImagePart, Message
from chatsite.catalog import entries
from chatsite.chat.conf import setting
from chatsite.chat.files.disk import MB, Draft, Unattached
from chatsite.chat.files.references import Given, ids_in, part_of
from chatsite.chat.models import Attachment, Thread
from chatsite.chat.problems import Problem, TooLong
from chatsite.phrases import figure


class NoRoom(Problem):
    status = TooLong.status
    code = "attachments_full"


def used_by(owner: Any) -> int:
    """Bytes of the owner's files, but for those that only deleted threads hold."""
    alive = Attachment.objects.filter(Q(threads=None) | Q(threads__deleted_at=None), owner=owner).distinct()
    total = Attachment.objects.filter(pk__in=alive.values("pk")).aggregate(total=Sum("size"))["total"]
    return total or 0


def _check_room(owner: Any, size: int) -> None:
    most = setting("ATTACHMENTS_TOTAL_MB")
    if used_by(owner) + size > most * MB:
        words = gettext(
            "Your files would take more than %(most)s MB, which is yours here. "
            "Delete threads with files that you do not need any more."
        )
        raise NoRoom(words % {"most": figure(most)})


def keep(owner: Any, draft: Draft) -> Attachment:
    """The draft as a file of the owner's. The caller holds the transaction, and puts it `in_place` behind it."""
    get_user_model().objects.select_for_update().only("pk").get(pk=owner.pk)
    known = Attachment.objects.filter(owner=owner, digest=draft.digest, name=draft.name).first()
    if known is not None:
        known.created_at = timezone.now()
        known.save(update_fields=["created_at"])
        return known
    _check_room(owner, draft.size)
    return Attachment.objects.create(
        owner=owner, digest=draft.digest, size=draft.size, mime_type=draft.mime_type, name=draft.name
    )


def parts_of(owner: Any, ids: list[str]) -> tuple[Given, ...]:
    """The parts of a message that these files of the owner's are attached to, in this order."""
    most = int(setting("ATTACHMENTS_PER_MESSAGE"))
    ids = list(dict.fromkeys(ids))
    if len(ids) > most:
        words = gettext("A message takes at most %(most)s files. Send the others with another one.")
        raise Unattached(words % {"most": most})
    rows = {row.public_id: row for row in Attachment.objects.filter(owner=owner, public_id__in=ids)}
    if any(id not in rows for id in ids):
        raise Unattached(gettext("One of the files is not here any more. Remove it and attach it again."))
    return tuple(part_of(rows[id]) for id in ids)


def takes_images(model: str) -> bool:
    """False when its facts say that it does not; an endpoint of which nothing is known says so itself."""
    return entries.facts().get(model, {}).get("images") is not False


def check_taken(message: Message, model: str) -> None:
    """Raises Unattached for pictures that this model would not see."""
    pictures = any(isinstance(part, ImagePart) for part in message.parts)
    if pictures and not takes_images(model):
        words = gettext("The model %(model)s takes no images. Choose another one, or remove them.")
        raise Unattached(words % {"model": model})


def use(thread: Thread, messages: Iterable[Message]) -> None:
    """From now on the thread holds what these messages refer to. The caller holds the transaction."""
    ids = ids_in(messages)
    if not ids:
        return
    rows = list(Attachment.objects.filter(owner_id=thread.owner_id, public_id__in=ids))
    if len(rows) < len(ids):
        raise Unattached(gettext("One of the files is not here any more. Remove it and attach it again."))
    thread.attachments.add(*rows)


def of_thread(thread: Thread) -> dict[str, Attachment]:
    return {row.public_id: row for row in thread.attachments.all()}
