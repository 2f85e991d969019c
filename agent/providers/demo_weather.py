"""The demo model's weather: which cities were meant, what was found out, and words for it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from agent.providers import demo_texts as texts
from agent.providers.demo_scene import Done, Scene, calls_of, parsed
from agent.providers.scripted import Turn

WEATHER = "get_weather"
ADVICE = "get_clothing_advice"

DEFAULT_CITY = "San Francisco"
MOST_CITIES = 5


def weather(scene: Scene) -> Turn:
    """Weather, then advice for each city that has some, then words: one turn each."""
    if WEATHER not in scene.tools:
        return Turn(texts.NO_WEATHER_TOOL)
    looked_up = scene.results_of(WEATHER)
    known = [done.value for done in looked_up if "temperature" in done.value]
    if not looked_up and scene.may_call:
        cities = cities_in(scene.question)
        return calls_of(scene, WEATHER, [{"city": city} for city in cities])
    if known and not scene.results_of(ADVICE) and scene.can(ADVICE):
        return calls_of(scene, ADVICE, [_conditions(value) for value in known])
    return Turn(report(scene, looked_up))


def _conditions(value: dict[str, Any]) -> dict[str, Any]:
    return {"temperature": value["temperature"], "conditions": value.get("conditions", "unknown")}


def report(scene: Scene, looked_up: Sequence[Done]) -> str:
    if not looked_up:
        return texts.NO_CALLS_LEFT
    advice = {_advice_key(parsed(done.call.arguments)): done for done in scene.results_of(ADVICE)}
    lines = [_city_report(done, advice) for done in looked_up]
    body = lines[0] if len(lines) == 1 else "\n".join(f"- {line}" for line in lines)
    has_values = any("temperature" in done.value for done in looked_up)
    return f"{body}\n\n{texts.EXAMPLE_DATA}" if has_values else body


def _city_report(done: Done, advice: dict[tuple[str, str], Done]) -> str:
    value = done.value
    asked = parsed(done.call.arguments)
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
