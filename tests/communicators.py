"""Clients of the ASGI application in a test's own loop, as channels has them, who wait as long as a busy machine takes.

Those of channels give up after one second: for a first request, which opens connections, too little there.
"""

from __future__ import annotations

from typing import Any

from channels import testing

PATIENCE = 60.0


class HttpCommunicator(testing.HttpCommunicator):
    async def receive_output(self, timeout: float = PATIENCE) -> Any:
        return await super().receive_output(timeout)

    async def wait(self, timeout: float = PATIENCE) -> None:
        await super().wait(timeout)


class WebsocketCommunicator(testing.WebsocketCommunicator):
    async def connect(self, timeout: float = PATIENCE) -> Any:
        return await super().connect(timeout)

    async def receive_output(self, timeout: float = PATIENCE) -> Any:
        return await super().receive_output(timeout)

    async def receive_from(self, timeout: float = PATIENCE) -> Any:
        return await super().receive_from(timeout)

    async def disconnect(self, code: int = 1000, timeout: float = PATIENCE) -> None:
        await super().disconnect(code, timeout)
