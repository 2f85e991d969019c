"""What happens behind each path of the API."""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qs
from uuid import uuid4

from agent.wire.jsontext import dump
from chatsite.accounts.keys import KeyView
from chatsite.accounts.models import GATEWAY, MODELS
from chatsite.gateway import allowance, counting, limits
from chatsite.gateway.auth import Keys, wrong_key
from chatsite.gateway.bodies import Body, read_soon
from chatsite.gateway.caller import JSON, Caller
from chatsite.gateway.conf import setting
from chatsite.gateway.errors import Refused
from chatsite.gateway.quota import Quota
from chatsite.gateway.relaying import relay
from chatsite.gateway.routes import PublicModel, routes, unknown_model
from chatsite.policies.quotas import Amount

MOST_LISTED = 1000
NOTHING_USED = Amount()
NO_DATE = "1970-01-01T00:00:00Z"


async def health(caller: Caller) -> None:
    """Without a key, so it says no more than that this process answers."""
    await caller.reply(200, b'{"status":"ok"}')


class Doors:
    """The doors that need a key."""

    def __init__(self, keys: Keys) -> None:
        self._keys = keys

    async def completion(self, caller: Caller) -> None:
        """`/v1/chat/completions` and `/v1/messages`."""
        key, body = await self._asked(caller)
        with self._keys.watched(caller, lambda: caller.cut(wrong_key())):
            await caller.until_gone(relay(caller, key, body, routes()))

    async def count_tokens(self, caller: Caller) -> None:
        key, body = await self._asked(caller)
        await caller.until_gone(self._count(caller, key, body))

    async def _count(self, caller: Caller, key: KeyView, body: Body) -> None:
        place, quota = await limits.enter(key), Quota(key, uuid4().hex, body, ())
        try:
            if refused := await quota.begin(NOTHING_USED):
                raise refused
            count, is_estimate = await counting.count(body, routes(), caller.headers, caller.request_id)
        finally:
            quota.end()
            place.leave()
        headers = [JSON, (b"x-threadloom-estimate", b"true")] if is_estimate else [JSON]
        await caller.reply(200, dump({"input_tokens": count}).encode(), headers)

    async def models(self, caller: Caller) -> None:
        found = await self._models(caller)
        if caller.dialect == "openai":
            body: dict[str, Any] = {"object": "list", "data": [_openai_model(model) for model in found]}
        else:
            body = _anthropic_page(found, caller.query)
        await caller.reply(200, dump(body).encode())

    async def model(self, caller: Caller) -> None:
        name = caller.path.removeprefix("/v1/models/")
        for model in await self._models(caller):
            if model.name == name:
                shown = _openai_model(model) if caller.dialect == "openai" else _anthropic_model(model)
                await caller.reply(200, dump(shown).encode())
                return
        raise Refused(404, "model_not_found", f"The model {name[:100]!r} does not exist.", param="model")

    async def _models(self, caller: Caller) -> list[PublicModel]:
        key = await self._keys.of(caller, scopes=(GATEWAY, MODELS))
        policy = await allowance.policy_of(key.user_id)
        return [model for model in await routes().models() if allowance.opens(key, policy, model.name)]

    async def _asked(self, caller: Caller) -> tuple[KeyView, Body]:
        # Nobody's body is not read: tens of megabytes would be held for each key that somebody made up.
        key = await self._keys.of(caller)
        body = await read_soon(await caller.body(setting("GATEWAY_MAX_BODY")))
        if not allowance.opens(key, await allowance.policy_of(key.user_id), body.model):
            raise unknown_model(body.model)  # it is not theirs, so it is not there
        return key, body


def _openai_model(model: PublicModel) -> dict[str, Any]:
    return {"id": model.name, "object": "model", "created": 0, "owned_by": model.owner}


def _anthropic_model(model: PublicModel) -> dict[str, Any]:
    return {"type": "model", "id": model.name, "display_name": model.name, "created_at": NO_DATE}


def _anthropic_page(models: list[PublicModel], query: bytes) -> dict[str, Any]:
    """The whole list, or the page that `limit`, `after_id` and `before_id` ask for."""
    asked = {name: values[-1] for name, values in parse_qs(query.decode("latin-1")).items()}
    limit = asked.get("limit", str(MOST_LISTED))
    if not (limit.isascii() and limit.isdecimal() and 1 <= int(limit) <= MOST_LISTED):
        raise Refused(
            400, "invalid_request", f"limit: must be a number from 1 to {MOST_LISTED}.", param="limit"
        )
    names = [model.name for model in models]
    start, end = 0, len(models)
    if (after := asked.get("after_id")) in names:
        start = names.index(after) + 1
    if (before := asked.get("before_id")) in names:
        end = names.index(before)
        start = max(0, end - int(limit))
    page = models[start : min(end, start + int(limit))]
    return {
        "data": [_anthropic_model(model) for model in page],
        "has_more": start + len(page) < end if "before_id" not in asked else start > 0,
        "first_id": page[0].name if page else None,
        "last_id": page[-1].name if page else None,
    }
