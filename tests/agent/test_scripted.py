"""The scripted provider keeps the contract that every provider keeps, and can be held in mid answer."""

from __future__ import annotations

import asyncio

import pytest

from agent.errors import BadStream, ProviderError, RateLimited
from agent.events import (
    ReasoningEncryptedValue,
    TextMessageContent,
    TextMessageEnd,
    TextMessageStart,
    ToolCallStart,
    TurnEnd,
)
from agent.messages import Usage, user_message
from agent.providers.scripted import ScriptedProvider, Turn
from tests.agent.turns import calls_of, collect, collect_broken, request, text_of, thinking_of

ASKED = request(user_message("u1", "hello"))


async def test_a_text_is_streamed_in_deltas_and_closed():
    events, end = await collect(ScriptedProvider(Turn("Hello, you.", delta_size=4)).stream(ASKED))
    assert events == [
        TextMessageStart("m1"),
        TextMessageContent("m1", "Hell"),
        TextMessageContent("m1", "o, y"),
        TextMessageContent("m1", "ou."),
        TextMessageEnd("m1"),
    ]
    assert end == TurnEnd("stop", model="scripted-1")


async def test_thinking_comes_first_then_text_then_calls():
    turn = Turn("Let me look.", thinking="hm", signature="sig", calls=[("c1", "f", {"city": "Zürich"})])
    events, end = await collect(ScriptedProvider(turn).stream(ASKED))
    assert (thinking_of(events), text_of(events)) == ("hm", "Let me look.")
    assert calls_of(events) == [("c1", "f", '{"city": "Zürich"}')]
    assert ReasoningEncryptedValue("message", "m1-reasoning-1", "sig") in events
    assert ToolCallStart("c1", "f", parent_message_id="m1") in events
    assert end.finish_reason == "tool_calls"


async def test_arguments_given_as_text_are_sent_as_they_are():
    turn = Turn(calls=[("c1", "f", '{"cit')], finish_reason="length")
    events, end = await collect(ScriptedProvider(turn).stream(ASKED))
    assert calls_of(events) == [("c1", "f", '{"cit')]
    assert end.finish_reason == "length"


async def test_the_end_carries_what_it_was_told():
    turn = Turn("x", usage=Usage(3, 4), provider_reason="end_turn", paused=True)
    _, end = await collect(ScriptedProvider(turn).stream(ASKED))
    assert end == TurnEnd("stop", Usage(3, 4), "scripted-1", "end_turn", paused=True)


async def test_an_empty_turn_is_only_an_end():
    assert await collect(ScriptedProvider(Turn()).stream(ASKED)) == ([], TurnEnd("stop", model="scripted-1"))


async def test_an_error_with_nothing_said_comes_before_everything():
    provider = ScriptedProvider(Turn(error=RateLimited("Too many.", retry_after=3)))
    events, end, error = await collect_broken(provider.stream(ASKED))
    assert (events, end) == ([], None)
    assert isinstance(error, RateLimited)


async def test_an_error_behind_text_closes_what_is_open_first():
    turn = Turn("half an ans", calls=[("c1", "f", {})], error=ProviderError("It went away."))
    events, end, error = await collect_broken(ScriptedProvider(turn).stream(ASKED))
    assert text_of(events) == "half an ans"
    assert calls_of(events) == []
    assert end.finish_reason is None
    assert str(error) == "It went away."


async def test_a_bug_comes_bare_with_the_text_left_open():
    events, end, error = await collect_broken(
        ScriptedProvider(Turn("x", error=KeyError("bug"))).stream(ASKED)
    )
    assert events == [TextMessageStart("m1"), TextMessageContent("m1", "x")]
    assert end is None
    assert isinstance(error, KeyError)


@pytest.mark.parametrize("calls", [[], [("c1", "f", {"city": "Oslo", "days": 5})]])
async def test_a_cut_stream_loses_its_last_delta_and_is_no_good_end(calls):
    provider = ScriptedProvider(Turn("Hello you", calls=calls, cut=True, delta_size=6))
    events, end, error = await collect_broken(provider.stream(ASKED))
    assert end.finish_reason is None
    assert isinstance(error, BadStream)
    assert text_of(events) == ("Hello you" if calls else "Hello ")


async def test_a_gate_holds_the_turn_before_its_last_delta():
    gate, held = asyncio.Event(), asyncio.Event()
    stream = ScriptedProvider(Turn("Hello you", delta_size=6, gate=gate, held=held)).stream(ASKED)
    assert await anext(stream) == TextMessageStart("m1")
    assert await anext(stream) == TextMessageContent("m1", "Hello ")
    waiting = asyncio.ensure_future(anext(stream))
    await held.wait()
    assert not waiting.done()
    gate.set()
    assert await waiting == TextMessageContent("m1", "you")
    await stream.aclose()


async def test_a_gate_holds_also_a_turn_that_says_nothing():
    gate, held = asyncio.Event(), asyncio.Event()
    waiting = asyncio.ensure_future(collect(ScriptedProvider(Turn(gate=gate, held=held)).stream(ASKED)))
    await held.wait()
    gate.set()
    assert (await waiting)[1].finish_reason == "stop"


async def test_closing_a_stream_early_is_counted():
    provider = ScriptedProvider(Turn("Hello you", delta_size=2))
    stream = provider.stream(ASKED)
    await anext(stream)
    await stream.aclose()
    assert provider.closed == 1


async def test_cancelling_who_waits_in_it_is_counted():
    held = asyncio.Event()
    provider = ScriptedProvider(Turn("x", gate=asyncio.Event(), held=held))
    task = asyncio.ensure_future(collect(provider.stream(ASKED)))
    await held.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert provider.closed == 1


async def test_a_stream_that_ended_is_not_closed_early():
    provider = ScriptedProvider(Turn("x"), Turn("y"))
    await collect(provider.stream(ASKED))
    stream = provider.stream(ASKED)
    async for event in stream:
        if isinstance(event, TurnEnd):
            break
    await stream.aclose()
    assert provider.closed == 0


async def test_turns_are_played_in_order_and_requests_are_kept():
    provider = ScriptedProvider(Turn("one"), lambda asked: Turn(f"two for {asked.message_id}"), name="mine")
    assert text_of((await collect(provider.stream(ASKED)))[0]) == "one"
    again = request(user_message("u2", "again"), message_id="m2")
    assert text_of((await collect(provider.stream(again)))[0]) == "two for m2"
    assert provider.requests == [ASKED, again]
    assert provider.name == "mine"


async def test_one_function_may_answer_every_turn():
    provider = ScriptedProvider(Turn("first"), each=lambda asked: Turn(asked.transcript[-1].text))
    assert text_of((await collect(provider.stream(ASKED)))[0]) == "first"
    for _ in range(3):
        assert text_of((await collect(provider.stream(ASKED)))[0]) == "hello"


async def test_running_out_of_turns_says_so():
    provider = ScriptedProvider(Turn("only"))
    await collect(provider.stream(ASKED))
    with pytest.raises(LookupError, match="1 turns, and this is call number 2"):
        await collect(provider.stream(ASKED))


async def test_a_long_turn_lets_others_run():
    others = 0

    async def count() -> None:
        nonlocal others
        while True:
            others += 1
            await asyncio.sleep(0)

    task = asyncio.ensure_future(count())
    await collect(ScriptedProvider(Turn("x" * 1000, delta_size=1)).stream(ASKED))
    task.cancel()
    assert others > 10
