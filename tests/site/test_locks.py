"""What is installed is what somebody decided: the two locks, what they hold, and why each package is asked for.

All of it without a network. `make audit` asks PyPI besides, for what became known since.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from packaging.markers import Marker
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

from tests.site.processes import ROOT

RUNTIME, DEVELOPMENT = "requirements.lock", "requirements-dev.lock"
PIN = re.compile(r"(?P<name>[a-z0-9-]+)(\[[a-z, -]+\])?==(?P<version>[^ ;]+)( ; (?P<marker>.+))? \\")
HASH = re.compile(r"    --hash=sha256:[0-9a-f]{64}( \\)?")
HOLES = tomllib.loads((ROOT / "tests/site/known_holes.toml").read_text())["hole"]

both = pytest.mark.parametrize("lock", [RUNTIME, DEVELOPMENT])


@dataclass(frozen=True)
class Pin:
    name: str
    version: str
    hashes: int


def blocks(lock: str) -> Iterator[list[str]]:
    """The lines of each package. Whatever is no line of one stands by itself."""
    block: list[str] = []
    for line in (ROOT / lock).read_text().splitlines():
        if not line.lstrip().startswith("#") and line.strip():
            if not line.startswith(" ") and block:
                yield block
                block = []
            block.append(line)
    yield block


def pins(lock: str) -> list[Pin]:
    found = []
    for head, *rest in blocks(lock):
        match = PIN.fullmatch(head)
        assert match, f"{lock}: {head!r} is no package at one version"
        assert all(map(HASH.fullmatch, rest)), f"{lock}: {head!r} has more than hashes"
        if match["marker"]:
            Marker(match["marker"])
        found.append(Pin(match["name"], match["version"], len(rest)))
    return found


@both
def test_every_package_of_a_lock_has_its_hashes_and_no_word_of_where_it_lies(lock):
    """No address of an index, of an archive or of a repository; no file, nothing that is installed as it lies."""
    assert len(pins(lock)) > 50
    assert not [pin.name for pin in pins(lock) if not pin.hashes]
    text = (ROOT / lock).read_text()
    for word in ("://", "--index", "--extra-index", "--find-links", "--trusted-host", " @ ", "git+", "-e "):
        assert word not in text


def test_the_runtime_lock_is_part_of_the_development_lock():
    assert set(pins(RUNTIME)) <= set(pins(DEVELOPMENT))


def requirements(extra: str = "") -> list[Requirement]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    listed = project["optional-dependencies"][extra] if extra else project["dependencies"]
    return [Requirement(line) for line in listed]


@pytest.mark.parametrize(("lock", "extras"), [(RUNTIME, [""]), (DEVELOPMENT, ["", "dev"])])
def test_a_lock_holds_what_is_asked_for(lock, extras):
    """Whoever asks for something else, or for another version, makes the locks anew."""
    versions: dict[str, list[str]] = {}
    for pin in pins(lock):
        versions.setdefault(pin.name, []).append(pin.version)
    for asked in (each for extra in extras for each in requirements(extra)):
        found = versions.get(canonicalize_name(asked.name), [])
        assert found, f"{asked} is not in {lock}"
        assert all(version in asked.specifier for version in found), f"{lock} has {asked.name} {found}"


def test_every_dependency_says_why_it_is_there():
    lines = (ROOT / "pyproject.toml").read_text().splitlines()
    start = lines.index("dependencies = [")
    listed = lines[start + 1 : lines.index("]", start)]
    assert len(listed) == len(requirements())
    assert all('", ' in line and "# " in line for line in listed)


# -- known holes ---------------------------------------------------------------------------------------------


def holes_in(found: list[Pin]) -> list[str]:
    return [
        f"{pin.name} {pin.version}: {hole['why']}"
        for pin in found
        for hole in HOLES
        if hole["package"] == pin.name
        and SpecifierSet(hole["affected"], prereleases=True).contains(pin.version)
    ]


@both
def test_no_package_has_a_hole_that_is_known_here(lock):
    assert holes_in(pins(lock)) == []


@pytest.mark.parametrize("hole", HOLES, ids=lambda hole: f"{hole['package']} {hole['affected']}")
def test_each_known_hole_says_whose_it_is_up_to_which_version_and_where_that_is_written(hole):
    assert set(hole) == {"package", "affected", "why", "read"}
    assert hole["package"] in {pin.name for pin in pins(DEVELOPMENT)}
    assert re.match(r"(CVE-\d{4}-\d{4,}|GHSA(-\w{4}){3}|yanked): ", hole["why"])
    affected = SpecifierSet(hole["affected"])
    assert any(each.operator in {"<", "<=", "=="} for each in affected)
    assert "99999" not in affected


def test_a_lock_that_goes_back_to_a_hole_is_noticed():
    assert holes_in([Pin("idna", "3.6", 1), Pin("idna", "3.7", 1)]) == [
        "idna 3.6: CVE-2024-3651: a host name that takes seconds to encode"
    ]
