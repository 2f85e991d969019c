"""A connection of uvicorn's on which little is pending."""

import asyncio
from typing import Any

from chatsite.operator.limits import MAX_PENDING, STUCK_AFTER


class Bounded:
    """Less is pending than asyncio would let, and a client that takes nothing for long is cut off."""

    loop: asyncio.AbstractEventLoop
    transport: Any
    _stuck: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        transport.set_write_buffer_limits(high=MAX_PENDING)
        super().connection_made(transport)

    def pause_writing(self) -> None:
        self._stuck = self.loop.call_later(STUCK_AFTER, self.transport.abort)
        super().pause_writing()

    def resume_writing(self) -> None:
        self._move_on()
        super().resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        self._move_on()
        super().connection_lost(exc)

    def _move_on(self) -> None:
        if self._stuck is not None:
            self._stuck.cancel()
