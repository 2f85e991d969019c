"""A model's endpoint on loopback: a real HTTP server that plays both protocols, well or badly.

In a test:

    async with StandIn(Say("Hello."), Broken("401")) as server:     # one answer per request, then the default
        provider = HttpProvider(openai_chat, Endpoint("x", server.openai_url, "key"))
    with StandIn().in_thread() as server: ...                       # beside a browser or another event loop

`server.exchanges` has every request with its headers and body, and `await exchange.gone()` tells when the
client has closed that connection before the answer was whole.

The default behaviour is a small model of rules: it asks for `get_weather` and `get_clothing_advice` when they
are offered and somebody speaks of the weather, and otherwise repeats what was said. The last user message may
ask for more: `break:401` for a broken answer of that kind, `slow`, `long`, `think`, `parallel`, `cut`.

Its frames are written here by hand, not with the codecs under test.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import re
import socket
import struct
import threading
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

MODELS = ["stand-in", "stand-in-mini"]
LONG = 30
GATED = 150
"""Seconds that an answer waits for a gate which nobody opens: as good as for ever."""

BROKEN = {
    "garbage": "a chunk that is no JSON, after some text",
    "deep": "a chunk that nests too deep",
    "cut": "the stream ends in the middle of the text",
    "cut_call": "the stream ends in the middle of a call's arguments",
    "no_reason": "whole text, no finish reason, no end mark",
    "half_character": "the stream ends inside a UTF-8 character",
    "error": "an error object in mid stream",
    "json_error": "an error object under a 200",
    "whole": "a whole completion though a stream was asked for",
    "html": "a web page under a 200",
    "html_502": "a proxy's web page under a 502",
    "empty": "a 200 without a body",
    "redirect": "a 302 to another host",
    "401": "",
    "403": "",
    "404": "",
    "400": "",
    "too_long": "a 400 for a transcript that does not fit",
    "429": "with Retry-After: 0",
    "429_long": "with Retry-After: 3600",
    "500": "",
    "503": "",
    "529": "",
    "hang": "nothing at all, for ever",
    "hang_body": "the head, then nothing",
    "hang_stream": "some text, then nothing",
    "refuse": "the connection is reset before an answer",
    "reset": "the connection is reset in the middle of the text",
    "reset_before_body": "the head, then a reset",
    "not_http": "bytes that are no HTTP",
}


@dataclass(frozen=True)
class Say:
    """A good answer. `pieces` is the number of characters in each delta, `delay` the seconds between two."""

    text: str = ""
    calls: Sequence[tuple[str, str, Any]] = ()  # id, name, arguments (a dict, or JSON text as it is)
    thinking: str = ""
    reason: str | None = None  # in the protocol's own words; None: what fits
    usage: tuple[int, int] = (12, 7)
    pieces: int = 8
    delay: float = 0.0
    gate: threading.Event | None = None  # the second half waits until it is set


@dataclass(frozen=True)
class Broken:
    kind: str

    def __post_init__(self) -> None:
        assert self.kind in BROKEN, f"no broken answer called {self.kind}: one of {', '.join(BROKEN)}"


@dataclass(frozen=True)
class Raw:
    """These very bytes as the body, in these writes; then `end`, `hang`, `reset` or `cut` (no last chunk)."""

    writes: Sequence[bytes]
    status: int = 200
    content_type: str = "text/event-stream"
    headers: Sequence[tuple[str, str]] = ()
    then: str = "end"
    delay: float = 0.0
    gate: threading.Event | None = None


Answer = Say | Broken | Raw


@dataclass
class Exchange:
    """One request, and what became of its connection."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes
    connection: int
    closed: threading.Event = field(default_factory=threading.Event)
    closed_at: float = 0.0
    answered: threading.Event = field(default_factory=threading.Event)

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def dialect(self) -> str:
        return "anthropic" if "/messages" in self.path else "openai"

    @property
    def streams(self) -> bool:
        return bool(self.json.get("stream"))

    async def gone(self, seconds: float = 60.0) -> bool:
        """Whether the client has closed the connection before the answer was whole."""
        return await asyncio.get_running_loop().run_in_executor(None, self.closed.wait, seconds)

    async def gone_after(self, since: float) -> float:
        """Seconds from `since` (by `time.monotonic()`) until it did so."""
        assert await self.gone(), "the client never closed the connection"
        return self.closed_at - since

    async def gone_within(self, seconds: float, since: float) -> bool:
        """Whether it did so in that time. Fails with the time that it took."""
        took = await self.gone_after(since)
        assert took <= seconds, f"the client closed the connection after {took:.2f} s"
        return True

    def note_closed(self) -> None:
        self.closed_at = time.monotonic()
        self.closed.set()


class StandIn:
    def __init__(
        self,
        *answers: Answer,
        default: Callable[[Exchange], Answer] | None = None,
        api_key: str | None = None,
        delay: float = 0.0,
    ) -> None:
        self.exchanges: list[Exchange] = []
        self.connections = 0
        self._answers: deque[Answer] = deque(answers)
        self._default = default or play_the_model
        self._api_key = api_key
        self._delay = delay
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self.port = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def openai_url(self) -> str:
        return f"{self.url}/v1"

    @property
    def anthropic_url(self) -> str:
        return self.url

    def play(self, *answers: Answer) -> None:
        """Answers for the next requests, in order."""
        self._answers.extend(answers)

    def forget(self) -> None:
        """Play nothing more of what nobody asked for: whoever should have may have died before."""
        self._answers.clear()

    async def start(self, port: int = 0) -> None:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", port, limit=2**24)
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        assert self._server is not None
        self._server.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def __aenter__(self) -> StandIn:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    @contextlib.contextmanager
    def in_thread(self, port: int = 0) -> Iterator[StandIn]:
        loop = asyncio.new_event_loop()
        thread = threading.Thread(target=loop.run_forever, daemon=True)
        thread.start()
        asyncio.run_coroutine_threadsafe(self.start(port), loop).result(60)
        try:
            yield self
        finally:
            asyncio.run_coroutine_threadsafe(self.stop(), loop).result(60)
            loop.call_soon_threadsafe(loop.stop)
            thread.join(60)
            loop.close()

    # -- connections -----------------------------------------------------------------------------------------

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        self.connections += 1
        number = self.connections
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            while exchange := await _read_request(reader, number):
                self.exchanges.append(exchange)
                if not await self._serve(exchange, reader, writer):
                    break
        writer.close()

    async def _serve(
        self, exchange: Exchange, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> bool:
        """Answers; whether the connection goes on. A client that leaves meanwhile ends the answer."""
        raw = self._answer_to(exchange)
        answering = asyncio.ensure_future(_write(raw, writer))
        # A client sends nothing while it waits, so whatever can be read here is its leaving.
        leaving = asyncio.ensure_future(reader.read(1))
        try:
            await asyncio.wait((answering, leaving), return_when=asyncio.FIRST_COMPLETED)
            if answering.done():
                answering.result()
                exchange.answered.set()
                return raw.then == "end"
            exchange.note_closed()
            return False
        except ConnectionError:
            exchange.note_closed()
            return False
        finally:
            for task in (answering, leaving):
                task.cancel()
            await asyncio.gather(answering, leaving, return_exceptions=True)

    def _answer_to(self, exchange: Exchange) -> Raw:
        if self._api_key and self._api_key not in (
            exchange.headers.get("x-api-key"),
            exchange.headers.get("authorization", "").removeprefix("Bearer "),
        ):
            return broken("401", exchange.dialect)
        if exchange.path.split("?")[0].endswith("/models"):
            return _models()
        answer = self._answers.popleft() if self._answers else self._default(exchange)
        if isinstance(answer, Broken):
            return broken(answer.kind, exchange.dialect)
        if isinstance(answer, Say):
            return render(_gone_on(answer, exchange), exchange, self._delay)
        return answer


async def _read_request(reader: asyncio.StreamReader, connection: int) -> Exchange | None:
    try:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    except asyncio.IncompleteReadError:
        return None
    first, *lines = head.rstrip("\r\n").split("\r\n")
    method, path, _ = first.split(" ", 2)
    headers = {
        name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)
    }
    body = await reader.readexactly(int(headers.get("content-length") or 0))
    return Exchange(method, path, headers, body, connection)


async def _write(raw: Raw, writer: asyncio.StreamWriter) -> None:
    if raw.then == "refuse":
        return _reset(writer)
    if raw.status == 0:
        writer.writelines(raw.writes)
        await writer.drain()
        return None
    if raw.then == "hang" and not raw.content_type:
        await asyncio.Event().wait()
    writer.write(_head(raw))
    for number, piece in enumerate(raw.writes):
        if raw.gate is not None and number == len(raw.writes) // 2:
            await asyncio.to_thread(raw.gate.wait, GATED)
        writer.write(b"%x\r\n%s\r\n" % (len(piece), piece))
        await writer.drain()
        # Also without a delay each write is one of its own for the client.
        await asyncio.sleep(raw.delay)
    if raw.then == "end":
        writer.write(b"0\r\n\r\n")
    elif raw.then == "hang":
        await asyncio.Event().wait()
    elif raw.then == "reset":
        await asyncio.sleep(0.02)  # let the client read what came before
        return _reset(writer)
    await writer.drain()
    return None


def _head(raw: Raw) -> bytes:
    lines = [f"HTTP/1.1 {raw.status} X", f"content-type: {raw.content_type}", "transfer-encoding: chunked"]
    lines += [f"{name}: {value}" for name, value in raw.headers]
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


def _reset(writer: asyncio.StreamWriter) -> None:
    raw_socket = writer.get_extra_info("socket")
    raw_socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


# -- frames --------------------------------------------------------------------------------------------------


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def chunk(delta: dict[str, Any], reason: str | None = None, **more: Any) -> bytes:
    """One chunk of a chat completion."""
    choices = [{"index": 0, "delta": delta, "logprobs": None, "finish_reason": reason}]
    return chunk_of(choices, **more)


def chunk_of(choices: list[Any], **more: Any) -> bytes:
    value = {
        "id": "chatcmpl-standin",
        "object": "chat.completion.chunk",
        "created": 1700000000,
        "model": "stand-in",
        "choices": choices,
        **more,
    }
    return f"data: {_json(value)}\n\n".encode()


DONE = b"data: [DONE]\n\n"


def frame(type: str, **fields: Any) -> bytes:
    """One event of a messages stream."""
    return f"event: {type}\ndata: {_json({'type': type, **fields})}\n\n".encode()


def _cut(text: str, size: int) -> list[str]:
    return [text[i : i + size] for i in range(0, len(text), size)]


def _arguments(value: Any) -> str:
    return value if isinstance(value, str) else _json(value)


def render(say: Say, exchange: Exchange, delay: float) -> Raw:
    openai = exchange.dialect == "openai"
    if not exchange.streams:
        body = _openai_whole(say) if openai else _anthropic_whole(say)
        return Raw([_json(body).encode()], content_type="application/json")
    frames = _openai_frames(say) if openai else _anthropic_frames(say)
    return Raw(frames, delay=say.delay or delay, gate=say.gate)


def _openai_usage(say: Say) -> dict[str, Any]:
    return {"prompt_tokens": say.usage[0], "completion_tokens": say.usage[1], "total_tokens": sum(say.usage)}


def _openai_frames(say: Say) -> list[bytes]:
    frames = [chunk({"role": "assistant", "content": ""})]
    frames += [chunk({"reasoning_content": piece}) for piece in _cut(say.thinking, say.pieces)]
    frames += [chunk({"content": piece}) for piece in _cut(say.text, say.pieces)]
    for index, (id, name, arguments) in enumerate(say.calls):
        head = {"index": index, "id": id, "type": "function", "function": {"name": name, "arguments": ""}}
        frames.append(chunk({"tool_calls": [head]}))
        frames += [
            chunk({"tool_calls": [{"index": index, "function": {"arguments": piece}}]})
            for piece in _cut(_arguments(arguments), say.pieces)
        ]
    frames.append(chunk({}, say.reason or ("tool_calls" if say.calls else "stop")))
    frames.append(chunk_of([], usage=_openai_usage(say)))
    return [*frames, DONE]


def _openai_whole(say: Say) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": say.text or None}
    if say.thinking:
        message["reasoning_content"] = say.thinking
    if say.calls:
        message["tool_calls"] = [
            {"id": id, "type": "function", "function": {"name": name, "arguments": _arguments(arguments)}}
            for id, name, arguments in say.calls
        ]
    reason = say.reason or ("tool_calls" if say.calls else "stop")
    return {
        "id": "chatcmpl-standin",
        "object": "chat.completion",
        "created": 1700000000,
        "model": "stand-in",
        "choices": [{"index": 0, "message": message, "finish_reason": reason}],
        "usage": _openai_usage(say),
    }


def _anthropic_head(say: Say) -> dict[str, Any]:
    return {
        "id": "msg_standin",
        "type": "message",
        "role": "assistant",
        "model": "stand-in",
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": {"input_tokens": say.usage[0], "output_tokens": 1},
    }


def _anthropic_frames(say: Say) -> list[bytes]:
    frames = [frame("message_start", message=_anthropic_head(say)), frame("ping")]
    index = 0

    def block(start: dict[str, Any], deltas: list[dict[str, Any]]) -> None:
        nonlocal index
        frames.append(frame("content_block_start", index=index, content_block=start))
        frames.extend(frame("content_block_delta", index=index, delta=delta) for delta in deltas)
        frames.append(frame("content_block_stop", index=index))
        index += 1

    if say.thinking:
        deltas = [{"type": "thinking_delta", "thinking": piece} for piece in _cut(say.thinking, say.pieces)]
        deltas.append({"type": "signature_delta", "signature": "c2lnbmVk"})
        block({"type": "thinking", "thinking": "", "signature": ""}, deltas)
    if say.text:
        block(
            {"type": "text", "text": ""},
            [{"type": "text_delta", "text": piece} for piece in _cut(say.text, say.pieces)],
        )
    for id, name, arguments in say.calls:
        pieces = ["", *_cut(_arguments(arguments), say.pieces)]
        block(
            {"type": "tool_use", "id": id, "name": name, "input": {}},
            [{"type": "input_json_delta", "partial_json": piece} for piece in pieces],
        )
    reason = say.reason or ("tool_use" if say.calls else "end_turn")
    frames.append(
        frame(
            "message_delta",
            delta={"stop_reason": reason, "stop_sequence": None},
            usage={"output_tokens": say.usage[1]},
        )
    )
    return [*frames, frame("message_stop")]


def _anthropic_whole(say: Say) -> dict[str, Any]:
    content: list[dict[str, Any]] = []
    if say.thinking:
        content.append({"type": "thinking", "thinking": say.thinking, "signature": "c2lnbmVk"})
    if say.text:
        content.append({"type": "text", "text": say.text})
    content += [
        {"type": "tool_use", "id": id, "name": name, "input": json.loads(_arguments(arguments))}
        for id, name, arguments in say.calls
    ]
    return _anthropic_head(say) | {
        "content": content,
        "stop_reason": say.reason or ("tool_use" if say.calls else "end_turn"),
        "usage": {"input_tokens": say.usage[0], "output_tokens": say.usage[1]},
    }


def _models() -> Raw:
    rows = [{"id": name, "object": "model", "type": "model", "display_name": name} for name in MODELS]
    body = {"object": "list", "data": rows, "has_more": False}
    return Raw([_json(body).encode()], content_type="application/json")


# -- broken answers ------------------------------------------------------------------------------------------

_WORDS = {
    400: ("invalid_request_error", "That request makes no sense to me."),
    401: ("authentication_error", "Incorrect API key provided: sk-test-1234567890abcdef."),
    403: ("permission_error", "Your key may not do that."),
    404: ("not_found_error", "The model `nope` does not exist."),
    429: ("rate_limit_error", "Slow down, please."),
    500: ("api_error", "Something went wrong here."),
    503: ("overloaded_error", "Come back later."),
    529: ("overloaded_error", "Overloaded."),
}


def error_body(dialect: str, status: int, message: str | None = None) -> bytes:
    type, text = _WORDS[status]
    error = {"type": type, "message": message or text}
    if dialect == "openai":
        return _json({"error": {**error, "param": None, "code": None}}).encode()
    return _json({"type": "error", "error": error}).encode()


def broken(kind: str, dialect: str) -> Raw:
    openai = dialect == "openai"
    say = Say("This answer will not be whole, and somebody should say so.")
    good = _openai_frames(say) if openai else _anthropic_frames(say)
    some = good[:5]
    calling = Say(calls=[("call_1", "get_weather", {"city": "San Francisco"})])
    if kind.isdigit() or kind in ("too_long", "429_long"):
        return _refusal(kind, dialect)
    match kind:
        case "garbage":
            return Raw([*some, b"data: {]garbage\n\n", *good[5:]])
        case "deep":
            return Raw([*some, b'data: {"choices":' + b"[" * 5000 + b"\n\n", *good[5:]])
        case "cut":
            return Raw(some)
        case "cut_call":
            return Raw((_openai_frames(calling) if openai else _anthropic_frames(calling))[:5])
        case "no_reason":
            return Raw(good[:-3] if openai else good[:-2])
        case "half_character":
            half = chunk({"content": "é"}) if openai else frame("ping", text="é")
            return Raw([*some, half[: half.index("é".encode()) + 1]])
        case "error":
            error = json.loads(error_body(dialect, 529 if not openai else 500))
            return Raw([*some, b"data: " + _json(error).encode() + b"\n\n" if openai else frame(**error)])
        case "json_error":
            return Raw([error_body(dialect, 500)], content_type="application/json")
        case "whole":
            body = _openai_whole(say) if openai else _anthropic_whole(say)
            return Raw([_json(body).encode()], content_type="application/json")
        case "html" | "html_502":
            page = b"<!DOCTYPE html><html><body><h1>Bad gateway</h1><script>x()</script></body></html>"
            return Raw([page], status=502 if kind == "html_502" else 200, content_type="text/html")
        case "empty":
            return Raw([])
        case "redirect":
            return Raw([], status=302, headers=[("location", "http://127.0.0.1:9/elsewhere")])
        case "hang":
            return Raw([], content_type="", then="hang")
        case "hang_body":
            return Raw([], then="hang")
        case "hang_stream":
            return Raw(some, then="hang")
        case "refuse":
            return Raw([], then="refuse")
        case "reset":
            return Raw(some, then="reset")
        case "reset_before_body":
            return Raw([], then="reset")
        case "not_http":
            return Raw([b"SSH-2.0-OpenSSH_9.2\r\n\r\n"], status=0, then="cut")
    raise AssertionError(kind)


def _refusal(kind: str, dialect: str) -> Raw:
    status = 400 if kind == "too_long" else int(kind.partition("_")[0])
    message = "prompt is too long: 250000 tokens > 200000 maximum" if kind == "too_long" else None
    headers = []
    if status == 429:
        headers = [("retry-after", "3600" if kind == "429_long" else "0")]
    return Raw([error_body(dialect, status, message)], status, "application/json", headers)


# -- the default behaviour -----------------------------------------------------------------------------------


def play_the_model(exchange: Exchange) -> Answer:
    """Rules, not a language model: see the module's docstring."""
    body = exchange.json
    asked = _last_user_text(body)
    if found := re.search(r"break:(\w+)", asked):
        return Broken(found[1])
    results = _results_since_user(body)
    tools = {tool.get("name") or tool.get("function", {}).get("name") for tool in body.get("tools", ())}
    delay = 0.05 if "slow" in asked else 0.0
    thinking = "Let me think about this for a moment." if "think" in asked else ""
    if "cut" in asked.split():
        return Say("This answer was cut by the li", reason=_reason(exchange, "length"))
    if re.search(r"weather|wear", asked) and "get_weather" in tools:
        return _weather_turn(asked, results, tools, thinking, delay)
    text = f"You said: {asked}"
    if "long" in asked.split():
        text = "\n\n".join(f"Paragraph {n}: {asked}" for n in range(1, LONG + 1))
    return Say(text, thinking=thinking, delay=delay)


def _weather_turn(asked: str, results: list[Any], tools: set[str | None], thinking: str, delay: float) -> Say:
    cities = re.findall(r"\b(?:in|and) ((?:[A-Z]\w+ ?)+)", asked) or ["San Francisco"]
    cities = [city.strip() for city in cities][: None if "parallel" in asked else 1]
    if not results:
        calls = [(f"call_w{n}", "get_weather", {"city": city}) for n, city in enumerate(cities, 1)]
        return Say("Let me look.", calls, thinking, delay=delay)
    last = results[-1]
    if isinstance(last, dict) and "temperature" in last and "get_clothing_advice" in tools:
        arguments = {"temperature": last["temperature"], "conditions": last["conditions"]}
        return Say("", [("call_c1", "get_clothing_advice", arguments)], thinking, delay=delay)
    advice = last.get("recommendation") if isinstance(last, dict) else None
    return Say(f"{advice or 'I could not find out'}: that is my advice for {cities[0]}.", delay=delay)


def _reason(exchange: Exchange, reason: str) -> str:
    return {"length": "max_tokens"}.get(reason, reason) if exchange.dialect == "anthropic" else reason


def _texts(content: Any) -> str:
    if isinstance(content, str):
        return content
    return " ".join(part.get("text", "") for part in content or () if isinstance(part, dict))


def _is_said(message: dict[str, Any]) -> bool:
    content = message.get("content")
    return (
        message["role"] == "user"
        and not _is_notice(message)
        and (isinstance(content, str) or any(part.get("type") != "tool_result" for part in content))
    )


def _is_notice(message: dict[str, Any]) -> bool:
    """What the server says to a model whose answer it lost in the middle."""
    return message["role"] == "user" and str(message.get("content")).startswith("(The server was restarted")


def _gone_on(answer: Say, exchange: Exchange) -> Say:
    """The rest of an answer of which the model is told that the beginning stands above."""
    messages = exchange.json["messages"]
    if len(messages) < 2 or not _is_notice(messages[-1]):
        return answer
    return replace(answer, text=answer.text.removeprefix(_texts(messages[-2]["content"])))


def _last_user_text(body: dict[str, Any]) -> str:
    said = [message for message in body["messages"] if _is_said(message)]
    return _texts(said[-1]["content"]) if said else ""


def _results_since_user(body: dict[str, Any]) -> list[Any]:
    results: list[Any] = []
    for message in body["messages"]:
        if _is_said(message):
            results = []
        elif message["role"] == "tool":
            results.append(_value(_texts(message["content"])))
        elif message["role"] == "user" and not _is_notice(message):
            results += [_value(_texts(part.get("content"))) for part in message["content"]]
    return results


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


async def _run(port: int, delay: float) -> None:
    server = StandIn(delay=delay)
    await server.start(port)
    print(server.url, flush=True)
    await asyncio.Event().wait()


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="A model's endpoint on loopback, for tests.")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--delay", type=float, default=0.0, help="seconds between two deltas")
    options = parser.parse_args(argv)
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(_run(options.port, options.delay))


async def collect(events: AsyncIterator[Any]) -> tuple[list[Any], BaseException | None]:
    """All that an async generator yields, and what it raises in the end."""
    seen: list[Any] = []
    try:
        async for event in events:
            seen.append(event)
    except Exception as exc:
        return seen, exc
    return seen, None


if __name__ == "__main__":
    main()
