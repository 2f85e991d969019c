"""Whatever keeps a checker quiet, or catches everything, says why where it stands."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from tests.site.processes import ROOT
from tests.site.test_architecture import modules, parsed

SILENCED = re.compile(
    r"# (?:noqa:?[A-Z0-9, ]*|type: ignore(?:\[[\w,-]*\])?|pragma: no cover)(?P<reason>[^\n]*)"
)
CATCHES_ALL = re.compile(r"except(?::| .*\b(?:Base)?Exception\b)")
BROAD = {"Exception", "BaseException"}


def sources() -> Iterator[tuple[Path, str]]:
    for path in (*modules("agent"), *modules("chatsite"), *modules("bench"), ROOT / "manage.py"):
        yield path, path.read_text()


def test_whatever_keeps_a_checker_quiet_says_why():
    silent = [
        f"{path}: {found[0]}"
        for path, text in sources()
        for found in SILENCED.finditer(text)
        if not re.match(r" *[-#] \S", found["reason"])
    ]
    assert not silent


def test_whatever_catches_everything_says_why_or_raises_it_again():
    silent = [
        f"{path}:{handler.lineno}"
        for path, text in sources()
        if CATCHES_ALL.search(text)
        for handler in ast.walk(parsed(path))
        if isinstance(handler, ast.ExceptHandler) and _is_broad(handler) and not _says_why(handler, text)
    ]
    assert not silent


def _is_broad(handler: ast.ExceptHandler) -> bool:
    caught = handler.type
    each = caught.elts if isinstance(caught, ast.Tuple) else [caught]
    return any(one is None or (isinstance(one, ast.Name) and one.id in BROAD) for one in each)


def _says_why(handler: ast.ExceptHandler, text: str) -> bool:
    """A comment within it or right above; what raises at its end has only tidied up."""
    lines = text.splitlines()[handler.lineno - 2 : handler.end_lineno]
    return isinstance(handler.body[-1], ast.Raise) or any("# " in line for line in lines)
