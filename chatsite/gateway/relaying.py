"""From a caller's request to its answer.

Rule 1: where no hook wants a request its bytes pass: nothing is copied, kept or parsed.
Rule 2: what was used is booked whatever happens: a good end, an error, a caller that left.
"""

from __future__ import annotations

from agent.messages import Usage
from chatsite.accounts.keys import KeyView
from chatsite.gateway.bodies import Body
from chatsite.gateway.caller import JSON, Caller
from chatsite.gateway.rounds import Asker, Round
from chatsite.gateway.routes import Routes

ONE_ROUND = (b"x-threadloom-rounds", b"1")


async def relay(caller: Caller, key: KeyView, body: Body, routes: Routes) -> None:
    """Raises Refused when there is no answer, or when it broke off."""
    asker = Asker(routes, caller.dialect, caller.headers, caller.request_id)
    round = await asker.ask(body)
    try:
        await _pass(caller, round)
    finally:
        await round.close()


async def _pass(caller: Caller, round: Round) -> None:
    if not round.streamed:
        await caller.reply(200, round.whole, [JSON, *round.headers, ONE_ROUND])
        return
    await caller.begin_stream([*round.headers, ONE_ROUND])
    while data := await round.next():
        await caller.write(data)
    await caller.end()


def used(round: Round, body: Body) -> Usage:
    """What the endpoint counted; else about as much as went to it and came from it."""
    return round.usage or Usage(len(body.raw) // 4, round.events)
