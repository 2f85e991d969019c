"""The least gateway in Python: `python -m bench.gateway.floor --port N --upstream URL`.

One ASGI function on uvicorn, aiohttp below. It passes bytes on and knows nothing of keys, models, errors or hooks.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import aiohttp

from bench.serving import arguments, serve, session, whole_body


class Floor:
    def __init__(self, upstream: str) -> None:
        self.upstream = upstream
        self.session: aiohttp.ClientSession | None = None

    async def __call__(
        self, scope: Any, receive: Callable[[], Awaitable[Any]], send: Callable[[Any], Awaitable[None]]
    ) -> None:
        if self.session is None:
            self.session = session()
        body = await whole_body(receive)
        headers = {"content-type": "application/json"}
        async with self.session.post(self.upstream + scope["path"], data=body, headers=headers) as answer:
            kind = answer.headers.get("content-type", "").encode()
            await send(
                {
                    "type": "http.response.start",
                    "status": answer.status,
                    "headers": [(b"content-type", kind)],
                }
            )
            async for piece in answer.content.iter_any():
                await send({"type": "http.response.body", "body": piece, "more_body": True})
        await send({"type": "http.response.body", "body": b""})


def main() -> None:
    port, upstream = arguments("The least gateway that passes on.", "upstream")
    serve(Floor(upstream), port)


if __name__ == "__main__":
    main()
