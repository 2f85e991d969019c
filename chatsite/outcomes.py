"""How runs and requests end, and by which door they come: short words for lists, in the place of codes.

A code that nobody knows here (a middleware may end a run under a name of its own) stays as it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.utils.translation import gettext_lazy as _

from chatsite.phrases import plain

RUN_ERRORS: Mapping[str, Any] = {
    "provider_error": _("error of the model's service"),
    "provider_unreachable": _("model not reached"),
    "provider_timeout": _("model too slow"),
    "rate_limited": _("rate limit of the model's service"),
    "provider_auth": _("key not accepted"),
    "model_not_found": _("model not known"),
    "provider_rejected": _("request refused"),
    "context_too_long": _("thread too long"),
    "bad_stream": _("answer broke off"),
    "invalid_request": _("request not possible"),
    "internal_error": _("error of this server"),
    "middleware_error": _("error of a middleware"),
    "lost": _("lost with its server"),
}
STOP_REASONS: Mapping[str, Any] = {
    **RUN_ERRORS,
    "stop": _("answered"),
    "length": _("cut off by the output limit"),
    "content_filter": _("content filter"),
    "cancelled": _("stopped by a person"),
    "aborted": _("stopped by a rule"),
    "client_tools": _("waiting for a client's tool"),
    "interrupt": _("waiting for an answer"),
    "no_calls": _("named no tool"),
    "max_iterations": _("limit of turns"),
    "max_tool_calls": _("limit of tool calls"),
    "tool_call_budget": _("limit of tool calls"),
    "max_tokens": _("limit of tokens"),
    "max_cost": _("limit of cost"),
    "max_seconds": _("limit of time"),
    "left": _("the caller left"),
    "no_repeated_calls": _("same call again and again"),
    "tokens_per_day": _("daily tokens used up"),
    "tokens_per_month": _("monthly tokens used up"),
    "cost_per_month": _("monthly budget used up"),
    "key_tokens_per_minute": _("tokens of the key used up"),
    "key_cost_per_month": _("monthly budget of the key used up"),
    "key_cost": _("budget of the key used up"),
    "group_tokens_per_day": _("daily tokens of the group used up"),
    "group_tokens_per_month": _("monthly tokens of the group used up"),
    "group_cost_per_month": _("monthly budget of the group used up"),
}
DOORS: Mapping[str, Any] = {
    "page": _("page"),
    "api": _("API"),
    "websocket": _("WebSocket"),
    "recovery": _("restart"),
}


def called(names: Mapping[str, Any], code: str | None) -> str:
    if not code:
        return "–"
    return str(names[code]) if code in names else plain(code)
