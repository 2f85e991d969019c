"""What `manage.py check` (and so every start) says about this app's settings."""

from __future__ import annotations

from typing import Any

from django.core.checks import CheckMessage, Error, register
from django.utils.module_loading import import_string

from chatsite.chat.conf import setting


@register()
def default_model_is_there(**_: Any) -> list[CheckMessage]:
    """A default that no list can hold fails the start; an endpoint that is asked for its models may have it."""
    default = setting("DEFAULT_MODEL")
    if not default or default == "demo":
        return []
    asked = False
    known: list[str] = []
    for name in ("OPENAI", "ANTHROPIC"):
        if setting(f"{name}_API_KEY") or setting(f"{name}_BASE_URL"):
            known += setting(f"{name}_MODELS")
            asked = asked or not setting(f"{name}_MODELS")
    if asked or default in known:
        return []
    return [
        Error(
            f"DEFAULT_MODEL is {default!r}, and no endpoint has it.",
            hint=f"Write one of: {', '.join([*known, 'demo'])}; or configure the endpoint that has it.",
            id="chat.E001",
        )
    ]


@register()
def middleware_is_there(**_: Any) -> list[CheckMessage]:
    """Each of CHAT_MIDDLEWARE is the dotted path of what makes a middleware."""
    wrong: list[CheckMessage] = []
    for path in setting("CHAT_MIDDLEWARE"):
        try:
            import_string(path)
        except ImportError as error:
            wrong.append(
                Error(
                    f"CHAT_MIDDLEWARE names {path!r}, which cannot be imported: {error}",
                    hint="Write the dotted path of a Middleware class, or of a function that makes one.",
                    id="chat.E002",
                )
            )
    return wrong


@register()
def money_has_prices(**_: Any) -> list[CheckMessage]:
    """A budget in money that nothing counts against is none."""
    if setting("RUN_MAX_COST") and not setting("MODEL_PRICES"):
        return [
            Error(
                "RUN_MAX_COST is set, and MODEL_PRICES is not.",
                hint="Write MODEL_PRICES as MODEL=INPUT/OUTPUT, a million tokens, such as gpt-5=1.25/10.",
                id="chat.E003",
            )
        ]
    return []
