"""One model at several endpoints."""

from __future__ import annotations

import pytest

from agent import Agent, tool
from agent.errors import ProviderUnavailable, RequestRejected
from agent.events import ModelUsage, StepFinished
from agent.messages import Message, TextPart, Transcript, Usage
from agent.providers.base import TurnRequest
from agent.providers.routed import Routed
from agent.providers.scripted import ScriptedProvider, Turn
from tests.agent.runs import drive

ASKED = TurnRequest("public", Transcript([Message(id="u", role="user", parts=(TextPart("Hi"),))]), "m1")


class Failing:
    name = "failing"

    def __init__(self, error: Exception, behind: ScriptedProvider | None = None) -> None:
        self.error, self.behind = error, behind

    async def stream(self, request):
        if self.behind is not None:
            async for event in self.behind.stream(request):
                yield event
                break
        raise self.error


async def said(provider) -> str:
    return "".join([event.delta async for event in provider.stream(ASKED) if hasattr(event, "delta")])


@pytest.mark.parametrize("error", [ProviderUnavailable("down"), RequestRejected("no such model")])
async def test_the_next_is_asked_under_its_own_name_while_nothing_was_said(error):
    second = ScriptedProvider(Turn("from the second"))
    routed = Routed([(Failing(error), "a"), (second, "its-name")])
    assert await said(routed) == "from the second"
    assert second.requests[0].model == "its-name"


async def test_who_has_begun_to_speak_is_not_replaced():
    second = ScriptedProvider(Turn("never"))
    routed = Routed(
        [(Failing(ProviderUnavailable("cut"), ScriptedProvider(Turn("from"))), "a"), (second, "b")]
    )
    with pytest.raises(ProviderUnavailable):
        await said(routed)
    assert second.requests == []


async def test_the_last_one_s_failure_is_told():
    routed = Routed([(Failing(ProviderUnavailable("one")), "a"), (Failing(ProviderUnavailable("two")), "b")])
    with pytest.raises(ProviderUnavailable, match="two"):
        await said(routed)


@tool
async def echo() -> str:
    return "ok"


async def test_each_turn_is_said_to_be_of_who_answered_it_and_so_is_what_it_took():
    ups_and_downs = iter([ProviderUnavailable("down"), None])

    class Wavering(ScriptedProvider):
        async def stream(self, request):
            if (error := next(ups_and_downs)) is not None:
                raise error
            async for event in super().stream(request):
                yield event

    first = Wavering(Turn("Done.", usage=Usage(30, 3)), name="first")
    second = ScriptedProvider(Turn(calls=[("c1", "echo", {})], usage=Usage(10, 1)), name="second")
    told = await drive(Agent(Routed([(first, "m"), (second, "m")]), "m", [echo]))
    assert [end.metadata["provider"] for end in told.of(StepFinished)] == ["second", "first"]
    said = [message for message in told.transcript if message.role == "assistant"]
    assert [message.metadata["provider"] for message in said] == ["second", "first"]
    assert told.end.usage == (
        ModelUsage("m", Usage(10, 1), "second"), ModelUsage("m", Usage(30, 3), "first")
    )  # fmt: skip


async def test_a_turn_that_nobody_answered_names_nobody():
    routed = Routed([(Failing(ProviderUnavailable("one")), "a"), (Failing(ProviderUnavailable("two")), "b")])
    told = await drive(Agent(routed, "m"))
    assert "provider" not in told.of(StepFinished)[0].metadata
