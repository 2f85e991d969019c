"""What the benches share: processes on loopback, what they cost, and how the figures are told."""

from __future__ import annotations

import contextlib
import os
import re
import socket
import statistics
import subprocess
import sys
import tempfile
import time
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
        rss, pss = (int(re.search(rf"^{name}:\s+(\d+) kB", rollup, re.M)[1]) for name in ("Rss", "Pss"))
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
