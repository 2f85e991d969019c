"""What became of a request, as the gateway notes it: plain values, made on the request's path and written off it.

    ExchangeRecord     one request of a caller, with its answer
    RoundRecord        one request to an endpoint for it: attempts, fallbacks and reruns each have their own

`keep` is the key's: off (only the sums), metadata (no content), full (requests and answers). A body is given as
it is at hand, bytes or value, and never copied here; what of it may be kept is decided in `kept`, later.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from typing import Any

from django.utils import timezone

from agent.messages import Usage
from chatsite.gateway.prices import cost_of

NOTHING = Usage()
Body = bytes | str | dict[str, Any] | list[Any] | None
"""A request or an answer: JSON as bytes, text or value; a stream as the bytes that came."""


@dataclass(slots=True, kw_only=True)
class RoundRecord:
    """`model` is the endpoint's own name for it, `dialect` what the endpoint speaks. `depth` counts the reruns
    before it, and `asked_by` names the hook that asked for this one. `status` is the endpoint's, 0 without an
    answer. `cost` may be left out: it then comes from MODEL_PRICES."""

    endpoint: str
    model: str = ""
    dialect: str = ""
    depth: int = 0
    asked_by: str = ""
    status: int = 0
    error_code: str = ""
    stop_reason: str = ""
    ms: int = 0
    first_byte_ms: int | None = None
    usage: Usage = NOTHING
    cost: Decimal | None = None
    request: Body = None
    response: Body = None


@dataclass(slots=True, kw_only=True)
class ExchangeRecord:
    """`model` is the public name. `status` is what the caller got (499: it had left). `usage` and `cost` may be
    left out: they then are the sums of the rounds. `id` is ours and unique; `request_id` may be the caller's."""

    request_id: str
    key_pk: int | None = None
    user_id: int | None = None
    keep: str = "metadata"
    dialect: str = ""
    model: str = ""
    stream: bool = False
    status: int = 0
    error_code: str = ""
    started_at: datetime = field(default_factory=timezone.now)
    ms: int = 0
    first_byte_ms: int | None = None
    usage: Usage = NOTHING
    cost: Decimal | None = None
    rounds: list[RoundRecord] = field(default_factory=list)
    request: Body = None
    response: Body = None
    id: str = field(default_factory=lambda: uuid.uuid4().hex)

    def complete(self) -> None:
        """Fill in what the rounds say."""
        for each in self.rounds:
            if each.cost is None:
                each.cost = cost_of(each.usage, each.model, self.model)
        if self.usage == NOTHING:
            # Nearly always there is one round, and a sum of one is it.
            used = [each.usage for each in self.rounds]
            self.usage = used[0] if len(used) == 1 else sum(used, NOTHING)
        if self.cost is None:
            known = [each.cost for each in self.rounds if each.cost is not None]
            self.cost = sum(known[1:], known[0]) if known else cost_of(self.usage, self.model)

    def forget_content(self) -> None:
        self.request = self.response = None
        for each in self.rounds:
            each.request = each.response = None

    @property
    def content_bytes(self) -> int:
        """About how much memory the bodies hold, as far as that is known without looking at values."""
        bodies = [self.request, self.response]
        for each in self.rounds:
            bodies += (each.request, each.response)
        return sum(
            len(body) if isinstance(body, bytes | str) else 4_000 for body in bodies if body is not None
        )
