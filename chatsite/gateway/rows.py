"""Exchanges as rows. Texts that a column cannot hold are cut, so that no record is lost to a long name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from agent.messages import Usage
from agent.text import storable
from chatsite.gateway.kept import text_of
from chatsite.gateway.models import Exchange, Round
from chatsite.gateway.records import ExchangeRecord, RoundRecord

MOST_MS = 2**31 - 1


def insert(records: Sequence[ExchangeRecord]) -> None:
    exchanges = Exchange.objects.bulk_create(exchange_row(record) for record in records)
    Round.objects.bulk_create(
        round_row(each, exchange, number)
        for record, exchange in zip(records, exchanges, strict=True)
        for number, each in enumerate(record.rounds, 1)
    )


def exchange_row(record: ExchangeRecord) -> Exchange:
    return Exchange(
        public_id=record.id,
        request_id=fitting(record.request_id, 200),
        key_id=record.key_pk,
        user_id=record.user_id,
        dialect=fitting(record.dialect, 20),
        model=fitting(record.model, 200),
        stream=record.stream,
        status=record.status,
        error_code=fitting(record.error_code, 100),
        round_count=len(record.rounds),
        request=text_of(record.request),
        response=text_of(record.response),
        created_at=record.started_at,
        **_counted(record, record.usage),
    )


def round_row(each: RoundRecord, exchange: Exchange, number: int) -> Round:
    return Round(
        exchange=exchange,
        number=number,
        depth=each.depth,
        asked_by=fitting(each.asked_by, 200),
        endpoint=fitting(each.endpoint, 200),
        model=fitting(each.model, 200),
        dialect=fitting(each.dialect, 20),
        status=each.status,
        error_code=fitting(each.error_code, 100),
        stop_reason=fitting(each.stop_reason, 100),
        request=text_of(each.request),
        response=text_of(each.response),
        **_counted(each, each.usage),
    )


def _counted(record: ExchangeRecord | RoundRecord, usage: Usage) -> dict[str, Any]:
    return {
        "input_tokens": max(0, usage.input_tokens),
        "output_tokens": max(0, usage.output_tokens),
        "reasoning_tokens": max(0, usage.reasoning_tokens),
        "cached_input_tokens": max(0, usage.cached_input_tokens),
        "cache_write_input_tokens": max(0, usage.cache_write_input_tokens),
        "cost": record.cost,
        "ms": min(max(0, record.ms), MOST_MS),
        "first_byte_ms": record.first_byte_ms,
    }


def fitting(text: str, most: int) -> str:
    """The text as a column of `most` characters holds it."""
    return storable(text)[:most]
