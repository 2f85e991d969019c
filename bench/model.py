"""A model's endpoint that is never the bottleneck: `python -m bench.model --port N`.

It speaks chat completions, with bytes made before they are asked for. The model's name says what it plays:

    text-N        N deltas of text as fast as they are read
    tools         the weather question: get_weather, get_clothing_advice, then a sentence
    nap           a call of the tool `nap`, which sleeps for a minute
    args-K        K KB of arguments for one call in deltas of 16 characters, then a sentence
    paced-N       N deltas at 10 a second, each with the moment at which it was written
    answer        a markdown answer of 400 deltas in eight seconds, for the browser
    silent        the head of an answer, and nothing behind it
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import time
from collections.abc import AsyncIterator, Iterator
from functools import cache
from typing import Any

import uvloop

WORD = " token"
FRAMES_A_WRITE = 16
PACE = 0.1
ANSWER_SECONDS = 8.0
ANSWER_DELTAS = 400
HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
END = b"0\r\n\r\n"
SAID = "Wear a light jacket: it is cloudy and 62 degrees in San Francisco today."

ANSWER = """\
## Keeping sourdough going

A starter is flour, water and patience. Here is what **matters most**, in the order in which people get it
wrong.

1. Feed it by *weight*, not by cup: one part starter, two parts flour, two parts water.
2. Keep it between 22 and 26 degrees; below that everything still happens, only later.
3. Use it when it has doubled and its top is just beginning to flatten.

| hours | what you see | what to do |
|------:|--------------|------------|
| 0 | a smooth paste | mark the jar |
| 4 | first bubbles at the side | wait |
| 7 | doubled, domed | use it now |
| 11 | fallen, sour | feed it again |

### A schedule in code

```python
from datetime import datetime, timedelta

def next_feeding(last: datetime, celsius: float) -> datetime:
    \"\"\"Warm starters are hungry sooner.\"\"\"
    hours = 8 if celsius >= 24 else 12 if celsius >= 20 else 18
    return last + timedelta(hours=hours)

print(next_feeding(datetime.now(), 23.5))
```

> A starter that smells of acetone is not dead. It is hungry. Feed it twice in a row and it will forgive you.

- [x] weigh the flour
- [x] mark the jar
- [ ] wait, although it is tempting not to

The dough itself is simpler. Mix 500 g of flour with 350 g of water and leave it for half an hour; add
100 g of starter and 10 g of salt; fold it four times, once every thirty minutes; shape it, and let it
rest in the cold overnight. Bake it at 250 degrees under a lid for twenty minutes, then without the lid
until the crust is the colour of chestnuts. Let it cool before cutting: the crumb is still setting while
it is hot, and what looks underbaked in the first ten minutes is often only impatience.

If the loaf spreads instead of rising, the dough was too wet or fermented for too long; use 20 g less
water next time. If it tears at the side, the cut on top was too shallow. And if it tastes of nothing,
the salt was forgotten: that happens to everybody once. Write down what you did, `flour, water, hours,
degrees`, and change one thing at a time. After five loaves you will not need a recipe any more, and
after ten nobody will believe that you ever did.
"""


# -- frames --------------------------------------------------------------------------------------------------


def framed(data: bytes) -> bytes:
    """An HTTP chunk."""
    return b"%x\r\n%s\r\n" % (len(data), data)


def chunk(delta: dict[str, Any], reason: str | None = None) -> bytes:
    value = {
        "id": "chatcmpl-bench",
        "object": "chat.completion.chunk",
        "created": 1700000000,
        "model": "bench",
        "choices": [{"index": 0, "delta": delta, "finish_reason": reason}],
    }
    return framed(b"data: " + json.dumps(value, separators=(",", ":")).encode() + b"\n\n")


def last(reason: str) -> bytes:
    usage = {"prompt_tokens": 12, "completion_tokens": 7, "total_tokens": 19}
    value = {"id": "chatcmpl-bench", "object": "chat.completion.chunk", "choices": [], "usage": usage}
    done = framed(b"data: " + json.dumps(value).encode() + b"\n\n") + framed(b"data: [DONE]\n\n")
    return chunk({}, reason) + done + END


def call(id: str, name: str, pieces: Iterator[str] | list[str]) -> Iterator[bytes]:
    head = {"index": 0, "id": id, "type": "function", "function": {"name": name, "arguments": ""}}
    yield chunk({"role": "assistant", "content": None, "tool_calls": [head]})
    for piece in pieces:
        yield chunk({"tool_calls": [{"index": 0, "function": {"arguments": piece}}]})
    yield last("tool_calls")


def cut(text: str, size: int) -> list[str]:
    return [text[at : at + size] for at in range(0, len(text), size)]


def text(pieces: list[str]) -> Iterator[bytes]:
    yield chunk({"role": "assistant", "content": ""})
    for piece in pieces:
        yield chunk({"content": piece})
    yield last("stop")


def big_arguments(kilobytes: int) -> str:
    return json.dumps({"temperature": 62, "conditions": "cloudy, " * (kilobytes * 1000 // 8)})


@cache
def writes(name: str, size: int, turn: int) -> list[bytes]:
    """What is written in this turn of the model of that name."""
    match name, turn:
        case "tools", 0:
            frames = call("call_w", "get_weather", cut('{"city":"San Francisco"}', 8))
        case "tools", 1:
            frames = call("call_c", "get_clothing_advice", cut('{"temperature":62,"conditions":"cloudy"}', 8))
        case "nap", 0:
            frames = call("call_n", "nap", ['{"seconds":60}'])
        case "args", 0:
            frames = call("call_c", "get_clothing_advice", cut(big_arguments(size), 16))
        case (("tools" | "args" | "nap"), _):
            frames = text(cut(SAID, 8))
        case _:
            frames = text([WORD] * size)
    ready = list(frames)
    return [b"".join(ready[at : at + FRAMES_A_WRITE]) for at in range(0, len(ready), FRAMES_A_WRITE)]


async def paced(count: int) -> AsyncIterator[bytes]:
    begun = time.monotonic()
    for number in range(count):
        await asyncio.sleep(begun + number * PACE - time.monotonic())
        yield chunk({"content": f" t={time.monotonic_ns()};"})
    yield last("stop")


async def answer() -> AsyncIterator[bytes]:
    begun, size = time.monotonic(), -(-len(ANSWER) // ANSWER_DELTAS)
    for number, piece in enumerate(cut(ANSWER, size)):
        await asyncio.sleep(begun + number * ANSWER_SECONDS / ANSWER_DELTAS - time.monotonic())
        yield chunk({"content": piece})
    yield last("stop")


# -- the server ----------------------------------------------------------------------------------------------


async def serve_one(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    # RuntimeError: uvloop's word for a connection that its client has closed.
    with contextlib.suppress(ConnectionError, RuntimeError, asyncio.IncompleteReadError):
        while True:
            head = await reader.readuntil(b"\r\n\r\n")
            length = int(head.lower().partition(b"content-length:")[2].split(b"\r\n")[0] or 0)
            body = json.loads(await reader.readexactly(length))
            name, _, size = body["model"].partition("-")
            writer.write(HEAD)
            if name == "silent":
                await reader.read()
            elif name in {"paced", "answer"}:
                async for frame in paced(int(size)) if name == "paced" else answer():
                    writer.write(frame)
                    await writer.drain()
            else:
                turn = sum(message["role"] == "tool" for message in body["messages"])
                for piece in writes(name, int(size or 0), turn):
                    writer.write(piece)
                    await writer.drain()
            await writer.drain()
    writer.close()


async def serve(port: int) -> None:
    server = await asyncio.start_server(serve_one, "127.0.0.1", port, backlog=1024)
    await server.serve_forever()


def main() -> None:
    parser = argparse.ArgumentParser(description="A fast stand-in for a model, on loopback.")
    parser.add_argument("--port", type=int, required=True)
    with contextlib.suppress(KeyboardInterrupt):
        uvloop.run(serve(parser.parse_args().port))


if __name__ == "__main__":
    main()
