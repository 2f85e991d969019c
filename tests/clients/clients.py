"""The real clients as processes: `npm ci` once a lock, then one Node process a client that is told what to do."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from tests.server import Person, Server

HERE = Path(__file__).parent
DRIVERS = ("driver.mjs", "agui.mjs", "tanstack.mjs")
OLDEST_NODE = 20
PATIENCE = 100
"""Seconds that a client may take for one command."""

Json = dict[str, Any]


def what_is_missing() -> str:
    """Why no client can run here; empty when they can."""
    node = shutil.which("node")
    if node is None or shutil.which("npm") is None:
        return f"the JavaScript clients need node {OLDEST_NODE} or newer and npm"
    told = subprocess.run([node, "--version"], capture_output=True, text=True, check=False).stdout.strip()
    if int(told.lstrip("v").partition(".")[0] or 0) < OLDEST_NODE:
        return f"the JavaScript clients need node {OLDEST_NODE} or newer; this is {told}"
    return ""


def installed(cache: Path) -> Path:
    """A folder with the pinned packages and the drivers. The packages are installed once a lock."""
    lock = (HERE / "package-lock.json").read_bytes()
    folder = cache / hashlib.sha256(lock).hexdigest()[:16]
    cache.mkdir(parents=True, exist_ok=True)
    with (cache / "lock").open("w") as guard:
        fcntl.flock(guard, fcntl.LOCK_EX)  # tests may run in several processes
        if not folder.exists():
            _install(cache, folder)
        for name in DRIVERS:
            shutil.copy(HERE / name, folder / name)
    return folder


def _install(cache: Path, folder: Path) -> None:
    with tempfile.TemporaryDirectory(dir=cache) as unfinished:
        for name in ("package.json", "package-lock.json"):
            shutil.copy(HERE / name, unfinished)
        subprocess.run(
            ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"],
            cwd=unfinished,
            check=True,
            timeout=300,
        )
        shutil.copytree(unfinished, folder, symlinks=True)


class Client:
    """One client of one thread. What a command gives back is what the client holds afterwards."""

    def __init__(
        self, kind: str, folder: Path, server: Server, person: Person, thread: str, **options: Any
    ) -> None:
        self.kind = kind
        self.thread = thread
        self.held: Json = {}
        # Only what a client must know: no setting of the machine's reaches it.
        environment = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
        self._process = subprocess.Popen(
            ["node", f"{kind}.mjs"],
            cwd=folder,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        address = {"url": server.url, "key": person.key, "threadId": thread}
        self.tell("open", **address, **{"model": "of-openai", **options})

    def begin(self, what: str, **options: Any) -> None:
        """Tell it what to do, and wait for nothing; `told` waits."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"do": what, **options}) + "\n")
        self._process.stdin.flush()

    def told(self) -> Json:
        assert self._process.stdout is not None
        alarm = threading.Timer(PATIENCE, self._process.kill)
        alarm.start()
        try:
            line = self._process.stdout.readline()
        finally:
            alarm.cancel()
        assert line, f"the {self.kind} client ended, or gave no answer within {PATIENCE} s"
        self.held = json.loads(line)
        assert "failed" not in self.held, self.held["failed"]
        # A warning is how these clients say that they did not know an event or a property. They also print an error
        # that they give to their application.
        fine = ("error ",) if self.held.get("error") else ()
        warned = [line for line in self.held["console"] if not line.startswith(fine)]
        assert not warned, warned
        return self.held

    def tell(self, what: str, **options: Any) -> Json:
        self.begin(what, **options)
        return self.told()

    def send(self, text: str, **options: Any) -> Json:
        return self.tell("send", text=text, **options)

    def answer(self, **answers: Any) -> Json:
        """By call id: `{"approved": True, "editedArgs": {...}}` or `"cancel"`."""
        return self.tell("answer", answers=answers)

    def story(self) -> list[Json]:
        return _story_of_agui(self.held["messages"]) if self.kind == "agui" else story(self.held["messages"])

    def close(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.kill()
        self._process.wait(60)
        self._process.stdin.close()
        self._process.stdout.close()


# -- one reading of both -------------------------------------------------------------------------------------
# A story is the thread as it happened, without the borders of messages: TanStack folds a run's turns into one.


def story(messages: Iterable[Mapping[str, Any]]) -> list[Json]:
    """Of UIMessages, which TanStack's client holds and `GET /api/chat` gives."""
    told: list[Json] = []
    for message in messages:
        for part in message["parts"]:
            match part["type"]:
                case "text" | "thinking" as kind:
                    _say(told, message["role"] if kind == "text" else "thinking", part["content"])
                case "tool-call":
                    told.append(_call(part["id"], part["name"], part["arguments"]))
                case "tool-result":
                    failed = part["state"] == "error"
                    _answer(told, part["toolCallId"], part["content"], failed, part.get("error"))
    return told


def _story_of_agui(messages: Iterable[Mapping[str, Any]]) -> list[Json]:
    told: list[Json] = []
    for message in messages:
        match message["role"]:
            case "reasoning":
                _say(told, "thinking", message["content"])
            case "tool":
                metadata = message.get("metadata", {})
                failed = "error" in message or metadata.get("tanstack", {}).get("state") == "output-error"
                _answer(told, message["toolCallId"], message["content"], failed, message.get("error"))
            case role:
                _say(told, role, message.get("content") or "")
                for call in message.get("toolCalls", ()):
                    told.append(_call(call["id"], call["function"]["name"], call["function"]["arguments"]))
    return told


def _say(told: list[Json], who: str, text: str) -> None:
    if text:
        told.append({"who": who, "text": text})


def _call(id: str, name: str, arguments: str) -> Json:
    return {"call": id, "name": name, "arguments": json.loads(arguments or "{}")}


def _answer(told: list[Json], id: str, content: Any, failed: bool, error: str | None) -> None:
    call = next(each for each in told if each.get("call") == id)
    assert "result" not in call, f"two results of {id}"
    value = json.loads(content) if content else None
    # A failure of the page's own: it says so beside an empty content, the server inside of it.
    call["result"] = {"error": error} if failed and value is None else value
    call["failed"] = failed
