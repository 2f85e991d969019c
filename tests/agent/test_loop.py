"""Whole runs: what is told, what is kept, what the model reads next, and how a run ends."""

from __future__ import annotations

from contextlib import aclosing
from dataclasses import replace
from typing import Any

import pytest

from agent import (
    Agent,
    AgentRun,
    InvalidRequest,
    LoopState,
    Tool,
    ToolContext,
    ToolError,
    Transcript,
    combine_strategies,
    max_cost,
    max_iterations,
    max_seconds,
    max_tokens,
    max_tool_calls,
    no_repeated_calls,
    run_agent,
    tool,
    until_finish_reason,
    user_message,
)
from agent import events as ev
from agent.errors import AuthenticationFailed, ProviderError, RateLimited
from agent.messages import Message, TextPart, ThinkingPart, ToolCallPart, Usage
from agent.providers.scripted import ScriptedProvider, Turn
from agent.strategies import NamedStrategy
from tests.agent.runs import ASKED, answered, assistant, call, context, drive, play, said

ran: list[str] = []


@tool
async def echo(text: str = "") -> str:
    ran.append(text)
    if text == "fail":
        raise ToolError("It failed.")
    return text


@pytest.fixture(autouse=True)
def _nothing_ran():
    ran.clear()


def calls(*texts: str, first: int = 1) -> list[tuple[str, str, dict[str, str]]]:
    return [(f"c{number}", "echo", {"text": text}) for number, text in enumerate(texts, first)]


def each(*texts: str) -> Any:
    """A provider's script that calls for ever, each turn with ids of its own."""
    numbers = iter(range(1, 1000))
    return lambda request: Turn(
        calls=[(f"c{next(numbers)}", "echo", {"text": text}) for text in texts or ("a",)]
    )


def for_ever(**agent: Any) -> Agent:
    return Agent(ScriptedProvider(each=each()), "m", [echo], **agent)


# -- turns


async def test_a_plain_answer_from_its_first_event_to_its_last():
    told = await play(Turn("Cold.", usage=Usage(3, 1)))
    message = told.transcript[-1].id
    assert told.events == [
        ev.RunStarted("t1", "r1", input=(ASKED,)),
        ev.StepStarted("turn-1"),
        ev.TextMessageStart(message),
        ev.TextMessageContent(message, "Cold."),
        ev.TextMessageEnd(message),
        ev.StepFinished(
            "turn-1",
            metadata={
                "messageId": message,
                "finishReason": "stop",
                "model": "m",
                "durationMs": 0,
                "provider": "scripted",
                "usage": {"inputTokens": 3, "outputTokens": 1, "totalTokens": 4},
            },
        ),
        ev.RunFinished(
            "t1",
            "r1",
            usage=(ev.ModelUsage("m", Usage(3, 1), "scripted"),),
            finish_reason="stop",
            stop_reason="stop",
            model="m",
        ),
    ]
    assert told.transcript[:1] == Transcript((ASKED,))
    assert told.transcript[-1].finish_reason == "stop"


async def test_a_run_names_the_one_it_follows():
    told = await play(Turn("a"), ctx=context(parent_run_id="r0"))
    assert told.events[0].parent_run_id == "r0"


async def test_the_model_reads_what_its_tools_gave_and_goes_on_until_it_can_answer():
    told = await play(
        Turn("Let me see.", thinking="hm", calls=calls("a", "b")),
        Turn(calls=calls("c", first=3)),
        Turn("Done."),
        tools=[echo],
    )
    assert ran == ["a", "b", "c"]
    assert [message.role for message in told.transcript] == [
        "user",
        "assistant",
        "tool",
        "tool",
        "assistant",
        "tool",
        "assistant",
    ]
    assert told.told_reasons == told.reasons == ["tool_calls", "tool_calls", "stop"]
    assert told.stop_reason == "stop"
    assert told.transcript[1].parts == (
        ThinkingPart("hm", duration_ms=0),
        TextPart("Let me see."),
        ToolCallPart("c1", "echo", '{"text": "a"}'),
        ToolCallPart("c2", "echo", '{"text": "b"}'),
    )


async def test_each_turn_is_given_the_transcript_as_it_was_told_so_far():
    told = await play(Turn(calls=calls("a")), Turn(calls=calls("b", first=2)), Turn("Done."), tools=[echo])
    requests = told.provider.requests
    assert [len(request.transcript) for request in requests] == [1, 3, 5]
    assert [request.transcript for request in requests] == [told.transcript[:n] for n in (1, 3, 5)]


async def test_a_turn_is_asked_with_all_that_the_agent_is():
    agent = {"system": "Be brief.", "parameters": {"temperature": 0}}
    told = await play(Turn("a"), tools=[echo], agent=agent)
    (request,) = told.provider.requests
    assert (request.model, request.system, request.parameters) == ("m", "Be brief.", {"temperature": 0})
    assert (request.tools, request.tool_choice) == ((echo.spec,), "auto")
    assert request.message_id == told.transcript[-1].id


async def test_each_turn_speaks_under_an_id_of_its_own():
    told = await play(Turn("a", calls=calls("a")), Turn("b"), tools=[echo])
    spoken = [event.message_id for event in told.of(ev.TextMessageStart)]
    assert len(set(spoken)) == 2
    assert told.of(ev.ToolCallStart)[0].parent_message_id == spoken[0]


async def test_a_turns_end_tells_how_it_ended_on_what_for_how_much_and_how_long():
    times = iter(range(100))
    told = await play(
        Turn("a", usage=Usage(10, 5, 2, 3, 1), provider_reason="end_turn"),
        ctx=context(clock=lambda: next(times)),
    )
    (ended,) = told.of(ev.StepFinished)
    usage = {
        "inputTokens": 10,
        "outputTokens": 5,
        "totalTokens": 15,
        "reasoningTokens": 2,
        "cachedInputTokens": 3,
        "cacheWriteInputTokens": 1,
    }
    assert ended.metadata == {
        "messageId": told.transcript[-1].id,
        "finishReason": "stop",
        "model": "m",
        "durationMs": 1000,
        "provider": "scripted",
        "usage": usage,
        "providerReason": "end_turn",
    }
    kept = told.transcript[-1].metadata
    of_it = {"model": "m", "provider": "scripted", "durationMs": 1000, "usage": usage}
    assert kept == of_it | {"providerReason": "end_turn"}


async def test_usage_is_summed_over_the_turns_of_a_model():
    told = await play(Turn(calls=calls("a"), usage=Usage(10, 1)), Turn("b", usage=Usage(20, 2)), tools=[echo])
    assert told.end.usage == (ev.ModelUsage("m", Usage(30, 3), "scripted"),)


async def test_usage_has_an_entry_for_each_model_that_answered():
    class Router:
        name = "router"
        turn = 0

        async def stream(self, request):
            self.turn += 1
            if self.turn == 1:
                yield ev.ToolCallStart("c1", "echo", request.message_id)
                yield ev.ToolCallEnd("c1")
            yield ev.TurnEnd(
                "tool_calls" if self.turn == 1 else "stop", Usage(self.turn), model=f"model-{self.turn}"
            )

    told = await drive(Agent(Router(), "any", [echo]))
    assert [(entry.model, entry.usage) for entry in told.end.usage] == [
        ("model-1", Usage(1)),
        ("model-2", Usage(2)),
    ]
    assert told.end.model == "model-2"


async def test_a_name_that_no_database_holds_is_mended_before_it_is_told():
    class Strange:
        name = "strange"

        async def stream(self, request):
            yield ev.TurnEnd("stop", Usage(1), model="half \ud800 and\x00none")

    told = await drive(Agent(Strange(), "any"))
    assert told.end.model == told.end.usage[0].model == "half \ufffd and\ufffdnone"
    assert told.of(ev.StepFinished)[0].metadata["model"] == told.end.model


async def test_input_that_is_in_the_transcript_already_is_not_there_twice():
    told = await play(Turn("a"), transcript=[ASKED], input=[ASKED])
    assert [message.id for message in told.provider.requests[0].transcript] == ["u1"]


async def test_a_run_without_input_takes_up_the_transcript_where_it_stands():
    left = [ASKED, assistant("m1", call("c1", arguments='{"text": "a"}'), reason="tool_calls")]
    told = await play(Turn("Done."), tools=[echo], transcript=left, input=())
    assert ran == ["a"]
    assert told.of(ev.ToolCallStart) == []  # only the result is told of an old call
    assert [event.tool_call_id for event in told.results] == ["c1"]
    assert told.stop_reason == "stop"


async def test_a_run_with_nothing_left_to_do_ends_at_once():
    told = await play(transcript=[ASKED, assistant("m1", TextPart("a"))], input=())
    assert [type(event) for event in told.events] == [ev.RunStarted, ev.RunFinished]
    assert told.stop_reason == "stop"


@pytest.mark.parametrize(
    ("reason", "stop"), [("stop", "stop"), ("length", "length"), ("tool_calls", "no_calls")]
)
async def test_a_turn_that_says_nothing_leaves_no_message_and_ends_the_run(reason, stop):
    told = await play(Turn(finish_reason=reason), agent={"final_answer": True})
    assert told.transcript == Transcript((ASKED,))
    assert (told.told_reasons, told.stop_reason, told.turns) == ([reason], stop, 1)


async def test_a_paused_turn_that_said_nothing_is_asked_again():
    told = await play(Turn(paused=True), Turn("ok"))
    assert (told.turns, told.text) == (2, "ok")


async def test_silence_behind_results_ends_the_run():
    told = await play(Turn(calls=calls("a")), Turn(), tools=[echo])
    assert (told.turns, told.stop_reason) == (2, "stop")


# -- when tools run, and when not


@pytest.mark.parametrize(("reason", "code"), [("stop", "not_executed"), ("content_filter", "content_filter")])
async def test_calls_beside_another_reason_never_run_and_never_stay_open(reason, code):
    told = await play(Turn("a", calls=calls("a", "b"), finish_reason=reason), tools=[echo])
    assert ran == []
    assert told.codes == [code, code]
    assert (told.stop_reason, told.reasons, told.turns) == (reason, [reason], 1)


async def test_tool_calls_with_no_call_at_all_ends_honestly():
    told = await play(Turn("I would like to call.", finish_reason="tool_calls"), tools=[echo])
    assert told.stop_reason == "no_calls"


async def test_an_unknown_tool_is_an_error_result_and_the_loop_goes_on():
    told = await play(Turn(calls=[("c1", "nobody", {})]), Turn("Sorry."), tools=[echo])
    assert (told.codes, told.text, told.stop_reason) == (["unknown_tool"], "Sorry.", "stop")


async def test_broken_json_is_an_error_result_and_the_loop_goes_on():
    told = await play(Turn(calls=[("c1", "echo", '{"text": "cu')]), Turn("Sorry."), tools=[echo])
    assert (told.codes, ran, told.stop_reason) == (["invalid_arguments"], [], "stop")


async def test_a_failing_tool_is_an_error_result_that_the_model_reads():
    told = await play(Turn(calls=calls("fail", "b")), Turn("One of them failed."), tools=[echo])
    assert told.codes == ["tool_error", None]
    assert said(told.results[0]) == {"error": "It failed."}
    assert told.provider.requests[1].transcript[2].tool_results[0].error == "tool_error"


async def test_results_stand_in_call_order_whatever_kind_they_are():
    asked = [
        ("c1", "nobody", {}),
        ("c2", "echo", {"text": "b"}),
        ("c3", "echo", "{"),
        ("c4", "echo", {"text": "d"}),
    ]
    told = await play(Turn(calls=asked), Turn("ok"), tools=[echo])
    assert [result.tool_call_id for result in told.results] == ["c1", "c2", "c3", "c4"]
    assert told.codes == ["unknown_tool", None, "invalid_arguments", None]
    in_transcript = [part.tool_call_id for message in told.transcript for part in message.tool_results]
    assert in_transcript == ["c1", "c2", "c3", "c4"]


async def test_a_call_without_a_name_never_runs():
    told = await play(Turn(calls=[("c1", "", {})]), Turn("ok"), tools=[echo])
    assert told.codes == ["unknown_tool"]


async def test_a_call_without_an_id_gets_one():
    told = await play(
        Turn(calls=[("", "echo", {"text": "a"}), ("", "echo", {"text": "b"})]), Turn("ok"), tools=[echo]
    )
    assert ran == ["a", "b"]
    assert all(event.tool_call_id for event in told.of(ev.ToolCallStart))


async def test_an_id_that_was_there_before_is_given_a_fresh_one():
    turn = Turn(calls=[("call_0", "echo", {"text": "a" * 40})])
    told = await play(turn, turn, Turn("ok"), tools=[echo])
    ids = [event.tool_call_id for event in told.of(ev.ToolCallStart)]
    assert ids[0] == "call_0"
    assert len(set(ids)) == 2
    assert ran == ["a" * 40] * 2
    assert [result.tool_call_id for result in told.results] == ids


async def test_an_id_of_an_earlier_run_is_given_a_fresh_one():
    before = [
        user_message("u0", "x"),
        assistant("m0", call("call_0"), reason="tool_calls"),
        answered("call_0"),
    ]
    told = await play(Turn(calls=[("call_0", "echo", {})]), Turn("ok"), tools=[echo], transcript=before)
    assert told.of(ev.ToolCallStart)[0].tool_call_id != "call_0"


async def test_two_calls_of_one_id_in_a_turn_are_two_calls():
    told = await play(
        Turn(calls=[("c1", "echo", {"text": "a"}), ("c1", "echo", {"text": "b"})]), Turn("ok"), tools=[echo]
    )
    assert ran == ["a", "b"]
    assert [result.content for result in told.results] == ["a", "b"]


async def test_a_providers_own_tool_passes_through_and_never_runs_here():
    class Searching:
        name = "searching"

        async def stream(self, request):
            yield ev.ToolCallStart("s1", "echo", request.message_id, provider_executed=True)
            yield ev.ToolCallArgs("s1", '{"text": "q"}')
            yield ev.ToolCallEnd("s1")
            yield ev.TextMessageStart(request.message_id)
            yield ev.TextMessageContent(request.message_id, "Found.")
            yield ev.TextMessageEnd(request.message_id)
            yield ev.TurnEnd("stop")

    told = await drive(Agent(Searching(), "m", [echo]))
    assert (ran, told.results, told.stop_reason) == ([], [], "stop")
    assert told.transcript[-1].parts == (
        ToolCallPart("s1", "echo", '{"text": "q"}', True),
        TextPart("Found."),
    )


async def test_a_tools_progress_is_told_between_its_call_and_its_result():
    @tool
    async def dig(ctx: ToolContext) -> str:
        ctx.emit("depth", 3)
        return "dug"

    told = await play(Turn(calls=[("c1", "dig", {})]), Turn("ok"), tools=[dig])
    (progress,) = told.of(ev.Custom)
    assert progress == ev.Custom("depth", {"toolCallId": "c1", "value": 3})
    assert told.events.index(progress) < told.events.index(told.results[0])


async def test_a_call_is_claimed_before_it_runs():
    order = []

    async def claim(part: ToolCallPart, arguments: Any) -> None:
        order.append((part.id, arguments, list(ran)))

    await play(Turn(calls=calls("a")), Turn("ok"), tools=[echo], ctx=context(on_claim=claim))
    assert order == [("c1", {"text": "a"}, [])]
    assert ran == ["a"]


async def test_two_tools_of_one_name_are_an_error_before_the_first_turn():
    with pytest.raises(InvalidRequest):
        Agent(ScriptedProvider(), "m", [echo, echo])


# -- client tools


PICK = Tool("pick", "Lets the person pick.")


async def test_a_client_tool_ends_the_run_with_its_call_pending():
    told = await play(Turn(calls=[("c1", "pick", {}), *calls("a", first=2)]), tools=[echo, PICK])
    assert ran == ["a"]
    assert told.end.outcome == ev.Success(pending_tool_call_ids=("c1",))
    assert (told.stop_reason, told.end.finish_reason) == ("client_tools", "tool_calls")


async def test_a_clients_result_is_the_input_of_the_next_run():
    first = await play(Turn(calls=[("c1", "pick", {})]), tools=[PICK])
    second = await play(
        Turn("A fine file."), tools=[PICK], transcript=first.transcript, input=[answered("c1", "cat.png")]
    )
    assert second.stop_reason == "stop"
    assert second.provider.requests[0].transcript[-1].tool_results[0].content == "cat.png"


# -- limits


async def test_by_default_five_turns_are_made_and_the_tools_of_the_last_run():
    told = await drive(for_ever())
    assert (told.turns, told.stop_reason, len(ran)) == (5, "max_iterations", 5)
    assert told.end.outcome == ev.Success()
    assert told.transcript[-1].role == "tool"


async def test_the_first_turn_always_happens():
    told = await drive(for_ever(strategy=lambda state: False))
    assert (told.turns, told.stop_reason, len(ran)) == (1, "strategy", 1)


async def test_a_strategy_is_not_asked_when_there_is_nothing_to_decide():
    asked = []
    await play(Turn("a"), agent={"strategy": lambda state: asked.append(state) or True})
    assert asked == []


async def test_a_strategy_sees_the_run_behind_its_tools():
    asked: list[LoopState] = []
    times = iter(range(0, 1000, 10))
    agent = Agent(
        ScriptedProvider(
            Turn(calls=calls("a", "b"), usage=Usage(5, 1)),
            Turn(calls=calls("c", first=3), usage=Usage(7, 1)),
            Turn("d"),
        ),
        "m",
        [echo],
        strategy=lambda state: asked.append(state) or True,
        cost=lambda model, usage: usage.input_tokens / 10,
    )
    told = await drive(agent, ctx=context(clock=lambda: next(times)))
    first, second = asked
    assert (first.iteration_count, second.iteration_count) == (1, 2)
    assert first.finish_reason == "tool_calls"
    assert (first.tool_call_count, first.last_turn_tool_call_count) == (2, 2)
    assert (second.tool_call_count, second.last_turn_tool_call_count) == (3, 1)
    assert (first.usage, second.usage) == (Usage(5, 1), Usage(12, 2))
    assert (first.cost, second.cost) == (0.5, 1.2)
    assert 0 < first.elapsed < second.elapsed
    assert [first.messages, second.messages] == [request.transcript for request in told.provider.requests[1:]]


@pytest.mark.parametrize(
    ("strategy", "name", "turns"),
    [
        (max_iterations(2), "max_iterations", 2),
        (max_tool_calls(3), "max_tool_calls", 3),
        (max_tokens(4), "max_tokens", 2),
        (max_cost(3.0), "max_cost", 3),
        (max_seconds(2), "max_seconds", 2),
        (no_repeated_calls(3), "no_repeated_calls", 3),
        (until_finish_reason(["tool_calls"]), "tool_calls", 1),
        (combine_strategies([max_iterations(9), max_tool_calls(2)]), "max_tool_calls", 2),
    ],
)
async def test_a_run_that_is_stopped_ends_with_the_name_of_what_stopped_it(strategy, name, turns):
    seconds = iter(range(10_000))

    def clock() -> float:
        return next(seconds) / 5

    def turn(request):
        return Turn(calls=[("c", "echo", {})], usage=Usage(1, 1))

    agent = Agent(ScriptedProvider(each=turn), "m", [echo], strategy=strategy, cost=lambda model, usage: 1.0)
    told = await drive(agent, ctx=context(clock=clock))
    assert told.stop_reason == name
    if name != "max_seconds":
        assert told.turns == turns


async def test_a_strategy_that_breaks_ends_the_run_with_a_safe_error(caplog):
    def broken(state: LoopState) -> bool:
        raise KeyError("secret")

    told = await drive(for_ever(strategy=broken))
    assert isinstance(told.end, ev.RunError)
    assert told.end.code == "internal_error"
    assert "secret" not in told.end.message
    assert "secret" in caplog.text


async def test_a_limit_on_cost_without_prices_says_so():
    told = await drive(for_ever(strategy=max_cost(1)))
    assert (told.end.code, "costs" in told.end.message) == ("invalid_request", True)


# -- last words


async def test_behind_a_limit_one_last_turn_gives_words():
    provider = ScriptedProvider(Turn(calls=calls("a")), Turn("That is as far as I got.", usage=Usage(1, 9)))
    told = await drive(Agent(provider, "m", [echo], strategy=max_iterations(1), final_answer=True))
    assert [request.tool_choice for request in provider.requests] == ["auto", "none"]
    assert provider.requests[1].tools == (echo.spec,)
    assert told.text == "That is as far as I got."
    assert (told.stop_reason, told.end.finish_reason) == ("max_iterations", "stop")
    assert told.end.usage[0].usage == Usage(1, 9)


async def test_calls_in_the_last_words_are_dropped_not_shown_not_stored():
    provider = ScriptedProvider(Turn(calls=calls("a")), Turn("Well.", calls=calls("b", "b", first=2)))
    told = await drive(Agent(provider, "m", [echo], strategy=max_iterations(1), final_answer=True))
    assert ran == ["a"]
    assert [event.tool_call_id for event in told.of(ev.ToolCallStart)] == ["c1"]
    assert {event.tool_call_id for event in told.of(ev.ToolCallArgs)} == {"c1"}
    assert told.transcript[-1].parts == (TextPart("Well."),)
    assert (told.told_reasons[-1], told.transcript[-1].finish_reason) == ("stop", "stop")
    assert told.stop_reason == "max_iterations"


async def test_last_words_of_only_calls_end_in_silence_and_not_in_another_turn():
    provider = ScriptedProvider(Turn(calls=calls("a")), Turn(calls=calls("b", first=2)))
    told = await drive(Agent(provider, "m", [echo], strategy=max_iterations(1), final_answer=True))
    assert (told.turns, told.stop_reason, told.transcript[-1].role) == (2, "max_iterations", "tool")


@pytest.mark.parametrize("reason", ["length", "content_filter"])
async def test_last_words_keep_their_own_reason_and_the_limit_its_name(reason):
    provider = ScriptedProvider(Turn(calls=calls("a")), Turn("We", finish_reason=reason))
    told = await drive(Agent(provider, "m", [echo], strategy=max_iterations(1), final_answer=True))
    assert (told.stop_reason, told.end.finish_reason, told.reasons[-1]) == ("max_iterations", reason, reason)


async def test_last_words_that_break_off_are_an_error_like_any_other():
    provider = ScriptedProvider(Turn(calls=calls("a")), Turn("We", cut=True))
    told = await drive(Agent(provider, "m", [echo], strategy=max_iterations(1), final_answer=True))
    assert told.end.code == "bad_stream"


async def test_a_run_that_ends_by_itself_needs_no_last_words():
    told = await play(Turn(calls=calls("a")), Turn("Done."), tools=[echo], agent={"final_answer": True})
    assert (told.turns, told.stop_reason) == (2, "stop")


async def test_without_final_answer_the_run_ends_behind_the_results():
    told = await drive(for_ever(strategy=max_iterations(1), final_answer=False))
    assert (told.turns, told.transcript[-1].role) == (1, "tool")


# -- cut by the output limit


CUT = Turn(
    "Let me",
    calls=[("c1", "echo", {"text": "whole"}), ("c2", "echo", '{"text": "cu')],
    finish_reason="length",
)


async def test_no_call_of_a_cut_turn_runs_also_not_the_whole_ones():
    told = await play(CUT, tools=[echo])
    assert ran == []
    assert told.codes == ["max_tokens", "max_tokens"]
    assert all("again" in said(result)["error"] for result in told.results)


async def test_no_call_of_a_cut_turn_goes_to_a_client():
    told = await play(replace(CUT, calls=[("c1", "pick", {})]), tools=[PICK])
    assert told.codes == ["max_tokens"]
    assert told.end.outcome == ev.Success()


async def test_by_default_a_cut_run_ends_with_length():
    told = await play(CUT, tools=[echo])
    assert (told.stop_reason, told.end.finish_reason) == ("length", "length")
    assert told.told_reasons == told.reasons == ["length"]
    assert told.turns == 1


async def test_a_cut_text_ends_with_length():
    told = await play(
        Turn("Once upon", finish_reason="length"), tools=[echo], agent={"strategy": max_iterations(5)}
    )
    assert (told.stop_reason, told.turns, told.reasons) == ("length", 1, ["length"])


async def test_no_last_words_behind_length():
    told = await play(CUT, tools=[echo], agent={"final_answer": True})
    assert (told.turns, told.stop_reason) == (1, "length")


async def test_where_the_strategy_allows_it_the_model_is_called_again_with_the_errors():
    told = await play(
        CUT,
        Turn(calls=calls("a", first=3)),
        Turn("Done."),
        tools=[echo],
        agent={"strategy": max_iterations(5)},
    )
    assert ran == ["a"]
    read = told.provider.requests[1].transcript
    assert [part.error for message in read for part in message.tool_results] == ["max_tokens", "max_tokens"]
    assert told.stop_reason == "stop"


async def test_a_cut_turn_that_is_repeated_is_told_as_tool_calls_and_kept_as_length():
    told = await play(CUT, Turn("Done."), tools=[echo], agent={"strategy": max_iterations(5)})
    assert told.told_reasons == ["tool_calls", "stop"]
    assert told.of(ev.StepFinished)[0].metadata["storedFinishReason"] == "length"
    assert told.reasons == ["length", "stop"]


async def test_the_cut_turn_is_told_before_its_results():
    told = await play(CUT, Turn("Done."), tools=[echo], agent={"strategy": max_iterations(5)})
    kinds = [type(event) for event in told.events]
    assert kinds.index(ev.StepFinished) < kinds.index(ev.ToolCallResult)


async def test_the_cut_turn_counts_as_a_turn():
    provider = ScriptedProvider(each=lambda request: CUT)
    told = await drive(Agent(provider, "m", [echo], strategy=max_iterations(3)))
    assert (told.turns, told.stop_reason) == (3, "max_iterations")
    assert told.told_reasons == ["tool_calls", "tool_calls", "length"]


async def test_a_cut_turn_asks_the_strategy_once():
    asked: list[LoopState] = []
    agent = {"strategy": lambda state: asked.append(state) or True}
    told = await play(CUT, Turn("Done."), tools=[echo], agent=agent)
    (state,) = asked
    assert (state.finish_reason, state.iteration_count, state.tool_call_count) == ("length", 1, 2)
    # It saw the errors that the model then read, but for the ids of their messages.
    assert [m.parts for m in state.messages] == [m.parts for m in told.provider.requests[1].transcript]


async def test_a_strategy_that_breaks_on_a_cut_turn_leaves_the_turn_as_it_was(caplog):
    def broken(state: LoopState) -> bool:
        raise KeyError("x")

    told = await play(CUT, tools=[echo], agent={"strategy": broken})
    assert told.end.code == "internal_error"
    assert told.reasons == ["length"]
    assert told.codes == ["max_tokens", "max_tokens"]


async def test_a_cut_turn_before_last_words_is_told_as_tool_calls():
    told = await play(
        CUT, Turn("Sorry."), tools=[echo], agent={"strategy": max_iterations(1), "final_answer": True}
    )
    assert told.told_reasons == ["tool_calls", "stop"]
    assert (told.reasons, told.stop_reason) == (["length", "stop"], "max_iterations")


async def test_a_cut_call_in_an_old_transcript_is_never_run_and_the_model_sees_the_error():
    old = [ASKED, assistant("m1", call("c1"), reason="length")]
    told = await play(Turn("ok"), tools=[echo], transcript=old, input=[user_message("u2", "and?")])
    read = told.provider.requests[0].transcript
    assert [message.role for message in read] == ["user", "assistant", "tool", "user"]
    assert read[2].tool_results[0].error == "max_tokens"
    assert (ran, told.codes) == ([], ["max_tokens"])


async def test_a_cut_call_at_the_end_of_an_old_transcript_is_answered_and_never_run():
    old = [ASKED, assistant("m1", call("c1"), reason="length")]
    told = await play(Turn("ok"), tools=[echo], transcript=old, input=())
    assert (ran, told.codes) == ([], ["max_tokens"])


# -- paused


async def test_a_paused_turn_is_sent_back_as_it_is():
    told = await play(Turn("Searching", paused=True), Turn("Found."))
    assert (told.turns, told.stop_reason) == (2, "stop")
    assert told.transcript[1].paused
    assert told.provider.requests[1].transcript == told.transcript[:2]


async def test_a_provider_that_pauses_for_ever_is_stopped_by_the_strategy():
    provider = ScriptedProvider(each=lambda request: Turn("Searching", paused=True))
    told = await drive(Agent(provider, "m", final_answer=True))
    assert (told.turns, told.stop_reason) == (5, "max_iterations")


# -- what goes wrong with the provider


@pytest.mark.parametrize(
    "error",
    [RateLimited("Try again in 5 s."), AuthenticationFailed("The key is not taken."), ProviderError("Down.")],
)
async def test_a_turn_that_could_not_be_had_is_a_run_error_with_its_code(error):
    told = await play(Turn(error=error))
    assert told.end == ev.RunError(str(error), error.code)
    assert told.told_reasons == [None]
    assert told.transcript == Transcript((ASKED,))  # what the person wrote stays


async def test_a_turn_that_breaks_in_its_text_keeps_what_was_said():
    told = await play(Turn("It is sixty two degrees", cut=True, usage=Usage(5)))
    assert told.end.code == "bad_stream"
    assert told.end.usage[0].usage == Usage(5)
    assert told.transcript[-1].text == "It is sixty two "
    assert told.reasons == [None]


async def test_calls_of_a_turn_that_broke_off_never_run():
    told = await play(Turn("Hm", calls=calls("a", "b" * 50), cut=True), tools=[echo])
    assert ran == []
    assert told.codes == ["incomplete_stream", "incomplete_stream"]
    assert isinstance(told.end, ev.RunError)


async def test_the_turn_after_a_broken_one_reads_its_error_results():
    broken = await play(Turn("Hm", calls=calls("a"), cut=True), tools=[echo])
    told = await play(
        Turn("ok"), tools=[echo], transcript=broken.transcript, input=[user_message("u2", "again")]
    )
    assert [part.error for m in told.provider.requests[0].transcript for part in m.tool_results] == [
        "incomplete_stream"
    ]


async def test_a_broken_turn_may_simply_be_asked_again():
    broken = await play(Turn("It is", cut=True))
    told = await play(Turn("It is 62."), transcript=broken.transcript, input=())
    assert told.stop_reason == "stop"


class Odd:
    """A provider that does not keep its promises."""

    name = "odd"

    def __init__(self, *script: Any) -> None:
        self.script = script
        self.closed = False

    async def stream(self, request):
        try:
            for item in self.script:
                if isinstance(item, BaseException):
                    raise item
                yield self.spoken_as(request.message_id, item)
        finally:
            self.closed = True

    def spoken_as(self, id: str, item: Any) -> Any:
        spoken = getattr(item, "message_id", "")
        return replace(item, message_id=id + spoken[1:]) if spoken.startswith("m") else item


OPEN = (
    ev.ReasoningStart("m-reasoning-1"),
    ev.ReasoningMessageStart("m-reasoning-1"),
    ev.TextMessageStart("m"),
    ev.TextMessageContent("m", "Hel"),
    ev.ToolCallStart("c1", "echo", "m"),
    ev.ToolCallArgs("c1", '{"te'),
)


@pytest.mark.parametrize(
    ("ending", "code"),
    [
        ((ProviderError("Gone."),), "provider_error"),
        ((KeyError("secret"),), "internal_error"),
        ((), "bad_stream"),
        ((ev.TurnEnd(None),), "bad_stream"),
        ((ev.TurnEnd(None), RateLimited("Slow down.")), "rate_limited"),
    ],
    ids=["provider error", "bug", "just ends", "ends with nothing", "ends, then says why"],
)
async def test_whatever_a_provider_leaves_open_is_closed(ending, code, caplog):
    told = await drive(Agent(Odd(*OPEN, *ending), "m", [echo]))
    assert told.end.code == code
    assert told.codes == ["incomplete_stream"]
    assert "secret" not in told.end.message
    assert [type(event) for event in told.events[-8:]] == [
        ev.ToolCallArgs,
        ev.ToolCallEnd,
        ev.TextMessageEnd,
        ev.ReasoningMessageEnd,
        ev.ReasoningEnd,
        ev.StepFinished,
        ev.ToolCallResult,
        ev.RunError,
    ]


async def test_a_thought_says_how_long_it_took_by_the_runs_clock_also_one_that_was_cut_off():
    now = iter(range(100))
    ctx = context(clock=lambda: next(now) * 1.5)
    told = await play(Turn("Yes.", thinking="so then"), ctx=ctx)
    assert told.of(ev.ReasoningMessageEnd)[0].metadata == {"durationMs": 1500}
    assert told.transcript[-1].parts[0] == ThinkingPart("so then", duration_ms=1500)
    cut = await drive(Agent(Odd(*OPEN, KeyError()), "m", [echo]), ctx=context(clock=lambda: next(now) * 1.5))
    assert cut.of(ev.ReasoningMessageEnd)[0].metadata == {"durationMs": 1500}


async def test_a_providers_bug_is_logged_with_its_trace(caplog):
    await drive(Agent(Odd(KeyError("secret")), "m"))
    assert "secret" in caplog.text
    assert "Traceback" in caplog.text


async def test_what_a_provider_leaves_open_at_a_good_end_is_closed_too():
    told = await drive(
        Agent(Odd(ev.TextMessageStart("m"), ev.TextMessageContent("m", "Hi"), ev.TurnEnd("stop")), "m")
    )
    assert (told.text, told.stop_reason) == ("Hi", "stop")


async def test_nonsense_of_a_provider_is_not_passed_on():
    script = (
        ev.TextMessageContent("m", "too early"),
        ev.TextMessageEnd("m"),
        ev.ToolCallArgs("c9", "of nothing"),
        ev.ToolCallEnd("c9"),
        ev.TextMessageStart("m"),
        ev.TextMessageStart("m"),
        ev.TextMessageContent("m", "Hi"),
        ev.TextMessageEnd("m"),
        ev.TextMessageEnd("m"),
        ev.TurnEnd("stop"),
        ev.TextMessageStart("m"),
        ev.TurnEnd("length"),
    )
    told = await drive(Agent(Odd(*script), "m"))
    assert (told.text, told.stop_reason, told.told_reasons) == ("Hi", "stop", ["stop"])


async def test_the_stream_is_closed_whatever_comes():
    for script in ((ev.TurnEnd("stop"),), (ProviderError("x"),), ()):
        provider = Odd(*script)
        await drive(Agent(provider, "m"))
        assert provider.closed


async def test_a_provider_need_not_be_a_generator():
    class Plain:
        name = "plain"

        def stream(self, request):
            return self

        def __aiter__(self):
            return self

        async def __anext__(self):
            if self.items:
                return self.items.pop(0)
            raise StopAsyncIteration

    provider = Plain()
    provider.items = [ev.TurnEnd("stop")]
    assert (await drive(Agent(provider, "m"))).stop_reason == "stop"


# -- who drives


async def test_the_run_holds_what_it_has_told():
    run = AgentRun(Agent(ScriptedProvider(Turn("Hello there, you")), "m"), Transcript(), context())
    seen = []
    async for event in run.events([ASKED]):
        if isinstance(event, ev.TextMessageContent):
            seen.append(run.transcript[-1].text)
    assert seen[-1] == "Hello there, you"


async def test_run_agent_is_an_async_generator_of_events():
    events = run_agent(Agent(ScriptedProvider(Turn("a")), "m"), Transcript((ASKED,)), context())
    async with aclosing(events):
        assert isinstance(await anext(events), ev.RunStarted)
    assert events.ag_running is False


async def test_ids_are_made_by_whoever_asks_for_the_run():
    told = await play(Turn(calls=calls("a")), Turn("b"), tools=[echo])
    assert [message.id for message in told.transcript] == ["u1", "id1", "id2", "id3"]


async def test_a_multimodal_result_reaches_the_model_whole():
    from agent.messages import ImagePart

    picture = ImagePart("image/png", data="aGk=")

    @tool
    async def draw() -> list[Any]:
        return [TextPart("a cat"), picture]

    told = await play(Turn(calls=[("c1", "draw", {})]), Turn("A cat."), tools=[draw])
    assert told.provider.requests[1].transcript[-1].tool_results[0].content == (TextPart("a cat"), picture)


async def test_messages_of_any_role_may_be_input():
    note = Message("s1", "system", (TextPart("Be kind."),))
    told = await play(Turn("ok"), input=[note, ASKED])
    assert [message.role for message in told.transcript] == ["system", "user", "assistant"]


async def test_a_silent_limit_ends_the_run_without_last_words():
    used_up = {"strategy": NamedStrategy("used_up", lambda state: "used_up"), "final_answer": True}
    told = await play(
        Turn(calls=calls("a")),
        Turn("Never said."),
        tools=[echo],
        agent=used_up | {"silent_limits": frozenset({"used_up"})},
    )
    assert (told.turns, told.stop_reason) == (1, "used_up")
    told = await play(Turn(calls=calls("a")), Turn("In words."), tools=[echo], agent=used_up)
    assert (told.turns, told.stop_reason, told.text) == (2, "used_up", "In words.")


async def test_half_a_character_and_nul_in_what_a_model_says_are_mended_before_they_are_told():
    """No wire and no database holds them; the providers' readers may let them through."""
    told = await play(Turn("half \ud83c and \x00 nul", thinking="\ud83c\x00"))
    said = "".join(
        event.delta for event in (*told.of(ev.TextMessageContent), *told.of(ev.ReasoningMessageContent))
    )
    assert "half \ufffd and \ufffd nul" in said
    assert not {"\ud83c", "\x00"} & set(said)
    assert told.transcript[-1].text == "half \ufffd and \ufffd nul"
