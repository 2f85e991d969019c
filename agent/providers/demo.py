"""The demo model: rules, no language model. It shows every state of the chat with no key and no network.

    ask                                     it
    What should I wear in Oslo today?       looks the weather up, asks for advice, answers
    Compare Paris and Rome                  the same for several cities, with calls side by side
    help, or anything it does not know      says what it is, and what it can show

`RULES` has the rest. The first rule whose pattern is in the last user message answers. A rule sees a `Scene`:
the question, and what has happened since. It remembers nothing else, so a restarted server plays on as if
nothing had been.
"""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from itertools import takewhile
from typing import Any

from agent.errors import ProviderError
from agent.events import TurnEnd, TurnEvent
from agent.messages import NOTICE, Message, ToolCallPart, ToolResultPart, Usage
from agent.providers import demo_texts as texts
from agent.providers.base import TurnRequest
from agent.providers.scripted import Call, Turn, play

MODEL = "demo"
WEATHER = "get_weather"
ADVICE = "get_clothing_advice"
EMAIL = "send_email"
SKY = "watch_sky"
COLLEAGUE = "ask_colleague"
DEFAULT_ADDRESS = "ada@example.org"
DEFAULT_CITY = "San Francisco"
MOST_CITIES = 5
DEFAULT_PACE = 0.015
SLOW_PACE = 5
"""How many times slower than the others the slow answer is."""


class DemoProvider:
    """`pace` is the pause before each delta (about three words) in seconds; 0 plays without any."""

    name = "demo"

    def __init__(self, pace: float = DEFAULT_PACE) -> None:
        self.pace = pace

    async def stream(self, request: TurnRequest) -> AsyncIterator[TurnEvent | TurnEnd]:
        scene = Scene.of(request)
        turn = scene.rest_of(answer(scene))
        turn = replace(turn, pace=self.pace * (turn.pace or 1), usage=_usage(request, turn))
        async with aclosing(play(turn, request)) as events:
            async for event in events:
                yield event


@dataclass(frozen=True, slots=True)
class Done:
    """A call made since the last user message, with its result."""

    call: ToolCallPart
    result: ToolResultPart

    @property
    def value(self) -> dict[str, Any]:
        """The result as an object; empty if it is none, or if the call failed."""
        value = _parse(self.result.content) if self.result.error is None else None
        return value if isinstance(value, dict) else {}

    @property
    def problem(self) -> str:
        """What went wrong, in the tool's own words."""
        value = _parse(self.result.content)
        said = value.get("error") if isinstance(value, dict) else None
        return str(said or self.result.content)


@dataclass(frozen=True, slots=True)
class Scene:
    """What a rule looks at."""

    question: str
    turn: int
    done: tuple[Done, ...]
    tools: frozenset[str]
    may_call: bool
    message_id: str
    written: str = ""
    """What stands already of this turn's text: a restart cut it off, and the model was told to go on."""

    @classmethod
    def of(cls, request: TurnRequest) -> Scene:
        messages = request.transcript
        asked = max((index for index, message in enumerate(messages) if message.role == "user"), default=-1)
        told_to_go_on = bool(messages) and NOTICE in messages[-1].metadata
        said = [message for message in messages[asked + 1 :] if message.role != "system"]
        cut = list(takewhile(_is_cut, reversed(said))) if told_to_go_on else []
        since = said[: len(said) - len(cut)]
        return cls(
            question=messages[asked].text if asked >= 0 else "",
            written="".join(message.text for message in reversed(cut)),
            turn=1 + sum(message.role == "assistant" for message in since),
            done=tuple(_done(since)),
            tools=frozenset(tool.name for tool in request.tools),
            may_call=request.tool_choice != "none",
            message_id=request.message_id,
        )

    def rest_of(self, turn: Turn) -> Turn:
        if not self.written:
            return turn
        return replace(turn, text=turn.text.removeprefix(self.written), thinking="")

    def call(self, name: str, arguments: dict[str, Any] | str, number: int = 1) -> Call:
        return (f"call_{self.message_id}_{number}", name, arguments)

    def results_of(self, name: str) -> list[Done]:
        return [done for done in self.done if done.call.name == name]

    def can(self, *names: str) -> bool:
        return self.may_call and self.tools.issuperset(names)


def _is_cut(message: Message) -> bool:
    return message.role == "assistant" and message.finish_reason is None and not message.tool_calls


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


# -- weather and clothing ------------------------------------------------------------------------------------


def weather(scene: Scene) -> Turn:
    """Weather, then advice for each city that has some, then words: one turn each."""
    if WEATHER not in scene.tools:
        return Turn(texts.NO_WEATHER_TOOL)
    looked_up = scene.results_of(WEATHER)
    known = [done.value for done in looked_up if "temperature" in done.value]
    if not looked_up and scene.may_call:
        cities = cities_in(scene.question)
        return _calls(scene, WEATHER, [{"city": city} for city in cities])
    if known and not scene.results_of(ADVICE) and scene.can(ADVICE):
        return _calls(scene, ADVICE, [_conditions(value) for value in known])
    return Turn(_report(scene, looked_up))


def _calls(scene: Scene, name: str, arguments: list[dict[str, Any]], text: str = "") -> Turn:
    return Turn(text, calls=[scene.call(name, each, number) for number, each in enumerate(arguments, 1)])


def _conditions(value: dict[str, Any]) -> dict[str, Any]:
    return {"temperature": value["temperature"], "conditions": value.get("conditions", "unknown")}


def _report(scene: Scene, looked_up: Sequence[Done]) -> str:
    if not looked_up:
        return texts.NO_CALLS_LEFT
    advice = {_advice_key(_parse(done.call.arguments)): done for done in scene.results_of(ADVICE)}
    lines = [_city_report(done, advice) for done in looked_up]
    body = lines[0] if len(lines) == 1 else "\n".join(f"- {line}" for line in lines)
    has_values = any("temperature" in done.value for done in looked_up)
    return f"{body}\n\n{texts.EXAMPLE_DATA}" if has_values else body


def _city_report(done: Done, advice: dict[tuple[str, str], Done]) -> str:
    value = done.value
    asked = _parse(done.call.arguments)
    city = value.get("city") or (asked.get("city") if isinstance(asked, dict) else None) or "that place"
    if "temperature" not in value:
        return f"I could not get the weather for **{city}**: “{done.problem}” So I will not guess."
    weather = _conditions(value)
    told = f"In **{city}** it is {weather['temperature']}°F and {weather['conditions']}"
    return f"{told}{_recommendation(advice.get(_advice_key(weather)))}"


def _recommendation(done: Done | None) -> str:
    if done is None:
        return "."
    words = str(done.value.get("recommendation", "")).strip().rstrip(".")
    if not words:
        return f". The clothing advice failed, though: “{done.problem}”"
    return f": {words[0].lower()}{words[1:]}."


def _advice_key(arguments: Any) -> tuple[str, str]:
    """Advice belongs to the weather it was asked for, not to the place of its call among the others."""
    if not isinstance(arguments, dict):
        return ("", "")
    return (str(arguments.get("temperature")), str(arguments.get("conditions")))


_PLACES = [
    re.compile(rf"\b(?:{words})\s+(?P<places>[^?!.;:\n]+)", re.IGNORECASE)
    for words in ("in", "for|at|of|between", "compare")
]
_END_OF_PLACES = re.compile(
    r"\b(?:today|tonight|tomorrow|now|right|currently|this|next|please|in|on|at|with|when|if|should|will)\b.*",
    re.IGNORECASE,
)
_BETWEEN_PLACES = re.compile(
    r"\s*(?:,\s*and\b|,|&|\band\b|\bor\b|\bvs\b|\bversus\b|\bto\b)\s*", re.IGNORECASE
)


def cities_in(question: str) -> list[str]:
    """The cities that are named, in order, each once; San Francisco if there are none."""
    found = next((found for pattern in _PLACES if (found := pattern.search(question))), None)
    places = _END_OF_PLACES.sub("", found["places"]) if found else ""
    names = (re.sub(r"^the\s+", "", place.strip(" '\"*_`")) for place in _BETWEEN_PLACES.split(places))
    cities = dict.fromkeys(name if name[:1].isupper() else name.title() for name in names if name)
    return list(cities)[:MOST_CITIES] or [DEFAULT_CITY]


# -- an email, which a person has to approve ------------------------------------------------------------------

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
    return _calls(scene, EMAIL, [arguments], texts.BEFORE_EMAIL)


def _email_report(tried: Done) -> str:
    code = tried.result.error
    if code is not None:
        return texts.EMAIL_REFUSED.get(code, texts.EMAIL_FAILED).format(said=tried.problem)
    used = _parse(tried.call.used_arguments)
    used = used if isinstance(used, dict) else {}
    changed = texts.EMAIL_CHANGED if tried.call.edited is not None else ""
    to, subject = used.get("to", "somebody"), used.get("subject", "")
    return texts.EMAIL_SENT.format(to=to, subject=subject, changed=changed)


# -- the other rules -----------------------------------------------------------------------------------------


def help_answer(scene: Scene) -> Turn:
    listed = "\n".join(f"- **{rule.ask}**: {rule.shows}" for rule in RULES)
    return Turn(f"{texts.WHO}\n\n{listed}")


def parallel(scene: Scene) -> Turn:
    if scene.can(WEATHER) and not scene.done:
        return _calls(scene, WEATHER, [{"city": city} for city in ("Paris", "Rome", "Oslo")])
    return Turn(_report(scene, scene.results_of(WEATHER)) if scene.done else texts.NO_WEATHER_TOOL)


def unknown_tool(scene: Scene) -> Turn:
    if scene.may_call and not scene.done:
        return _calls(scene, "read_crystal_ball", [{"question": scene.question}], texts.BEFORE_UNKNOWN_TOOL)
    said = scene.done[-1].problem if scene.done else "nothing"
    return Turn(texts.AFTER_UNKNOWN_TOOL.format(said=said))


def bad_arguments(scene: Scene) -> Turn:
    if WEATHER not in scene.tools:
        return Turn(texts.NO_WEATHER_TOOL)
    if scene.may_call and not scene.done:
        return _calls(scene, WEATHER, [{"town": 7}])
    if scene.may_call and len(scene.done) == 1:
        return _calls(scene, WEATHER, [{"city": DEFAULT_CITY}], texts.CORRECTION)
    return Turn(_report(scene, scene.done[-1:]))


_TOUR = ("San Francisco", "Paris", "Rome", "Oslo", "Lisbon", "Vienna", "Nairobi", "Lima")


def loop(scene: Scene) -> Turn:
    if not scene.may_call:
        return Turn(texts.LOOP_STOPPED.format(turns=scene.turn - 1))
    if WEATHER not in scene.tools:
        return Turn(texts.NO_WEATHER_TOOL)
    city = _TOUR[(scene.turn - 1) % len(_TOUR)]
    return _calls(scene, WEATHER, [{"city": city}], f"And {city}? " if scene.turn > 1 else "")


def sky(scene: Scene) -> Turn:
    """One long call, which tells how far it is."""
    seen = scene.results_of(SKY)
    if seen or not scene.can(SKY):
        return Turn(texts.AFTER_SKY if seen else texts.NO_SUCH_TOOL.format(name=SKY))
    return _calls(scene, SKY, [{"hours": 8}], texts.BEFORE_SKY)


def colleague(scene: Scene) -> Turn:
    """Hands what stands behind the colon to a subagent."""
    if not scene.can(COLLEAGUE) and not scene.done:
        return Turn(texts.NO_SUCH_TOOL.format(name=COLLEAGUE))
    if scene.done:
        told = scene.done[-1]
        said = told.problem if told.result.error else str(told.result.content)
        return Turn(texts.AFTER_COLLEAGUE.format(said="\n> ".join(said.splitlines())))
    task = scene.question.partition(":")[2].strip() or texts.TASK
    return _calls(scene, COLLEAGUE, [{"task": task}], texts.BEFORE_COLLEAGUE)


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


# -- reading the transcript ----------------------------------------------------------------------------------


def _done(messages: Sequence[Message]) -> Iterator[Done]:
    calls = {call.id: call for message in messages for call in message.tool_calls}
    for message in messages:
        for result in message.tool_results:
            if result.tool_call_id in calls:
                yield Done(calls[result.tool_call_id], result)


def _parse(content: Any) -> Any:
    if not isinstance(content, str):
        return None
    try:
        return json.loads(content)
    except (ValueError, RecursionError):
        return None


# -- usage: a word is a token, which is honest for something that has none -----------------------------------


def _usage(request: TurnRequest, turn: Turn) -> Usage:
    read = _words(request.system) + sum(_words_of(message) for message in request.transcript)
    thought = _words(turn.thinking)
    called = sum(_words(name) + _words(str(arguments)) for _, name, arguments in turn.calls)
    return Usage(read, thought + _words(turn.text) + called, reasoning_tokens=thought)


def _words_of(message: Message) -> int:
    calls = sum(_words(call.name) + _words(call.arguments) for call in message.tool_calls)
    results = sum(_words(str(result.content)) for result in message.tool_results)
    return _words(message.text) + calls + results


def _words(text: str) -> int:
    return len(text.split())
