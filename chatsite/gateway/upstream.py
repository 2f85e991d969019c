"""One request to one endpoint: bytes in, bytes out.

aiohttp itself, without httpx's interface over it (which the chat's providers have). Measured against a loopback server
that does nothing, on uvloop: 0.06 ms of CPU a request for aiohttp, 0.19 for httpx on aiohttp; all of the gateway takes
0.18. A stream's pieces come in whatever size the socket gives, so many small events cost one read.

Rule 1: every wait has its time: to connect, to the first byte, between two reads. A reader who is slow is not the
endpoint's fault, so only waiting counts.
Rule 2: redirects are not followed, proxies of the environment not asked: where a key goes is decided by configuration.
Rule 3: closing an answer that is not read to its end closes the connection.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from io import BytesIO

import aiohttp
from yarl import URL

from agent.errors import BadStream, ProviderError, ProviderTimeout, ProviderUnreachable
from agent.providers.addresses import Reach, was_refused
from agent.providers.endpoint import Timeouts
from agent.providers.http import AWAY
from agent.providers.transport import shared_session

LARGE = 512 * 1024
MAX_WHOLE = 64 * 1024 * 1024
"""Bytes of an answer that comes in one piece."""


class Answer:
    """A response whose first piece has come."""

    def __init__(self, response: aiohttp.ClientResponse, idle: float) -> None:
        self.status = response.status
        self.headers: Mapping[str, str] = response.headers
        self.first = b""
        self._response = response
        self._content = response.content
        self._idle = idle
        self._loop = asyncio.get_running_loop()
        self._waiting_since: float | None = None
        self._timer: asyncio.TimerHandle | None = None

    async def begin(self) -> None:
        self.first = await self._content.readany()

    async def read(self) -> bytes:
        """The next piece, empty at the end. Raises ProviderError when it breaks or is silent for too long."""
        if self._timer is None:
            self._timer = self._loop.call_later(self._idle, self._look)
        self._waiting_since = self._loop.time()
        try:
            return await self._content.readany()
        except (aiohttp.ClientError, OSError, RuntimeError) as error:
            raise ProviderUnreachable("The connection to the model's endpoint broke.") from error
        finally:
            self._waiting_since = None

    async def read_all(self, most: int = MAX_WHOLE) -> bytes:
        pieces = [self.first]
        size = len(self.first)
        while piece := await self.read():
            pieces.append(piece)
            size += len(piece)
            if size > most:
                raise BadStream("The model's endpoint sent an answer without an end.")
        return b"".join(pieces)

    def close(self) -> None:
        """Gives the connection back when all was read, and closes it when not."""
        if self._timer is not None:
            self._timer.cancel()
        if self._content.at_eof():
            self._response.release()
        else:
            self._response.close()

    def _look(self) -> None:
        """One timer for the stream and not one for each read, which would cost more than the read does."""
        silent = 0.0 if self._waiting_since is None else self._loop.time() - self._waiting_since
        if silent >= self._idle:
            self._content.set_exception(
                ProviderTimeout(f"The model's answer stopped for more than {self._idle:g} seconds.")
            )
        else:
            self._timer = self._loop.call_later(self._idle - silent, self._look)


async def send(
    url: URL,
    body: bytes,
    headers: Mapping[str, str],
    timeouts: Timeouts,
    client_timeout: aiohttp.ClientTimeout,
    reach: Reach = Reach.ANYWHERE,
) -> Answer:
    """The answer, of whatever status, with its first piece. Raises ProviderError."""
    response: aiohttp.ClientResponse | None = None
    try:
        async with asyncio.timeout(timeouts.first_byte):
            response = await shared_session(reach).post(
                url, data=_payload(body), headers=headers, timeout=client_timeout, allow_redirects=False
            )
            answer = Answer(response, timeouts.idle)
            await answer.begin()
    except BaseException as error:
        if response is not None:
            response.close()
        if isinstance(error, aiohttp.ClientError | OSError | ValueError):
            raise _network_error(error, timeouts) from error
        raise
    return answer


def _payload(body: bytes) -> bytes | BytesIO:
    """A large body is written piece by piece, or the loop would stand still for it."""
    return body if len(body) < LARGE else BytesIO(body)


def _network_error(error: Exception, timeouts: Timeouts) -> ProviderError:
    match error:
        case aiohttp.ServerTimeoutError():
            return ProviderTimeout(
                f"The model's endpoint could not be reached within {timeouts.connect:g} seconds."
            )
        case TimeoutError():
            late = ProviderTimeout(
                f"The model's endpoint did not begin to answer within {timeouts.first_byte:g} seconds."
            )
            late.retryable = False
            return late
        case aiohttp.ClientResponseError():
            return BadStream("The model's endpoint does not speak HTTP. Is its address right?")
    if was_refused(error):
        away = ProviderUnreachable(AWAY)
        away.retryable = False
        return away
    return ProviderUnreachable("The model's endpoint could not be reached.")
