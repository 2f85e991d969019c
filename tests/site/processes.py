"""The site as a process of its own, with an environment of its own."""

import asyncio
import os
import re
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import httpx
import websockets

ROOT = Path(__file__).resolve().parents[2]


def environment(**settings: str) -> dict[str, str]:
    """Nothing of the test's own settings: what is not given here is as unset as on a fresh machine."""
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "TMPDIR", "LANG") if name in os.environ}
    # A title is a call of its own behind an answer, which a scripted model would take for the next turn.
    return kept | {"CHAT_AUTO_TITLE": "false"} | settings


def manage(*arguments: str, **settings: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "manage.py", *arguments],
        cwd=ROOT,
        env=environment(**settings),
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )


PATIENCE = 100.0
"""Seconds that are waited for what has to come, on a machine that has much else to do: less than a test may take."""


def wait_until(condition: Callable[[], object], what: str, seconds: float = PATIENCE) -> object:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if value := condition():
            return value
        time.sleep(0.05)
    raise AssertionError(f"{what} did not happen within {seconds} s")


@asynccontextmanager
async def opened_socket(url: str, **options: Any) -> AsyncIterator[websockets.ClientConnection]:
    """A WebSocket. What is done with it is over in a minute, also on such a machine."""
    async with asyncio.timeout(60), websockets.connect(url, open_timeout=60, **options) as sock:
        yield sock


def held_port() -> socket.socket:
    """A port of loopback that no other process is given while this is open, though it may be named to a server, as
    often as it is started: a socket that listens to nobody is in the way of none that may share the address."""
    held = socket.socket()
    held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    held.bind(("127.0.0.1", 0))
    return held


@contextmanager
def kept_port() -> Iterator[int]:
    """A port for what is started within this, and started again: held meanwhile where two may share an address."""
    with held_port() as held:
        port = int(held.getsockname()[1])
        if sys.platform != "linux":
            held.close()
        yield port


class Site:
    """A running `manage.py serve` on a port that the system picked."""

    def __init__(self, process: subprocess.Popen[str], log: Path) -> None:
        self.process = process
        self.log = log
        self.address = str(wait_until(self._address, "the line with the address"))

    def _address(self) -> str:
        if self.process.poll() is not None:
            raise AssertionError(f"the server ended:\n{self.output}")
        found = re.search(r"https?://[\w.:\[\]-]+", self.output)
        return found[0] if found else ""

    @property
    def output(self) -> str:
        return self.log.read_text()

    @property
    def setup_path(self) -> str:
        found = re.search(r"/setup/[\w-]+/", self.output)
        return found[0] if found else ""

    def get(self, path: str, **options) -> httpx.Response:
        return httpx.get(self.address + path, timeout=60, **options)

    def stop(self) -> int:
        self.process.terminate()
        return self.process.wait(timeout=60)


@contextmanager
def served(folder: Path, **settings: str) -> Iterator[Site]:
    folder.mkdir(exist_ok=True)
    log = folder / "serve.log"
    with log.open("w") as output:
        process = subprocess.Popen(
            [sys.executable, "manage.py", "serve"],
            cwd=ROOT,
            env=environment(DATA_DIR=str(folder / "data"), PORT="0", **settings),
            stdout=output,
            stderr=subprocess.STDOUT,
            text=True,
        )
    try:
        yield Site(process, log)
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
