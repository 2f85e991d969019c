"""Threads for tools that block: as many as there are such tools. A tool that hangs would hold one of a number for good,
and a few of those would keep the whole process from so much as resolving a host name."""

from __future__ import annotations

import contextvars
from collections.abc import Callable
from functools import partial
from typing import Any

from agent.threads import Threads

_threads = Threads("tool")


async def in_thread(work: Callable[[], Any]) -> Any:
    """Like `asyncio.to_thread`, but by these rules. Cancelling the caller lets the thread finish by itself."""
    return await _threads.run(partial(contextvars.copy_context().run, work))
