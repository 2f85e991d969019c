"""One server: connected when it is needed, asked for its tools, called.

    away --need--> opening --its tools--> there --it ended, or forgot us--> away
                      `--problem: not tried again for a while--> away

The session lives in one task, the owner, which opens and closes it; calls come from others. All of it is in the one
event loop of `servers.py`; only `known`, a value, is read from elsewhere.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, cast

from pydantic import ValidationError

from agent.errors import ToolError
from agent.mcp.config import ServerConfig
from agent.mcp.faults import LONGEST_WORDS, Fault, fault, said, unpacked
from agent.mcp.listing import Refused, tools_of
from agent.mcp.results import value_of
from agent.mcp.text import shown
from agent.results import UNKNOWN_OUTCOME
from agent.tools import Tool, ToolContext

if TYPE_CHECKING:
    from mcp.types import CallToolResult

    from agent.mcp.session import Client, MCPError, Progress

log = logging.getLogger(__name__)

OPEN_FOR = 15.0
"""Seconds that a server may take until its tools are known: an old one may say nothing for ten to what the SDK asks."""
AGAIN_AFTER = 15.0
"""Seconds until one that was away is tried again."""
LIST_EVERY, LIST_AGAIN = 300.0, 1.0
"""Seconds until its tools are asked for again where it says nothing of them, and where it says so at each look."""
PROGRESS_EVERY = 0.2
Run = Callable[[Coroutine[Any, Any, Any]], Awaitable[Any]]
ASKS = "it asks for more from a person, which no tool can give here"


@dataclass(frozen=True, slots=True)
class Known:
    """What is known of a server at this moment. `more`: how many tools are refused besides those that are named;
    `problem`: why its tools are missing."""

    tools: tuple[Tool, ...] = ()
    refused: tuple[Refused, ...] = ()
    more: int = 0
    problem: Fault | None = None
    protocol: str = ""
    is_there: bool = False


class Server:
    def __init__(
        self, config: ServerConfig, run: Run, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """`run` does a piece of work in the servers' loop, whoever asks for it in whatever other."""
        self.config = config
        self._run = run
        self.known = Known()
        self._clock = clock
        self._session: Client | None = None
        self._owner: asyncio.Task[None] | None = None
        self._opened: asyncio.Future[None] | None = None
        self._limit: asyncio.Timeout | None = None
        self._wake, self._left = asyncio.Event(), asyncio.Event()
        self._closed = False
        self._next_try = float("-inf")

    @property
    def is_due(self) -> bool:
        """It is away, and nobody has tried for a while."""
        return self._session is None and self._clock() >= self._next_try

    async def open(self) -> Client | None:
        """The session; None when there is none, and `known` says why."""
        while self._left.is_set() and self._owner is not None and not self._owner.done():
            await asyncio.wait({self._owner})  # a call into what is on its way out might have arrived, or not
        if self._owner is None or self._owner.done():
            if self._closed or not self.is_due:
                return None
            self._left.clear()
            self._wake.clear()
            self._opened = asyncio.get_running_loop().create_future()
            # Not in the context of whoever needs it first: its lines in the log would bear that request's id for ever.
            self._owner = asyncio.create_task(
                self._own(self._opened), name=f"mcp {self.config.name}", context=contextvars.Context()
            )
        assert self._opened is not None
        await asyncio.shield(self._opened)
        return self._session

    async def close(self) -> None:
        """Returns when the owner has ended. It is cut short at what it opens, and never while it ends a command."""
        self._closed = True
        self._leave()
        if self._limit is not None and not self._limit.expired():
            self._limit.reschedule(0)
        if self._owner is not None:
            await asyncio.wait({self._owner})

    # -- the owner ---------------------------------------------------------------------------------------------

    async def _own(self, opened: asyncio.Future[None]) -> None:
        self._next_try = self._clock() + AGAIN_AFTER
        try:
            if not self._left.is_set():
                await self._live(opened)
        except asyncio.CancelledError:
            raise
        except (
            Exception
        ) as error:  # whatever the SDK or a server makes of it: this server is away, and says why
            if not self._closed:
                self._away(_fault(error))
        finally:
            self._session = None
            self.known = replace(self.known, is_there=False)
            if not opened.done():
                opened.set_result(None)

    async def _live(self, opened: asyncio.Future[None]) -> None:
        from agent.mcp import session

        async with AsyncExitStack() as stack:
            # What is entered within the limit is left behind it, in this task: the two do not have to nest.
            async with self._limited():
                there = await session.open_session(
                    stack, self.config, changed=self._wake.set, ended=self._leave
                )
                await self._list(there)
            self._session, self._next_try = there, float("-inf")
            opened.set_result(None)
            await self._stay(there)

    async def _stay(self, there: Client) -> None:
        from agent.mcp import session

        hearing = asyncio.create_task(session.hear_of_changes(there, self._wake.set))
        try:
            while not self._left.is_set():
                await _either(self._wake, LIST_EVERY)
                self._wake.clear()
                if not self._left.is_set():
                    async with self._limited():
                        await self._list(there)
                    await _either(self._left, LIST_AGAIN)
        finally:
            hearing.cancel()
            await asyncio.gather(hearing, return_exceptions=True)

    @asynccontextmanager
    async def _limited(self) -> AsyncGenerator[None, None]:
        async with asyncio.timeout(OPEN_FOR) as self._limit:
            try:
                yield
            finally:
                self._limit = None

    def _leave(self) -> None:
        self._left.set()
        self._wake.set()

    async def _list(self, there: Client) -> None:
        from agent.mcp import session

        theirs = await session.list_tools(there, self.config.tools)
        listed = tools_of(self.config, theirs, self._call_from_elsewhere)
        if listed.refused and listed.refused != self.known.refused:
            named = "; ".join(f"{each.name}: {each.why}" for each in listed.refused[:5])
            count = len(listed.refused) + listed.more
            log.warning("MCP server %s: %d tools are not taken: %s", self.config.name, count, named)
        self.known = Known(
            listed.tools, listed.refused, listed.more, protocol=there.protocol_version, is_there=True
        )

    def _away(self, why: Fault) -> None:
        self._next_try = self._clock() + AGAIN_AFTER
        self.known = Known(problem=why)
        log.warning("MCP server %s (%s) is away: %s", self.config.name, self.config.place, why)

    # -- calls -------------------------------------------------------------------------------------------------

    async def _call_from_elsewhere(self, *call: Any) -> Any:
        return await self._run(self._call(*call))

    async def _call(self, name: str, repeats: bool, arguments: Mapping[str, Any], ctx: ToolContext) -> Any:
        """Rule 3 of this package is here. Raises ToolError with words for the model."""
        from agent.mcp import session

        for last in (False, True):
            there = await self.open()
            if there is None:
                break
            try:
                answer = await session.call(there, name, arguments, self._progress(name, ctx))
            except session.MCPError as error:
                lost = session.has_arrived(error)
                if session.is_over(error):
                    await self._reopen(there)
                again = error.code == session.FORGOTTEN or (repeats and error.code in session.UNHEARD)
                if last or not again:
                    raise self._failed(error, lost and not repeats) from error
            except ValidationError as error:
                raise self._unknown("its answer is not of the protocol") from error
            else:
                if answer.result_type == "input_required":
                    raise ToolError(f"{self.config.name}: {ASKS}.", code="mcp_error")
                return value_of(cast("CallToolResult", answer))
        why = self.known.problem or "it is away"
        raise ToolError(f"The MCP server {self.config.name} cannot be asked: {why}.", code="mcp_unreachable")

    async def _reopen(self, there: Client) -> None:
        """The session is of no use any more: its owner leaves it, and the next who needs one opens another."""
        if self._session is there and self._owner is not None:
            self._leave()
            await asyncio.wait({self._owner})

    def _failed(self, error: MCPError, lost: bool) -> ToolError:
        words = shown(error.message, LONGEST_WORDS)
        return self._unknown(words) if lost else ToolError(f"{self.config.name}: {words}", code="mcp_error")

    def _unknown(self, why: str) -> ToolError:
        return ToolError(f"{self.config.name}: {why}. {UNKNOWN_OUTCOME}", code="outcome_unknown")

    def _progress(self, name: str, ctx: ToolContext) -> Progress:
        told_at = float("-inf")

        async def told(progress: float, total: float | None, message: str | None) -> None:
            nonlocal told_at
            if self._clock() - told_at < PROGRESS_EVERY:
                return
            told_at = self._clock()
            value: Any = shown(message, 200) if message else {"done": progress, "total": total}
            ctx.emit(name, value)

        return told


async def _either(event: asyncio.Event, seconds: float) -> None:
    """Returns when it is set, or when the time is over."""
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await event.wait()


def _fault(error: BaseException) -> Fault:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    if isinstance(error, TimeoutError):
        return fault("silent", seconds=f"{OPEN_FOR:g}")
    if isinstance(error, ValidationError):
        return fault("nonsense")
    if isinstance(error, FileNotFoundError | PermissionError):
        return fault("no_command")
    return unpacked(getattr(error, "data", None)) or said(str(error) or type(error).__name__)
