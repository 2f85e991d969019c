"""The catalogs of words: what is marked in the source and the templates, and what other languages say for it.

    python -m chatsite.catalogs             brings locale/*/LC_MESSAGES/django.po up to date, and makes the .mo of it
    python -m chatsite.catalogs --check     says what is missing, and fails then

Rule 1: a .po is made of the source: a sentence that is not marked any more leaves it, a new one comes in empty.
Rule 2: a sentence and its translation have the same placeholders; without that neither is said.
Rule 3: no other tool is needed: GNU gettext is on few machines, and Django reads what is made here.

    marks of Python      gettext, ngettext, pgettext, npgettext and their lazy forms, under any name;
                         around a name they look up what is marked elsewhere
    models               what they, their fields and choices are called needs no mark (`labels`)
    marks of templates   {% translate %}, {% blocktranslate %}, _("...") as an argument
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from django.utils.translation.template import templatize

from chatsite import labels
from chatsite.pofile import Entry, Key, compiled, parsed, written

ROOT = Path(__file__).resolve().parent.parent
LOCALE = ROOT / "locale"

MARKS = {
    "gettext": ("id",),
    "ngettext": ("id", "plural"),
    "pgettext": ("context", "id"),
    "npgettext": ("context", "id", "plural"),
}
"""What the first arguments of each are. Their `_lazy` and `_noop` forms take the same."""

Found = Iterator[tuple[Key, str]]
"""A sentence and its plural form ("" when it has none)."""


class Unmarkable(Exception):
    """A mark around something that is no plain text, so that nobody can find it."""


# -- what is marked ------------------------------------------------------------------------------------------


def collected(root: Path = ROOT) -> dict[Key, Entry]:
    """Everything that is marked, in the order of the files."""
    entries: dict[Key, Entry] = {}
    for path in sources(root):
        place = path.relative_to(root).as_posix()
        look = in_python if path.suffix == ".py" else in_template
        for key, plural in look(path.read_text(encoding="utf-8"), place):
            known = entries.setdefault(key, Entry(key, plural))
            known.plural = known.plural or plural
            if place not in known.places:
                known.places.append(place)
    return entries


def sources(root: Path) -> Iterator[Path]:
    yield from sorted((root / "chatsite").rglob("*.py"))
    for folder in ("templates", *sorted(root.glob("chatsite/*/templates"))):
        yield from sorted(path for path in (root / folder).rglob("*") if path.suffix in {".html", ".txt"})


def in_python(source: str, place: str = "") -> Found:
    if Path(place).name == "models.py" or Path(place).parent.name == "models":
        yield from ((Key("", text), "") for text in labels.in_models(source))
    tree = ast.parse(source)
    names = {
        alias.asname or alias.name: re.sub("_(lazy|noop)$", "", alias.name)
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module == "django.utils.translation"
        for alias in node.names
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            wanted = MARKS.get(names.get(node.func.id, ""))
            if wanted and not isinstance(node.args[0], ast.Name | ast.Attribute | ast.Subscript):
                yield _of_call(node, wanted, place)


def _of_call(node: ast.Call, wanted: tuple[str, ...], place: str) -> tuple[Key, str]:
    texts = [arg.value for arg in node.args[: len(wanted)] if isinstance(arg, ast.Constant)]
    if len(texts) < len(wanted) or not all(isinstance(text, str) for text in texts):
        raise Unmarkable(f"{place}:{node.lineno}: write the marked text itself, without f and without a sum.")
    said = dict(zip(wanted, map(str, texts), strict=True))
    return Key(said.get("context", ""), said["id"]), said.get("plural", "")


_CALL = re.compile(r"(?<![\w.])(n?p?gettext|_)\(")
_TEXT = re.compile(r"""\s*u?('(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")\s*,?""", re.DOTALL)


def in_template(source: str, place: str = "") -> Found:
    """Django turns a template into calls, with everything else blanked out; here these are read."""
    calls = templatize(source, origin=place)
    for match in _CALL.finditer(calls):
        wanted = MARKS.get(match[1], ("id",))
        said, at = {}, match.end()
        for name in wanted:
            text = _TEXT.match(calls, at)
            if text is None:
                break
            said[name], at = ast.literal_eval(text[1]), text.end()
        if len(said) == len(wanted):
            yield Key(said.get("context", ""), said["id"]), said.get("plural", "")


# -- what is wrong with a catalog ----------------------------------------------------------------------------

_PLACEHOLDER = re.compile(r"%\([^)]*\)[a-z]|%[sd]|\{[a-z_]*\}")


def faults(entries: Iterable[Entry]) -> Iterator[str]:
    """What a reader of this language would miss, a line each."""
    for entry in entries:
        if entry.fuzzy:
            yield f"unsure: {entry.key.id!r}"
        elif not entry.is_translated:
            yield f"not translated: {entry.key.id!r} ({', '.join(entry.places)})"
        else:
            yield from _unlike(entry)


def _unlike(entry: Entry) -> Iterator[str]:
    """The plural may leave its number out of a form for one ("one question"), and nothing else."""
    meant = placeholders(entry.plural or entry.key.id)
    for place, form in enumerate(entry.forms):
        said = placeholders(form)
        fits = said == meant or (bool(entry.plural) and place == 0 and said <= meant)
        if not fits:
            yield f"placeholders differ: {entry.key.id!r} -> {form!r}"


def placeholders(text: str) -> set[str]:
    return set(_PLACEHOLDER.findall(text.replace("%%", "")))


# -- the command ---------------------------------------------------------------------------------------------


def brought_up(path: Path, source: dict[Key, Entry]) -> list[Entry]:
    """The catalog's entries as the source has them now, with the translations that are there."""
    known = {entry.key: entry for entry in parsed(path.read_text(encoding="utf-8"))}
    return [entry.with_forms_of(known.get(key)) for key, entry in source.items()]


def problems(root: Path = ROOT) -> list[str]:
    """What `--check` says of all languages."""
    source, said = collected(root), []
    for path in sorted((root / "locale").glob("*/LC_MESSAGES/django.po")):
        language, entries = path.parent.parent.name, brought_up(path, source)
        said += [f"{language}: {fault}" for fault in faults(entries)]
        if path.read_text(encoding="utf-8") != written(language, entries):
            said.append(
                f"{language}: {path.name} is not what the source says; run python -m chatsite.catalogs"
            )
        made = path.with_suffix(".mo")
        if not made.exists() or made.read_bytes() != compiled(language, entries):
            said.append(
                f"{language}: {made.name} is not of this {path.name}; run python -m chatsite.catalogs"
            )
    return said


def bring_up(root: Path = ROOT) -> list[str]:
    source, said = collected(root), []
    for path in sorted((root / "locale").glob("*/LC_MESSAGES/django.po")):
        language, entries = path.parent.parent.name, brought_up(path, source)
        path.write_text(written(language, entries), encoding="utf-8")
        path.with_suffix(".mo").write_bytes(compiled(language, entries))
        said += [f"{language}: {fault}" for fault in faults(entries)]
    return said


def main(arguments: list[str]) -> int:
    check = "--check" in arguments
    said = problems() if check else bring_up()
    print("\n".join(said or ["Every marked sentence is translated."]))
    return 1 if check and said else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
