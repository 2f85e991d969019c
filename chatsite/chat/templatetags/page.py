"""What the page's templates need besides the view's context."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from django import template
from django.utils import timezone
from django.utils.safestring import SafeString, mark_safe
from django.utils.translation import gettext as _

from chatsite.chat.conf import setting
from chatsite.chat.files import disk
from chatsite.chat.render import fragments, words
from chatsite.chat.render.swaps import message_mark, thread_mark
from chatsite.chat.state import ThreadState

register = template.Library()


@register.simple_tag
def client_id() -> str:
    """The id of the next message, so that a double click sends one."""
    return str(uuid.uuid4())


@register.simple_tag
def max_chars() -> int:
    return int(setting("CHAT_MESSAGE_MAX_CHARS"))


@register.simple_tag
def page_words() -> dict[str, str]:
    """The sentences of chat.js."""
    return {name: str(text) for name, text in words.PAGE_WORDS.items()}


@register.simple_tag
def upload_limits() -> dict[str, Any]:
    """What the message box has to know of files: bytes of one, how many, and the sentences of files.js."""
    return {
        "max": disk.most_bytes(),
        "most": int(setting("ATTACHMENTS_PER_MESSAGE")),
        "words": {name: str(text) for name, text in words.UPLOAD_WORDS.items()},
    }


@register.simple_tag
def live(state: ThreadState) -> SafeString:
    """The mark that says whether a run is active; the stream replaces it."""
    return mark_safe(fragments.live_html(state))  # noqa: S308 - holds no text


@register.simple_tag
def standing(state: ThreadState) -> SafeString:
    """What a message would do to open questions, and the standing rules; the stream replaces it."""
    return mark_safe(fragments.standing_html(state))  # noqa: S308 - every text in it is escaped


@register.filter
def mark_of(thread_id: str) -> str:
    """The id of a thread's name in the list, by which the stream finds it."""
    return thread_mark(thread_id)


@register.filter
def place_of(message_id: str) -> str:
    """The id of a message's element."""
    return message_mark(message_id)


@register.filter
def by_age(threads: Iterable[Mapping[str, Any]]) -> Iterator[tuple[str, list[Mapping[str, Any]]]]:
    """The threads, newest first, under Pinned, Today, This week, Older; no empty group."""
    now = timezone.localtime()
    pinned, today, week, older = _("Pinned"), _("Today"), _("This week"), _("Older")
    groups: dict[str, list[Mapping[str, Any]]] = {pinned: [], today: [], week: [], older: []}
    for thread in threads:
        days = (now.date() - timezone.localtime(thread["updated_at"]).date()).days
        age = today if days < 1 else week if days < 7 else older
        groups[pinned if thread.get("pinned") else age].append(thread)
    return ((name, group) for name, group in groups.items() if group)
