"""Which request, run and thread this piece of work belongs to, for the lines it logs.

A context's own: a request's task has one, a run's task has another, and what they call (also in threads, by
`sync_to_async`) sees it.
"""

from __future__ import annotations

import re
import secrets
from contextvars import ContextVar

request_id: ContextVar[str] = ContextVar("request_id", default="")
run_id: ContextVar[str] = ContextVar("run_id", default="")
thread_id: ContextVar[str] = ContextVar("thread_id", default="")

SANE_ID = re.compile(rb"[A-Za-z0-9][A-Za-z0-9._:/+=-]{0,127}")

ALL = {"request": request_id, "run": run_id, "thread": thread_id}


def of_request(given: bytes) -> str:
    """The id that a request brought in `x-request-id`, else a new one."""
    if given and SANE_ID.fullmatch(given):
        return given.decode("ascii")
    return f"req_{secrets.token_hex(12)}"


def begin_run(run: str, thread: str) -> None:
    """From here on this task works for that run."""
    run_id.set(run)
    thread_id.set(thread)


def known() -> dict[str, str]:
    """The ids there are."""
    return {name: value for name, variable in ALL.items() if (value := variable.get())}
