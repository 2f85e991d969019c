"""A wrong setting of a hook stops the start with a sentence that names it and the mend."""

from __future__ import annotations

from chatsite.gateway.checks import rules_can_be_read


def test_a_line_that_is_no_rule_stops_the_start(settings):
    settings.GATEWAY_RULES = "cap 10\nforbid x y"
    [problem] = rules_can_be_read()
    assert problem.msg.startswith("GATEWAY_RULES, line 2: write refuse NAME REGEX")
    settings.GATEWAY_RULES = "cap 10"
    assert rules_can_be_read() == []
