"""`manage.py serve` as a process of its own, for tests of the whole.

    with Server(tmp_path, SERVER="uvicorn", OPENAI_BASE_URL=standin.openai_url) as server:
        ada = server.people(1)[0]
        server.client(ada).get("/")

A server keeps its data folder and its port over `stop`, `kill` and `start`, so a browser finds it again; nobody else is
given that port meanwhile.
Another one on the same data is `server.sibling(folder)`.
"""

from __future__ import annotations

import json
import re
import socket
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from tests.site.processes import ROOT, environment, held_port, manage, wait_until

PASSWORD = "a long enough secret"
SESSION_COOKIE = "threadloom_session"

# One hash for all: what it costs to make one is the point of it, and not of these tests.
_MAKE_PEOPLE = """
import json, secrets
from django.conf import settings
from django.contrib.auth.hashers import make_password
from django.contrib.auth.models import User
from django.contrib.sessions.backends.db import SessionStore
from chatsite.accounts.keys import new_api_key

password = make_password({password!r})
for _ in range({count}):
    user = User.objects.create(
        username="person-" + secrets.token_hex(4), password=password, is_staff={staff}, is_superuser={staff}
    )
    session = SessionStore()
    session["_auth_user_id"] = str(user.pk)
    session["_auth_user_backend"] = settings.AUTHENTICATION_BACKENDS[0]
    session["_auth_user_hash"] = user.get_session_auth_hash()
    session.save()
    print(json.dumps([user.username, session.session_key, new_api_key(user, label="tests")]))
"""


@dataclass(frozen=True)
class Person:
    name: str
    session: str
    key: str
    password: str = PASSWORD

    @property
    def bearer(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.key}"}


class Server:
    def __init__(self, folder: Path, *, data: Path | None = None, **settings: str) -> None:
        self.folder = folder
        self.data = data or folder / "data"
        self.settings = {"DATA_DIR": str(self.data), "PORT": "0", **settings}
        self.log = folder / "serve.log"
        self.process: subprocess.Popen[bytes] | None = None
        self._port: socket.socket | None = None
        self.url = ""
        self._told = 0

    def sibling(self, folder: Path, **settings: str) -> Server:
        return Server(folder, data=self.data, **{**self.settings, "PORT": "0", **settings})

    # -- its life

    def start(self) -> Server:
        self.folder.mkdir(parents=True, exist_ok=True)
        begin = len(self.output)
        if self.settings["PORT"] == "0" and sys.platform == "linux":
            self._port = held_port()
            self.settings["PORT"] = str(self._port.getsockname()[1])
        with self.log.open("ab") as output:
            self.process = subprocess.Popen(
                [sys.executable, "manage.py", "serve"],
                cwd=ROOT,
                env=environment(**self.settings),
                stdout=output,
                stderr=subprocess.STDOUT,
            )
        self.url = str(wait_until(lambda: self._address(begin), "the line with the address"))
        self.settings["PORT"] = self.url.rpartition(":")[2]
        wait_until(self.healthy, "the first answer of /healthz")
        return self

    def _address(self, begin: int) -> str:
        found = re.search(r"http://[\w.:\[\]-]+", self.output[begin:])
        if found is None and self.process is not None and self.process.poll() is not None:
            raise AssertionError(f"the server ended:\n{self.output[begin:]}")
        return found[0] if found else ""

    def healthy(self) -> bool:
        try:
            return httpx.get(f"{self.url}/healthz", timeout=20).text == "ok\n"
        except httpx.HTTPError:
            return False

    def stop(self, seconds: float = 60) -> int:
        """Ask it to end, as an operator does; its exit code."""
        assert self.process is not None
        self.process.terminate()
        return self.process.wait(seconds)

    def kill(self) -> None:
        assert self.process is not None
        self.process.kill()
        self.process.wait(60)

    def __enter__(self) -> Server:
        return self.start()

    def __exit__(self, *_: object) -> None:
        if self.process is not None and self.process.poll() is None:
            self.kill()
        if self._port is not None:
            self._port.close()

    # -- what it says

    @property
    def output(self) -> str:
        return self.log.read_text(errors="replace") if self.log.exists() else ""

    @property
    def setup_url(self) -> str:
        found = re.findall(r"http\S+/setup/[\w-]+/", self.output)
        return found[-1] if found else ""

    def news(self) -> str:
        """What it has written since the last time somebody asked here."""
        output = self.output
        told, self._told = self._told, len(output)
        return output[told:]

    # -- who comes

    def manage(self, *arguments: str, **settings: str) -> subprocess.CompletedProcess[str]:
        return manage(*arguments, **{**self.settings, **settings})

    def people(self, count: int, *, staff: bool = False) -> list[Person]:
        script = _MAKE_PEOPLE.format(password=PASSWORD, count=count, staff=staff)
        ended = self.manage("shell", "-v", "0", "-c", script)
        assert ended.returncode == 0, ended.stderr
        return [Person(*json.loads(line)) for line in ended.stdout.splitlines() if line.startswith("[")]

    def client(self, person: Person | None = None, **options: Any) -> httpx.Client:
        """A browser's HTTP client, logged in: cookies, and the CSRF token of the login page."""
        client = httpx.Client(base_url=self.url, timeout=60, **options)
        if person is not None:
            client.cookies.set(SESSION_COOKIE, person.session)
        return client
