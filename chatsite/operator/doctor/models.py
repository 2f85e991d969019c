"""Each endpoint that the chat and the gateway use, asked for its models; the hooks; Redis."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator

from django.conf import settings

from chatsite.chat.agents import DEMO, agents
from chatsite.gateway.hooks.loading import loaded_hooks
from chatsite.gateway.routes import routes
from chatsite.operator.doctor.findings import Finding, look, ok, wrong

ANSWERS_WITHIN = 3.0


def chat_endpoints() -> Iterator[Finding]:
    catalog = asyncio.run(agents().catalog())
    for problem in catalog.problems:
        yield wrong("endpoint", problem, "Is its address right, is it running, is the key valid?")
    models = [choice for choice in catalog.choices if choice.id != DEMO]
    for provider in sorted({choice.provider for choice in models}):
        count = sum(choice.provider == provider for choice in models)
        yield ok("endpoint", f"{provider} has {count} models")
    if not models and not catalog.problems:
        yield look(
            "endpoint",
            "no model but the built-in demo, which is no language model",
            "Set OPENAI_API_KEY, ANTHROPIC_API_KEY, or OPENAI_BASE_URL for a local server.",
        )
    if settings.DEFAULT_MODEL and settings.DEFAULT_MODEL not in {choice.id for choice in catalog.choices}:
        yield wrong(
            "DEFAULT_MODEL",
            f"{settings.DEFAULT_MODEL!r} is at no endpoint",
            f"Choose another; {catalog.default!r} is used.",
        )


def gateway_endpoints() -> Iterator[Finding]:
    models = asyncio.run(routes().models())
    yield ok("gateway", f"serves {len(models)} models")


def hooks() -> Iterator[Finding]:
    yield ok("hooks", f"{len(loaded_hooks())} loaded")


def redis() -> Iterator[Finding]:
    if not settings.REDIS_URL:
        return
    import redis as client

    began = time.monotonic()
    with client.Redis.from_url(settings.REDIS_URL, socket_timeout=ANSWERS_WITHIN) as connection:
        connection.ping()
        policy = connection.config_get("maxmemory-policy").get("maxmemory-policy", "")
    yield ok("redis", f"answers in {(time.monotonic() - began) * 1000:.0f} ms")
    if policy.startswith("allkeys"):
        yield look(
            "redis", f"may forget anything when it is full ({policy})", "Set maxmemory-policy to noeviction."
        )
