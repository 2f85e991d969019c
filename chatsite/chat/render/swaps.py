"""The elements in which HTML comes to the page, and what they do there.

Applying one twice changes nothing the second time. htmx itself knows `<hx-partial>` and `<title>`; the page's own
script (`static/chat/chat.js`) knows

    <hx-up to=ID>elements</hx-up>         each element replaces the one of its id, or goes to the end of ID
    <hx-set to=ID k=3 f=40 v=52>..        block 3 of the text ID becomes this; `c` is how many blocks stay
    <hx-add to=ID k=3 d=2 f=40 v=52>..    goes to the end of block 3, inside its last element, two deep

`f` is the version of the text this is made for, `v` the one it makes (`x`: final). A version is the length of
the text's source, so a page that was loaded in the middle continues from there. Made by `growing.py`.
"""

from __future__ import annotations

import base64
from functools import lru_cache
from hashlib import blake2b

from django.utils.translation import gettext as _

from chatsite.chat.render import words
from chatsite.chat.render.escaping import escape
from chatsite.chat.state import ThreadState


@lru_cache(maxsize=8192)
def thread_mark(thread_id: str) -> str:
    """The id of the thread's name in the list. A program's threadId may hold what no selector can."""
    return short_id("t", thread_id)


def message_mark(message_id: str) -> str:
    """The id of a message's element, by which a link opens a page at it."""
    return short_id("m", message_id)


def short_id(kind: str, id: str) -> str:
    """An element's id for a row's: short, since it stands in every fragment, and good as a CSS name."""
    return kind + base64.urlsafe_b64encode(blake2b(id.encode(), digest_size=6).digest()).decode()


def up(target: str, html: str) -> str:
    return f"<hx-up to={target}>{html}</hx-up>"


def replace_shown(html: str) -> str:
    """Elements that the page has already."""
    return f"<hx-up>{html}</hx-up>"


def live(state: ThreadState) -> str:
    """What Send and Stop look at: whether a run is active, and which."""
    return replace_shown(live_html(state))


def live_html(state: ThreadState) -> str:
    run = state.active_run
    if run is None:
        return "<i id=live hidden></i>"
    # Stop says which run it means: one that comes late then stops no other.
    meant = f'<input type=hidden name=run form=stop-form value="{escape(run.id)}">'
    return f"<i id=live hidden class=on>{meant}</i>"


def status(text: str) -> str:
    return f'<hx-partial hx-target="#status" hx-swap="textContent">{escape(text)}</hx-partial>'


def title_html(state: ThreadState) -> str:
    title = escape(words.plain(state.title) or _("New thread"))
    places = f"#title,#{thread_mark(state.thread_id)}"
    return (
        f'<title>{title}</title><hx-partial hx-target="{places}" hx-swap="textContent">{title}</hx-partial>'
    )


def gone(id: str) -> str:
    return f'<hx-partial hx-target="#{id}" hx-swap="delete"></hx-partial>'
