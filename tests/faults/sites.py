"""A site that is made to fail: its servers, its rows as they are, and what its clients were told.

site = Site(folder, standin, database)      nothing runs yet
with site.server() as one, site.server() as two: ...
site.rows("SELECT state FROM chat_run")     past the product
async with site.run(server, "Hello") as told: ...
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import sqlite3
import time
from collections import defaultdict
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg

from tests.live.api import new_id
from tests.server import SESSION_COOKIE, Person, Server
from tests.site.processes import PATIENCE, wait_until
from tests.standin import StandIn

MODEL = "of-openai"
ACTIVE = "('queued', 'running')"


class Site:
    def __init__(self, folder: Path, standin: StandIn, database: dict[str, str], **settings: str) -> None:
        self.folder = folder
        self.database = database
        self.counts = folder / "counts"
        self.settings = {
            "DJANGO_SETTINGS_MODULE": "tests.faults.settings",
            "SECRET_KEY": "k" * 50,
            "SERVER": "uvicorn",
            "OPENAI_BASE_URL": standin.openai_url,
            "OPENAI_MODELS": MODEL,
            "OPENAI_API_KEY": "sk-of-a-fault-test",
            "PLANT_COUNTS": str(self.counts),
            **database,
            **settings,
        }
        self._servers = 0
        self._person: Person | None = None

    def server(self, **settings: str) -> Server:
        """One more process on the same data. It is started by `with`, or by its `start`."""
        self._servers += 1
        folder = self.folder / f"server{self._servers}"
        return Server(folder, data=self.folder / "data", **{**self.settings, **settings})

    def person(self, server: Server) -> Person:
        if self._person is None:
            self._person = server.people(1)[0]
        return self._person

    # -- its rows

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        if "DATABASE_URL" in self.database:
            with psycopg.connect(self.database["DATABASE_URL"]) as connection:
                return connection.execute(sql).fetchall()
        connection = sqlite3.connect(f"file:{self.sqlite}?mode=ro", uri=True, timeout=60)
        with contextlib.closing(connection):
            return connection.execute(sql).fetchall()

    @property
    def sqlite(self) -> Path:
        return self.folder / "data" / "db.sqlite3"

    def value(self, sql: str) -> Any:
        return self.rows(sql)[0][0]

    def all_runs_end(self, seconds: float = PATIENCE) -> None:
        active = f"SELECT count(*) FROM chat_run WHERE state IN {ACTIVE}"
        wait_until(lambda: self.value(active) == 0, "the end of all runs", seconds)

    def counted(self) -> list[str]:
        return self.counts.read_text().splitlines() if self.counts.exists() else []

    # -- its clients

    @contextlib.asynccontextmanager
    async def run(self, server: Server, text: str, thread: str = "", **body: Any) -> AsyncIterator[Told]:
        """A run over `/api/chat`, which its client's leaving does not stop. Listens in the background."""
        told = Told(thread or new_id())
        request = _request("POST", "/api/chat", self.person(server), _body(told, text, body))
        async with _listening(server, request, told):
            yield told

    @contextlib.asynccontextmanager
    async def follow(self, server: Server, thread: str, after: str = "") -> AsyncIterator[Told]:
        told = Told(thread)
        path = f"/threads/{thread}/events" + (f"?after={after}" if after else "")
        async with _listening(server, _request("GET", path, self.person(server)), told):
            yield told


@dataclass
class Told:
    """What a client was told, each event with the moment at which it came."""

    thread: str
    run: str = field(default_factory=new_id)
    status: int = 0
    body: str = ""
    events: list[tuple[float, dict[str, Any]]] = field(default_factory=list)
    over: asyncio.Event = field(default_factory=asyncio.Event)
    accepted: asyncio.Event = field(default_factory=asyncio.Event)

    def texts(self, until: float = float("inf")) -> dict[str, str]:
        """Message id -> its text, as told up to that moment."""
        texts: dict[str, str] = defaultdict(str)
        for at, event in self.events:
            if event["type"] == "TEXT_MESSAGE_CONTENT" and at <= until:
                texts[event["messageId"]] += event["delta"]
        return dict(texts)

    @property
    def text(self) -> str:
        return "".join(self.texts().values())

    def of(self, *types: str) -> list[dict[str, Any]]:
        return [event for _, event in self.events if event["type"] in types]

    @property
    def end(self) -> dict[str, Any] | None:
        return next(iter(self.of("RUN_FINISHED", "RUN_ERROR")), None)

    async def until(self, condition: Any, what: str, seconds: float = PATIENCE) -> None:
        deadline = time.monotonic() + seconds
        while not condition(self):
            assert not self.over.is_set() or self.status == 0, f"it ended before {what}: {self.events[-1:]}"
            assert time.monotonic() < deadline, f"{what} did not happen within {seconds} s"
            await asyncio.sleep(0.01)

    async def hears(self, length: int) -> None:
        await self.until(lambda told: len(told.text) >= length, f"{length} characters")

    async def ends(self, seconds: float = PATIENCE) -> dict[str, Any]:
        await self.until(lambda told: told.end is not None, "the end of the run", seconds)
        assert self.end is not None
        return self.end


def _body(told: Told, text: str, more: dict[str, Any]) -> bytes:
    body = {
        "threadId": told.thread,
        "runId": told.run,
        "state": {},
        "messages": [{"id": new_id(), "role": "user", "content": text}],
        "tools": [],
        "context": [],
        "forwardedProps": {"model": MODEL, "onDisconnect": "continue"},
        **more,
    }
    return json.dumps(body).encode()


def _request(method: str, path: str, person: Person, body: bytes = b"") -> bytes:
    who = f"x-api-key: {person.key}" if body else f"Cookie: {SESSION_COOKIE}={person.session}"
    head = (
        f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n{who}\r\nConnection: close\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


@contextlib.asynccontextmanager
async def _listening(server: Server, request: bytes, told: Told) -> AsyncIterator[None]:
    task = asyncio.ensure_future(_listen(int(server.settings["PORT"]), request, told))
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def _listen(port: int, request: bytes, told: Told) -> None:
    """Until the stream ends, by itself or with its server."""
    writer = None
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=2**24)
        writer.write(request)
        head = await reader.readuntil(b"\r\n\r\n")
        told.status = int(head.split(b" ", 2)[1])
        told.accepted.set()
        assert b"chunked" in head.lower(), head
        while size := int(await reader.readuntil(b"\r\n"), 16):
            now, piece = time.monotonic(), await reader.readexactly(size + 2)
            told.body += piece[:-2].decode() if told.status != 200 else ""
            for line in piece.split(b"\n"):
                if line.startswith(b"data: "):
                    told.events.append((now, json.loads(line[6:])))
    except (OSError, asyncio.IncompleteReadError):
        pass
    finally:
        told.over.set()
        told.accepted.set()
        if writer is not None:
            writer.close()
