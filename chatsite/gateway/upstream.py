"""One request to one endpoint: bytes in, bytes out.

aiohttp itself, without httpx's interface over it. Measured against a loopback server that does nothing, on uvloop:
0.06 ms of CPU a request for aiohttp, 0.19 for httpx on aiohttp; all of the gateway takes 0.18. A stream's pieces come
in whatever size the socket gives, so many small events cost one read.

Rule 1: every wait has its time: to connect, to the first byte, between two reads (`answers`).
Rule 2: redirects are not followed, proxies of the environment not asked: where a key goes is decided by configuration.
Rule 3: closing an answer that is not read to its end closes the connection.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import aiohttp
from yarl import URL

from agent.errors import BadStream
from agent.providers.addresses import Reach
from agent.providers.answers import Direct
from agent.providers.endpoint import Timeouts
from agent.providers.failures import failure_of
from agent.providers.transport import payload, shared_session

MAX_WHOLE = 64 * 1024 * 1024
"""Bytes of an answer that comes in one piece."""


async def whole(answer: Direct, most: int = MAX_WHOLE) -> bytes:
    """All of the body. Raises ProviderError, also when it is longer than that."""
    pieces = [answer.first]
    size = len(answer.first)
    while piece := await answer.read():
        pieces.append(piece)
        size += len(piece)
        if size > most:
            raise BadStream("The model's endpoint sent an answer without an end.")
    return b"".join(pieces)


async def send(
    url: URL,
    body: bytes,
    headers: Mapping[str, str],
    timeouts: Timeouts,
    client_timeout: aiohttp.ClientTimeout,
    reach: Reach = Reach.ANYWHERE,
) -> Direct:
    """The answer, of whatever status, with its first piece. Raises ProviderError."""
    response: aiohttp.ClientResponse | None = None
    try:
        async with asyncio.timeout(timeouts.first_byte):
            response = await shared_session(reach).post(
                url, data=payload(body), headers=headers, timeout=client_timeout, allow_redirects=False
            )
            answer = Direct(response, timeouts.idle)
            await answer.begin()
    except BaseException as error:
        if response is not None:
            response.close()
        if isinstance(error, aiohttp.ClientError | OSError | ValueError):
            raise failure_of(error, timeouts) from error
        raise
    return answer
