"""The page of one exchange: its facts, what was said in it, and its rounds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from django.urls import reverse
from django.utils.safestring import SafeString
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from agent.messages import Message
from chatsite.adminkit.base import NOTHING, Link, as_json_text, list_url, row_url
from chatsite.gateway.admin import conversation
from chatsite.gateway.admin.conversation import Asked
from chatsite.gateway.models import Counted, Exchange, ExchangeCall, Round
from chatsite.phrases import count, duration, money, number, plain

MOST_MESSAGES = 100
"""Of one request, on the page; how many came before them is said."""
MOST_ROUNDS = 50
PIECES = ("request", "response")


def in_and_out(row: Counted) -> str:
    tokens = {"input": number(row.input_tokens), "output": number(row.output_tokens)}
    return gettext("%(input)s in, %(output)s out") % tokens


def has_content(row: Exchange) -> bool:
    """Whether anything that was said is kept of it."""
    if row.request or row.response:
        return True
    return row.rounds.exclude(request="", response="").exists()


@dataclass(frozen=True, slots=True)
class Kept:
    """A kept text: set out in lines, and where it stands alone."""

    title: str
    text: SafeString | str
    url: str


@dataclass(frozen=True, slots=True)
class RoundView:
    row: Round
    title: str
    facts: tuple[Link, ...]
    added: SafeString | None
    answer: SafeString | None
    kept: tuple[Kept, ...]


def page_of(exchange: Exchange, *, content: bool = True) -> dict[str, Any]:
    """The page of an exchange. Without `content`: what it came to, and nothing that was said."""
    if not content:
        facts = tuple(_facts(exchange, None))
        return {"exchange": exchange, "facts": facts, "closed": True, "links": _links(exchange)}
    asked = conversation.asked_in(exchange.request, exchange.dialect)
    answer = conversation.answered_in(exchange.response, exchange.dialect)
    rows = list(exchange.rounds.order_by("number")[: MOST_ROUNDS + 1])
    return {
        "exchange": exchange,
        "facts": tuple(_facts(exchange, asked)),
        "system": asked.system if asked else "",
        "earlier": max(0, len(asked.messages) - MOST_MESSAGES) if asked else 0,
        "conversation": _conversation(asked, answer),
        "kept": tuple(_kept(exchange)),
        "rounds": tuple(_round_views(rows[:MOST_ROUNDS])),
        "more_rounds": exchange.round_count - MOST_ROUNDS,
        "calls": tuple(ExchangeCall.objects.filter(exchange_id=exchange.public_id).order_by("pk")),
        "links": _links(exchange),
    }


def _conversation(asked: Asked | None, answer: Message | None) -> SafeString | None:
    messages = [*(asked.messages[-MOST_MESSAGES:] if asked else ()), *([answer] if answer else ())]
    return conversation.html_of(messages, "x") if messages else None


def _links(exchange: Exchange) -> tuple[Link, ...]:
    if exchange.key is None:
        return ()
    return (
        (_("Its key"), row_url(exchange.key)),
        (_("All of its key"), list_url(Exchange, key__id__exact=exchange.key.pk)),
    )


def _facts(row: Exchange, asked: Asked | None) -> Iterator[Link]:
    yield (
        _("Status"),
        f"{row.status or NOTHING}" + (gettext(" (the caller had left)") if row.status == 499 else ""),
    )
    if row.error_code:
        yield _("Error"), row.error_code
    yield _("Model"), row.model or NOTHING
    yield _("Dialect"), row.dialect + (gettext(", streamed") if row.stream else "")
    yield _("Key"), str(row.key or NOTHING)
    yield _("User"), str(row.user or NOTHING)
    yield _("Started"), f"{row.created_at:%Y-%m-%d %H:%M:%S} UTC"
    yield _("Rounds"), count(row.round_count, "round")
    yield from _counted(row)
    if asked and asked.tools:
        yield _("Tools"), plain(", ".join(asked.tools), 300)


def _counted(row: Counted) -> Iterator[Link]:
    yield _("Tokens"), in_and_out(row)
    for name, tokens in (
        (_("Reasoning"), row.reasoning_tokens),
        (_("From cache"), row.cached_input_tokens),
        (_("To cache"), row.cache_write_input_tokens),
    ):
        if tokens:
            yield name, number(tokens)
    yield _("Cost"), NOTHING if row.cost is None else money(row.cost)
    yield _("Took"), duration(row.ms)
    if row.first_byte_ms is not None:
        yield _("First byte"), duration(row.first_byte_ms)


def _round_views(rows: Sequence[Round]) -> Iterator[RoundView]:
    before: Asked | None = None
    for row in rows:
        asked = conversation.asked_in(row.request, row.dialect)
        added = asked.since(before)[-MOST_MESSAGES:] if asked and row.depth else ()
        answer = conversation.answered_in(row.response, row.dialect)
        yield RoundView(
            row=row,
            title=_title(row),
            facts=tuple(_round_facts(row)),
            added=conversation.html_of(added, f"a{row.number}") if added else None,
            answer=conversation.html_of([answer], f"r{row.number}") if answer else None,
            kept=tuple(_kept(row)),
        )
        before = asked or before


def _title(row: Round) -> str:
    named = {"number": row.number, "depth": row.depth, "hook": row.asked_by}
    if row.asked_by:
        return gettext("Round %(number)s: rerun %(depth)s, asked for by %(hook)s") % named
    if row.depth:
        return gettext("Round %(number)s: rerun %(depth)s") % named
    return gettext("Round %(number)s") % named


def _round_facts(row: Round) -> Iterator[Link]:
    yield _("Endpoint"), row.endpoint or NOTHING
    yield _("Model"), row.model or NOTHING
    yield _("Dialect"), row.dialect or NOTHING
    yield _("Status"), str(row.status or _("no answer"))
    if row.error_code:
        yield _("Error"), row.error_code
    if row.stop_reason:
        yield _("Stop reason"), row.stop_reason
    yield from _counted(row)


def _kept(row: Exchange | Round) -> Iterator[Kept]:
    """The texts of an exchange or a round that there are."""
    name, at = "admin:gateway_exchange_kept", [row.pk]
    if isinstance(row, Round):
        name, at = "admin:gateway_round_kept", [row.exchange_id, row.number]
    for piece, title in zip(PIECES, (_("Request"), _("Answer")), strict=True):
        if text := getattr(row, piece):
            yield Kept(title, as_json_text(text), reverse(name, args=[*at, piece]))
