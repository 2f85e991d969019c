"""One hook, whatever it is: it may raise, hang, or give nonsense.

    call_hook                one call of one method
    wants, timeout_of        what it says of itself
    is_default, as_json      what it left as it was; what it gave

Rule 1: nothing of a hook's failure leaves this file but the fact. What it said is in the log, with the hook's name and
the request's id.
Rule 2: a hook runs in a task of its own, so that one that swallows its cancellation holds up nobody.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Callable
from typing import Any, Final

from agent.rerun import DEFAULT_TIMEOUT, BaseHook, Hook, Json, RelayContext, copied

log = logging.getLogger("threadloom.hooks")


class Failed:
    """What `call_hook` gives for a hook that failed."""


FAILED: Final = Failed()

_abandoned: set[asyncio.Task[Any]] = set()


async def call_hook(
    name: str, what: str, request_id: str, timeout: float, method: Callable[..., Any], *args: Any
) -> Any:
    """What the method gives, or FAILED. Only the caller's own cancellation comes through."""
    task = asyncio.create_task(_called(method, args))
    try:
        done, _ = await asyncio.wait({task}, timeout=timeout)
    except asyncio.CancelledError:
        _abandon(task)
        raise
    if not done:
        _abandon(task)
        log.error("Hook %s: %s took longer than %g s. [%s]", name, what, timeout, request_id)
        return FAILED
    if task.cancelled():
        log.error("Hook %s: %s cancelled itself. [%s]", name, what, request_id)
        return FAILED
    if error := task.exception():
        log.error("Hook %s: %s raised. [%s]", name, what, request_id, exc_info=error)
        return FAILED
    return task.result()


async def _called(method: Callable[..., Any], args: tuple[Any, ...]) -> Any:
    try:
        made = method(*args)
        if not inspect.isawaitable(made):
            raise TypeError("it is not an async function")
        return await made
    except (SystemExit, KeyboardInterrupt) as error:
        # Out of a task these end the whole server.
        raise RuntimeError(f"it raised {type(error).__name__}") from error


def _abandon(task: asyncio.Task[Any]) -> None:
    """Asks it to stop, and waits for nothing. It is held until it does, or the loop might drop it half way."""
    _abandoned.add(task)
    task.add_done_callback(_forget)
    task.cancel()


def _forget(task: asyncio.Task[Any]) -> None:
    _abandoned.discard(task)
    if not task.cancelled():
        task.exception()


def as_json(value: Any) -> Json | None:
    """An object that a hook gave as an answer, as plain JSON: a dict, or a model of pydantic's. None for all else."""
    if not isinstance(value, dict) and callable(dump := getattr(value, "model_dump", None)):
        value = dump()
    return copied(value) if isinstance(value, dict) else None


def is_default(hook: Hook, method: str) -> bool:
    own = getattr(hook, method)
    return getattr(own, "__func__", own) is getattr(BaseHook, method)


def timeout_of(hook: Hook) -> float:
    timeout = hook.timeout
    return timeout if isinstance(timeout, int | float) and timeout > 0 else DEFAULT_TIMEOUT


def wants(hook: Hook, call: RelayContext) -> bool:
    try:
        return bool(hook.wants(call))
    except Exception:  # a hook is foreign code; one that cannot even say whether it is interested is left out
        log.exception("Hook %s: wants raised. [%s]", hook.name, call.request_id)
        return False
