"""The script of the tour: each scene is one run, and shows a state that the others do not."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from agent.messages import Part, TextPart, ThinkingPart, ToolCallPart, ToolResultPart
from agent.results import UNKNOWN_OUTCOME
from chatsite.chat.models import Run

ANSWER = """\
Take a **light jacket**: it is cloudy and 62 °F.

| hour | sky | wear |
|---|---|---:|
| 9 | fog | jacket |
| 12 | sun | shirt |
| 18 | wind | jacket |

- [x] looked at the weather
- [ ] packed the bag

What feels cold is the wind. In °F, with the wind $v$ in miles an hour:

$$T_{wc} = 35.74 + 0.6215\\,T - 35.75\\,v^{0.16} + 0.4275\\,T\\,v^{0.16}$$

```python
def wind_chill(t: float, v: float) -> float:
    return 35.74 + 0.6215 * t - 35.75 * v**0.16 + 0.4275 * t * v**0.16
```
"""


COLLEAGUE = """\
For **Oslo**, take:

- a warm coat
- a scarf, since the wind is cold
"""

FORECAST = "\n".join(
    f"{day}: {sky}, {degrees} °F"
    for day, sky, degrees in (
        ("Monday", "fog", 59),
        ("Tuesday", "cloudy", 62),
        ("Wednesday", "sun", 68),
        ("Thursday", "sun", 70),
        ("Friday", "rain", 57),
    )
)
FORECAST_READ = f"{FORECAST.partition(chr(10))[0]}\n[4 more days were left out]"

Turns = Sequence[tuple[Sequence[Part], Sequence[ToolResultPart]]]
"""The parts of each turn, with the results behind them."""


@dataclass(frozen=True, slots=True)
class Scene:
    """One run: what was asked and what came of it. `behind` are the turns of the subagent that its calls handed to,
    `whole` is what its first tool gave where the model read less."""

    asked: str
    turns: Turns
    behind: Turns = ()
    whole: str = ""
    state: str = Run.State.FINISHED
    stop_reason: str = "stop"
    finish: str = "stop"
    error: str = ""
    error_code: str = ""
    receipt: dict[str, Any] = field(default_factory=dict)
    seconds: float = 2.0


def call(id: str, name: str, **arguments: Any) -> ToolCallPart:
    return ToolCallPart(id, name, json.dumps(arguments))


def ok(id: str, ms: int, **content: Any) -> ToolResultPart:
    return ToolResultPart(id, json.dumps(content), duration_ms=ms)


def bad(id: str, code: str, words: str, ms: int | None = None) -> ToolResultPart:
    return ToolResultPart(id, json.dumps({"error": words}), error=code, duration_ms=ms)


def scenes() -> tuple[Scene, ...]:
    city = {"city": "San Francisco"}
    mail = {"to": "ada@example.org", "subject": "What to wear", "body": "Take a light jacket."}
    return (
        Scene(
            "What should I wear in San Francisco today?",
            (
                (
                    [
                        ThinkingPart("I need the *weather* first, then advice for it.", duration_ms=2300),
                        call("tour-1", "get_weather", **city),
                    ],
                    [ok("tour-1", 412, temperature=62, conditions="cloudy", **city)],
                ),
                (
                    [call("tour-2", "get_clothing_advice", temperature=62, conditions="cloudy")],
                    [ok("tour-2", 3, advice="Wear a light jacket")],
                ),
                ([TextPart(ANSWER)], []),
            ),
            seconds=4.2,
        ),
        Scene(
            "Compare Paris, Rome and Nowhere, and tell me the tides.",
            (
                (
                    [
                        call("tour-3", "get_weather", city="Paris"),
                        call("tour-4", "get_weather", city="Nowhere"),
                        call("tour-5", "get_tides", city="Rome"),
                        call("tour-6", "get_weather", city="Rome"),
                    ],
                    [
                        ok("tour-3", 388, city="Paris", temperature=57, conditions="rainy"),
                        bad("tour-4", "tool_error", "There is no such city.", 12),
                        bad("tour-5", "unknown_tool", "There is no tool get_tides."),
                        bad("tour-6", "timeout", "The tool took longer than 30 s.", 30_000),
                    ],
                ),
                (
                    [
                        TextPart(
                            "Paris is **rainy** at 57 °F. Of the others I learned nothing: see the cards."
                        )
                    ],
                    [],
                ),
            ),
            seconds=31.1,
        ),
        Scene(
            "Ask a colleague what to wear in Oslo.",
            (
                (
                    [call("tour-c", "ask_colleague", task="What should I wear in Oslo today?")],
                    [ToolResultPart("tour-c", COLLEAGUE, duration_ms=2_900)],
                ),
                ([TextPart("My colleague says: a **warm coat** and a scarf.")], []),
            ),
            behind=(
                (
                    [call("tour-d", "get_weather", city="Oslo")],
                    [ok("tour-d", 402, city="Oslo", temperature=37, conditions="windy")],
                ),
                ([TextPart(COLLEAGUE)], []),
            ),
            seconds=3.6,
        ),
        Scene(
            "Write to ada and bob, and watch the sky.",
            (
                (
                    [
                        call("tour-9", "send_email", **mail),
                        call("tour-10", "send_email", **mail | {"to": "bob@example.org"}),
                        call("tour-11", "watch_sky"),
                    ],
                    [
                        bad("tour-9", "denied", "The person denied this call. They say: not today."),
                        bad("tour-10", "outcome_unknown", UNKNOWN_OUTCOME),
                        bad(
                            "tour-11", "over_budget", "It was not run: the calls of this answer are used up."
                        ),
                    ],
                ),
                (
                    [
                        TextPart(
                            "Nothing went to ada. Whether bob has his mail I cannot tell, and the sky must wait."
                        )
                    ],
                    [],
                ),
            ),
        ),
        Scene(
            "Tell me everything about this week's clouds.",
            (
                (
                    [call("tour-12", "get_forecast", days=5)],
                    [ToolResultPart("tour-12", FORECAST_READ, duration_ms=95)],
                ),
                (
                    [
                        TextPart("Clouds are drops of water or crystals of ice, so small that they"),
                        ToolCallPart("tour-13", "get_weather", '{"city": "San Fr'),
                    ],
                    [bad("tour-13", "max_tokens", "The answer was cut here, so it was not run.")],
                ),
            ),
            whole=FORECAST,
            stop_reason="length",
            finish="length",
        ),
        Scene(
            "Send ada the advice, then look at Oslo.",
            (
                (
                    [call("tour-7", "send_email", **mail), call("tour-8", "get_weather", city="Oslo")],
                    [
                        ok("tour-7", 7, status="sent", to=mail["to"]),
                        bad("tour-8", "aborted", "It was stopped before it began."),
                    ],
                ),
            ),
            state=Run.State.CANCELLED,
            stop_reason="cancelled",
            finish="tool_calls",
            receipt={
                "during": "tools",
                "calls": [
                    {"toolCallId": "tour-7", "toolName": "send_email", "outcome": "done"},
                    {"toolCallId": "tour-8", "toolName": "get_weather", "outcome": "not_run"},
                ],
            },
        ),
        Scene(
            "And tomorrow?",
            (),
            state=Run.State.FAILED,
            stop_reason="",
            error="The model could not be reached.",
            error_code="provider_unreachable",
            seconds=0.4,
        ),
        Scene(
            "Write her again, and show me the progress.",
            (
                (
                    [
                        TextPart("I can do that. Answer this first, then a card says how far it is."),
                        call("tour-14", "send_email", **mail),
                    ],
                    [],
                ),
            ),
            state=Run.State.INTERRUPTED,
            stop_reason="interrupt",
            finish="tool_calls",
        ),
    )
