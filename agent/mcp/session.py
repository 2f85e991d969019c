"""A session with one server, by the official SDK: opened, asked for its tools, called.

Whoever opens one closes it in the same task: the SDK's cancel scopes belong to it (`server.py`). In between any task of
that event loop may call.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, nullcontext
from typing import Any

from mcp import Client, MCPError, StdioServerParameters, stdio_client
from mcp import types as sdk
from mcp.client.streamable_http import streamable_http_client
from mcp.client.subscriptions import ListenNotSupportedError, SubscriptionLost
from mcp.shared.dispatcher import ProgressFnT as Progress
from pydantic import TypeAdapter

from agent.mcp import guarded
from agent.mcp.config import ServerConfig
from agent.mcp.guarded import FORGOTTEN, LOST, NOT_SENT
from agent.mcp.listing import MOST_TOOLS

__all__ = [
    "FORGOTTEN",
    "UNHEARD",
    "Client",
    "MCPError",
    "Progress",
    "call",
    "has_arrived",
    "hear_of_changes",
    "is_over",
    "list_tools",
    "open_session",
]

CLOSED = "Connection closed"
"""What the SDK says of a session that is over. The code of that is not enough: it has the same for one answer that
breaks off, and many servers say -32000 of whatever goes wrong."""
UNHEARD = frozenset({LOST, sdk.CONNECTION_CLOSED})
"""Codes of a request whose answer did not come."""
MAY_HAVE_ARRIVED = UNHEARD | {sdk.PARSE_ERROR}

MOST_PAGES = 20
LISTEN_AGAIN, LISTEN_AT_LEAST = 5.0, 300.0
US = sdk.Implementation(name="threadloom", version="0.1.0")
ANSWER: TypeAdapter[sdk.CallToolResult | sdk.InputRequiredResult] = TypeAdapter(
    sdk.CallToolResult | sdk.InputRequiredResult
)

Streams = tuple[Any, Any]


async def open_session(
    stack: AsyncExitStack, config: ServerConfig, *, changed: Callable[[], None], ended: Callable[[], None]
) -> Client:
    """`changed`: the server says that its tools are others now; `ended`: it will say nothing more.

    The stack leaves what was entered, and its owner leaves the stack where no limit of time is set: the SDK ends a
    command step by step, and one that is cancelled in between is left at work.
    """

    async def heard(message: Any) -> None:
        if isinstance(message, sdk.ToolListChangedNotification):
            changed()

    streams = await stack.enter_async_context(_streams(config, ended))
    client = Client(
        nullcontext(streams), message_handler=heard, client_info=US, cache=None, read_timeout_seconds=None
    )
    return await stack.enter_async_context(client)


async def list_tools(session: Client, wanted: tuple[str, ...] | None) -> list[sdk.Tool]:
    """Those of the names that are wanted, wherever in its list they stand; None: all, up to one too many."""
    found: list[sdk.Tool] = []
    cursor: str | None = None
    for _ in range(MOST_PAGES):
        page = await session.list_tools(cursor=cursor)
        found += [tool for tool in page.tools if wanted is None or tool.name in wanted]
        cursor = page.next_cursor
        if not cursor or len(found) > MOST_TOOLS:
            break
    return found


async def call(
    session: Client, name: str, arguments: Mapping[str, Any], progress: Progress
) -> sdk.CallToolResult | sdk.InputRequiredResult:
    """Not by the client's own `call_tool`: it checks the result by the server's schema, whose patterns may take for
    ever, and nothing here hangs on it."""
    params = sdk.CallToolRequestParams(name=name, arguments=dict(arguments))
    request = sdk.CallToolRequest(params=params)
    return await session.session.send_request(request, ANSWER, progress_callback=progress)


async def hear_of_changes(session: Client, changed: Callable[[], None]) -> None:
    """By the newer protocol one asks to be told; by the older `heard` is told anyway.

    Where the server breaks that off, it may be away: to ask for its list will tell.
    """
    pause = LISTEN_AGAIN
    while True:
        try:
            async with session.listen(tools_list_changed=True) as said:
                async for _ in said:
                    changed()
        except ListenNotSupportedError:
            return  # the list is asked for now and then all the same
        except MCPError as error:
            if error.code not in UNHEARD | {NOT_SENT}:
                return
            changed()
        except SubscriptionLost:
            changed()
        await asyncio.sleep(pause)
        pause = min(pause * 2, LISTEN_AT_LEAST)


def is_over(error: MCPError) -> bool:
    """Whether the session is of no use any more, which ends all other calls in it."""
    return error.code == FORGOTTEN or (error.code == sdk.CONNECTION_CLOSED and error.message == CLOSED)


def has_arrived(error: MCPError) -> bool:
    """Whether the server may have done what it was asked for: one that answers with an error says it has not."""
    return error.code in MAY_HAVE_ARRIVED


@asynccontextmanager
async def _streams(config: ServerConfig, ended: Callable[[], None]) -> AsyncGenerator[Streams, None]:
    opened = _command(config) if config.command else _http(config)
    async with opened as (read, write):
        yield _Watched(read, ended), write


@asynccontextmanager
async def _http(config: ServerConfig) -> AsyncGenerator[Streams, None]:
    async with (
        guarded.client(config.headers) as http,
        streamable_http_client(
            config.url, http_client=http, max_sse_event_size=guarded.LARGEST_ANSWER
        ) as streams,
    ):
        yield streams


def _command(config: ServerConfig) -> AbstractAsyncContextManager[Streams]:
    """Of our environment it gets what every program needs, and none of our secrets."""
    started = StdioServerParameters(command=config.command, args=list(config.args), env=dict(config.env))
    return stdio_client(started, errlog=sys.__stderr__ or sys.stderr)


class _Watched:
    """What comes from the server; that nothing more will come is told."""

    def __init__(self, stream: Any, ended: Callable[[], None]) -> None:
        self._stream = stream
        self._ended = ended

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    async def __aenter__(self) -> _Watched:
        await self._stream.__aenter__()
        return self

    async def __aexit__(self, *error: Any) -> Any:
        return await self._stream.__aexit__(*error)

    def __aiter__(self) -> _Watched:
        return self

    async def __anext__(self) -> Any:
        try:
            return await self._stream.__anext__()
        except StopAsyncIteration:
            self._ended()
            raise
