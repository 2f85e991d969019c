"""What tests ask of a thread as a client and the server have read it."""

from __future__ import annotations

from typing import Any

from tests.clients.clients import Client, Json, story
from tests.live.api import Api


def same_as_the_server(client: Client, api: Api) -> list[Json]:
    """What the client holds and what the server has are one thread; the story of it."""
    read = api.settled(client.thread)
    told = client.story()
    assert told == story(read["messages"])
    asked = [message["id"] for message in read["messages"] if message["role"] == "user"]
    assert [message["id"] for message in client.held["messages"] if message["role"] == "user"] == asked
    if client.kind == "agui":  # which keeps a message for each turn
        ids = [message["id"] for message in read["messages"] if message["role"] == "assistant"]
        assert [message["id"] for message in client.held["messages"] if message["role"] == "assistant"] == ids
    assert not client.held["busy"]
    pending = [interrupt["id"] for interrupt in (read["interrupts"] or {}).get("pending", ())]
    assert [interrupt["id"] for interrupt in client.held["interrupts"]] == pending
    return told


def result_of(told: list[Json], call: str) -> Any:
    [found] = [each for each in told if each.get("call") == call]
    return found["result"]


def failed(told: list[Json], call: str) -> bool:
    [found] = [each for each in told if each.get("call") == call]
    return found["failed"]


def problem(client: Client) -> Json | None:
    return client.held.get("error")


def said(told: list[Json]) -> list[str]:
    return [each["text"] for each in told if each.get("who") == "assistant"]
