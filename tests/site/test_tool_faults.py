"""What is wrong with another server's tools, said to admins in their language."""

from __future__ import annotations

import re

import pytest
from django.utils import translation

from agent.mcp import faults
from chatsite.operator import tool_faults

PLACE = re.compile(r"%\((\w+)\)s")
OURS = sorted(set(faults.SENTENCES) - {"said"})


def example(code: str) -> faults.Fault:
    return faults.fault(code, **dict.fromkeys(PLACE.findall(faults.SENTENCES[code]), "7"))


@pytest.mark.parametrize("code", OURS)
def test_a_fault_is_said_in_german_and_in_english_as_the_agent_says_it(code):
    with translation.override("en"):
        assert tool_faults.words_of(example(code)) == str(example(code))
    with translation.override("de"):
        german = tool_faults.words_of(example(code))
    assert german != str(example(code))
    assert german.count("7") == str(example(code)).count("7")


def test_what_a_server_said_has_no_other_words():
    with translation.override("de"):
        assert tool_faults.words_of(faults.said("100%\n(s)")) == "100% (s)"


def test_a_fault_travels_beside_an_error_and_a_server_that_writes_something_else_there_is_not_believed():
    locked = faults.fault("locked", status=401)
    assert faults.unpacked(faults.packed(locked)) == locked
    for data in (None, 1, [], {}, {"fault": "locked"}, {"fault": [], "values": {}}, {"fault": "locked", "values": 1},
                 {"fault": "locked", "values": {}}, {"fault": "nope", "values": {"status": 1}}):  # fmt: skip
        assert faults.unpacked(data) is None
    lying = {"fault": "unreachable", "values": {"why": "\x1b[31m" + "x" * 999, "more": []}}
    assert str(faults.unpacked(lying)) == f"it cannot be reached ([31m{'x' * 496}…)"
