"""From a caller's request to its answer.

Rule 1: where no hook wants a request its bytes pass: nothing is copied, kept or parsed.
Rule 2: what was used is booked whatever happens: a good end, an error, a caller that left.
"""

from __future__ import annotations

import asyncio

from agent.errors import AgentError
from chatsite.accounts.keys import KeyView
from chatsite.gateway.bodies import Body
from chatsite.gateway.caller import JSON, Caller
from chatsite.gateway.errors import Refused, refusal_of
from chatsite.gateway.exchange import LEFT, Exchange
from chatsite.gateway.hooked import asking_for, relay_hooked
from chatsite.gateway.rounds import Asker, Round
from chatsite.gateway.routes import Routes

ONE_ROUND = (b"x-threadloom-rounds", b"1")


async def relay(caller: Caller, key: KeyView, body: Body, routes: Routes) -> None:
    """Raises Refused or AgentError when there is no answer, or when it broke off."""
    exchange = Exchange(caller, key, body)
    asker = Asker(
        routes, caller.dialect, caller.headers, caller.request_id, exchange.rounds, exchange.end_round
    )
    try:
        await exchange.enter(routes)
        asking = await asking_for(exchange, routes)
        if asking is None:
            await _pass(caller, asker, body, exchange)
        else:
            await relay_hooked(asking, asker, exchange, lambda made: _pass(caller, asker, made, exchange))
    except Refused as refused:
        exchange.failed(refused)
        raise
    except AgentError as error:
        exchange.failed(refusal_of(error))
        raise
    except asyncio.CancelledError:
        exchange.failed(caller.why if isinstance(caller.why, Refused) else Refused(LEFT, "caller_left", ""))
        raise
    finally:
        exchange.end()


async def _pass(caller: Caller, asker: Asker, body: Body, exchange: Exchange) -> None:
    round = await asker.ask(body)
    try:
        if round.streamed:
            await _pass_stream(caller, round, exchange)
        else:
            exchange.sent(round.whole)
            await caller.reply(200, round.whole, [JSON, *round.headers, ONE_ROUND])
    finally:
        await round.close()
        exchange.end_round(round, body)


async def _pass_stream(caller: Caller, round: Round, exchange: Exchange) -> None:
    await caller.begin_stream([*round.headers, ONE_ROUND])
    while data := await round.next():
        exchange.sent(data)
        await caller.write(data)
    await caller.end()
