"""The gateway under both servers, as a process of its own."""

from __future__ import annotations

import asyncio
import time

import httpx
import pytest

from tests.gateway.served import CHAT, MESSAGES, asking
from tests.server import Server
from tests.standin import Broken, StandIn

pytestmark = pytest.mark.slow

SOON = 10.0
"""Seconds from a caller's leaving to the end of the request to the model, seen there. The promise is one, on a machine
that has nothing else to do; whoever is not told waits for ever."""


@pytest.mark.parametrize("server", ["daphne", "uvicorn"])
async def test_both_servers_pass_streams_and_tell_of_callers_that_leave(tmp_path, server):
    async with StandIn() as standin:
        site = Server(tmp_path, SERVER=server, OPENAI_BASE_URL=standin.openai_url)
        try:
            await asyncio.to_thread(site.start)
            [ada] = await asyncio.to_thread(site.people, 1)
            async with httpx.AsyncClient(base_url=site.url, headers=ada.bearer, timeout=20) as client:
                whole = await client.post(CHAT, json=asking("Hi"))
                assert "You said: Hi" in whole.text
                streamed = await client.post(MESSAGES, json=asking("Hi", stream=True))
                assert "message_stop" in streamed.text
                broken = await _broken_stream(client, standin)
                assert "broke" in broken
                assert (await client.get("/v1/nothing")).json()["error"]["code"] == "not_found"
                await _leaves_a_stream(client, standin)
                await _gives_up_waiting(client, standin)
        finally:
            site.kill()


async def _broken_stream(client, standin):
    standin.play(Broken("reset"))
    return (await client.post(CHAT, json=asking(stream=True))).text


async def _leaves_a_stream(client, standin):
    standin.play(Broken("hang_stream"))
    async with client.stream("POST", CHAT, json=asking(stream=True)) as answer:
        async for _ in answer.aiter_bytes():
            break
    left_at = time.monotonic()
    assert await standin.exchanges[-1].gone_within(SOON, left_at)


async def _gives_up_waiting(client, standin):
    standin.play(Broken("hang"))
    before = len(standin.exchanges)
    waiting = asyncio.create_task(client.post(CHAT, json=asking()))
    async with asyncio.timeout(20):
        while len(standin.exchanges) == before:  # noqa: ASYNC110 (the endpoint has no event for it)
            await asyncio.sleep(0.01)
    left_at = time.monotonic()
    waiting.cancel()
    assert await standin.exchanges[-1].gone_within(SOON, left_at)
