"""A program that follows over a WebSocket while its server dies, or goes and comes back: nothing missed, none twice."""

from __future__ import annotations

import asyncio
import json
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

import pytest
import websockets

from agent.providers.demo_texts import SLOW
from tests.live.api import Api, new_id, said_by
from tests.server import Server

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]


class Follower:
    """Keeps what it hears, comes back with the last cursor, and takes a snapshot for all there is."""

    def __init__(self, server: Server, thread: str, api: Api) -> None:
        self.url = f"{server.url.replace('http', 'ws')}/ws/threads/{thread}/"
        self.headers = api.person.bearer
        self.heard: dict[str, dict[int, dict]] = defaultdict(dict)
        self.cursor = ""
        self.connections = 0

    @property
    def text(self) -> str:
        return "".join(text_of(event) for run in self.heard.values() for _, event in sorted(run.items()))

    @property
    def is_over(self) -> bool:
        return any(event["type"] == "RUN_FINISHED" for run in self.heard.values() for event in run.values())

    async def until(self, done: Callable[[], bool]) -> None:
        while not done():
            try:
                async with websockets.connect(
                    f"{self.url}?after={self.cursor}", additional_headers=self.headers, open_timeout=60
                ) as sock:
                    self.connections += 1
                    while not done():
                        self._take(json.loads(await sock.recv()))
            except (OSError, websockets.WebSocketException):
                await asyncio.sleep(0.1)

    def _take(self, frame: dict) -> None:
        if "cursor" not in frame:
            return
        self.cursor = frame["cursor"]
        run_id, _, number = self.cursor.rpartition(":")
        if frame["event"]["type"] == "MESSAGES_SNAPSHOT":
            self.heard.clear()  # the server that died had told what was not kept
        assert int(number) not in self.heard[run_id]
        self.heard[run_id][int(number)] = frame["event"]


def text_of(event: dict) -> str:
    if event["type"] == "MESSAGES_SNAPSHOT":
        return "".join(each["content"] for each in event["messages"] if each["role"] == "assistant")
    return event["delta"] if event["type"] == "TEXT_MESSAGE_CONTENT" else ""


def kill(server: Server) -> None:
    server.kill()


def stop(server: Server) -> None:
    assert server.stop() == 0


@pytest.mark.parametrize("kind", ["daphne", "uvicorn"])
@pytest.mark.parametrize("end", [kill, stop])
def test_a_socket_that_comes_back_hears_the_rest_of_the_answer(
    end: Callable[[Server], None], kind: str, tmp_path: Path
):
    thread = new_id()
    with Server(tmp_path, SERVER=kind, DEFAULT_MODEL="demo", DRAIN_SECONDS="0.2") as server:
        with Api(server, server.people(1)[0]) as api:
            body = api.body("slow", thread, onDisconnect="continue")
            with api.http.stream("POST", "/api/chat", json=body) as response:
                assert response.status_code == 200
            follower = Follower(server, thread, api)
            asyncio.run(follow_over(follower, lambda: end(server), server))
            read = api.settled(thread)
        assert "Traceback" not in server.output
    assert follower.connections >= 2
    assert follower.text == SLOW == "".join(said_by(read, "assistant"))


async def follow_over(follower: Follower, end: Callable[[], None], server: Server) -> None:
    async with asyncio.timeout(240):
        await follower.until(lambda: len(follower.text) > 300)
        following = asyncio.ensure_future(follower.until(lambda: follower.is_over))
        await asyncio.sleep(0)
        await asyncio.to_thread(end)
        await asyncio.to_thread(server.start)
        await following
