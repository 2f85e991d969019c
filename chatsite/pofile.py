"""The two forms of a catalog: .po, which people write, and .mo, which gettext reads.

Of .po only what `catalogs` writes is read: comments, `msgctxt`, `msgid`, `msgid_plural`, `msgstr`, the flag `fuzzy`.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import NamedTuple

PLURAL_FORMS = {"de": "nplurals=2; plural=(n != 1);"}
"""As Django's own catalogs have them: gettext takes two with other rules for two languages."""

MAGIC = 0x950412DE


class Key(NamedTuple):
    context: str
    id: str


@dataclass
class Entry:
    key: Key
    plural: str = ""
    forms: tuple[str, ...] = ()
    """The translation: one form, or one for each plural."""
    places: list[str] = field(default_factory=list)
    fuzzy: bool = False

    @property
    def is_translated(self) -> bool:
        return bool(self.forms) and all(self.forms) and len(self.forms) == (2 if self.plural else 1)

    def with_forms_of(self, known: Entry | None) -> Entry:
        if known is None or bool(known.plural) != bool(self.plural):
            return self
        return replace(self, forms=known.forms, fuzzy=known.fuzzy)


def _header(language: str) -> str:
    fields = {
        "Language": language,
        "MIME-Version": "1.0",
        "Content-Type": "text/plain; charset=UTF-8",
        "Content-Transfer-Encoding": "8bit",
        "Plural-Forms": PLURAL_FORMS[language],
    }
    return "".join(f"{name}: {value}\n" for name, value in fields.items())


# -- .po -----------------------------------------------------------------------------------------------------


def written(language: str, entries: Iterable[Entry]) -> str:
    head = f'msgid ""\nmsgstr {_quoted(_header(language))}\n'
    return "\n".join([head, *map(_block, entries)])


def _block(entry: Entry) -> str:
    lines = [f"#: {place}" for place in entry.places]
    lines += ["#, fuzzy"] if entry.fuzzy else []
    lines += [f"msgctxt {_quoted(entry.key.context)}"] if entry.key.context else []
    lines.append(f"msgid {_quoted(entry.key.id)}")
    if entry.plural:
        lines.append(f"msgid_plural {_quoted(entry.plural)}")
        forms = entry.forms or ("", "")
        lines += [f"msgstr[{place}] {_quoted(form)}" for place, form in enumerate(forms)]
    else:
        lines.append(f"msgstr {_quoted(entry.forms[0] if entry.forms else '')}")
    return "\n".join(lines) + "\n"


_ESCAPES = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\t": "\\t", "\r": "\\r"}
_UNESCAPES = {escape: sign for sign, escape in _ESCAPES.items()}


def _quoted(text: str) -> str:
    """One line for each line of the text."""
    lines = text.splitlines(keepends=True)
    quoted = ['"' + "".join(_ESCAPES.get(sign, sign) for sign in line) + '"' for line in lines]
    return quoted[0] if len(quoted) == 1 else "\n".join(['""', *quoted])


def _unquoted(text: str) -> str:
    return re.sub(r"\\.", lambda match: _UNESCAPES[match[0]], text[1:-1])


def parsed(text: str) -> Iterator[Entry]:
    """The entries of a .po, without its header."""
    for block in re.split(r"\n\s*\n", text):
        fields, flags, places = _fields(block)
        if not fields.get("msgid"):
            continue
        forms = tuple(value for name, value in fields.items() if name.startswith("msgstr") and value)
        key = Key(fields.get("msgctxt", ""), fields["msgid"])
        yield Entry(key, fields.get("msgid_plural", ""), forms, places, "fuzzy" in flags)


def _fields(block: str) -> tuple[dict[str, str], str, list[str]]:
    fields: dict[str, str] = {}
    flags, places, name = "", [], ""
    for line in block.splitlines():
        if line.startswith("#: "):
            places.append(line[3:])
        elif line.startswith("#,"):
            flags += line
        elif line.startswith('"'):
            fields[name] += _unquoted(line)
        elif line.startswith("msg"):
            name, _, quoted = line.partition(" ")
            fields[name] = _unquoted(quoted)
    return fields, flags, places


# -- .mo -----------------------------------------------------------------------------------------------------


def compiled(language: str, entries: Iterable[Entry]) -> bytes:
    """What is translated, and sure, as gettext reads it: two tables of (length, place), sorted by what is asked for."""
    texts = {b"": _header(language).encode()}
    for entry in entries:
        if entry.is_translated and not entry.fuzzy:
            asked = f"{entry.key.context}\x04{entry.key.id}" if entry.key.context else entry.key.id
            asked += f"\0{entry.plural}" if entry.plural else ""
            texts[asked.encode()] = "\0".join(entry.forms).encode()
    pairs = sorted(texts.items())
    count, tables = len(pairs), 28
    at = tables + count * 16
    rows, body = [], b""
    for text in [asked for asked, _ in pairs] + [said for _, said in pairs]:
        rows.append(struct.pack("<II", len(text), at + len(body)))
        body += text + b"\0"
    head = struct.pack("<7I", MAGIC, 0, count, tables, tables + count * 8, 0, 0)
    return head + b"".join(rows) + body
