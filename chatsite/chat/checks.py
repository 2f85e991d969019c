"""What `manage.py check` (and so every start) says about this app's settings."""

from __future__ import annotations

from typing import Any

from django.core.checks import CheckMessage, Error, register

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
