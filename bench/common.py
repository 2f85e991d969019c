"""What the benches share: processes on loopback, what they cost, and a client that costs nearly nothing."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import uuid
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

ROOT = Path(__file__).resolve().parent.parent
LOOPBACK = "127.0.0.1"
TICKS = os.sysconf("SC_CLK_TCK")
PAGE_SIZE = os.sysconf("SC_PAGE_SIZE")
START_WITHIN = 60.0
USER, PASSWORD, KEY = "bench", "bench-bench-bench", "bench-key-of-no-value"


# -- processes -----------------------------------------------------------------------------------------------


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind((LOOPBACK, 0))
        return sock.getsockname()[1]


def environment(**settings: str) -> dict[str, str]:
    """Nothing of the caller's own settings."""
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "TMPDIR", "LANG") if name in os.environ}
    return kept | settings


@contextlib.contextmanager
def process(
    *command: str, env: Mapping[str, str], output: IO[Any] | None = None, python: str = sys.executable
) -> Iterator[subprocess.Popen[bytes]]:
    child = subprocess.Popen([python, *command], cwd=ROOT, env=dict(env), stdout=output or subprocess.DEVNULL)
    try:
        yield child
    finally:
        child.terminate()
        try:
            child.wait(timeout=15)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()


def manage(*arguments: str, env: Mapping[str, str]) -> None:
    subprocess.run(
        [sys.executable, "manage.py", *arguments],
        cwd=ROOT,
        env=dict(env),
        stdout=subprocess.DEVNULL,
        check=True,
    )


def wait_for(port: int, child: subprocess.Popen[bytes], request: bytes = b"") -> None:
    """Until the port listens; with a request, until that has an answer of 200."""
    deadline = time.monotonic() + START_WITHIN
    while time.monotonic() < deadline:
        if child.poll() is not None:
            raise SystemExit(f"{child.args} ended by itself with {child.returncode}")
        with (
            contextlib.suppress(OSError),
            socket.create_connection((LOOPBACK, port), timeout=START_WITHIN) as sock,
        ):
            if not request:
                return
            sock.sendall(request)
            if sock.recv(4096).startswith(b"HTTP/1.1 200"):
                return
        time.sleep(0.002)
    raise SystemExit(f"{child.args} did not come up within {START_WITHIN:g} s")


HEALTH = f"GET /healthz HTTP/1.1\r\nHost: {LOOPBACK}\r\nConnection: close\r\n\r\n".encode()


@dataclass(frozen=True)
class Server:
    """A server under measurement."""

    name: str
    port: int
    pid: int
    env: Mapping[str, str] = field(default_factory=dict)

    def cpu(self) -> float:
        """Seconds of processor it has used, all of its threads."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / TICKS

    def resident(self) -> float:
        """RSS in MiB, cheap enough to be asked while the clock runs."""
        return int(Path(f"/proc/{self.pid}/statm").read_text().split()[1]) * PAGE_SIZE / 2**20

    def memory(self) -> tuple[float, float]:
        """RSS and PSS in MiB: PSS counts a page that n processes share as 1/n."""
        rollup = Path(f"/proc/{self.pid}/smaps_rollup").read_text()
        rss, pss = (int(re.search(rf"^{name}:\s+(\d+) kB", rollup, re.M)[1]) for name in ("Rss", "Pss"))  # type: ignore[index]
        return rss / 1024, pss / 1024


def site_environment(folder: Path, server: str, port: int, **settings: str) -> dict[str, str]:
    return environment(
        DATA_DIR=str(folder),
        HOST=LOOPBACK,
        PORT=str(port),
        SERVER=server,
        LOG_LEVEL="WARNING",
        CHAT_AUTO_TITLE="false",
        **settings,
    )


def add_user(env: Mapping[str, str]) -> None:
    """A user with a password and an API key."""
    admin = {"USERNAME": USER, "EMAIL": "", "PASSWORD": PASSWORD}
    admin_env = {f"DJANGO_SUPERUSER_{name}": value for name, value in admin.items()}
    manage("createsuperuser", "--noinput", env={**env, **admin_env})
    manage("createapikey", "--user", USER, "--key", KEY, env=env)


@contextlib.contextmanager
def site(server: str, **settings: str) -> Iterator[Server]:
    """`manage.py serve` on a fresh DATA_DIR, with a user and a key."""
    port = free_port()
    with tempfile.TemporaryDirectory(prefix="threadloom-bench-") as folder:
        env = site_environment(Path(folder), server, port, **settings)
        with process("manage.py", "serve", env=env) as child:
            wait_for(port, child, HEALTH)
            add_user(env)
            yield Server(f"Threadloom, {server}", port, child.pid, env)


@contextlib.contextmanager
def module(name: str, *arguments: str) -> Iterator[Server]:
    """`python -m bench.<name> --port ...`"""
    port = free_port()
    with process("-m", f"bench.{name}", "--port", str(port), *arguments, env=environment()) as child:
        wait_for(port, child)
        yield Server(name, port, child.pid)


# -- the client ----------------------------------------------------------------------------------------------


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

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.answer.asked_at = time.monotonic()
        transport.write(self._request)  # type: ignore[attr-defined]

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


# -- figures -------------------------------------------------------------------------------------------------


def percentile(values: Sequence[float], percent: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * percent / 100))]


def number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def spread(values: Sequence[float]) -> str:
    """The median, and the least and the most of the repeats."""
    if len(values) == 1:
        return number(values[0])
    return f"{number(statistics.median(values))} ({number(min(values))} - {number(max(values))})"


def machine() -> str:
    version = ".".join(map(str, sys.version_info[:3]))
    load = os.getloadavg()[0]
    return f"{os.cpu_count()} shared cores, CPython {version}, load {load:.1f} at the start"


def print_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """As Markdown, so that it can be copied as it is."""
    table = [list(head), *map(list, rows)]
    widths = [max(len(row[column]) for row in table) for column in range(len(head))]
    lines = [
        "| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) + " |"
        for row in table
    ]
    lines.insert(1, "|" + "|".join("-" * (width + 2) for width in widths) + "|")
    print("\n".join(lines), flush=True)
