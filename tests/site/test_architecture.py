"""The arrows between rooms, as DESIGN has them. `lint-imports` checks them too, but only when it is run."""

import ast
import gc
import re
from collections.abc import Set
from functools import cache
from graphlib import CycleError, TopologicalSorter
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


def test_what_is_imported_from_our_own_rooms_is_there():
    """Also within functions, and also behind a dot: what has moved would fail once somebody opens a rare page."""
    given, wanted = _names()
    gone = [
        f"{room}: {name}"
        for room, names in wanted.items()
        for name in names - wanted.keys()
        if not {name.rpartition(".")[2], "*"} & given[name.rpartition(".")[0]]
    ]
    assert not gone


@pytest.mark.parametrize("root", ["agent", "chatsite"])
def test_no_modules_need_each_other(root):
    """Also not for a type, and not within a function: what cannot be read by itself is one file in several places."""
    _, wanted = _names()
    rooms = {name for name in wanted if name.partition(".")[0] == root}
    needs = {
        room: {name if name in rooms else name.rpartition(".")[0] for name in wanted[room]} & (rooms - {room})
        for room in rooms
    }
    try:
        TopologicalSorter(needs).prepare()
    except CycleError as error:
        pytest.fail(" needs ".join(reversed(error.args[1])))


WITHOUT_A_MAP = {"management", "migrations", "models", "templatetags"}
WITH_A_MAP = ["agent", "chatsite/chat"] + [
    f"chatsite/chat/{path.parent.name}"
    for path in sorted((ROOT / "chatsite/chat").glob("*/__init__.py"))
    if path.parent.name not in WITHOUT_A_MAP
]


@pytest.mark.parametrize("folder", WITH_A_MAP)
def test_the_map_of_a_room_has_all_that_is_in_it(folder):
    said = set(re.findall(r"\w+", ast.get_docstring(parsed(ROOT / folder / "__init__.py")) or ""))
    there = {path.stem for path in (ROOT / folder).glob("*.py")} - {"__init__"}
    there |= {path.parent.name for path in (ROOT / folder).glob("*/__init__.py")}
    assert not there - said


OURS = ("agent", "bench", "chatsite", "tests")


@cache
def _names() -> tuple[dict[str, set[str]], dict[str, set[str]]]:
    """By module: what it has, and what it wants of the others."""
    paths = {_name_of(path): path for folder in OURS for path in modules(folder)}
    given, wanted = {}, {}
    for room, path in paths.items():
        tree = parsed(path)  # one at a time: all of them together are many objects
        given[room], wanted[room] = _names_in(tree), _wanted(tree, paths.keys())
    return given, wanted


def _name_of(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


def _names_in(tree: ast.Module) -> set[str]:
    """What a module has at its top. Names that an assignment only reads are taken along: no harm is done."""
    names = {"__doc__", "__file__", "__name__", "__path__"}
    waiting: list[ast.AST] = [*tree.body]
    for node in waiting:
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                names.add(name)
            case ast.Import(names=aliases) | ast.ImportFrom(names=aliases):
                names |= {(alias.asname or alias.name).partition(".")[0] for alias in aliases}
            case ast.Assign() | ast.AnnAssign() | ast.For():
                names |= {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}
            case ast.If() | ast.Try() | ast.With() | ast.ExceptHandler():
                waiting += ast.iter_child_nodes(node)
    return names


def _wanted(tree: ast.Module, rooms: Set[str]) -> set[str]:
    """Names of our modules that this one imports, and those that it reads from a module of ours by a dot."""
    nodes = list(ast.walk(tree))
    froms = [
        node for node in nodes if isinstance(node, ast.ImportFrom) and not node.level and node.module in rooms
    ]
    named = {
        (alias.asname or alias.name): f"{node.module}.{alias.name}" for node in froms for alias in node.names
    }
    imported = {f"{node.module}.{alias.name}" for node in froms for alias in node.names if alias.name != "*"}
    # A local name may be another thing that is called like the module.
    local = {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    local |= {node.arg for node in nodes if isinstance(node, ast.arg)}
    return imported | {
        f"{named[node.value.id]}.{node.attr}"
        for node in nodes
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name)
        if node.value.id not in local and named.get(node.value.id) in rooms
    }
