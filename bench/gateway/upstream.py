"""A provider's endpoint that is never the bottleneck: `python -m bench.gateway.upstream --port N`.

Both dialects, on asyncio and httptools, with bytes made before they are asked for. The model's name says what it
plays:

    say           one short answer, in one piece or streamed, as the body asks
    text-N        streamed: N deltas as fast as they are read
    pace-N        streamed: N deltas, one each 10 ms
    look          asks for `look_up` while the request offers it and holds no result; then the short answer
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
from functools import cache
from typing import Any

import httptools
import uvloop

PACE = 0.01
EVENTS_A_WRITE = 16
SAID = "Wear a light jacket: it is cloudy today."
TOOL, ARGUMENTS = "look_up", {"city": "Oslo"}
JSON_HEAD = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n"
SSE_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
END = b"0\r\n\r\n"


def framed(data: bytes) -> bytes:
    """An HTTP chunk."""
    return b"%x\r\n%s\r\n" % (len(data), data)


class OpenAi:
    """What chat completions answer."""

    head: dict[str, Any] = {"id": "chatcmpl-b", "created": 1700000000, "model": "bench"}
    usage: dict[str, Any] = {"prompt_tokens": 12, "completion_tokens": 7, "total_tokens": 19}

    def whole(self, asks: bool) -> dict[str, Any]:
        message: dict[str, Any] = {"role": "assistant", "content": None if asks else SAID}
        if asks:
            function = {"name": TOOL, "arguments": json.dumps(ARGUMENTS)}
            message["tool_calls"] = [{"id": "call_1", "type": "function", "function": function}]
        choice = {"index": 0, "message": message, "finish_reason": "tool_calls" if asks else "stop"}
        return {**self.head, "object": "chat.completion", "choices": [choice], "usage": self.usage}

    def deltas(self, texts: list[str], asks: bool) -> list[bytes]:
        parts: list[dict[str, Any]] = [{"role": "assistant", "content": ""}]
        parts += [{"content": text} for text in texts]
        if asks:
            function = {"name": TOOL, "arguments": json.dumps(ARGUMENTS)}
            parts.append(
                {"tool_calls": [{"index": 0, "id": "call_1", "type": "function", "function": function}]}
            )
        return [self._chunk(part) for part in parts]

    def last(self, asks: bool) -> bytes:
        usage = {**self.head, "object": "chat.completion.chunk", "choices": [], "usage": self.usage}
        return (
            self._chunk({}, "tool_calls" if asks else "stop")
            + b"data: "
            + json.dumps(usage).encode()
            + b"\n\ndata: [DONE]\n\n"
        )

    def _chunk(self, delta: dict[str, Any], reason: str | None = None) -> bytes:
        choice = {"index": 0, "delta": delta, "finish_reason": reason}
        value = {**self.head, "object": "chat.completion.chunk", "choices": [choice]}
        return b"data: " + json.dumps(value, separators=(",", ":")).encode() + b"\n\n"


class Anthropic:
    """What messages answer."""

    head: dict[str, Any] = {"id": "msg_b", "type": "message", "role": "assistant", "model": "bench"}

    def whole(self, asks: bool) -> dict[str, Any]:
        block: dict[str, Any] = {"type": "text", "text": SAID}
        if asks:
            block = {"type": "tool_use", "id": "toolu_1", "name": TOOL, "input": ARGUMENTS}
        reason = "tool_use" if asks else "end_turn"
        usage = {"input_tokens": 12, "output_tokens": 7}
        return {**self.head, "content": [block], "stop_reason": reason, "stop_sequence": None, "usage": usage}

    def deltas(self, texts: list[str], asks: bool) -> list[bytes]:
        usage = {"input_tokens": 12, "output_tokens": 0}
        message = {**self.head, "content": [], "stop_reason": None, "stop_sequence": None, "usage": usage}
        block: dict[str, Any] = {"type": "text", "text": ""}
        grown = [{"type": "text_delta", "text": text} for text in texts]
        if asks:
            block = {"type": "tool_use", "id": "toolu_1", "name": TOOL, "input": {}}
            grown = [{"type": "input_json_delta", "partial_json": json.dumps(ARGUMENTS)}]
        return [
            self._event("message_start", message=message),
            self._event("content_block_start", index=0, content_block=block),
            *(self._event("content_block_delta", index=0, delta=delta) for delta in grown),
        ]

    def last(self, asks: bool) -> bytes:
        delta = {"stop_reason": "tool_use" if asks else "end_turn", "stop_sequence": None}
        return (
            self._event("content_block_stop", index=0)
            + self._event("message_delta", delta=delta, usage={"output_tokens": 7})
            + self._event("message_stop")
        )

    def _event(self, type: str, **fields: Any) -> bytes:
        data = json.dumps({"type": type, **fields}, separators=(",", ":"))
        return f"event: {type}\ndata: {data}\n\n".encode()


DIALECTS: dict[bool, OpenAi | Anthropic] = {False: OpenAi(), True: Anthropic()}


def words(count: int) -> list[str]:
    """Not the same one again and again: some gateways take that for a fault of the model."""
    return [f" word{number % 10}" for number in range(count)]


@cache
def whole(messages: bool, asks: bool) -> bytes:
    body = json.dumps(DIALECTS[messages].whole(asks)).encode()
    return JSON_HEAD.format(len(body)).encode() + body


@cache
def stream(messages: bool, count: int, asks: bool) -> tuple[bytes, ...]:
    """The answer in writes of some events each, its head and its end included."""
    dialect = DIALECTS[messages]
    texts = words(count) if count else [SAID]
    events = [framed(event) for event in dialect.deltas([] if asks else texts, asks)]
    events += [framed(dialect.last(asks)), END]
    events[0] = SSE_HEAD + events[0]
    return tuple(b"".join(events[at : at + EVENTS_A_WRITE]) for at in range(0, len(events), EVENTS_A_WRITE))


class Endpoint(asyncio.Protocol):
    """One connection. Answers are written at once, as far as the other side reads."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport: Any = transport
        self._parser = httptools.HttpRequestParser(self)
        self._path, self._body = b"", bytearray()
        self._may_write = asyncio.Event()
        self._may_write.set()
        self._task: asyncio.Task[None] | None = None

    def data_received(self, data: bytes) -> None:
        self._parser.feed_data(data)

    def on_url(self, url: bytes) -> None:
        self._path, self._body = url, bytearray()

    def on_body(self, body: bytes) -> None:
        self._body += body

    def on_message_complete(self) -> None:
        body = json.loads(self._body) if self._body else {}
        messages = self._path.endswith(b"/messages")
        name, _, size = str(body.get("model")).partition("-")
        asks = name == "look" and TOOL in json.dumps(body.get("tools", ())) and not _has_result(body)
        if not body.get("stream"):
            self._transport.write(whole(messages, asks))
        elif name == "say" or name == "look":
            self._transport.write(b"".join(stream(messages, 0, asks)))
        else:
            paced = int(size) if name == "pace" else 0
            self._task = asyncio.ensure_future(self._play(messages, int(size), paced))

    async def _play(self, messages: bool, count: int, paced: int) -> None:
        if not paced:
            for piece in stream(messages, count, False):
                await self._may_write.wait()
                self._transport.write(piece)
            return
        dialect, loop = DIALECTS[messages], asyncio.get_running_loop()
        events = dialect.deltas(words(paced), False)
        begun = loop.time()
        self._transport.write(SSE_HEAD)
        for number, event in enumerate(events):
            await asyncio.sleep(begun + number * PACE - loop.time())
            self._transport.write(framed(event))
        self._transport.write(framed(dialect.last(False)) + END)

    def pause_writing(self) -> None:
        self._may_write.clear()

    def resume_writing(self) -> None:
        self._may_write.set()

    def connection_lost(self, error: Exception | None) -> None:
        if self._task is not None:
            self._task.cancel()


def _has_result(body: dict[str, Any]) -> bool:
    text = json.dumps(body["messages"])
    return '"tool_result"' in text or '"role": "tool"' in text


async def serve(port: int) -> None:
    server = await asyncio.get_running_loop().create_server(Endpoint, "127.0.0.1", port, backlog=1024)
    await server.serve_forever()


def main() -> None:
    parser = argparse.ArgumentParser(description="A fast stand-in for a provider, on loopback.")
    parser.add_argument("--port", type=int, required=True)
    with contextlib.suppress(KeyboardInterrupt):
        uvloop.run(serve(parser.parse_args().port))


if __name__ == "__main__":
    main()
