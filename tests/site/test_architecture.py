"""The arrows between rooms, as DESIGN has them. `lint-imports` checks them too, but only when it is run."""

import ast
import gc
import tomllib
from pathlib import Path

import pytest

from tests.site.processes import ROOT

SITE_ONLY = {
    f"chatsite.{name}" for name in ("settings", "urls", "asgi", "routing", "operator", "static", "env")
}


def parsed(path: Path) -> ast.Module:
    # Python 3.11 loses count of the tree's depth when the collector ends other tests' generators meanwhile.
    gc.disable()
    try:
        return ast.parse(path.read_text())
    finally:
        gc.enable()


def imports(path: Path) -> set[str]:
    """Every module named in an import, with its parents, wherever in the file it stands."""
    names = set()
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            module = _absolute(path, node)
            names |= {module} | {f"{module}.{alias.name}" for alias in node.names}
    return {".".join(name.split(".")[:end]) for name in names for end in range(1, name.count(".") + 2)}


def _absolute(path: Path, node: ast.ImportFrom) -> str:
    package = path.relative_to(ROOT).with_suffix("").parts[: -node.level or None]
    return ".".join([*package, *filter(None, [node.module])]) if node.level else node.module


def modules(folder: str) -> list[Path]:
    return sorted((ROOT / folder).rglob("*.py"))


def test_the_agent_knows_nothing_of_the_site():
    assert modules("agent")
    for path in modules("agent"):
        assert not imports(path) & {"django", "channels", "chatsite", "daphne"}, path


def test_the_chat_is_an_app_that_any_site_can_install():
    assert modules("chatsite/chat")
    for path in modules("chatsite/chat"):
        assert not imports(path) & {*SITE_ONLY, "chatsite.gateway"}, path


def test_the_gateway_is_an_app_that_any_site_can_install():
    for path in modules("chatsite/gateway"):
        assert not imports(path) & {*SITE_ONLY, "chatsite.chat"}, path


@pytest.mark.parametrize(
    "folder",
    ["chatsite/accounts", "chatsite/adminkit", "chatsite/audit", "chatsite/care", "chatsite/policies"],
)
def test_the_rooms_below_know_neither_what_they_open_nor_the_site(folder):
    assert modules(folder)
    for path in modules(folder):
        assert not imports(path) & {*SITE_ONLY, "chatsite.chat", "chatsite.gateway"}, path


@pytest.mark.parametrize("folder", ["chatsite/audit", "chatsite/care"])
def test_the_audit_log_and_the_care_of_data_know_nobody_of_whom_they_tell(folder):
    for path in modules(folder):
        assert not imports(path) & {"chatsite.accounts", "chatsite.policies"}, path


@pytest.mark.parametrize("lock", ["requirements.lock", "requirements-dev.lock"])
def test_a_lock_has_hashes_and_says_nothing_of_where_packages_lie(lock):
    text = (ROOT / lock).read_text()
    pins = [line for line in text.splitlines() if line and line[0] not in " #"]
    assert pins
    assert all("==" in pin and pin.endswith("\\") for pin in pins)
    assert "--hash=sha256:" in text
    assert "://" not in text
    assert "--index" not in text
    assert "--find-links" not in text


def test_the_runtime_lock_is_part_of_the_development_lock():
    runtime, development = (
        {line.split(" ;")[0] for line in (ROOT / lock).read_text().splitlines() if "==" in line}
        for lock in ("requirements.lock", "requirements-dev.lock")
    )
    assert {pin.removesuffix(" \\") for pin in runtime} <= {pin.removesuffix(" \\") for pin in development}


def test_every_dependency_says_why_it_is_there():
    lines = (ROOT / "pyproject.toml").read_text().splitlines()
    start = lines.index("dependencies = [")
    listed = lines[start + 1 : lines.index("]", start)]
    assert len(listed) == len(tomllib.loads("\n".join(lines))["project"]["dependencies"])
    assert all('", ' in line and "# " in line for line in listed)
