"""The rules of the demo model: what they answer, and the list of them.

The first whose pattern is in the last user message answers. So a rule for one word stands behind those that mean it
with others.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from agent.errors import ProviderError
from agent.providers import demo_texts as texts
from agent.providers.demo_scene import Done, Scene, calls_of, parsed
from agent.providers.demo_weather import DEFAULT_CITY, WEATHER, report, weather
from agent.providers.scripted import Turn

EMAIL = "send_email"
SKY = "watch_sky"
COLLEAGUE = "ask_colleague"
DEFAULT_ADDRESS = "ada@example.org"

SLOW_PACE = 5
"""How many times slower than the others the slow answer is."""


@dataclass(frozen=True, slots=True)
class Rule:
    """`ask` is what help says to type; `shows` what happens then."""

    ask: str
    shows: str
    pattern: re.Pattern[str]
    answer: Callable[[Scene], Turn]


def answer(scene: Scene) -> Turn:
    for rule in RULES:
        if rule.pattern.search(scene.question):
            return rule.answer(scene)
    return help_answer(scene)


_ADDRESS = re.compile(r"[\w.+-]+@[\w-]+(?:\.[\w-]+)+")


def email(scene: Scene) -> Turn:
    """Asks to send one, once; whatever comes of it, it says so."""
    if EMAIL not in scene.tools:
        return Turn(texts.NO_EMAIL_TOOL)
    tried = scene.results_of(EMAIL)
    if tried:
        return Turn(_email_report(tried[-1]))
    if not scene.may_call:
        return Turn(texts.NO_CALLS_LEFT)
    found = _ADDRESS.search(scene.question)
    to = found[0] if found else DEFAULT_ADDRESS
    arguments = {"to": to, "subject": texts.EMAIL_SUBJECT, "body": texts.EMAIL_BODY}
    return calls_of(scene, EMAIL, [arguments], texts.BEFORE_EMAIL)


def _email_report(tried: Done) -> str:
    code = tried.result.error
    if code is not None:
        return texts.EMAIL_REFUSED.get(code, texts.EMAIL_FAILED).format(said=tried.problem)
    used = parsed(tried.call.used_arguments)
    used = used if isinstance(used, dict) else {}
    changed = texts.EMAIL_CHANGED if tried.call.edited is not None else ""
    to, subject = used.get("to", "somebody"), used.get("subject", "")
    return texts.EMAIL_SENT.format(to=to, subject=subject, changed=changed)


def help_answer(scene: Scene) -> Turn:
    listed = "\n".join(f"- **{rule.ask}**: {rule.shows}" for rule in RULES)
    return Turn(f"{texts.WHO}\n\n{listed}")


def parallel(scene: Scene) -> Turn:
    if scene.can(WEATHER) and not scene.done:
        return calls_of(scene, WEATHER, [{"city": city} for city in ("Paris", "Rome", "Oslo")])
    return Turn(report(scene, scene.results_of(WEATHER)) if scene.done else texts.NO_WEATHER_TOOL)


def unknown_tool(scene: Scene) -> Turn:
    if scene.may_call and not scene.done:
        return calls_of(scene, "read_crystal_ball", [{"question": scene.question}], texts.BEFORE_UNKNOWN_TOOL)
    said = scene.done[-1].problem if scene.done else "nothing"
    return Turn(texts.AFTER_UNKNOWN_TOOL.format(said=said))


def bad_arguments(scene: Scene) -> Turn:
    if WEATHER not in scene.tools:
        return Turn(texts.NO_WEATHER_TOOL)
    if scene.may_call and not scene.done:
        return calls_of(scene, WEATHER, [{"town": 7}])
    if scene.may_call and len(scene.done) == 1:
        return calls_of(scene, WEATHER, [{"city": DEFAULT_CITY}], texts.CORRECTION)
    return Turn(report(scene, scene.done[-1:]))


_TOUR = ("San Francisco", "Paris", "Rome", "Oslo", "Lisbon", "Vienna", "Nairobi", "Lima")


def loop(scene: Scene) -> Turn:
    if not scene.may_call:
        return Turn(texts.LOOP_STOPPED.format(turns=scene.turn - 1))
    if WEATHER not in scene.tools:
        return Turn(texts.NO_WEATHER_TOOL)
    city = _TOUR[(scene.turn - 1) % len(_TOUR)]
    return calls_of(scene, WEATHER, [{"city": city}], f"And {city}? " if scene.turn > 1 else "")


def sky(scene: Scene) -> Turn:
    """One long call, which tells how far it is."""
    seen = scene.results_of(SKY)
    if seen or not scene.can(SKY):
        return Turn(texts.AFTER_SKY if seen else texts.NO_SUCH_TOOL.format(name=SKY))
    asked = re.search(r"\d{1,2}", scene.question)
    hours = min(max(int(asked[0]), 1), 24) if asked else 8
    return calls_of(scene, SKY, [{"hours": hours}], texts.BEFORE_SKY)


def colleague(scene: Scene) -> Turn:
    """Hands what stands behind the colon to a subagent."""
    if not scene.can(COLLEAGUE) and not scene.done:
        return Turn(texts.NO_SUCH_TOOL.format(name=COLLEAGUE))
    if scene.done:
        told = scene.done[-1]
        said = told.problem if told.result.error else str(told.result.content)
        return Turn(texts.AFTER_COLLEAGUE.format(said="\n> ".join(said.splitlines())))
    task = scene.question.partition(":")[2].strip() or texts.TASK
    return calls_of(scene, COLLEAGUE, [{"task": task}], texts.BEFORE_COLLEAGUE)


def cut_call(scene: Scene) -> Turn:
    if scene.done or not scene.may_call:
        return Turn(texts.AFTER_CUT_CALL)
    return Turn(
        texts.BEFORE_CUT_CALL,
        calls=[scene.call(WEATHER, '{"city": "San Fran')],
        finish_reason="length",
    )


def says(text: str, **fields: Any) -> Callable[[Scene], Turn]:
    return lambda scene: Turn(text, **fields)


def _rule(ask: str, shows: str, pattern: str, answer: Callable[[Scene], Turn]) -> Rule:
    return Rule(ask, shows, re.compile(pattern, re.IGNORECASE), answer)


RULES = (
    _rule(
        "colleague: What should I wear in Oslo?",
        "a subagent: an agent with tools of its own, whose work stands in the card (after the colon, any of these)",
        r"^\s*(?:ask (?:a|your) )?colleague\b",
        colleague,
    ),
    _rule(
        "Send an email to ada@example.org",
        "a tool that a person must approve first: change it, approve, deny or cancel (nothing is really sent)",
        r"\b(?:send|write)\b.*\be-?mail\b",
        email,
    ),
    _rule(
        "What should I wear in Oslo today?",
        "two tools, one after the other, and an answer from what they gave (try several cities, or Nowhere)",
        r"\b(weather|wear|clothes|clothing|jacket|umbrella|forecast|temperature|compare)\b",
        weather,
    ),
    _rule("progress", "a tool that takes a while and tells how far it is", r"\bprogress\b", sky),
    _rule("parallel", "three tool calls side by side", r"\bparallel\b", parallel),
    _rule("unknown tool", "a call of a tool that does not exist", r"\bunknown tool\b", unknown_tool),
    _rule("bad arguments", "a call that is refused, then put right", r"\bbad arguments?\b", bad_arguments),
    _rule("loop", "a model that never stops calling, until a limit stops it", r"\bloop\b", loop),
    _rule(
        "think",
        "thoughts before the answer",
        r"\b(think|thinking|thoughts)\b",
        says(texts.THOUGHT_OUT, thinking=texts.THOUGHTS),
    ),
    _rule("very long", "an answer of about 4,000 words", r"\bvery long\b", says(texts.VERY_LONG)),
    _rule("long", "a long answer with all of markdown", r"\b(long|markdown)\b", says(texts.MARKDOWN)),
    _rule("cut call", "a tool call cut off by the output limit", r"\bcut (tool )?call\b", cut_call),
    _rule(
        "cut", "an answer cut off by the output limit", r"\bcut\b", says(texts.CUT, finish_reason="length")
    ),
    _rule(
        "filter",
        "an answer stopped by a content filter",
        r"\bfilter(ed)?\b",
        says(texts.FILTERED, finish_reason="content_filter"),
    ),
    _rule("break off", "a connection lost in mid answer", r"\bbreak off\b", says(texts.BROKEN, cut=True)),
    _rule(
        "error",
        "a model that cannot be reached",
        r"\berror\b",
        # A new one each time: an exception that is raised twice drags its first traceback along.
        lambda scene: Turn(error=ProviderError(texts.ERROR)),
    ),
    _rule(
        "slow",
        "an answer that takes half a minute: press Stop",
        r"\bslow(ly)?\b",
        says(texts.SLOW, pace=SLOW_PACE, delta_size=5),
    ),
    _rule("help", "this list", r"^\s*(help|\?)", help_answer),
)
