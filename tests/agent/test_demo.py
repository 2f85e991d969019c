"""The demo model plays each state of the chat by its rules, and says that it is no language model."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest

from agent.errors import BadStream, ProviderError
from agent.events import TurnEnd
from agent.messages import Message, Part, TextPart, ToolCallPart, ToolResultPart, user_message
from agent.providers.demo import DemoProvider
from agent.providers.demo_rules import RULES, SLOW_PACE
from agent.providers.demo_weather import cities_in
from tests.agent.turns import calls_of, collect, collect_broken, request, text_of, thinking_of

Tool = Callable[[dict[str, Any]], Any]


def get_weather(arguments: dict[str, Any]) -> dict[str, Any]:
    if arguments["city"] == "Nowhere":
        raise ValueError("There is no weather in Nowhere.")
    return {"city": arguments["city"], "temperature": 62, "conditions": "cloudy"}


def get_clothing_advice(arguments: dict[str, Any]) -> dict[str, Any]:
    assert set(arguments) == {"temperature", "conditions"}
    return {"recommendation": "Wear a light jacket"}


TOOLS: dict[str, Tool] = {"get_weather": get_weather, "get_clothing_advice": get_clothing_advice}


def run_tool(call: ToolCallPart, tools: dict[str, Tool]) -> ToolResultPart:
    if call.name not in tools:
        return failed(call, f"There is no tool called {call.name}.", "unknown_tool")
    try:
        return ToolResultPart(call.id, json.dumps(tools[call.name](json.loads(call.arguments))))
    except KeyError as exc:
        return failed(call, f"{exc.args[0]}: Field required", "invalid_arguments")
    except ValueError as exc:
        return failed(call, str(exc), "tool_error")


def failed(call: ToolCallPart, message: str, code: str) -> ToolResultPart:
    return ToolResultPart(call.id, json.dumps({"error": message}), error=code)


class Conversation:
    """A person's question, and the turns until the demo model asks for no more tools."""

    def __init__(self, question: str, tools: dict[str, Tool] = TOOLS, last_turn: int = 5) -> None:
        self.transcript: list[Message] = [
            user_message("u0", "hi"),
            Message("a0", "assistant", (TextPart("Hello"),)),
        ]
        self.transcript.append(user_message("u1", question))
        self.calls: list[list[tuple[str, Any]]] = []
        self.text = ""
        self.end: TurnEnd | None = None
        self._tools = tools
        self._last_turn = last_turn

    async def play(self) -> Conversation:
        for number in range(1, self._last_turn + 1):
            choice = "none" if number == self._last_turn else "auto"
            calls = await self._turn(f"m{number}", choice)
            if not calls:
                return self
            self.calls.append([(call.name, json.loads(call.arguments)) for call in calls])
            results = tuple(run_tool(call, self._tools) for call in calls)
            self.transcript.append(Message(f"t{number}", "tool", results))
        raise AssertionError("it asks for tools although it may not")

    async def _turn(self, message_id: str, tool_choice: str) -> list[ToolCallPart]:
        asked = request(
            *self.transcript, tools=tuple(self._tools), message_id=message_id, tool_choice=tool_choice
        )
        events, self.end = await collect(DemoProvider(pace=0).stream(asked))
        self.text = text_of(events)
        calls = [ToolCallPart(*call) for call in calls_of(events)]
        parts: tuple[Part, ...] = (TextPart(self.text), *calls)
        self.transcript.append(Message(message_id, "assistant", parts, self.end.finish_reason))
        return calls


async def ask(question: str, **options: Any) -> Conversation:
    return await Conversation(question, **options).play()


async def first_turn(question: str, tools: tuple[str, ...] = tuple(TOOLS)) -> tuple[Any, ...]:
    asked = request(user_message("u1", question), tools=tools)
    return await collect_broken(DemoProvider(pace=0).stream(asked))


# -- weather and clothing ------------------------------------------------------------------------------------


async def test_the_weather_question_takes_two_tools_and_answers_from_what_they_gave():
    talk = await ask("What should I wear in San Francisco today?")
    assert talk.calls == [
        [("get_weather", {"city": "San Francisco"})],
        [("get_clothing_advice", {"temperature": 62, "conditions": "cloudy"})],
    ]
    assert talk.text.startswith("In **San Francisco** it is 62°F and cloudy: wear a light jacket.")
    assert "example data" in talk.text
    assert talk.end.finish_reason == "stop"


async def test_any_city_may_be_named():
    assert (await ask("weather in são paulo?")).calls[0] == [("get_weather", {"city": "São Paulo"})]


async def test_several_cities_are_asked_for_side_by_side():
    talk = await ask("compare Paris and Rome")
    assert talk.calls[0] == [("get_weather", {"city": "Paris"}), ("get_weather", {"city": "Rome"})]
    assert len(talk.calls[1]) == 2
    assert "**Paris**" in talk.text
    assert "**Rome**" in talk.text


async def test_each_city_gets_the_advice_for_its_own_weather():
    def weather(arguments):
        return {"city": arguments["city"], "temperature": len(arguments["city"]), "conditions": "dry"}

    def advice(arguments):
        return {"recommendation": f"Wear {arguments['temperature']} coats"}

    talk = await ask("compare Rome and Lisbon", tools={"get_weather": weather, "get_clothing_advice": advice})
    assert "In **Rome** it is 4°F and dry: wear 4 coats." in talk.text
    assert "In **Lisbon** it is 6°F and dry: wear 6 coats." in talk.text


async def test_a_tool_that_failed_is_said_so_and_nothing_is_made_up():
    talk = await ask("What should I wear in Nowhere?")
    assert talk.calls == [[("get_weather", {"city": "Nowhere"})]]
    assert "could not get the weather for **Nowhere**" in talk.text
    assert "There is no weather in Nowhere." in talk.text
    assert "°F" not in talk.text


async def test_one_city_that_failed_does_not_spoil_the_other():
    talk = await ask("weather in Nowhere and Rome")
    assert len(talk.calls[1]) == 1
    assert "could not get the weather for **Nowhere**" in talk.text
    assert "In **Rome** it is 62°F" in talk.text


async def test_advice_that_failed_is_said_so():
    def advice(arguments):
        raise ValueError("The wardrobe is locked.")

    talk = await ask("weather in Rome", tools={"get_weather": get_weather, "get_clothing_advice": advice})
    assert "In **Rome** it is 62°F and cloudy" in talk.text
    assert "The wardrobe is locked." in talk.text


async def test_without_the_advice_tool_the_weather_alone_is_told():
    talk = await ask("weather in Rome", tools={"get_weather": get_weather})
    assert len(talk.calls) == 1
    assert "In **Rome** it is 62°F and cloudy." in talk.text


async def test_without_the_weather_tool_it_says_that_it_has_none():
    talk = await ask("What should I wear in Rome?", tools={})
    assert talk.calls == []
    assert "no weather tool" in talk.text


async def test_when_it_may_not_call_it_tells_what_it_has():
    talk = await ask("weather in Rome", last_turn=2)
    assert len(talk.calls) == 1
    assert "In **Rome** it is 62°F and cloudy." in talk.text
    assert (await ask("weather in Rome", last_turn=1)).text.startswith("I may make no tool calls now")


@pytest.mark.parametrize("content", ["62 degrees", "[1]", "null", "{}", "[" * 100_000])
async def test_a_result_of_another_shape_is_no_weather(content):
    call = ToolCallPart("c1", "get_weather", '{"city": "Rome"}')
    asked = request(
        user_message("u1", "weather in Rome"),
        Message("m1", "assistant", (call,), "tool_calls"),
        Message("t1", "tool", (ToolResultPart("c1", content),)),
        tools=tuple(TOOLS),
    )
    events, _ = await collect(DemoProvider(pace=0).stream(asked))
    assert calls_of(events) == []
    assert "could not get the weather for **Rome**" in text_of(events)


async def test_a_new_question_looks_the_weather_up_again():
    talk = await ask("weather in Rome")
    talk.transcript.append(user_message("u2", "and the weather in Oslo?"))
    calls = await talk._turn("m9", "auto")
    assert [call.arguments for call in calls] == ['{"city": "Oslo"}']


@pytest.mark.parametrize(
    ("question", "cities"),
    [
        ("What should I wear in San Francisco today?", ["San Francisco"]),
        ("weather?", ["San Francisco"]),
        ("What is the weather like in Paris, Rome, and Oslo?", ["Paris", "Rome", "Oslo"]),
        ("Compare the weather in Paris and Rome", ["Paris", "Rome"]),
        ("Should I take an umbrella in the Hague tomorrow?", ["Hague"]),
        ("the weather in New York City this weekend", ["New York City"]),
        ("weather in paris vs london", ["Paris", "London"]),
        ("weather for Tokyo & Tokyo", ["Tokyo"]),
        ("What should I wear?\nI am in Oslo\nthanks", ["Oslo"]),
        ("weather in a, b, c, d, e, f, g", ["A", "B", "C", "D", "E"]),
        ("weather in ?", ["San Francisco"]),
    ],
)
def test_cities_are_read_out_of_the_question(question, cities):
    assert cities_in(question) == cities


# -- the other states ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("question", ["hello", "help", "What is the capital of France?", "", "?"])
async def test_a_question_it_has_no_rule_for_is_told_what_it_is_and_can_do(question):
    talk = await ask(question)
    first_line = talk.text.splitlines()[0]
    assert "demo model" in first_line
    assert "no language model" in first_line
    for rule in RULES:
        assert f"**{rule.ask}**" in talk.text


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.ask)
def test_what_help_says_to_ask_leads_to_its_own_rule(rule):
    assert next(each for each in RULES if each.pattern.search(rule.ask)) is rule


async def test_a_long_answer_has_all_of_markdown():
    text = (await ask("a long answer please")).text
    for sign in (
        "# ",
        "## ",
        "|---|",
        "- [x]",
        "- [ ]",
        "```python",
        "```js",
        "> ",
        "   - ",
        "](https://",
        "$$",
    ):
        assert sign in text
    assert 400 < len(text) / 4 < 700, "about that many tokens"
    assert (await ask("show me markdown")).text == text


async def test_a_very_long_answer_has_about_four_thousand_words():
    assert 3_500 < len((await ask("a very long answer")).text.split()) < 4_500


async def test_an_answer_can_be_cut_by_length():
    talk = await ask("cut")
    assert talk.end.finish_reason == "length"
    assert talk.text.endswith("stops in the mid")


async def test_a_call_can_be_cut_by_length():
    events, end, _ = await first_turn("cut call")
    ((_, name, arguments),) = calls_of(events)
    assert name == "get_weather"
    assert end.finish_reason == "length"
    with pytest.raises(ValueError):
        json.loads(arguments)


async def test_a_cut_call_that_got_its_error_is_explained():
    call = ToolCallPart("c1", "get_weather", '{"city": "San Fran')
    asked = request(
        user_message("u1", "cut call"),
        Message("m1", "assistant", (call,), "length"),
        Message("t1", "tool", (failed(call, "Cut off.", "max_tokens"),)),
        tools=tuple(TOOLS),
    )
    events, end = await collect(DemoProvider(pace=0).stream(asked))
    assert calls_of(events) == []
    assert "cut off" in text_of(events)
    assert end.finish_reason == "stop"


async def test_an_error_comes_before_any_text():
    events, end, error = await first_turn("error")
    assert (events, end) == ([], None)
    assert isinstance(error, ProviderError)
    assert not error.retryable


async def test_a_stream_can_break_off_in_mid_answer():
    events, end, error = await first_turn("break off")
    assert len(text_of(events)) > 50
    assert end.finish_reason is None
    assert isinstance(error, BadStream)


async def test_it_can_think_first():
    events, end, _ = await first_turn("think")
    assert "not real thoughts" in thinking_of(events)
    assert text_of(events)
    assert 0 < end.usage.reasoning_tokens < end.usage.output_tokens


async def test_a_content_filter_can_stop_it():
    assert (await ask("filter")).end.finish_reason == "content_filter"


async def test_three_calls_can_go_out_at_once():
    talk = await ask("parallel")
    assert [len(calls) for calls in talk.calls] == [3]
    assert talk.text.count("62°F") == 3


async def test_it_gets_over_a_tool_that_does_not_exist():
    talk = await ask("unknown tool")
    assert talk.calls[0][0][0] == "read_crystal_ball"
    assert "There is no tool called read_crystal_ball." in talk.text


async def test_it_corrects_bad_arguments():
    talk = await ask("bad arguments")
    assert talk.calls == [[("get_weather", {"town": 7})], [("get_weather", {"city": "San Francisco"})]]
    assert "In **San Francisco** it is 62°F" in talk.text


async def test_it_calls_for_ever_until_it_may_not_and_then_says_so():
    talk = await ask("loop", last_turn=12)
    assert len(talk.calls) == 11
    assert all(before != after for before, after in zip(talk.calls, talk.calls[1:], strict=False))
    assert "after 11 turns" in talk.text


@pytest.mark.parametrize("question", ["parallel", "bad arguments", "loop", "weather"])
async def test_rules_that_need_the_weather_tool_say_so_without_it(question):
    talk = await ask(question, tools={})
    assert talk.calls == []
    assert "no weather tool" in talk.text


async def test_the_slow_answer_takes_long_enough_to_press_stop_and_can_be_stopped():
    asked = request(user_message("u1", "slow"))
    events, _ = await collect(DemoProvider(pace=0).stream(asked))
    assert len(events) * DemoProvider().pace * SLOW_PACE > 20

    stream = DemoProvider().stream(asked)
    await anext(stream)
    async with asyncio.timeout(10):  # half of what is left of it
        await stream.aclose()


async def test_calls_of_different_turns_have_different_ids():
    talk = await ask("loop", last_turn=4)
    ids = [call.id for message in talk.transcript for call in message.tool_calls]
    assert len(ids) == len(set(ids)) == 3


async def test_usage_counts_words_read_and_said():
    events, end = await collect(
        DemoProvider(pace=0).stream(request(user_message("u1", "cut it here"), system="Be kind."))
    )
    assert end.usage.input_tokens == 5
    assert end.usage.output_tokens == len(text_of(events).split())


async def test_it_keeps_nothing_of_what_it_was_asked():
    provider = DemoProvider(pace=0)
    before = dict(vars(provider))
    await collect(provider.stream(request(user_message("u1", "help"))))
    assert vars(provider) == before


@pytest.mark.parametrize(
    ("question", "hours"),
    [("progress", 8), ("progress of 24 hours", 24), ("progress 0", 1), ("progress " + "9" * 5_000, 24)],
)
async def test_the_sky_is_watched_for_as_long_as_its_tool_allows(question: str, hours: int):
    talk = await ask(question, tools={"watch_sky": lambda arguments: arguments})
    assert talk.calls == [[("watch_sky", {"hours": hours})]]
