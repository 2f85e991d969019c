"""Long requests made shorter before the first round; the model reads back what it needs.

    GATEWAY_HOOKS=chatsite.gateway.hooks.compression.hook
    COMPRESSION_ABOVE=60000      tokens from which on a request is shortened
    COMPRESSION_KEEP=8           its last messages, which stay as they are

What is cut, and how, is decided in `agent/compression.py`. The model is given the tool `fetch_context`, whose calls are
answered here from the caller's own request, so nothing is kept between two requests. The caller sees neither.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence

from agent.compression import Limits, compress, fetch
from agent.cutting import A_TOKEN, FETCH, weight
from agent.rerun import BaseHook, Call, Json, Plan, RelayContext, Turn
from agent.rerun_answers import rerun_with
from chatsite.gateway.conf import setting

log = logging.getLogger(__name__)

NO_SUCH_KEY = "Nothing is kept under this key. Write it as the note has it, such as ctx_0123456789abcdef."


class Compression(BaseHook):
    serves = frozenset({FETCH})

    def wants(self, request: RelayContext) -> bool:
        # Several answers side by side could not read anything back.
        one = request.body.get("n") in (None, 1)
        return one and weight(request.body) > setting("COMPRESSION_ABOVE") * A_TOKEN

    async def pre_call(self, body: Json, call: RelayContext) -> Json | None:
        limits = Limits(setting("COMPRESSION_ABOVE"), setting("COMPRESSION_KEEP"))
        # Some megabytes take a tenth of a second, in which others are not to wait.
        done = await asyncio.to_thread(compress, body, call.dialect, limits)
        if done is None:
            return None
        log.info("%s: shortened from about %d to %d tokens", call.request_id, done.before, done.after)
        call.notes["cut"] = done.cut
        return done.body

    async def claims(self, turn: Turn, call: RelayContext) -> Sequence[Call] | None:
        # Where nothing was cut, a tool of that name is the caller's own.
        return await super().claims(turn, call) if "cut" in call.notes else None

    async def look(self, turn: Turn, call: RelayContext) -> Plan | None:
        cut = call.notes.get("cut")
        asked = [each for each in turn.calls if each.name == FETCH]
        if cut is None or not asked:
            return None
        return rerun_with(turn, {each.id: _answer(cut, each.arguments) for each in asked}, call)


def _answer(cut: Mapping[str, str], arguments: Json) -> str:
    start = arguments.get("start")
    page = fetch(cut, str(arguments.get("key", "")).strip(), start if isinstance(start, int) else 0)
    if page is None:
        return NO_SUCH_KEY
    if page.next is None:
        return page.text
    return f"{page.text}\n[{page.next:,} of {page.total:,} characters; for the next ones call with start={page.next}]"


hook = Compression()
