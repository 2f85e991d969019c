"""A thread in which each state can be seen: written as rows, so it is there at once and costs no model a word.

    python manage.py demothread --user NAME     and a button on the empty page, with the demo model

Its last question is a real one: `send_email` waits, and an answer to it begins a run like any other. What no rows can
show, since it is gone with the result, is in that run: a call that tells how far it is.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from agent.approvals import interrupt_of
from agent.messages import Message, Part, TextPart, ThinkingPart, ToolCallPart, ToolResultPart
from agent.results import UNKNOWN_OUTCOME
from agent.wire.agui_messages import encode_messages
from chatsite.chat.agents import DEMO, agents
from chatsite.chat.models import Run, Thread, ToolCall
from chatsite.chat.rows import questions, values

TITLE = _("A tour of what you may see")

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


def make(owner: Any) -> Thread:
    """A new tour of that person's. Caller holds the transaction."""
    now = timezone.now()
    thread = Thread.objects.create(
        owner=owner, title=str(TITLE), titled=Thread.Titled.PERSON, model=DEMO, created_at=now, updated_at=now
    )
    played = scenes()
    for place, scene in enumerate(played):
        _play(thread, scene, now - timedelta(minutes=len(played) - place))
    thread.save(update_fields=["head"])
    return thread


def _play(thread: Thread, scene: Scene, at: datetime) -> None:
    ended = at + timedelta(seconds=scene.seconds)
    run = Run.objects.create(
        thread=thread,
        state=scene.state,
        door="demo",
        model=DEMO,
        stop_reason=scene.stop_reason,
        finish_reason=scene.finish,
        error=scene.error,
        error_code=scene.error_code,
        turns=len(scene.turns),
        receipt=scene.receipt,
        created_at=at,
        finished_at=ended,
        log=Run.Log.PRUNED,
        booked=True,
    )
    for message in _messages(run, scene):
        row = values.row_of(
            message, thread_id=thread.pk, run_id=run.pk, parent_id=thread.head_id, created_at=at
        )
        row.save(force_insert=True)
        thread.head = row
        _keep_calls(run, message, at)
    for waiting in run.tool_calls.filter(state=ToolCall.State.WAITING):
        _ask(run, waiting, ended)


def _messages(run: Run, scene: Scene) -> Iterator[Message]:
    id = run.public_id
    yield Message(f"{id}-0", "user", (TextPart(scene.asked),))
    beside: dict[str, Any] = {}
    if scene.behind:
        said = encode_messages(tuple(_turns(f"{id}-c", scene.behind, "stop", {})), exact=True)
        beside["subagent"] = {"runId": f"{id}-c", "messages": said}
    if scene.whole:
        beside["full"] = scene.whole
    yield from _turns(id, scene.turns, scene.finish, beside)


def _turns(id: str, turns: Turns, finish: str, beside: Mapping[str, Any]) -> Iterator[Message]:
    for turn, (parts, results) in enumerate(turns, start=1):
        last = turn == len(turns)
        yield Message(f"{id}-{turn}", "assistant", tuple(parts), finish if last else "tool_calls")
        if results:
            yield Message(f"{id}-{turn}t", "tool", tuple(results), metadata=beside if turn == 1 else {})


def _keep_calls(run: Run, message: Message, at: datetime) -> None:
    """The ledger: a call waits until its result comes, in the message behind it."""
    for part in message.tool_calls:
        ToolCall.objects.create(
            run=run,
            call_id=part.id,
            name=part.name,
            state=ToolCall.State.WAITING,
            arguments=part.arguments,
            created_at=at,
        )
    for result in message.tool_results:
        state = ToolCall.State.FAILED if result.error else ToolCall.State.DONE
        run.tool_calls.filter(call_id=result.tool_call_id).update(
            state=state, error_code=result.error or "", finished_at=at, duration_ms=result.duration_ms
        )


def _ask(run: Run, waiting: ToolCall, at: datetime) -> None:
    tool = agents().tools_with().get(waiting.name)
    if tool is None:
        return
    part = ToolCallPart(waiting.call_id, waiting.name, waiting.arguments)
    asked = interrupt_of(part, tool, id=f"{run.public_id}-q", run_id=run.public_id, expires_at=None)
    questions.row_of(asked, run_id=run.pk, thread_id=run.thread_id, created_at=at).save(force_insert=True)
