"""What a file is: by its content, never by its name. Pure.

    type_of(content)       -> the type it is kept and sent under; raises Untaken with a sentence for people
    safe_name(name)        -> a name that can be shown, sent and saved anywhere
    as_text(name, content) -> what a model reads of a text file

Text is whatever is UTF-8 (or says by its mark that it is UTF-16) without control characters. So SVG, HTML and scripts
are text: nothing a browser would run is ever kept or served under a type that it runs.
"""

from __future__ import annotations

import codecs
import unicodedata
from pathlib import PurePosixPath

from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from agent.text import storable

TEXT = "text/plain"
PDF = "application/pdf"
IMAGES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
AUDIO = frozenset({"audio/wav", "audio/mpeg"})
TAKEN = _("PNG, JPEG, GIF and WebP images, PDF, text and code, WAV and MP3")

LONGEST_NAME = 120

MAGIC: tuple[tuple[bytes, str], ...] = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
    (b"%PDF-", PDF),
    (b"ID3", "audio/mpeg"),
    (b"\xff\xfb", "audio/mpeg"),
    (b"\xff\xf3", "audio/mpeg"),
)
RIFF = {b"WEBP": "image/webp", b"WAVE": "audio/wav"}

KNOWN: tuple[tuple[int, bytes, str], ...] = (
    (0, b"PK\x03\x04", _("a ZIP archive (Word, Excel and PowerPoint files are such too)")),
    (0, b"PK\x05\x06", _("an empty ZIP archive")),
    (0, b"\x1f\x8b", _("a gzip archive")),
    (0, b"7z\xbc\xaf\x27\x1c", _("a 7-Zip archive")),
    (0, b"Rar!", _("a RAR archive")),
    (0, b"MZ", _("a program for Windows")),
    (0, b"\x7fELF", _("a program for Linux")),
    (0, b"\xd0\xcf\x11\xe0", _("an old Office file")),
    (0, b"II*\x00", _("a TIFF image")),
    (0, b"MM\x00*", _("a TIFF image")),
    (0, b"BM", _("a BMP image")),
    (0, b"OggS", _("an Ogg file")),
    (0, b"\x1aE\xdf\xa3", _("a Matroska or WebM video")),
    (4, b"ftypheic", _("a HEIC image")),
    (4, b"ftypavif", _("an AVIF image")),
    (4, b"ftyp", _("an MP4 or QuickTime file")),
)
"""What people try, so that they are told what they have in hand."""

_MARKS = ((codecs.BOM_UTF8, "utf-8-sig"), (codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16"))
_CONTROLS = frozenset(map(chr, range(32))) - set("\t\n\r\f\x1b") | {"\x7f"}

LANGUAGES = {
    "htm": "html", "js": "javascript", "md": "markdown", "py": "python", "rb": "ruby", "rs": "rust",
    "sh": "bash", "svg": "xml", "ts": "typescript", "txt": "", "yml": "yaml",
}  # fmt: skip
"""Fence labels that are not the file's ending."""


class Untaken(ValueError):
    """A sentence: what the file is, and what is taken."""


def type_of(content: bytes) -> str:
    if not content:
        raise Untaken(gettext("The file is empty."))
    for magic, kind in MAGIC:
        if content.startswith(magic):
            return kind
    if content.startswith(b"RIFF") and content[8:12] in RIFF:
        return RIFF[content[8:12]]
    if read_text(content) is not None:
        return TEXT
    for offset, magic, words in KNOWN:
        if content.startswith(magic, offset):
            said = gettext("The file is %(kind)s. What is taken: %(kinds)s.")
            raise Untaken(said % {"kind": words, "kinds": TAKEN})
    said = gettext("The file is of no kind that is taken: %(kinds)s. Text must be UTF-8.")
    raise Untaken(said % {"kinds": TAKEN})


def read_text(content: bytes) -> str | None:
    """The text that these bytes are; None when they are none."""
    encoding = next((name for mark, name in _MARKS if content.startswith(mark)), "utf-8")
    try:
        text = content.decode(encoding)
    except UnicodeDecodeError:
        return None
    return None if _CONTROLS.intersection(text) else text


def safe_name(name: str, kind: str = TEXT) -> str:
    """The last step of whatever path it is, without what hides, turns round or breaks a line."""
    last = storable(name).replace("\\", "/").rsplit("/", 1)[-1]
    visible = "".join(letter for letter in unicodedata.normalize("NFC", last) if _is_seen(letter))
    # No dot in front: it would hide the file where it is saved; none behind: Windows takes it off.
    line = " ".join(visible.split()).strip(". ")
    if not line:
        return f"file.{_ending(kind)}"
    if len(line) <= LONGEST_NAME:
        return line
    ending = PurePosixPath(line).suffix[:16]
    return line[: LONGEST_NAME - 1 - len(ending)].rstrip() + "…" + ending


def _is_seen(letter: str) -> bool:
    """Cf holds the marks that turn text round, and the invisible ones; Cc what a terminal would carry out."""
    return letter.isspace() or (unicodedata.category(letter)[0] != "C" and letter not in '\ufffd"<>|*?:')


def _ending(kind: str) -> str:
    return {TEXT: "txt", "image/jpeg": "jpg", "audio/mpeg": "mp3"}.get(kind, kind.rsplit("/", 1)[-1])


def as_text(name: str, content: bytes) -> str:
    """A fenced block under the file's name. The fence is longer than any in the text, so nothing in it ends it."""
    text = read_text(content) or content.decode("utf-8", "replace")
    fence = "`" * max(3, 1 + _longest_run(text, "`"))
    return f"{name}:\n\n{fence}{_language(name)}\n{text}\n{fence}"


def _language(name: str) -> str:
    ending = PurePosixPath(name).suffix[1:].lower()
    label = LANGUAGES.get(ending, ending)
    return label if label.isascii() and label.isalnum() and len(label) <= 16 else ""


def _longest_run(text: str, letter: str) -> int:
    longest = 0
    while letter * (longest + 1) in text:
        longest += 1
    return longest
