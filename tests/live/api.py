"""A program that talks to `/api/chat`, over a real connection."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx

from tests.server import Person, Server
from tests.site.processes import PATIENCE, wait_until

KEYS = {"OPENAI_API_KEY": "sk-live-openai-0123456789", "ANTHROPIC_API_KEY": "sk-ant-live-0123456789"}

Event = dict[str, Any]


def new_id() -> str:
    return uuid.uuid4().hex


class Api:
    def __init__(self, server: Server, person: Person) -> None:
        self.server = server
        self.person = person
        self.http = httpx.Client(base_url=server.url, headers=person.bearer, timeout=60)

    def __enter__(self) -> Api:
        return self

    def __exit__(self, *_: object) -> None:
        self.http.close()

    def body(self, text: str, thread: str, *, model: str = "", **props: Any) -> dict[str, Any]:
        return {
            "threadId": thread,
            "runId": new_id(),
            "state": {},
            "messages": [{"id": new_id(), "role": "user", "content": text}],
            "tools": [],
            "context": [],
            "forwardedProps": {**({"model": model} if model else {}), **props},
        }

    @contextmanager
    def stream(self, text: str, thread: str = "", **options: Any) -> Iterator[Iterator[Event]]:
        body = self.body(text, thread or new_id(), **options)
        with self.http.stream("POST", "/api/chat", json=body) as response:
            assert response.status_code == 200, response.read()
            assert response.headers["content-type"].startswith("text/event-stream")
            assert "content-encoding" not in response.headers
            yield events_in(response)

    def run(self, text: str, thread: str = "", **options: Any) -> list[Event]:
        with self.stream(text, thread, **options) as events:
            return list(events)

    def read(self, thread: str) -> dict[str, Any]:
        response = self.http.get("/api/chat", params={"threadId": thread})
        assert response.status_code == 200, response.text
        return response.json()

    def settled(self, thread: str, seconds: float = PATIENCE) -> dict[str, Any]:
        """The thread, as soon as nothing is active in it."""
        found = wait_until(
            lambda: (read := self.read(thread))["activeRun"] is None and read, "the end of the run", seconds
        )
        assert isinstance(found, dict)
        return found

    def page(self, thread: str) -> str:
        with self.server.client(self.person) as client:
            response = client.get(f"/threads/{thread}/")
            assert response.status_code == 200
            return response.text


def events_in(response: httpx.Response) -> Iterator[Event]:
    """The events of a stream of Server-Sent Events, as they come in."""
    for line in response.iter_lines():
        assert "\r" not in line
        if line.startswith("data: "):
            yield json.loads(line.removeprefix("data: "))
        else:
            assert not line or line.startswith((":", "id: ", "retry: ")), line


def text_of(events: list[Event]) -> str:
    return "".join(event["delta"] for event in events if event["type"] == "TEXT_MESSAGE_CONTENT")


def said_by(thread: dict[str, Any], role: str) -> list[str]:
    """The text of each message of that role, as `GET /api/chat` has it."""
    return [
        "".join(part.get("content", "") for part in message["parts"] if part["type"] == "text")
        for message in thread["messages"]
        if message["role"] == role
    ]
