"""Endpoints on loopback as the gateway's, and bodies for it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any

from agent.providers.endpoint import Timeouts
from chatsite.gateway.endpoints import Config, Endpoint, Target, make_endpoint
from chatsite.gateway.routes import Routes, use_routes
from tests.standin import StandIn

MODEL = "stand-in"
SECRET = "endpoint-secret-1234"
CHAT = "/v1/chat/completions"
MESSAGES = "/v1/messages"
QUICK = Timeouts(connect=30, first_byte=30, idle=30)


def openai_at(standin: StandIn, name: str = "openai", timeouts: Timeouts = QUICK, **more: Any) -> Endpoint:
    return make_endpoint(
        name,
        "openai",
        standin.openai_url,
        **{"api_key": SECRET, "listed": (MODEL,), "timeouts": timeouts, **more},
    )


def anthropic_at(
    standin: StandIn, name: str = "anthropic", timeouts: Timeouts = QUICK, **more: Any
) -> Endpoint:
    return make_endpoint(
        name,
        "anthropic",
        standin.anthropic_url,
        **{"api_key": SECRET, "listed": (MODEL,), "timeouts": timeouts, **more},
    )


def serve(*endpoints: Endpoint, named: dict[str, list[tuple[Endpoint, str]]] | None = None) -> Routes:
    """From now on these are the gateway's endpoints, and the public names."""
    names = {name: tuple(Target(*step) for step in steps) for name, steps in (named or {}).items()}
    routes = Routes(Config(endpoints, names))
    use_routes(routes)
    return routes


def asking(text: str = "Hello", **more: Any) -> dict[str, Any]:
    """A body that both dialects take."""
    return {"model": MODEL, "max_tokens": 100, "messages": [{"role": "user", "content": text}], **more}


async def until(condition: Callable[[], object], *, seconds: float = 20.0) -> None:
    """Let the loop turn until the condition holds; fails when it never does."""
    async with asyncio.timeout(seconds):
        while not condition():  # noqa: ASYNC110 (what is awaited is many things, not one event)
            await asyncio.sleep(0.005)


async def least_seconds(work: Callable[[], Awaitable[object]]) -> float:
    """Of a processor, that it takes once, in the best of ten rounds: what else happens in one is not its doing."""
    rounds = []
    for _ in range(10):
        began = time.thread_time()
        for _ in range(500):
            await work()
        rounds.append(time.thread_time() - began)
    return min(rounds) / 500
