"""What the gateway counts of its requests, as they end."""

from __future__ import annotations

from chatsite.gateway.records import ExchangeRecord
from chatsite.watch.counters import Counter, Timing

REQUESTS = Counter("threadloom_gateway_requests", "Requests to models.", ("dialect", "status", "model"))
SECONDS = Timing("threadloom_gateway_seconds", "From a request to the end of its answer.", ("dialect",))
FIRST_BYTE = Timing("threadloom_gateway_first_byte_seconds", "To the first byte of the answer.", ("dialect",))
ROUNDS = Counter("threadloom_gateway_rounds", "Calls of an endpoint, reruns and tries included.", ("model",))
TOKENS = Counter("threadloom_gateway_tokens", "Tokens of its requests.", ("model", "direction"))


def ended(record: ExchangeRecord) -> None:
    """A complete record."""
    # A request that reached no endpoint may name any model there is in the world.
    model = record.model if record.rounds else ""
    REQUESTS.add(record.dialect, str(record.status), model)
    SECONDS.add(record.ms / 1000, record.dialect)
    if record.first_byte_ms is not None:
        FIRST_BYTE.add(record.first_byte_ms / 1000, record.dialect)
    if record.rounds:
        ROUNDS.add(model, by=len(record.rounds))
        TOKENS.add(model, "input", by=record.usage.input_tokens)
        TOKENS.add(model, "output", by=record.usage.output_tokens)
