"""A model's endpoint that says nothing any more, through the application itself, where its patience can be short."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import httpx
import pytest
from django.contrib.auth.models import User

from agent.providers.endpoint import Endpoint, Timeouts
from agent.providers.http import HttpProvider, close_shared_clients
from agent.wire import anthropic, openai_chat
from chatsite.accounts import keys
from chatsite.asgi import application
from chatsite.chat import db
from chatsite.chat.agents import Agents, use_agents
from chatsite.chat.sources import Source
from tests.agent.agui_validation import assert_valid_run
from tests.live.api import events_in, new_id, said_by, text_of
from tests.standin import Broken, StandIn

CODECS = {"of-openai": openai_chat, "of-anthropic": anthropic}

pytestmark = [
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.usefixtures("transactional_db"),
]


SHORT = Timeouts(connect=30, first_byte=1.5, idle=1.5)
LONG = Timeouts(connect=30, first_byte=30, idle=30)
"""For what does answer, however busy the machine is."""


def wait_no_longer_than(timeouts: Timeouts, model: str, standin: StandIn) -> None:
    url = standin.openai_url if model == "of-openai" else standin.anthropic_url
    provider = HttpProvider(CODECS[model], Endpoint("Stand-in", url, "key"), timeouts=timeouts)
    use_agents(Agents([Source(provider, (model,))]))


@pytest.fixture
async def hanging(model: str) -> AsyncIterator[StandIn]:
    async with StandIn() as standin:
        wait_no_longer_than(SHORT, model, standin)
        yield standin
        use_agents(None)
        await close_shared_clients()
    db.close_connections()


@pytest.fixture
async def http() -> AsyncIterator[httpx.AsyncClient]:
    user = await db.write(User.objects.create_user, "ada")
    key = await db.write(keys.new_api_key, user)
    transport = httpx.ASGITransport(app=application)
    headers = {"Authorization": f"Bearer {key}"}
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost", headers=headers) as client:
        yield client


@pytest.mark.parametrize("kind", ["hang", "hang_body", "hang_stream"])
async def test_a_model_that_falls_silent_is_given_up_in_words(
    kind: str, model: str, hanging: StandIn, http: httpx.AsyncClient
):
    hanging.play(Broken(kind))
    thread = new_id()

    async def run(text: str) -> list[dict]:
        message = {"id": new_id(), "role": "user", "content": text}
        body = {"threadId": thread, "runId": new_id(), "state": {}, "messages": [message], "tools": []}
        body |= {"context": [], "forwardedProps": {"model": model}}
        async with asyncio.timeout(60):
            answer = await http.post("/api/chat", json=body)
        return list(events_in(answer))

    events = await run("Are you there?")
    assert_valid_run(events)
    assert events[-1]["type"] == "RUN_ERROR"
    assert events[-1]["code"] == "provider_timeout"
    assert "1.5 seconds" in events[-1]["message"]
    assert await hanging.exchanges[-1].gone()
    read = (await http.get("/api/chat", params={"threadId": thread})).json()
    assert said_by(read, "user") == ["Are you there?"]
    wait_no_longer_than(LONG, model, hanging)
    assert text_of(await run("And now?")).endswith("And now?")
