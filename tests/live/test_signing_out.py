"""Whoever signs out everywhere, or revokes a key, cuts what is open there, on a real server."""

from __future__ import annotations

import re
import threading
import time
from contextlib import suppress

import httpx
import pytest

from tests.server import Person, Server

WITHIN = 60.0
"""Seconds. The promise is five, to which tests/chat/test_delivery.py holds the figures that make it; a busy machine may
take more, and whoever is not cut reads for ever."""


def signed_in(server: Server, who: Person) -> httpx.Client:
    client = httpx.Client(base_url=server.url, timeout=60, headers={"Referer": server.url})
    client.get("/accounts/login/")
    answer = post(client, "/accounts/login/", login=who.name, password=who.password)
    assert (answer.status_code, answer.headers["location"]) == (302, "/")
    return client


def post(client: httpx.Client, path: str, **form: str) -> httpx.Response:
    return client.post(path, data=form, headers={"X-CSRFToken": client.cookies["csrftoken"]})


class Reader(threading.Thread):
    """Reads a stream until it ends, and knows when that was."""

    def __init__(self, client: httpx.Client, path: str, **headers: str) -> None:
        super().__init__(daemon=True)
        self.client, self.path, self.headers = client, path, headers
        self.began = threading.Event()
        self.ended_at = 0.0

    def run(self) -> None:
        # One that still reads when the server is killed has no good end.
        with (
            suppress(httpx.TransportError),
            self.client.stream("GET", self.path, headers=self.headers) as answer,
        ):
            assert answer.status_code == 200
            for _ in answer.iter_raw():
                self.began.set()
            self.ended_at = time.monotonic()


@pytest.mark.slow
def test_what_is_open_elsewhere_is_cut_in_time(tmp_path):
    with Server(tmp_path) as server:
        ada = server.people(1)[0]
        here, there = signed_in(server, ada), signed_in(server, ada)
        thread = post(there, "/threads/", text="Hello", client_id="m1").headers["location"]
        events = f"{re.match('/threads/[^/]+/', thread)[0]}events"
        page = Reader(there, events)
        program = Reader(httpx.Client(base_url=server.url, timeout=60), events, **ada.bearer)
        mine = Reader(here, events)
        for reader in (page, program, mine):
            reader.start()
            assert reader.began.wait(60)
        key = re.search(r"/accounts/keys/\d+/revoke/", here.get("/accounts/").text)[0]
        before = time.monotonic()
        assert post(here, "/accounts/sessions/end/").status_code == 302
        assert post(here, key).status_code == 302
        for reader in (page, program):
            reader.join(WITHIN)
            assert not reader.is_alive()
            assert reader.ended_at > before
        assert mine.is_alive()
        assert there.get("/").status_code == 302
