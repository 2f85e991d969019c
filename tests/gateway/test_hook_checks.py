"""A wrong setting of a hook stops the start with a sentence that names it and the mend."""

from __future__ import annotations

import pytest

from agent import ToolRegistry
from chatsite.gateway.checks import rules_can_be_read, tools_are_there
from chatsite.gateway.hooks.server_tools import tools_from_settings

NO_TOOLS = ToolRegistry()


def not_tools():
    return [1]


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("nowhere.at_all", "No module named 'nowhere'"),
        ("chatsite.chat.tools.nothing", 'does not define a "nothing"'),
        ("tests.gateway.test_hook_checks.not_tools", "it is list, and no ToolRegistry"),
    ],
)
def test_tools_that_are_none_stop_the_start(settings, path, why):
    settings.GATEWAY_TOOLS = path
    [problem] = tools_are_there()
    assert path in problem.msg
    assert why in problem.msg
    assert "ToolRegistry" in problem.hint


def test_the_tools_are_a_registry_or_what_makes_one(settings):
    settings.GATEWAY_APPROVED_TOOLS = ["send_email"]
    assert "get_weather" in tools_from_settings().names
    assert tools_are_there() == []
    settings.GATEWAY_TOOLS = "tests.gateway.test_hook_checks.NO_TOOLS"
    assert tools_from_settings().names == ()
    settings.GATEWAY_TOOLS = ""
    assert tools_from_settings().names == ()


def test_an_approved_tool_that_is_not_there_stops_the_start(settings):
    settings.GATEWAY_APPROVED_TOOLS = ["send_mail"]
    [problem] = tools_are_there()
    assert "'send_mail'" in problem.msg
    assert "send_email" in problem.hint
    settings.GATEWAY_APPROVED_TOOLS = ["files__write"]  # an MCP server's: known only when that was asked
    assert tools_are_there() == []


def test_a_line_that_is_no_rule_stops_the_start(settings):
    settings.GATEWAY_RULES = "cap 10\nforbid x y"
    [problem] = rules_can_be_read()
    assert problem.msg.startswith("GATEWAY_RULES, line 2: write refuse NAME REGEX")
    settings.GATEWAY_RULES = "cap 10"
    assert rules_can_be_read() == []
