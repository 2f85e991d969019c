"""Rules of the house for every request, and an example of hooks that change, refuse and watch.

    GATEWAY_HOOKS=chatsite.gateway.hooks.rules.hook
    GATEWAY_RULES_FILE=/etc/threadloom/rules         (or the lines themselves in GATEWAY_RULES)

| a line | what it does |
|---|---|
| `refuse NAME REGEX` | a request with a text that fits is not made: 403, and the reason names NAME |
| `mask NAME REGEX` | what fits becomes `[NAME]` before the model reads it |
| `cap NUMBER` | a request may ask for so many output tokens, and no more |
| `report NAME REGEX` | an answer with a text that fits is logged, by NAME and the request's id; it goes out as it is |

Texts are what people, models and tools say, system prompts and the arguments of calls included; names, ids and the
data of pictures are none. An empty line, or one that begins with `#`, is no rule.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from agent.rerun import BaseHook, Json, Refusal, RelayContext
from agent.wire.openai_chat.encode import limit_field
from chatsite.gateway.conf import setting

log = logging.getLogger(__name__)

LEAST_THINKING = 1024
"""Tokens; no model of Anthropic's takes a smaller budget for it."""

FORMS = "refuse NAME REGEX, mask NAME REGEX, report NAME REGEX or cap NUMBER"
SPOKEN = ("system", "messages", "content", "choices")
"""What holds texts in a request or an answer of either dialect."""
TEXT_FIELDS = frozenset({"system", "content", "text", "arguments", "refusal"})
"""Where they stand in it. Thinking is signed, so nobody may change it."""


@dataclass(frozen=True, slots=True)
class Pattern:
    name: str
    regex: re.Pattern[str]


@dataclass(slots=True)
class Rules:
    refuse: list[Pattern] = field(default_factory=list)
    mask: list[Pattern] = field(default_factory=list)
    report: list[Pattern] = field(default_factory=list)
    cap: int | None = None

    def __bool__(self) -> bool:
        return bool(self.refuse or self.mask or self.report or self.cap)


@lru_cache(maxsize=8)
def read_rules(text: str) -> Rules:
    """Raises ValueError with the number of the line that is no rule."""
    rules = Rules()
    for number, line in enumerate(text.splitlines(), 1):
        if line.strip() and not line.lstrip().startswith("#"):
            try:
                _read(line, rules)
            except (ValueError, re.error) as error:
                raise ValueError(f"line {number}: {error}") from None
    return rules


def _read(line: str, rules: Rules) -> None:
    match line.split(maxsplit=2):
        case ["cap", number] if number.isascii() and number.isdecimal() and int(number) > 0:
            rules.cap = int(number)
        case [("refuse" | "mask" | "report") as kind, name, regex]:
            pattern = re.compile(regex.rstrip())
            if pattern.match(""):
                raise ValueError("this regular expression fits every text")
            getattr(rules, kind).append(Pattern(name, pattern))
        case _:
            raise ValueError(f"write {FORMS}")


class HouseRules(BaseHook):
    """All of it is decided before and behind the model: no turn is looked at."""

    def wants(self, request: RelayContext) -> bool:
        return bool(_rules())

    async def pre_call(self, body: Json, call: RelayContext) -> Json | Refusal | None:
        rules = _rules()
        if (name := _first_fit(rules.refuse, body)) is not None:
            log.info("refused by the rule %s [%s]", name, call.request_id)
            return Refusal(
                f"This server's rule {name!r} does not let this request through.", 403, "refused_by_rule"
            )
        new = _with_texts(body, lambda text: _masked(text, rules.mask)) if rules.mask else body
        return _capped(new, rules.cap) if rules.cap else new

    async def post_call(self, body: Json, call: RelayContext) -> None:
        if (name := _first_fit(_rules().report, body)) is not None:
            log.warning("an answer fits the rule %s [%s]", name, call.request_id)


def _rules() -> Rules:
    return read_rules(setting("GATEWAY_RULES"))


def _first_fit(patterns: list[Pattern], body: Json) -> str | None:
    texts = list[str]()
    if patterns:
        _with_texts(body, lambda text: texts.append(text) or text)
    return next((each.name for each in patterns if any(map(each.regex.search, texts))), None)


def _masked(text: str, patterns: list[Pattern]) -> str:
    for each in patterns:
        text = each.regex.sub(f"[{each.name}]", text)
    return text


def _with_texts(body: Json, change: Callable[[str], str]) -> Json:
    spoken = {name: _changed(body[name], name, change) for name in SPOKEN if name in body}
    return body | spoken


def _changed(value: Any, name: str, change: Callable[[str], str], *, all_of_it: bool = False) -> Any:
    """`all_of_it`: the value is a call's arguments, in which every string is text."""
    match value:
        case str():
            return change(value) if all_of_it or name in TEXT_FIELDS else value
        case list():
            return [_changed(item, name, change, all_of_it=all_of_it) for item in value]
        case dict():
            return {
                key: _changed(inner, key, change, all_of_it=all_of_it or key == "input")
                for key, inner in value.items()
            }
    return value


def _capped(body: Json, most: int) -> Json:
    names = [name for name in ("max_tokens", "max_completion_tokens") if body.get(name) is not None]
    names = names or [limit_field(str(body.get("model")))]
    new = dict(body)
    for name in names:
        given = body.get(name)
        new[name] = min(given, most) if isinstance(given, int) else most
    thinking = body.get("thinking")
    budget = thinking.get("budget_tokens") if isinstance(thinking, dict) else None
    if isinstance(budget, int) and budget >= most:
        # A budget must fit below the limit.
        new["thinking"] = (
            {**thinking, "budget_tokens": most - 1} if most > LEAST_THINKING else {"type": "disabled"}
        )
    return new


hook = HouseRules()
