"""What people do with threads as a whole: name, pin, put away, throw away and back, share. One transaction each, which
the caller holds.

A thread that was thrown away is nobody's (`access.thread_for`) until it is taken back; `upkeep` removes it for good
`KEPT_DELETED` later. Its links end at once.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.db import transaction
from django.db.models import Q
from django.utils import timezone
from django.utils.translation import gettext

from agent.text import storable
from chatsite.audit import log
from chatsite.care import holds
from chatsite.chat import store
from chatsite.chat.actions.starting import TITLE_LENGTH
from chatsite.chat.models import Message, Run, RunEvent, Share, Thread, ToolCall, Turn
from chatsite.chat.problems import Invalid, Missing
from chatsite.phrases import number

KEPT_DELETED = timedelta(days=30)
ROWS_A_STEP = 500
LONGEST_SHARE = 3650
"""Days."""
MOST_SHARES = 100


def organize(
    *,
    thread: Thread,
    title: str | None = None,
    pinned: bool | None = None,
    archived: bool | None = None,
    deleted: bool = False,
) -> Thread:
    """Change what is given. A title in a person's words is not written over by a model's."""
    # As it is now, and held: a pin must not put back the name, or take back the deletion, of a moment ago.
    thread, now = Thread.objects.select_for_update().get(pk=thread.pk), timezone.now()
    if title is not None:
        title = " ".join(title.split())
        if not title:
            raise Invalid(gettext("A thread needs a name. Write one, or leave it as it is."))
        if len(title) > 200:
            raise Invalid(gettext("A name has at most 200 characters. Shorten it."))
        thread.title, thread.titled = title, Thread.Titled.PERSON
    if pinned is not None:
        thread.pinned_at = now if pinned else None
    if archived is not None:
        thread.archived_at = now if archived else None
        thread.pinned_at = None if archived else thread.pinned_at
    if deleted:
        thread.deleted_at = now
        Run.objects.filter(thread=thread, state__in=Run.ACTIVE).update(stop_requested=True)
    thread.save(update_fields=["title", "titled", "pinned_at", "archived_at", "deleted_at"])
    return thread


def restore(owner: Any, public_id: str) -> Thread:
    """Take a thread back that its owner threw away. Raises Missing when there is none such (any more)."""
    # Behind that time it may be half removed already.
    since = timezone.now() - KEPT_DELETED
    thread = Thread.objects.filter(public_id=public_id, owner=owner, deleted_at__gt=since).first()
    if thread is None:
        raise Missing
    thread.deleted_at = None
    thread.save(update_fields=["deleted_at"])
    return thread


def name_by_model(thread_pk: int, title: str) -> bool:
    """Put a model's words in the place of the first line of what was asked. False when a person named it meanwhile."""
    line = title_line(title)
    named = Thread.objects.filter(pk=thread_pk, titled=Thread.Titled.TEXT, deleted_at=None)
    return bool(line and named.update(title=line, titled=Thread.Titled.MODEL))


def title_line(text: str) -> str:
    """What a model said, as the name of a thread."""
    return " ".join(storable(text).split()).strip("\"'`*#.:\u201c\u201d\u201e ")[:TITLE_LENGTH]


def throw_away_for_good(*, thread: Thread, reason: str, actor: Any) -> None:
    """As an administrator does: nobody takes it back, and `remove_deleted` removes it with the next look.

    Raises Refused while somebody holds it.
    """
    with transaction.atomic():
        if not holds.free(Thread.objects.filter(pk=thread.pk), "owner", "public_id").exists():
            raise holds.Refused(gettext("Somebody holds it: lift the hold first."))
        organize(thread=thread, deleted=True)
        long_ago = timezone.now() - KEPT_DELETED - timedelta(seconds=1)
        Thread.objects.filter(pk=thread.pk).update(deleted_at=long_ago)
        subject = f"user {thread.owner}, thread {thread.public_id}"
        log.record("thread.erased", actor=actor, subject=subject, reason=reason, door="admin")


def remove_deleted() -> bool:
    """Remove a piece of a thread that was thrown away long ago, at last itself. False when there is none."""
    due = Thread.objects.filter(deleted_at__lt=timezone.now() - KEPT_DELETED)
    thread = holds.free(due, "owner", "public_id").order_by("deleted_at").first()
    if thread is None:
        return False
    for rows in (
        RunEvent.objects.filter(run__thread=thread),
        Turn.objects.filter(run__thread=thread),
        ToolCall.objects.filter(run__thread=thread),
        # The newest first: what stands behind a message would have to be told that it is gone.
        Message.objects.filter(thread=thread).order_by("-pk"),
    ):
        pks = list(rows.values_list("pk", flat=True)[:ROWS_A_STEP])
        rows.model.objects.filter(pk__in=pks).delete()
        if len(pks) == ROWS_A_STEP:
            return True  # there may be more of them
    thread.delete()
    return True


# -- links ---------------------------------------------------------------------------------------------------


def share(*, thread: Thread, by: Any, live: bool = False, days: int | None = None) -> Share:
    """A link to the branch as it is now, or (`live`) as it will be whenever somebody looks. `days` until it ends."""
    if days is not None and not 1 <= days <= LONGEST_SHARE:
        words = gettext("A link lasts 1 to %(most)s days, or until you take it back.")
        raise Invalid(words % {"most": number(LONGEST_SHARE)})
    if shares_of(thread).count() >= MOST_SHARES:
        raise Invalid(gettext("This thread has as many links as it may have. Take one back first."))
    if thread.head_id is None:
        raise Invalid(gettext("There is nothing to share here yet."))
    return Share.objects.create(
        thread=thread,
        head_id=None if live else thread.head_id,
        created_by=by,
        expires_at=timezone.now() + timedelta(days=days) if days is not None else None,
    )


def unshare(*, thread: Thread, token: str) -> bool:
    """From now on the link leads nowhere. False when it did already."""
    return bool(shares_of(thread).filter(token=token).update(revoked_at=timezone.now()))


def shares_of(thread: Thread) -> Any:
    """The links that lead to it now."""
    return _open_shares().filter(thread=thread).order_by("-created_at")


def shared(token: str) -> tuple[Share, Any] | None:
    """The link and the state it shows; None when it leads nowhere: unknown, taken back, over, what it shows or its
    owner's account gone."""
    found = (
        _open_shares()
        .select_related("thread", "head")
        .filter(token=token, thread__deleted_at=None, thread__owner__is_active=True)
        .first()
    )
    if found is None:
        return None
    thread = found.thread
    if found.head_id is not None:
        if found.head.deleted_at is not None:
            return None
        thread.head_id = found.head_id
    state = store.load_state(thread)
    return found, store.as_read_by_others(state, live=found.head_id is None)


def _open_shares() -> Any:
    return Share.objects.filter(revoked_at=None).filter(Q(expires_at=None) | Q(expires_at__gt=timezone.now()))
