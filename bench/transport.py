"""Which transport carries a provider's requests: `python -m bench.transport`.

A stand-in in a process of its own writes ready-made chat completion chunks as fast as they are read. Each
transport reads them through `HttpProvider`, so the figures hold parsing and decoding too.

    2 shared cores, Python 3.11, uvloop, aiohttp 3.14, httpx-aiohttp 0.2, httpx2 2.16; medians of 3, reader CPU

                                  httpx 0.28            httpx2     httpx-aiohttp           aiohttp
    deltas/s, one stream      48,216 (21 us)    48,717 (21 us)    206,229 (5 us)    203,654 (5 us)
    deltas/s, 64 streams      39,700 (25 us)    43,454 (23 us)    185,664 (5 us)    175,635 (6 us)
    turns/s, one at a time     975 (1.01 ms)   1,044 (0.95 ms)   1,638 (0.54 ms)   2,554 (0.33 ms)
    turns/s, 64 at once        128 (7.82 ms)     842 (1.19 ms)   2,082 (0.48 ms)   4,580 (0.22 ms)

httpx2 has mended the pool (httpx looks at every connection for every request), but both parse HTTP chunks in
Python, one read for each; aiohttp's parser is C and hands over what has come in one piece. httpx's interface over it
takes as long again as aiohttp does. So: aiohttp, and httpx-aiohttp for who wants that interface.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import multiprocessing
import multiprocessing.connection
import resource
import socket
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import httpx
import httpx2
import uvloop

from agent.messages import Transcript, user_message
from agent.providers.base import TurnRequest
from agent.providers.clients import make_client
from agent.providers.endpoint import Endpoint
from agent.providers.http import HttpProvider, close_shared_clients
from agent.wire import openai_chat

HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
CHUNK = (
    b'data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1700000000,"model":"m",'
    b'"choices":[{"index":0,"delta":{"content":" token"},"finish_reason":null}]}\n\n'
)
LAST = CHUNK.replace(b'{"content":" token"}', b"{}").replace(b"null", b'"stop"') + b"data: [DONE]\n\n"


def framed(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """The path's number says how many deltas; each is an HTTP chunk of its own, 16 to a write."""
    with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
        while True:
            head = await reader.readuntil(b"\r\n\r\n")
            length = int(head.lower().partition(b"content-length:")[2].split(b"\r\n")[0] or 0)
            await reader.readexactly(length)
            deltas = int(head.split(b"/", 2)[1])
            writer.write(HEAD)
            for _ in range(deltas // 16):
                writer.write(framed(CHUNK) * 16)
                await writer.drain()
            writer.write(framed(LAST) + b"0\r\n\r\n")
            await writer.drain()


def serve(listening: socket.socket) -> None:
    async def main() -> None:
        server = await asyncio.start_server(answer, sock=listening)
        await server.serve_forever()

    uvloop.run(main())


class Httpx2Client:
    """httpx2's client under the few names that the provider uses."""

    def __init__(self) -> None:
        self._client = httpx2.AsyncClient(
            timeout=None, limits=httpx2.Limits(max_connections=None, max_keepalive_connections=100)
        )

    def build_request(self, *args: Any, timeout: object, **kwargs: Any) -> Any:
        return self._client.build_request(*args, **kwargs)

    async def send(self, request: Any, **kwargs: Any) -> Any:
        return await self._client.send(request, **kwargs)

    async def aclose(self) -> None:
        await self._client.aclose()


def plain_httpx() -> httpx.AsyncClient:
    return httpx.AsyncClient(
        timeout=None, limits=httpx.Limits(max_connections=None, max_keepalive_connections=100)
    )


CLIENTS: dict[str, Callable[[], Any]] = {
    "httpx 0.28": plain_httpx,
    "httpx2": Httpx2Client,
    "httpx-aiohttp": make_client,
    "aiohttp": lambda: None,
}
"""The last one is what the provider does when no client is given."""


async def one_turn(provider: HttpProvider) -> None:
    request = TurnRequest("m", Transcript([user_message("u", "Hello")]), "a")
    async for _ in provider.stream(request):
        pass


async def turns(provider: HttpProvider, count: int, at_once: int) -> float:
    """Seconds for `count` turns."""
    left = iter(range(count))

    async def work() -> None:
        for _ in left:
            await one_turn(provider)

    started = time.perf_counter()
    await asyncio.gather(*(work() for _ in range(at_once)))
    return time.perf_counter() - started


async def measure(
    make: Callable[[], Any], port: int, deltas: int, count: int, at_once: int
) -> tuple[float, float]:
    """Wall and CPU seconds, warm."""
    client = make()
    endpoint = Endpoint("bench", f"http://127.0.0.1:{port}/{deltas}")
    provider = HttpProvider(openai_chat, endpoint, client=client)
    await turns(provider, at_once, at_once)
    before = resource.getrusage(resource.RUSAGE_SELF)
    wall = await turns(provider, count, at_once)
    after = resource.getrusage(resource.RUSAGE_SELF)
    await (close_shared_clients() if client is None else client.aclose())
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


JOBS = {
    "deltas/s, one stream": (32_000, 1, 1),
    "deltas/s, 64 streams": (1_600, 64, 64),
    "turns/s, one at a time": (16, 300, 1),
    "turns/s, 64 at once": (16, 640, 64),
}


def main() -> None:
    parser = argparse.ArgumentParser(description="Measures the transports under httpx's interface.")
    parser.add_argument("--rounds", type=int, default=3)
    rounds = parser.parse_args().rounds
    listening = socket.create_server(("127.0.0.1", 0), backlog=512)
    server = multiprocessing.get_context("fork").Process(target=serve, args=(listening,), daemon=True)
    server.start()
    port = listening.getsockname()[1]
    print(f"{'':24}" + "".join(f"{name:>26}" for name in CLIENTS))
    for job, (deltas, count, at_once) in JOBS.items():
        results: dict[str, list[tuple[float, float]]] = {name: [] for name in CLIENTS}
        for _ in range(rounds):  # alternating, so that a busy moment hits all of them
            for name, make in CLIENTS.items():
                results[name].append(uvloop.run(measure(make, port, deltas, count, at_once)))
        cells = []
        for pairs in results.values():
            wall, cpu = (statistics.median(column) for column in zip(*pairs, strict=True))
            total = count * (deltas if job.startswith("deltas") else 1)
            unit = 1e6 * cpu / total
            cells.append(f"{total / wall:>10,.0f} ({unit:,.1f} us CPU)")
        print(f"{job:24}" + "".join(f"{cell:>26}" for cell in cells))
    server.terminate()


if __name__ == "__main__":
    sys.exit(main())
