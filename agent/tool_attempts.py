"""One attempt of a tool: in the loop or in a thread, with a limit, and what its failure tells the model.

ToolError                                  its message and its code: the tool's answer
ValueError, LookupError, RuntimeError,     its message, tool_error: words somebody chose; logged
ArithmeticError, Exception and a few
more, of exactly that class
all others                                 a safe sentence, internal_error: a bug, or words of a library
                                           that may hold addresses and keys; logged with its trace
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Mapping
from functools import partial
from typing import Any

from agent.errors import AgentError
from agent.messages import ToolCallPart, ToolResultPart
from agent.results import error_result
from agent.tool_threads import in_thread
from agent.tools import Tool, ToolContext

log = logging.getLogger("agent.tool_calls")

BROKEN = "The tool failed because of an internal error."

WORDED = frozenset(
    {
        Exception,
        RuntimeError,
        ValueError,
        LookupError,
        ArithmeticError,
        ZeroDivisionError,
        OverflowError,
        PermissionError,
        FileNotFoundError,
        ConnectionError,
        TimeoutError,
    }
)


class TimedOut(Exception):
    def __init__(self, seconds: float) -> None:
        super().__init__(f"The tool gave no answer within {seconds:g} s.")


async def attempt_tool(tool: Tool, arguments: Mapping[str, Any], ctx: ToolContext) -> Any:
    assert tool.execute is not None
    execute = partial(tool.execute, arguments, ctx)
    try:
        async with asyncio.timeout(tool.timeout) as limit:
            value = await in_thread(execute) if tool.blocking else execute()
            return await value if inspect.isawaitable(value) else value
    except TimeoutError as error:
        if limit.expired():
            raise TimedOut(tool.timeout or 0) from error
        raise


def failure(call: ToolCallPart, error: BaseException, duration_ms: int | None) -> ToolResultPart:
    code, text = "internal_error", BROKEN
    if isinstance(error, AgentError):
        code, text = error.code, str(error)
    elif isinstance(error, TimedOut):
        code, text = "timeout", str(error)
        log.warning("tool %s: %s", call.name, text)
    elif _is_worded(error):
        code, text = "tool_error", str(error)
        log.warning("tool %s raised", call.name, exc_info=error)
    else:
        log.error("tool %s: a bug", call.name, exc_info=error)
    return error_result(call.id, code, text, duration_ms=duration_ms)


def _is_worded(error: BaseException) -> bool:
    # An OSError that the system made holds a number and often a path; one that a tool made holds its words.
    return type(error) in WORDED and bool(str(error)) and getattr(error, "errno", None) is None
