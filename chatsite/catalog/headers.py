"""Further headers of endpoints: which there may be, and which of them are a secret.

    framing, hop by hop     refused: how a request is written on its connection is for who writes it
    looks like a key        sealed where it is kept, and never shown again
    the rest                kept and shown as it is

Their names are kept in small letters: HTTP knows no others, and one of ours must replace its like of the dialect.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from django.core.exceptions import ValidationError
from django.utils.translation import gettext as _

MOST = 20
LONGEST = 4096
"""Characters of a value; most servers read 8 KB of headers in all."""
NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,100}")
FRAMING = frozenset(
    (
        "host", "content-length", "content-type", "content-encoding", "transfer-encoding", "accept-encoding",
        "connection", "keep-alive", "proxy-connection", "proxy-authenticate", "proxy-authorization", "te", "trailer",
        "trailers", "upgrade", "expect", "http2-settings",
    )
)  # fmt: skip
SECRET = re.compile(r"authorization|cookie|token|secret|passw|credential|signature|auth$|key$", re.IGNORECASE)


def is_name(text: str) -> bool:
    return bool(NAME.fullmatch(text))


def is_value(text: object) -> bool:
    return isinstance(text, str) and text.isascii() and text.isprintable() and len(text) <= LONGEST


def is_framing(name: str) -> bool:
    return name.lower() in FRAMING


def is_secret(name: str) -> bool:
    """Whether what stands under this name is taken for a key. One too many costs no more than a look at it."""
    return bool(SECRET.search(name))


def check_names(names: Iterable[str]) -> None:
    """Raises ValidationError in words."""
    names = list(names)
    if len(names) > MOST:
        raise ValidationError(_("Write at most %(most)s headers.") % {"most": MOST})
    for name in names:
        if not is_name(name):
            raise ValidationError(_("“%(name)s” is no header's name.") % {"name": name[:50]})
        if is_framing(name):
            raise ValidationError(
                _("“%(name)s” says how a request is sent, which is decided here. Leave it out.")
                % {"name": name}
            )


def check_value(name: str, text: object) -> None:
    """Raises ValidationError in words."""
    if not is_value(text):
        raise ValidationError(_("The value of “%(name)s” must be ASCII text of one line.") % {"name": name})


def check_plain(value: object) -> None:
    """What is kept unsealed, as {name: value}. Raises ValidationError in words."""
    if not isinstance(value, dict):
        raise ValidationError(_("Write a line for each header, as name: value."))
    check_names(value)
    for name, text in value.items():
        check_value(name, text)
        if is_secret(name):
            raise ValidationError(_("“%(name)s” would hold a key, and is kept sealed.") % {"name": name})
