"""Text that everybody can hold.

Models, tools and programs send two kinds of text that some reader or database refuses:

    half of a surrogate pair    has no UTF-8             becomes U+FFFD (two halves that meet become one)
    NUL                         PostgreSQL has no NUL    becomes U+FFFD

It is mended where it comes in, before it is told, so that what is shown, kept and read next is the same.
"""

from __future__ import annotations

REPLACEMENT = "\ufffd"


def whole(text: str) -> str:
    """The same text with nothing in it that UTF-8 cannot hold."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def storable(text: str) -> str:
    """The same text with nothing in it that a database cannot hold."""
    text = whole(text)
    return text.replace("\x00", REPLACEMENT) if "\x00" in text else text
