"""Who may: the one place where that is decided for the chat, whatever the door. Two questions, one function each:

    who is it?        `Credential.user`    a session's person, or that of a key with the scope `chat`; active, or nobody
    is it theirs?     `thread_for`         all else hangs on a thread: its runs, files, questions, links, streams

Doors (page, `/api/chat`, streams, files, WebSocket) make a Credential of what they are brought and ask these; an open
stream or socket asks again (`may_still_read`). What is another's does not exist: `NotFound`, so that ids cannot be
guessed by their answers. How much of models, tools and limits is theirs says `allowance`; the admin's pages have
Django's permissions, the gateway `chatsite.gateway.auth`. `tests/site/test_matrix.py` asks every door by every caller.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from importlib import import_module
from types import SimpleNamespace
from typing import Any

from django.conf import settings
from django.contrib.auth import get_user

from chatsite.accounts import failed_keys, keys
from chatsite.accounts.models import CHAT
from chatsite.chat.models import Thread
from chatsite.chat.problems import KeyOutOfScope, TooManyKeys

# In SQL, as every request asks it, and each open stream every few seconds.
THREAD_OF = "SELECT * FROM chat_thread WHERE public_id = %s AND owner_id = %s AND deleted_at IS NULL"


class NotFound(Exception):
    """There is no such thing for this user."""


def thread_for(user: Any, public_id: str) -> Thread:
    """The user's thread of that id. `NotFound` when there is none, or it is somebody else's."""
    if not getattr(user, "is_active", False):
        raise NotFound(public_id)
    found = Thread.objects.raw(THREAD_OF, [public_id, user.pk]) if sane_thread_id(public_id) else ()
    for thread in found:
        return thread
    raise NotFound(public_id)


def sane_id(value: str) -> bool:
    """Short, printable, no blanks at its ends: what an id from outside has to be."""
    return 0 < len(value) <= 200 and value.isprintable() and value == value.strip()


def sane_thread_id(value: str) -> bool:
    """An id that can stand in an address as one step of its path."""
    return sane_id(value) and not ({"/", "\\"} & set(value)) and value not in {".", ".."}


def user_of_key(key: str) -> Any | None:
    """The active user the key belongs to, None when it opens nothing. `KeyOutOfScope` when it opens other doors."""
    found = keys.user_and_view(key)
    if found is None:
        return None
    user, view = found
    if not view.has(CHAT):
        raise KeyOutOfScope
    user.came_by = view  # it may narrow what its user may use (`allowance`)
    return user


@dataclass(frozen=True, slots=True)
class Credential:
    """How somebody came in: by a key, or by a session. Kept with an open stream, so that it can be asked again."""

    key: str | None = field(default=None, repr=False)
    session_key: str | None = field(default=None, repr=False)

    def user(self) -> Any | None:
        """Whose it is now; None when it is nobody's any more (revoked, expired, logged out, deactivated)."""
        if self.key is not None:
            return user_of_key(self.key)
        if self.session_key is None:
            return None
        asker = SimpleNamespace(session=import_module(settings.SESSION_ENGINE).SessionStore(self.session_key))
        user = get_user(asker)  # it looks at the session alone
        return user if user.is_authenticated and user.is_active else None


def entering(credential: Credential, address: str) -> Any | None:
    """`credential.user()`, at a door: an address that brings one wrong key after another waits (`TooManyKeys`)."""
    if credential.key is None:
        return credential.user()
    if seconds := failed_keys.wait(address):
        raise TooManyKeys(seconds)
    user = credential.user()
    if user is None:
        failed_keys.failed(address)
    return user


def may_still_read(credential: Credential, thread_id: str) -> bool:
    """Whether who opened a stream of this thread may go on reading it."""
    try:
        thread_for(credential.user(), thread_id)
    except (NotFound, KeyOutOfScope):
        return False
    return True
