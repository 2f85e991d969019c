"""The models of an endpoint, asked for now and then."""

from __future__ import annotations

import asyncio

from agent.errors import ProviderUnreachable
from agent.providers import listing
from agent.providers.listing import ModelList


class Lists:
    name = "somewhere"

    def __init__(self, *answers):
        self.answers = list(answers)
        self.asked = 0

    async def models(self):
        self.asked += 1
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


async def test_what_was_written_down_is_not_asked_for():
    provider = Lists()
    assert await ModelList(provider, ["a"]).models() == ("a",)
    assert provider.asked == 0


async def test_it_is_asked_once_in_a_while_however_many_want_to_know():
    clock = [0.0]
    models = ModelList(provider := Lists(["a"], ["a", "b"]), clock=lambda: clock[0])
    assert await asyncio.gather(models.models(), models.models()) == [("a",), ("a",)]
    assert provider.asked == 1
    clock[0] += listing.ASK_EVERY
    assert await models.models() == ("a", "b")


async def test_what_cannot_say_is_asked_again_sooner_and_keeps_what_it_had():
    clock = [0.0]
    failing = ProviderUnreachable("It is down.")
    models = ModelList(provider := Lists(["a"], failing, ["a"]), clock=lambda: clock[0])
    await models.models()
    clock[0] += listing.ASK_EVERY
    assert await models.models() == ("a",)
    assert models.problem == "somewhere could not be asked for its models: It is down."
    clock[0] += listing.ASK_AGAIN
    await models.models()
    assert (provider.asked, models.problem) == (3, "")


async def test_one_that_hangs_is_not_waited_for(monkeypatch):
    monkeypatch.setattr(listing, "ASK_FOR", 0.05)

    class Hangs:
        name = "somewhere"

        async def models(self):
            await asyncio.Event().wait()

    models = ModelList(Hangs())
    assert await models.models() == ()
    assert "no answer within 0.05 seconds" in models.problem
