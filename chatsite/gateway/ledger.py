"""The ledger of the tools that run here for a caller: a call is claimed before its tool starts, and settled behind it.

    claimed     it may be running; after `LOST_AFTER` nobody knows
    done        it gave a result
    failed      it gave an error
    unknown     it had begun, and nobody saw how it ended: the caller left, or this process died

A claim is committed when `claim` returns, so that whatever happens next, it is known that the tool may have run. Of
two claims of one call the second raises, and its tool does not start.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

from django.db import IntegrityError, connection
from django.utils import timezone

from agent.events import ToolCallResult
from agent.messages import ContentPart, ToolCallPart
from agent.rerun import RelayContext
from agent.text import storable
from agent.wire.parts import dump_parts
from chatsite.gateway.kept import text_of
from chatsite.gateway.models import ExchangeCall
from chatsite.gateway.rows import fitting

State = ExchangeCall.State

LOST_AFTER = timedelta(minutes=15)
"""Three times what the calls of one turn may take."""

_threads = ThreadPoolExecutor(max_workers=4, thread_name_prefix="gateway-ledger")


class ClaimedBefore(Exception):
    """This call was claimed already: its tool may have run."""


async def claim(call: RelayContext, tool_call: ToolCallPart, arguments: Mapping[str, Any]) -> None:
    """Keep that the call may happen. Raises when that cannot be kept; then it must not."""
    row = ExchangeCall(
        exchange_id=_exchange_of(call),
        call_id=fitting(tool_call.id, 200),
        name=fitting(tool_call.name, 200),
        key_id=call.key_pk,
        arguments=text_of(dict(arguments)) if call.keep == "full" else "",
    )
    await _in_thread(lambda: _insert(row))


def _insert(row: ExchangeCall) -> None:
    try:
        row.save(force_insert=True)
    except IntegrityError:
        # Or its key is gone; then the database's own words go on.
        if ExchangeCall.objects.filter(exchange_id=row.exchange_id, call_id=row.call_id).exists():
            raise ClaimedBefore(f"The call {row.call_id} was made before in this request.") from None
        raise


async def settle(call: RelayContext, result: ToolCallResult) -> None:
    """Keep how the call ended. A call that was never claimed, or is settled, stays as it is."""
    changes = {
        "state": _state_of(result.error),
        "error_code": fitting(result.error or "", 100),
        "result": _text_of(result.content) if call.keep == "full" else "",
        "finished_at": timezone.now(),
    }
    claimed = ExchangeCall.objects.filter(
        exchange_id=_exchange_of(call), call_id=fitting(result.tool_call_id, 200), state=State.CLAIMED
    )
    await _in_thread(lambda: claimed.update(**changes))


def settle_lost() -> int:
    """Calls of processes that died are known to nobody. How many there were."""
    lost = ExchangeCall.objects.filter(state=State.CLAIMED, claimed_at__lt=timezone.now() - LOST_AFTER)
    return lost.update(state=State.UNKNOWN, error_code="lost", finished_at=timezone.now())


def _exchange_of(call: RelayContext) -> str:
    return storable(call.exchange_id or call.request_id)[:32]


def _state_of(error: str | None) -> str:
    if error is None:
        return State.DONE
    return State.UNKNOWN if error == "aborted" else State.FAILED


def _text_of(content: str | tuple[ContentPart, ...]) -> str:
    if isinstance(content, str):
        return text_of(content)
    return text_of(dump_parts(content))


async def _in_thread(job: Callable[[], Any]) -> None:
    """Cancelling whoever waits does not take the job back."""

    def work() -> None:
        try:
            job()
        finally:
            connection.close()

    await asyncio.shield(asyncio.get_running_loop().run_in_executor(_threads, work))
