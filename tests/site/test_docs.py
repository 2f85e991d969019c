"""What the documents say of each other and of the settings: every link leads somewhere, every setting has its row."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.site.processes import ROOT

DOCUMENTS = [
    *(ROOT / name for name in ("README.md", "CHANGELOG.md", "SECURITY.md", "bench/README.md")),
    *sorted((ROOT / "docs").glob("*.md")),
    *sorted((ROOT / "deploy").glob("*.md")),
]
FENCE = re.compile(r"^( *)```.*?^\1```$", flags=re.DOTALL | re.MULTILINE)
LINK = re.compile(r"\]\(([^()\s]+)\)")
ROW = re.compile(r"^\| (`[A-Z].*)", flags=re.MULTILINE)
READ = re.compile(r'\benv(?:_mcp)?\.\w+\(\s*"([A-Z_]+)"')


def prose(file: Path) -> str:
    return FENCE.sub("", file.read_text("utf-8"))


def anchors(file: Path) -> set[str]:
    """As GitHub makes them of headings: lower case, no punctuation, a dash for each blank."""
    heads = re.findall(r"^#{1,6} (.+)$", prose(file), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", head.strip().lower()).replace(" ", "-") for head in heads}


def leads_somewhere(file: Path, link: str) -> bool:
    path, _, anchor = link.partition("#")
    to = (file.parent / path).resolve() if path else file
    return to.exists() and (not anchor or anchor in anchors(to))


@pytest.mark.parametrize("file", DOCUMENTS, ids=lambda file: str(file.relative_to(ROOT)))
def test_every_link_leads_somewhere(file):
    links = [link for link in LINK.findall(prose(file)) if not re.match(r"[a-z]+:", link)]
    assert [link for link in links if not leads_somewhere(file, link)] == []


def test_every_document_is_named_in_the_readme():
    named = set(LINK.findall(prose(ROOT / "README.md")))
    there = {str(file.relative_to(ROOT)) for file in DOCUMENTS} - {"README.md"}
    assert there <= {link.partition("#")[0] for link in named}


def rows(file: str) -> dict[str, str]:
    """Each setting's row, without where its links lead."""
    found = {}
    for row in ROW.findall(prose(ROOT / file)):
        names = re.findall(r"`([A-Z_]+)`", row.split(" | ")[0])
        found |= dict.fromkeys(names, LINK.sub("]", row))
    return found


def test_the_table_has_every_setting_that_is_read_and_no_other():
    sources = [ROOT / "chatsite" / "settings.py", *sorted((ROOT / "chatsite").glob("settings_*.py"))]
    read = {name for file in sources for name in READ.findall(file.read_text("utf-8"))}
    assert set(rows("docs/configuration.md")) == read


def test_the_first_settings_in_the_readme_are_rows_of_that_table():
    table = rows("docs/configuration.md")
    shown = rows("README.md")
    assert shown
    assert [name for name, row in shown.items() if table.get(name) != row] == []
