"""An answer as its bytes come. There are two kinds, by whose connection it is; a reader sees no difference.

Rule 1: every wait has its time. Only waiting counts: a reader that is slow is not the endpoint's fault.
Rule 2: closing an answer that is not read to its end closes the connection; else the connection serves again.
Rule 3: an answer holds nothing of what was asked, which may be a whole conversation.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Mapping

import aiohttp

from agent.errors import ProviderTimeout, ProviderUnreachable

DRAIN = 0.1
"""Seconds that the end of the body may take behind the end mark; then the connection is not kept."""

NETWORK_ERRORS = (aiohttp.ClientError, OSError)
_ENDS = (*NETWORK_ERRORS, RuntimeError)
"""Of a read. RuntimeError is aiohttp's word for a connection that is closed already."""
BROKE = "The connection to the model's endpoint broke."


class Answer(ABC):
    """A response whose body is read piece by piece. `first` is the first piece, once `begin` has waited for it."""

    status: int
    headers: Mapping[str, str]
    first = b""

    @property
    def ok(self) -> bool:
        return 200 <= self.status < 300

    @abstractmethod
    async def begin(self) -> None:
        """Waits for as long as its caller lets it. Raises one of NETWORK_ERRORS."""

    @abstractmethod
    async def read(self, seconds: float | None = None) -> bytes:
        """The next piece, empty at the end. `seconds`: how long to wait for it if not as long as for every other.

        Raises ProviderTimeout, and ProviderUnreachable when the connection breaks."""

    @abstractmethod
    async def drain(self) -> None:
        """Reads what is left behind the end mark, so that the connection can serve again."""

    @abstractmethod
    async def close(self) -> None: ...


class Direct(Answer):
    """On a connection of the shared session, without httpx's interface over it, which takes as long again as aiohttp.

    There is one timer for the stream and not one for each read, which would cost more than the read does.
    """

    def __init__(self, response: aiohttp.ClientResponse, idle: float) -> None:
        self.status = response.status
        self.headers = response.headers
        self._response = response
        self._content = response.content
        self._idle = self._patience = idle
        self._loop = asyncio.get_running_loop()
        self._late_at: float | None = None  # while somebody waits
        self._timer: asyncio.TimerHandle | None = None
        self._looks_at = 0.0

    async def begin(self) -> None:
        self.first = await self._content.readany()

    async def read(self, seconds: float | None = None) -> bytes:
        self._patience = self._idle if seconds is None else seconds
        self._late_at = late_at = self._loop.time() + self._patience
        if self._timer is None or late_at < self._looks_at:
            self._look_at(late_at)
        try:
            return await self._content.readany()
        except _ENDS as error:
            raise ProviderUnreachable(BROKE) from error
        finally:
            self._late_at = None

    async def drain(self) -> None:
        if self._content.at_eof():
            return
        try:
            async with asyncio.timeout(DRAIN):
                while await self._content.readany():
                    pass
        except _ENDS:  # among them the timeout: the connection is closed then, and the turn is whole
            pass

    async def close(self) -> None:
        self.leave()

    def leave(self) -> None:
        """What `close` does, for whoever cannot wait."""
        if self._timer is not None:
            self._timer.cancel()
        if self._content.at_eof():
            self._response.release()
        else:
            self._response.close()

    def _look_at(self, then: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._looks_at, self._timer = then, self._loop.call_at(then, self._look)

    def _look(self) -> None:
        self._timer = None
        if self._late_at is None:
            return  # the next read sets the timer
        if self._loop.time() < self._late_at:
            self._look_at(self._late_at)
        else:
            self._content.set_exception(late(self._patience))


async def all_of(answer: Answer, most: int, seconds: float | None = None) -> bytes:
    """As much of the body as that; more of it is not waited for."""
    body = bytearray(answer.first)
    while len(body) < most and (piece := await answer.read(seconds)):
        body += piece
    return bytes(body[:most])


def is_packed(headers: Mapping[str, str]) -> bool:
    return headers.get("content-encoding", "identity") != "identity"


def late(seconds: float) -> ProviderTimeout:
    return ProviderTimeout(f"The model's answer stopped for more than {seconds:g} seconds.")
