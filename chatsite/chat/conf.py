"""The settings this app reads, with what they are when a project does not set them."""

from __future__ import annotations

from typing import Any

from django.conf import settings

DEFAULTS: dict[str, Any] = {
    "DEFAULT_MODEL": "",
    "OPENAI_BASE_URL": "",
    "OPENAI_API_KEY": "",
    "OPENAI_MODELS": [],
    "ANTHROPIC_BASE_URL": "",
    "ANTHROPIC_API_KEY": "",
    "ANTHROPIC_MODELS": [],
    "EXAMPLE_TOOLS": True,
    "MCP_SERVERS": (),
    "CHAT_SYSTEM_PROMPT": "",
    "CHAT_AUTO_TITLE": True,
    "CHAT_MIDDLEWARE": (),
    "RUN_MAX_TURNS": 5,
    "RUN_MAX_TOOL_CALLS": None,
    "RUN_MAX_TOKENS": None,
    "RUN_MAX_COST": None,
    "RUN_MAX_SECONDS": None,
    "MODEL_PRICES": {},
    "MODEL_PRICES_UNIT": "$",
    "MODEL_FACTS": {},
    "CHAT_MESSAGE_MAX_CHARS": 100_000,
    "EVENTS_KEEP_DAYS": 30,
    "KEEP_REQUESTS": True,
    "KEEP_RESPONSES": True,
    "THREADS_KEEP_DAYS": None,
    "ATTACHMENTS_DIR": None,
    "ATTACHMENT_MAX_MB": 20,
    "ATTACHMENT_TEXT_MAX_KB": 1000,
    "ATTACHMENTS_PER_MESSAGE": 10,
    "ATTACHMENTS_TOTAL_MB": 1000,
}


def setting(name: str) -> Any:
    return getattr(settings, name, DEFAULTS[name])
