"""Debian's Firefox ESR, over WebDriver BiDi: Playwright drives its own build of Firefox alone.

    with Firefox(folder) as page:
        page.open(url)
        page.type("#text", "Hello" + ENTER)
        page.until("document.querySelector('.bot')")

What a person does are real keys and clicks; a wait is a condition in the page.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import threading
import time
from contextlib import ExitStack
from itertools import count
from pathlib import Path
from typing import Any

from websockets.sync.client import connect

FIREFOX = shutil.which("firefox-esr")
ENTER = "\ue007"

_WISHES = """\
user_pref("browser.sessionhistory.max_total_viewers", 0);
user_pref("datareporting.policy.dataSubmissionEnabled", false);
user_pref("network.captive-portal-service.enabled", false);
user_pref("network.connectivity-service.enabled", false);
"""
"""A page that was left is gone: one that is kept asleep would never answer what it was asked. And no calls home."""

_UNTIL = """new Promise((done, fail) => {
    const end = Date.now() + %d;
    const look = () => (%s) ? done(true) : Date.now() > end ? fail(new Error("it never came")) : setTimeout(look, 50);
    look();
})"""


class Firefox:
    """One tab. `complaints` is what its console holds of errors and warnings; of what broke the content policy, too."""

    def __init__(self, folder: Path) -> None:
        self.complaints: list[str] = []
        self._folder = folder
        self._ids = count(1)

    def __enter__(self) -> Firefox:
        arguments = [
            "--headless",
            "--no-remote",
            "--profile",
            str(self._folder),
            "--remote-debugging-port",
            "0",
        ]
        (self._folder / "user.js").write_text(_WISHES)
        self._process = subprocess.Popen(
            [str(FIREFOX), *arguments],
            env=os.environ | {"HOME": str(self._folder)},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        with ExitStack() as opened:
            opened.callback(self._end)
            self._socket = opened.enter_context(connect(self._address(), max_size=None))
            self._do("session.new", capabilities={})
            self._do("session.subscribe", events=["log.entryAdded"])
            self._tab = self._do("browsingContext.getTree")["contexts"][0]["context"]
            self._opened = opened.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._opened.close()

    def _end(self) -> None:
        self._process.terminate()
        try:
            self._process.wait(20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        if self._process.stderr is not None:
            self._process.stderr.close()

    def _address(self) -> str:
        """Where it listens, once it says so. A Firefox that hangs is ended, and so is the reading of what it says."""
        assert self._process.stderr is not None
        alarm = threading.Timer(60, self._process.kill)
        alarm.start()
        said = ""
        for line in self._process.stderr:
            said += line
            if found := re.search(r"ws://\S+", line):
                alarm.cancel()
                return f"{found[0]}/session"
        raise AssertionError(f"Firefox did not start:\n{said}")

    def _do(self, method: str, **params: Any) -> Any:
        id = next(self._ids)
        self._socket.send(json.dumps({"id": id, "method": method, "params": params}))
        while True:
            answer = json.loads(self._socket.recv(timeout=60))
            if answer.get("method") == "log.entryAdded":
                self._hear(answer["params"])
            if answer.get("id") == id:
                assert answer["type"] == "success", f"{method}: {answer['error']}: {answer['message']}"
                return answer["result"]

    def _hear(self, entry: dict[str, Any]) -> None:
        if entry["level"] in {"error", "warn"}:
            self.complaints.append(f"{entry['level']}: {entry['text']}")

    def open(self, url: str) -> None:
        self._do("browsingContext.navigate", context=self._tab, url=url, wait="complete")

    def reload(self) -> None:
        self._do("browsingContext.reload", context=self._tab, wait="complete")

    def value(self, expression: str) -> Any:
        """A plain value of the page; an exception there is one here."""
        found = self._do(
            "script.evaluate", expression=expression, target={"context": self._tab}, awaitPromise=True
        )
        assert found["type"] == "success", f"{expression}: {found['exceptionDetails']['text']}"
        return found["result"].get("value")

    def hear(self, words: str, seconds: float = 60) -> None:
        """Wait until the console says so: it tells by a way of its own."""
        end = time.monotonic() + seconds
        while not any(words in one for one in self.complaints):
            assert time.monotonic() < end, self.complaints
            self.value("new Promise((done) => setTimeout(done, 50))")

    def until(self, condition: str, seconds: float = 50) -> None:
        """A page that goes away while it is looked at is one that has just come: the next is asked."""
        for attempt in range(3):
            try:
                self.value(_UNTIL % (seconds * 1000, condition))
                return
            except AssertionError as error:
                if attempt == 2 or "never came" in str(error):
                    raise AssertionError(f"{condition}\n{self.value('document.body.innerText')}") from error

    def click(self, selector: str) -> None:
        self.until(f"document.querySelector({json.dumps(selector)})?.checkVisibility()")
        self.value(f"document.querySelector({json.dumps(selector)}).scrollIntoView({{block: 'center'}})")
        nodes = self._do(
            "browsingContext.locateNodes", context=self._tab, locator={"type": "css", "value": selector}
        )
        at = {"type": "element", "element": {"sharedId": nodes["nodes"][0]["sharedId"]}}
        steps = [
            {"type": "pointerMove", "x": 0, "y": 0, "origin": at},
            {"type": "pointerDown", "button": 0},
            {"type": "pointerUp", "button": 0},
        ]
        self._act({"type": "pointer", "id": "mouse", "actions": steps})

    def type(self, selector: str, text: str) -> None:
        self.click(selector)
        keys = [{"type": kind, "value": letter} for letter in text for kind in ("keyDown", "keyUp")]
        self._act({"type": "key", "id": "keyboard", "actions": keys})

    def _act(self, source: dict[str, Any]) -> None:
        self._do("input.performActions", context=self._tab, actions=[source])
