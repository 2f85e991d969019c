"""The settings this app reads, with what they are when a project does not set them."""

from __future__ import annotations

from typing import Any

from django.conf import settings

DEFAULTS: dict[str, Any] = {
    "OPENAI_BASE_URL": "",
    "OPENAI_API_KEY": "",
    "OPENAI_MODELS": [],
    "ANTHROPIC_BASE_URL": "",
    "ANTHROPIC_API_KEY": "",
    "ANTHROPIC_MODELS": [],
    "MODEL_PRICES": {},
    "REDIS_URL": "",
    # Days until an exchange is deleted.
    "GATEWAY_KEEP_DAYS": 30,
    # Dotted path of what makes HTML of messages for the admin; see `admin.conversation`.
    "GATEWAY_RENDERER": "",
    # Public name -> endpoints; see `routes`.
    "GATEWAY_MODELS": {},
    # Bytes of a request.
    "GATEWAY_MAX_BODY": 32 * 1024 * 1024,
    # Seconds: to connect, from the request to the first byte of the answer, between two reads.
    "GATEWAY_CONNECT_TIMEOUT": 10.0,
    "GATEWAY_FIRST_BYTE_TIMEOUT": 120.0,
    "GATEWAY_IDLE_TIMEOUT": 60.0,
    # Dotted path of the tools that callers may ask for by name, and those of them that need nobody's approval here.
    "GATEWAY_TOOLS": "",
    "GATEWAY_APPROVED_TOOLS": (),
    # The rules hook: one rule a line.
    "GATEWAY_RULES": "",
    # The web search hook: its services, and whether native tool types are left to the model's endpoint.
    "SEARXNG_URL": "",
    "BRAVE_URL": "https://api.search.brave.com",
    "BRAVE_API_KEY": "",
    "TAVILY_URL": "https://api.tavily.com",
    "TAVILY_API_KEY": "",
    "WEB_SEARCH_NATIVE": False,
    # The compression hook: tokens from which on a request is long, and how many of its last messages stay.
    "COMPRESSION_ABOVE": 60_000,
    "COMPRESSION_KEEP": 8,
    # Dotted paths of hooks (see `hooks.loading`), found on PYTHONPATH or in DATA_DIR/hooks.
    "GATEWAY_HOOKS": [],
    "DATA_DIR": None,
    # What hooks may do in one request: reruns, and over all rounds seconds, tokens, money (None: no limit).
    "GATEWAY_MAX_RERUNS": 3,
    "GATEWAY_MAX_SECONDS": 600,
    "GATEWAY_MAX_TOKENS": None,
    "GATEWAY_MAX_COST": None,
}


def setting(name: str) -> Any:
    return getattr(settings, name, DEFAULTS[name])
