"""Runs whose process died, and what processes must know of each other.

A run row has an owner and a heartbeat. A run whose owner is dead (at once, when it was a process of this machine),
or that has not beaten for `LOST_AFTER` seconds, is closed: its log is folded into rows, each open call gets its one
result (what had been claimed may have happened, and the result says so), and the last event is RUN_ERROR `lost`.
The thread is usable again and offers Retry.

`rounds` asks for this every few seconds, and `serve` at its start.
"""

from __future__ import annotations

import json
import logging
import os
import secrets
import socket
import time
from dataclasses import replace
from datetime import timedelta
from functools import reduce
from pathlib import Path

from django.db import DatabaseError, transaction
from django.utils import timezone

from agent.events import RunError, ToolCallResult
from agent.messages import open_calls
from agent.reducer import apply
from chatsite.chat import keeping, store
from chatsite.chat.keeping import Batch, CallChange
from chatsite.chat.models import Run, ToolCall, new_public_id

LOST_AFTER = timedelta(seconds=30)

log = logging.getLogger(__name__)

READERS_AHEAD = 100_000
"""More events than a reader can have been told beyond what was kept when a server was killed."""

LOST = "The server stopped while answering. What was written is kept; try again."
UNKNOWN = "Outcome unknown: the server stopped while this ran, so it may have happened. Check before doing it again."
NEVER_RAN = "Not run: the server stopped before it began."


def _machine() -> str:
    """This host and process space: within it a process id says whether its process lives."""
    try:
        space = os.stat("/proc/self/ns/pid").st_ino
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        space, boot = 0, ""
    return f"{socket.gethostname()[:60]}/{boot}/{space}"


MACHINE = _machine()
PROCESS = f"{MACHINE}:{os.getpid()}:{secrets.token_hex(4)}"
"""Who owns the runs started here; the last part tells this process from an earlier one of the same id."""


def owner_is_dead(owner: str) -> bool:
    """True when `owner` certainly lives no more; False also for what cannot be known from here."""
    machine, _, rest = owner.partition(":")
    pid, _, _ = rest.partition(":")
    if machine != MACHINE or not pid.isdigit():
        return False
    if int(pid) == os.getpid():
        return owner != PROCESS
    try:
        os.kill(int(pid), 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        return False
    return False


def close_lost_runs() -> int:
    """Close every run whose process is gone; how many. Safe to call from several processes at once."""
    stale = timezone.now() - LOST_AFTER
    active = Run.objects.filter(state__in=Run.ACTIVE).values_list("pk", "owner", "heartbeat_at")
    lost = [pk for pk, owner, beat in active if owner_is_dead(owner) or beat is None or beat < stale]
    return sum(_close_lost_run(pk) for pk in lost)


def give_up(run_pks: list[int]) -> None:
    """This process goes and leaves these runs to the next one: without a heartbeat they are lost at once."""
    Run.objects.filter(pk__in=run_pks, owner=PROCESS, state__in=Run.ACTIVE).update(
        owner="", heartbeat_at=None
    )


def _close_lost_run(run_pk: int) -> bool:
    """One run that cannot be read (a newer version wrote it) keeps no other from its end."""
    try:
        with transaction.atomic():
            return close_run(run_pk, code="lost", message=LOST)
    except DatabaseError:
        raise
    except Exception:
        # Whatever its log holds: the thread has to be usable again.
        log.exception("run %s: its log could not be read; it is closed without", run_pk)
        ended = Run.objects.filter(pk=run_pk, state__in=Run.ACTIVE)
        return bool(
            ended.update(
                state=Run.State.LOST,
                stop_reason="lost",
                error=LOST,
                error_code="lost",
                finished_at=timezone.now(),
            )
        )


def close_run(run_pk: int, *, code: str, message: str) -> bool:
    """Give a run that nobody works on any more its end. False when it has one. Caller holds the transaction."""
    run = (
        Run.objects.select_for_update()
        .select_related("thread")
        .filter(pk=run_pk, state__in=Run.ACTIVE)
        .first()
    )
    if run is None:
        return False
    transcript = store.load_transcript(run.thread)
    saved = set(run.thread.messages.values_list("public_id", flat=True))
    # Behind a gap: a reader may know later numbers than the rows do, and must not take this end for known.
    first = store.last_number(run.pk) + READERS_AHEAD

    # A call that this run began may be one that an earlier run asked for, and a person approved.
    begun = ToolCall.objects.filter(run__thread=run.thread, state=ToolCall.State.CLAIMED)
    claimed = {row.call_id: row for row in begun}
    left = {call.id: call for call in open_calls(transcript)}
    results = [
        ToolCallResult(
            message_id=new_public_id(),
            tool_call_id=call.id,
            content=json.dumps({"error": UNKNOWN if call.id in claimed else NEVER_RAN}),
            error="outcome_unknown" if call.id in claimed else "aborted",
        )
        for call in left.values()
    ]
    whole = reduce(apply, results, transcript)
    calls = {
        call.id: CallChange(call.id, call.name, call.arguments, ToolCall.State.PROPOSED)
        for call in left.values()
    } | keeping.known_calls(run.thread_id, left)
    keeping.keep(
        Batch(
            run_pk=run.pk,
            thread_pk=run.thread_id,
            head=run.thread.head_id,
            first=first,
            events=(*results, RunError(message=message, code=code, timestamp=time.time_ns() // 1_000_000)),
            messages=tuple(entry for entry in whole if entry.id not in saved and entry.role != "user"),
            calls=tuple(_closed(calls[result.tool_call_id], result) for result in results)
            + tuple(
                replace(call, state=ToolCall.State.UNKNOWN, finished_at=timezone.now())
                for call in keeping.known_calls(run.thread_id, claimed.keys() - left.keys()).values()
            ),
            turns=run.turns,
        )
    )
    return True


def _closed(call: CallChange, result: ToolCallResult) -> CallChange:
    return replace(
        call,
        state=ToolCall.State.UNKNOWN if result.error == "outcome_unknown" else ToolCall.State.CANCELLED,
        result=str(result.content),
        error_code=result.error or "",
        finished_at=timezone.now(),
    )
