"""The demo model asks for an email once, and is honest about what became of it."""

from __future__ import annotations

import json

import pytest

from agent.messages import Message, ToolCallPart, ToolResultPart, user_message
from agent.providers.demo import DemoProvider
from tests.agent.turns import calls_of, collect, request, text_of

ASK = user_message("u1", "Please send an e-mail about the weather to bob@example.org, today.")


async def turn(*messages: Message, tools=("send_email", "get_weather"), tool_choice="auto"):
    asked = request(ASK, *messages, tools=tools, message_id="m1", tool_choice=tool_choice)
    events, _ = await collect(DemoProvider(pace=0).stream(asked))
    return calls_of(events), text_of(events)


async def told(*, edited: dict | None = None, error: str | None = None, said: str = "") -> str:
    calls, _ = await turn()
    call = ToolCallPart(*calls[0], edited=edited and json.dumps(edited))
    content = json.dumps({"error": said} if error else {"status": "sent", "to": "bob@example.org"})
    results = Message("t1", "tool", (ToolResultPart(call.id, content, error=error),))
    calls, text = await turn(Message("a1", "assistant", (call,)), results)
    assert calls == []
    return text


async def test_it_asks_once_with_three_texts():
    calls, text = await turn()
    ((_, name, written),) = calls
    arguments = json.loads(written)
    assert (name, set(arguments)) == ("send_email", {"to", "subject", "body"})
    assert arguments["to"] == "bob@example.org"
    assert "before you approve it" in text


async def test_what_was_sent_is_said_and_that_nothing_left():
    text = await told()
    assert "bob@example.org" in text
    assert "nothing has left this server" in text
    assert "made of it" not in text


async def test_it_reads_what_a_person_made_of_it():
    text = await told(edited={"to": "eve@example.org", "subject": "Bye", "body": ""})
    assert "eve@example.org" in text
    assert "Bye" in text
    assert "I read what you made of it" in text


@pytest.mark.parametrize("code", ["denied", "cancelled", "tool_error"])
async def test_what_was_not_sent_is_said(code):
    text = await told(error=code, said="They say: no")
    assert "was not sent" in text
    assert ("They say: no" in text) == (code != "cancelled")


async def test_without_the_tool_it_claims_nothing():
    calls, text = await turn(tools=("get_weather",))
    assert calls == []
    assert "nothing was sent" in text
    assert (await turn(tool_choice="none"))[0] == []
