"""GATEWAY_HOOKS: instances by dotted path, or a start that stops with a sentence."""

import subprocess
import sys
from itertools import count
from pathlib import Path

import pytest
from django.core.checks import run_checks

from chatsite.gateway.hooks import BaseHook, loading
from chatsite.gateway.hooks.litellm_form import LiteLLMHook
from chatsite.gateway.hooks.loading import HookError, load_hooks

OURS = """
from chatsite.gateway.hooks import BaseHook

class Finder(BaseHook):
    serves = frozenset({"find"})
    async def look(self, turn, call):
        return None
"""
THEIRS = """
from chatsite.gateway.hooks import CustomLogger

class MyToolCallback(CustomLogger):
    async def async_should_run_agentic_loop(self, **kwargs):
        return False, {}
"""
numbers = count()


@pytest.fixture
def write(tmp_path, monkeypatch):
    """Writes a module of a name of its own, and gives the name."""
    folder = tmp_path / "hooks"
    folder.mkdir()
    monkeypatch.setattr(sys, "path", [*sys.path])

    def writer(text, name=None):
        name = name or f"hooks_of_a_test_{next(numbers)}"
        (folder / f"{name}.py").write_text(text)
        return name

    writer.folder = folder
    return writer


def refusal(entry, folder=None):
    with pytest.raises(HookError) as caught:
        load_hooks([entry], folder)
    assert f"GATEWAY_HOOKS names {entry!r}" in str(caught.value)
    assert caught.value.mend
    return str(caught.value)


def test_instances_of_both_forms_are_loaded_in_order(write):
    one = write(f"{OURS}\nfinder = Finder()")
    two = write(f"{THEIRS}\nmy_tool_callback = MyToolCallback()")
    first, second = load_hooks([f"{two}.my_tool_callback", f"{one}.finder"], write.folder)
    assert isinstance(first, LiteLLMHook)
    assert isinstance(second, BaseHook)
    assert [hook.name for hook in (first, second)] == ["MyToolCallback", "Finder"]


def test_the_shipped_hooks_are_named_by_their_path():
    assert [hook.name for hook in load_hooks(["chatsite.gateway.hooks.web_search.hook"])] == ["WebSearch"]


def test_nothing_in_the_folder_stands_in_for_another_module(write):
    write("raise RuntimeError('shadowed')", "json")
    load_hooks([f"{write(f'import json{OURS}{chr(10)}finder = Finder()')}.finder"], write.folder)


@pytest.mark.parametrize("entry", ["nothing", "a b.c", ".x", "x.", "a..b", "1.2"])
def test_what_is_no_dotted_path_is_refused(entry):
    assert "Write module.instance" in refusal(entry)


def test_a_module_that_is_not_there_is_refused_with_where_it_was_looked_for(write):
    said = refusal("no_such_module_here.hook", write.folder)
    assert "no module 'no_such_module_here'" in said
    assert str(write.folder) in said


def test_a_part_of_a_path_that_is_no_package_is_refused(write):
    name = write(OURS)
    assert f"there is no module '{name}.inner'" in refusal(f"{name}.inner.finder", write.folder)


def test_an_attribute_that_is_not_there_is_refused_with_those_that_are(write):
    name = write(f"{OURS}\nfinder = Finder()")
    assert f"there is no 'fnder' in {name}" in (said := refusal(f"{name}.fnder", write.folder))
    assert "(finder)" in said


@pytest.mark.parametrize(("text", "kind"), [(OURS, "Finder"), (THEIRS, "MyToolCallback")])
def test_a_class_is_refused_with_the_line_to_write(write, text, kind):
    name = write(text)
    snake = {"Finder": "finder", "MyToolCallback": "my_tool_callback"}[kind]
    said = refusal(f"{name}.{kind}", write.folder)
    assert f"Write {snake} = {kind}() in {name}, and name {name}.{snake}." in said


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("raise ValueError('no key')", "its import raised ValueError: no key"),
        ("import sys\nsys.exit(2)", "its import raised SystemExit: 2"),
        ("def broken(:\n  pass", "its import raised SyntaxError"),
        ("import no_such_library_here", "it imports 'no_such_library_here', which is not installed"),
        ("from litellm.integrations.custom_logger import CustomLogger", "from chatsite.gateway.hooks import"),
    ],
)
def test_a_module_that_cannot_be_imported_is_refused_with_the_reason(write, text, said):
    assert said in refusal(f"{write(text)}.hook", write.folder)


@pytest.mark.parametrize("value", ["5", "print", "{}", "object()", "None"])
def test_what_is_no_hook_is_refused(write, value):
    assert "is no hook" in refusal(f"{write(f'hook = {value}')}.hook", write.folder)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (OURS.replace("async def look", "def look") + "hook = Finder()", "its look is not async"),
        (OURS.replace("async def look", "async def wants") + "hook = Finder()", "its wants is async"),
        (OURS.replace('frozenset({"find"})', '"find"') + "hook = Finder()", "no set of names"),
        (OURS.replace('frozenset({"find"})', "{5}") + "hook = Finder()", "no set of names"),
        (OURS + "    timeout = 0\nhook = Finder()", "its timeout is 0"),
        (OURS + "    timeout = 'long'\nhook = Finder()", "its timeout is 'long'"),
        (
            THEIRS.replace("async def", "def") + "hook = MyToolCallback()",
            "its async_should_run_agentic_loop is not async",
        ),
        (
            THEIRS + "    server_fulfilled_tool_names = 'find'\nhook = MyToolCallback()",
            "its server_fulfilled_tool_names is 'find', which is no set of names",
        ),
    ],
)
def test_a_hook_that_cannot_work_is_refused_by_what_is_wrong_with_it(write, text, said):
    assert said in refusal(f"{write(text)}.hook", write.folder)


def test_a_hook_that_is_named_twice_is_refused():
    with pytest.raises(HookError, match="twice"):
        load_hooks(["chatsite.gateway.hooks.web_search.hook"] * 2)


def test_the_check_names_the_entry_and_the_mend(settings):
    settings.GATEWAY_HOOKS = ["nowhere_at_all.hook"]
    (found,) = [each for each in run_checks() if each.id == "gateway.E001"]
    assert "nowhere_at_all.hook" in found.msg
    assert "Put nowhere_at_all.py on PYTHONPATH" in found.hint


@pytest.mark.parametrize(
    ("method", "said"),
    [
        ("async_log_success_event", "has async_log_success_event"),
        ("helper", "has no method that is called here"),
    ],
)
def test_the_check_warns_of_a_hook_that_does_nothing_here(write, settings, monkeypatch, method, said):
    text = THEIRS.replace("async_should_run_agentic_loop", method) + "hook = MyToolCallback()"
    settings.GATEWAY_HOOKS = [f"{write(text)}.hook"]
    monkeypatch.setattr(loading, "hooks_folder", lambda: write.folder)
    monkeypatch.setattr("chatsite.gateway.checks.hooks_folder", lambda: write.folder)
    (found,) = [each for each in run_checks() if each.id == "gateway.W001"]
    assert said in found.msg


@pytest.mark.parametrize("number", [0, "three", True])
def test_the_check_refuses_a_number_of_reruns_that_is_none(settings, number):
    settings.GATEWAY_MAX_RERUNS = number
    assert "gateway.E002" in {each.id for each in run_checks()}


@pytest.mark.slow
@pytest.mark.parametrize(
    "start", [["manage.py", "check"], ["-c", "import chatsite.asgi"]], ids=["check", "asgi"]
)
def test_a_start_with_a_wrong_entry_stops_with_the_sentence(tmp_path, start):
    (tmp_path / "hooks").mkdir()
    (tmp_path / "hooks" / "mine.py").write_text(OURS)
    made = subprocess.run(
        [sys.executable, *start],
        env={"GATEWAY_HOOKS": "mine.Finder", "DATA_DIR": str(tmp_path), "PATH": "/usr/bin"},
        capture_output=True,
        text=True,
        timeout=110,
        cwd=Path(__file__).parents[2],
    )
    assert made.returncode != 0
    assert "Write finder = Finder() in mine, and name mine.finder." in made.stderr
