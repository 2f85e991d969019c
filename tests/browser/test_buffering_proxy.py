"""Behind a proxy that holds every answer back until it is whole, no stream gets through; the page still follows."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import closing
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, expect

from tests.browser.chat import Chat, Watch
from tests.server import SESSION_COOKIE, Person, Server
from tests.standin import Say, StandIn

pytestmark = pytest.mark.slow


class BufferingProxy:
    """Forwards one request a connection, and its answer when that has ended."""

    def __init__(self, url: str) -> None:
        self.to = urlsplit(url)
        self.url = ""
        self.heads: list[str] = []
        self._loop = asyncio.new_event_loop()
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._loop.run_until_complete, args=[self._serve()])

    def __enter__(self) -> BufferingProxy:
        self._thread.start()
        assert self._ready.wait(10)
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._over.set)
        self._thread.join(20)

    async def _serve(self) -> None:
        self._over = asyncio.Event()
        server = await asyncio.start_server(self._forward, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        self._ready.set()
        await self._over.wait()
        server.close()

    async def _forward(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with closing(writer):
            try:
                head = await reader.readuntil(b"\r\n\r\n")
                lines = [
                    line for line in head.split(b"\r\n")[:-2] if not line.lower().startswith(b"connection:")
                ]
                length = next(
                    (int(line[15:]) for line in lines if line.lower().startswith(b"content-length:")), 0
                )
                body = await reader.readexactly(length)
                self.heads.append(lines[0].decode())
                upstream, to = await asyncio.open_connection(self.to.hostname, self.to.port)
            except (asyncio.IncompleteReadError, OSError):
                return
            with closing(to):
                to.write(b"\r\n".join([*lines, b"Connection: close", b"", body]))
                whole = asyncio.ensure_future(upstream.read())
                left = asyncio.ensure_future(reader.read())
                await asyncio.wait({whole, left}, return_when=asyncio.FIRST_COMPLETED)
                if whole.done() and not whole.exception():
                    writer.write(whole.result())
                for task in (whole, left):
                    task.cancel()


@pytest.fixture
def proxy(server: Server) -> Iterator[BufferingProxy]:
    with BufferingProxy(server.url) as proxy:
        yield proxy


def test_the_page_asks_again_and_again_where_no_stream_gets_through(
    browser: Browser, proxy: BufferingProxy, person: Person, standin: StandIn, watch: Watch
):
    context = browser.new_context(base_url=proxy.url)
    context.add_cookies([{"name": SESSION_COOKIE, "value": person.session, "url": proxy.url}])
    watch.follow(context, proxy.url)
    with closing(context):
        chat = Chat(context.new_page()).open()
        gate = threading.Event()
        standin.play(Say("The first half of it, and the second half of it.", gate=gate))
        chat.page.locator("#model").select_option("stand-in")
        chat.text.fill("Hello")
        chat.text.press("Enter")
        expect(chat.answer).to_contain_text("The first", timeout=60_000)
        assert not chat.answer_text().endswith("second half of it.")
        gate.set()
        expect(chat.answer).to_contain_text("and the second half of it.", timeout=60_000)
        chat.done()
        chat.ask("And now?").done()
        assert any("wait=25" in head for head in proxy.heads)
        streams = [head for head in proxy.heads if "/events" in head and "wait=" not in head]
        assert len(streams) <= 2, "one try, and the page's own start"
