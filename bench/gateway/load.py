"""A client that costs nearly nothing: connections that stay, requests made before they are needed."""

from __future__ import annotations

import asyncio
import json
import time
from dataclasses import dataclass, field
from typing import Any

import httptools

from bench.common import KEY, LOOPBACK

PATHS = {"chat": "/v1/chat/completions", "messages": "/v1/messages"}
MARKS = {"chat": b'"content":" word', "messages": b'"text":" word'}
"""What stands once in each event of text, as the stand-in writes it."""


@dataclass
class Answer:
    """One answer. Times are of `time.monotonic`, zero when there was no such moment."""

    asked_at: float = 0.0
    first_at: float = 0.0
    ended_at: float = 0.0
    status: int = 0
    body: bytearray = field(default_factory=bytearray)


class Connection(asyncio.Protocol):
    """One request after the other on one connection."""

    def __init__(self) -> None:
        self._answer = Answer()
        self._done: asyncio.Future[Answer] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport: Any = transport

    async def ask(self, request: bytes) -> Answer:
        self._done = asyncio.get_running_loop().create_future()
        self._answer = Answer(asked_at=time.monotonic())
        self._parser = httptools.HttpResponseParser(self)
        self.transport.write(request)
        return await self._done

    def data_received(self, data: bytes) -> None:
        self._parser.feed_data(data)

    def on_body(self, body: bytes) -> None:
        if not self._answer.first_at:
            self._answer.first_at = time.monotonic()
        self._answer.body += body

    def on_message_complete(self) -> None:
        self._answer.ended_at = time.monotonic()
        self._answer.status = self._parser.get_status_code()
        if self._done is not None and not self._done.done():
            self._done.set_result(self._answer)

    def connection_lost(self, error: Exception | None) -> None:
        if self._done is not None and not self._done.done():
            self._done.set_exception(error or ConnectionError("closed before the answer's end"))


def request(protocol: str, model: str, *, stream: bool, tool: str = "") -> bytes:
    """A request as the SDKs send it; `tool` is declared in it."""
    body: dict[str, Any] = {
        "model": model,
        "messages": [{"role": "user", "content": "What should I wear today?"}],
        "max_tokens": 100,
        "stream": stream,
    }
    schema = {"type": "object", "properties": {"city": {"type": "string"}}}
    if tool and protocol == "chat":
        body["tools"] = [{"type": "function", "function": {"name": tool, "parameters": schema}}]
    elif tool:
        body["tools"] = [{"name": tool, "input_schema": schema}]
    data = json.dumps(body).encode()
    lines = [
        f"POST {PATHS[protocol]} HTTP/1.1",
        f"Host: {LOOPBACK}",
        "Content-Type: application/json",
        "Accept: application/json",
        f"Authorization: Bearer {KEY}",
        f"Content-Length: {len(data)}",
        "",
        "",
    ]
    return "\r\n".join(lines).encode() + data


async def run(port: int, asked: bytes, *, count: int, clients: int) -> list[Answer]:
    """`count` times the request, `clients` of them at a time. SystemExit when one is refused."""
    loop = asyncio.get_running_loop()
    left = iter(range(count))
    answers: list[Answer] = []

    async def work() -> None:
        _, connection = await loop.create_connection(Connection, LOOPBACK, port)
        for _ in left:
            answer = await asyncio.wait_for(connection.ask(asked), 120)
            if answer.status != 200:
                raise SystemExit(f"refused with {answer.status}: {bytes(answer.body[:500])!r}")
            answers.append(answer)
        connection.transport.close()

    await asyncio.gather(*(work() for _ in range(min(clients, count))))
    return answers
