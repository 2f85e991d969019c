"""How a floor is served: its port and the address below it are arguments, the rest is what uvicorn does fastest."""

from __future__ import annotations

import argparse
from collections.abc import Awaitable, Callable
from typing import Any

import aiohttp
import uvicorn


def arguments(description: str, below: str) -> tuple[int, str]:
    """`--port`, and the address that `--<below>` names."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument(f"--{below}", dest="below", metavar="URL", required=True)
    options = parser.parse_args()
    return options.port, options.below


def serve(app: Any, port: int) -> None:
    uvicorn.run(app, port=port, http="httptools", loop="uvloop", lifespan="off", log_level="warning")


def session() -> aiohttp.ClientSession:
    """As many connections as are asked for."""
    return aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0))


async def whole_body(receive: Callable[[], Awaitable[Any]]) -> bytes:
    body, more = b"", True
    while more:
        message = await receive()
        body += message.get("body", b"")
        more = message.get("more_body", False)
    return body
