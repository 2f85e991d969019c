"""News between processes, over the channel layer: "something changed in thread T", "stop run R".

Rule: a piece of news may get lost (a channel layer delivers at most once), so it carries no content. It only makes
somebody look sooner at what the rows say; without it `rounds` looks every second.

With the in-memory layer there is one process, which needs no news.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from typing import Any

from channels.layers import InMemoryChannelLayer, get_channel_layer

log = logging.getLogger(__name__)

GROUP = "threadloom.news"
AGAIN_AFTER = 1.0
"""Seconds until a layer that failed is listened to again."""

_sending: set[asyncio.Task[None]] = set()


def between_processes() -> Any | None:
    """The channel layer, when it reaches other processes."""
    layer = get_channel_layer()
    return None if layer is None or isinstance(layer, InMemoryChannelLayer) else layer


def thread_changed(thread_pk: int) -> None:
    _send({"type": "news", "thread": thread_pk})


def stop_run(run_pk: int) -> None:
    _send({"type": "news", "stop": run_pk})


async def heard() -> AsyncIterator[dict[str, Any]]:
    """What the processes say, this one included, as long as this one lives. Ends at once when there is one only."""
    while (layer := between_processes()) is not None:
        try:
            mailbox = await layer.new_channel()
            await layer.group_add(GROUP, mailbox)
            while True:
                yield await layer.receive(mailbox)
        except Exception:
            # A layer that is away, for whatever reason its client has: the rounds do without it meanwhile.
            log.warning("the channel layer failed; listening again in %s s", AGAIN_AFTER, exc_info=True)
            await asyncio.sleep(AGAIN_AFTER)


def _send(piece: dict[str, Any]) -> None:
    """Send without waiting: whoever tells news goes on, whatever the layer does."""
    layer = between_processes()
    if layer is None:
        return
    task = asyncio.ensure_future(_deliver(layer, piece))
    _sending.add(task)
    task.add_done_callback(_sending.discard)


async def _deliver(layer: Any, piece: dict[str, Any]) -> None:
    try:
        await layer.group_send(GROUP, piece)
    except Exception:
        # As above; a lost piece of news costs its reader a second.
        log.warning("the channel layer did not take a piece of news", exc_info=True)
