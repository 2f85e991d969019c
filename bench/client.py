"""A client that costs nearly nothing: it parses when the clock no longer runs."""

from __future__ import annotations

import asyncio
import json
import time
import uuid
from bisect import bisect_left
from dataclasses import dataclass, field

from bench.common import KEY, LOOPBACK


@dataclass
class Answer:
    """What came, in pieces as they came; times are of `time.monotonic`."""

    asked_at: float = 0.0
    first_text_at: float = 0.0
    raw: bytearray = field(default_factory=bytearray)
    arrivals: list[tuple[int, float]] = field(default_factory=list)  # bytes so far, and when

    @property
    def ended_at(self) -> float:
        return self.arrivals[-1][1]

    @property
    def body(self) -> bytes:
        """Without the head and the chunks' lengths."""
        head, _, rest = bytes(self.raw).partition(b"\r\n\r\n")
        if b"chunked" not in head.lower():
            return rest
        pieces = []
        while rest:
            size, _, rest = rest.partition(b"\r\n")
            length = int(size, 16)
            if not length:
                break
            pieces.append(rest[:length])
            rest = rest[length + 2 :]
        return b"".join(pieces)

    def arrived(self, place: int) -> float:
        """When the byte at this place of `raw` came."""
        return self.arrivals[bisect_left(self.arrivals, (place + 1, 0.0))][1]


class _Reader(asyncio.Protocol):
    """Sends one request and keeps what comes. Nothing is parsed while the clock runs."""

    def __init__(self, request: bytes, first_text: bytes) -> None:
        self.answer = Answer()
        self.done: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._request = request
        self._first_text = first_text

    def connection_made(self, transport: asyncio.Transport) -> None:
        self.answer.asked_at = time.monotonic()
        transport.write(self._request)

    def data_received(self, data: bytes) -> None:
        now, answer = time.monotonic(), self.answer
        answer.raw += data
        answer.arrivals.append((len(answer.raw), now))
        if not answer.first_text_at and self._first_text in answer.raw:
            answer.first_text_at = now

    def connection_lost(self, error: Exception | None) -> None:
        if not self.done.done():
            self.done.set_result(self.answer)


async def ask(port: int, request: bytes, *, first_text: bytes = b"", seconds: float = 120) -> Answer:
    """One request on a connection of its own, to its end. SystemExit when it is refused."""
    loop = asyncio.get_running_loop()
    _, reader = await loop.create_connection(lambda: _Reader(request, first_text), LOOPBACK, port)
    async with asyncio.timeout(seconds):
        answer = await reader.done
    if not answer.raw.startswith(b"HTTP/1.1 200"):
        raise SystemExit(f"refused: {bytes(answer.raw[:500])!r}")
    return answer


def post(path: str, body: bytes, *headers: str) -> bytes:
    lines = [
        f"POST {path} HTTP/1.1",
        f"Host: {LOOPBACK}",
        "Content-Type: application/json",
        f"Content-Length: {len(body)}",
        "Connection: close",
        *headers,
    ]
    return "\r\n".join([*lines, "", ""]).encode() + body


def chat_request(model: str, *, run_id: str = "", **props: str) -> bytes:
    """A run of this model in a new thread, over `/api/chat`."""
    body = {
        "threadId": uuid.uuid4().hex,
        "runId": run_id or uuid.uuid4().hex,
        "state": {},
        "messages": [{"id": uuid.uuid4().hex, "role": "user", "content": "What should I wear today?"}],
        "tools": [],
        "context": [],
        "forwardedProps": {"model": model, **props},
    }
    return post("/api/chat", json.dumps(body).encode(), f"Authorization: Bearer {KEY}")


def join_request(run_id: str) -> bytes:
    """The events of a run that is under way, from its start."""
    return (
        f"GET /api/chat?runId={run_id} HTTP/1.1\r\nHost: {LOOPBACK}\r\nAuthorization: Bearer {KEY}\r\n"
        "Connection: close\r\n\r\n"
    ).encode()
