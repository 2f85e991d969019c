"""A request that hooks want: the loop of `agent.relay` on this gateway's rounds.

How a stream that may hold several rounds is told, in this order:

    x-agentic-stream: single or append      what the caller asks for
    the key's setting                       what its owner asked for
    single, when a hook declares its tools  their calls are withheld, and the rounds are one message
    append                                  else: each round as it comes

OpenAI's dialect has only the single form.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial

from agent.asking import Asking
from agent.messages import Usage
from agent.relay import Joining, answer_stream, answer_whole, joining_for
from agent.rerun import Refusal, RelayContext
from agent.rerun_guard import Guard, Limits
from agent.rerun_tools import tool_names
from agent.wire.anthropic.joining import AppendedStream
from agent.wire.jsontext import dump
from chatsite.gateway import allowance
from chatsite.gateway.bodies import Body, read_body
from chatsite.gateway.caller import JSON
from chatsite.gateway.conf import setting
from chatsite.gateway.errors import Refused
from chatsite.gateway.exchange import Exchange
from chatsite.gateway.hooks.asked_tools import TYPE
from chatsite.gateway.hooks.loading import loaded_hooks
from chatsite.gateway.hooks.server_tools import server_tools
from chatsite.gateway.prices import cost_of
from chatsite.gateway.rounds import Asker, Round
from chatsite.gateway.routes import Routes

FORM_HEADER = b"x-agentic-stream"
TOOLS_HEADER = b"x-threadloom-tools"
ROUNDS_HEADER = b"x-threadloom-rounds"
FORMS = ("single", "append")


async def asking_for(exchange: Exchange, routes: Routes) -> Asking | None:
    """Those who want this request; None when nobody does."""
    loaded = loaded_hooks()
    # The server's own tools are asked for by this word; where it is not, the rest of the body need not be read.
    if not loaded and TOOLS_HEADER not in exchange.caller.headers and TYPE.encode() not in exchange.body.raw:
        return None
    hooks = (server_tools(), *loaded)
    key = exchange.key
    may_use = partial(allowance.opens, key, await allowance.policy_of(key.user_id))
    asking = Asking(hooks, _context(exchange), _guard(exchange), knows_model=routes.knows, may_use=may_use)
    return asking if asking.hooks else None


async def relay_hooked(
    asking: Asking, asker: Asker, exchange: Exchange, pass_on: Callable[[Body], Awaitable[None]]
) -> None:
    """`pass_on` makes the one round of a request at whose answers no hook can look."""
    rounds = _Rounds(asker, exchange)
    form = _form(exchange)
    try:
        made = await asking.before()
        if isinstance(made, Refusal):
            raise Refused(made.status, made.code, made.reason)
        if _asks_for_several(exchange):
            await pass_on(_unlooked(asking, exchange))
        elif exchange.body.stream:
            stream = _joining(asking, exchange, form)
            await answer_stream(asking, rounds, stream, _Way(exchange, rounds, asking.looks, stream))
        else:
            whole = await answer_whole(asking, rounds)
            exchange.sent(whole)
            await exchange.caller.reply(200, whole, [JSON, *rounds.headers])
    finally:
        await rounds.close()
        await asking.close()


def _asks_for_several(exchange: Exchange) -> bool:
    return exchange.caller.dialect == "openai" and exchange.body.json.get("n") not in (None, 1)


def _unlooked(asking: Asking, exchange: Exchange) -> Body:
    """The request as the hooks made it. Several answers side by side are no turn that one of them could look at, so
    nobody would fulfil what they serve."""
    served = asking.serves & tool_names(asking.call.body)
    if served:
        raise Refused(
            400,
            "invalid_request",
            f"n: must be 1 beside a tool that this server fulfils ({', '.join(sorted(served))})",
            param="n",
        )
    return _body_of(asking.call, exchange.body)


class _Rounds:
    """What the loop asks: each round under the key's limits, booked when it ends."""

    def __init__(self, asker: Asker, exchange: Exchange) -> None:
        self._asker = asker
        self._exchange = exchange
        self._open: list[tuple[Round, Body]] = []
        self.asked = 0

    @property
    def headers(self) -> list[tuple[bytes, bytes]]:
        """Of the last round; and how many there were."""
        last = self._open[-1][0].headers if self._open else ()
        return [*last, (ROUNDS_HEADER, str(self.asked).encode())]

    @property
    def first_headers(self) -> list[tuple[bytes, bytes]]:
        return list(self._open[-1][0].headers)

    async def ask(self, call: RelayContext, asked_by: str) -> Round:
        place = self._exchange.place
        if self.asked and place is not None and (refused := await place.check()):
            raise refused
        await self.close()
        if self.asked and (refused := await self._exchange.quota.again()):
            raise refused
        self.asked += 1
        body = _body_of(call, self._exchange.body)
        round = await self._asker.ask(body, depth=self.asked - 1, asked_by=asked_by)
        self._open.append((round, body))
        return round

    def end(self, round: Round) -> tuple[Usage, float | None]:
        body = self._open[-1][1]
        self._exchange.end_round(round, body, round.whole or None)
        used = round.record.usage
        cost = cost_of(used, round.target.model, body.model)
        return used, None if cost is None else float(cost)

    async def close(self) -> None:
        for round, _ in self._open:
            await round.close()
        del self._open[:-1]


class _Way:
    """How many rounds there were is in its head where there can be no further one; else in a comment before its end,
    when there were several. What no hook takes passes to the byte, and rounds that follow one another are counted by
    whoever reads them."""

    def __init__(self, exchange: Exchange, rounds: _Rounds, may_rerun: bool, stream: Joining) -> None:
        self._exchange = exchange
        self._rounds = rounds
        self._may_rerun = may_rerun
        self._joins = not isinstance(stream, AppendedStream)

    async def begin(self) -> None:
        rounds = self._rounds
        await self._exchange.caller.begin_stream(rounds.first_headers if self._may_rerun else rounds.headers)

    async def send(self, data: bytes) -> None:
        self._exchange.sent(data)
        await self._exchange.caller.write(data)

    def last_words(self) -> bytes:
        asked = self._rounds.asked
        return b": %s %d\n\n" % (ROUNDS_HEADER, asked) if self._joins and asked > 1 else b""

    async def end(self) -> None:
        await self._exchange.caller.end()


def _body_of(call: RelayContext, asked: Body) -> Body:
    """The request of a round. What no hook has changed goes on in the bytes it came in."""
    if call.body is asked.json:
        return asked
    body = {name: value for name, value in call.body.items() if name != "stream"}
    return read_body(dump(body | {"stream": True} if asked.stream else body).encode())


def _context(exchange: Exchange) -> RelayContext:
    caller, key, body = exchange.caller, exchange.key, exchange.body
    return RelayContext(
        dialect=caller.dialect,
        model=body.model,
        body=body.json,
        request_id=caller.request_id,
        stream=body.stream,
        key_label=key.label,
        user_id=key.user_id,
        key_pk=key.pk,
        keep=key.keep,
        exchange_id=exchange.id,
        asked_tools=tuple(filter(None, map(str.strip, caller.header(TOOLS_HEADER).split(",")))),
    )


def _guard(exchange: Exchange) -> Guard:
    return Guard(
        Limits(
            max_reruns=exchange.key.max_agentic_loops or setting("GATEWAY_MAX_RERUNS"),
            seconds=setting("GATEWAY_MAX_SECONDS"),
            tokens=setting("GATEWAY_MAX_TOKENS"),
            cost=setting("GATEWAY_MAX_COST"),
        )
    )


def _form(exchange: Exchange) -> str:
    asked = exchange.caller.header(FORM_HEADER).strip().lower()
    if asked and asked not in FORMS:
        raise Refused(400, "invalid_request", "x-agentic-stream: must be single or append.")
    return asked or exchange.key.stream_form


def _joining(asking: Asking, exchange: Exchange, form: str) -> Joining:
    declared = asking.serves
    all_declare = all(hook.serves for hook in asking.hooks)
    options = exchange.body.json.get("stream_options")
    return joining_for(
        exchange.caller.dialect,
        asking,
        append=form == "append" or (not form and not declared),
        holds=declared if all_declare else None,
        include_usage=isinstance(options, dict) and bool(options.get("include_usage")),
    )
