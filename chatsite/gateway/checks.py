"""What `manage.py check` (and so every start) says about this app's settings."""

from __future__ import annotations

from typing import Any

from django.core.checks import CheckMessage, Error, Tags, Warning, register
from django.utils.module_loading import import_string

from agent.errors import AgentError, InvalidRequest
from agent.rerun_guard import max_loops
from chatsite.gateway.conf import setting
from chatsite.gateway.endpoints import ConfigError, config_from_settings
from chatsite.gateway.hooks.loading import HookError, hooks_folder, idle_hooks, load_hooks
from chatsite.gateway.hooks.rules import FORMS, read_rules
from chatsite.gateway.hooks.server_tools import tools_from_settings
from chatsite.wired import unwired

MCP = "__"
"""In the name of a tool that another server has: those are known only when it was asked."""


@register()
def hooks_are_there(**_: Any) -> list[CheckMessage]:
    """Each of GATEWAY_HOOKS can be loaded, and does something here."""
    try:
        hooks = load_hooks(setting("GATEWAY_HOOKS"), hooks_folder())
    except HookError as error:
        return [Error(error.wrong, hint=error.mend, id="gateway.E001")]
    return [Warning(wrong, hint=mend, id="gateway.W001") for wrong, mend in idle_hooks(hooks)]


@register()
def reruns_have_an_end(**_: Any) -> list[CheckMessage]:
    try:
        max_loops(setting("GATEWAY_MAX_RERUNS"), "GATEWAY_MAX_RERUNS")
    except ValueError as error:
        return [Error(str(error), hint="Write a whole number from 1; 3 when in doubt.", id="gateway.E002")]
    return []


@register()
def rules_can_be_read(**_: Any) -> list[CheckMessage]:
    try:
        read_rules(setting("GATEWAY_RULES"))
    except ValueError as error:
        return [Error(f"GATEWAY_RULES, {error}.", hint=f"Write {FORMS}, one a line.", id="gateway.E023")]
    return []


@register()
def tools_are_there(**_: Any) -> list[CheckMessage]:
    """GATEWAY_TOOLS names tools, and GATEWAY_APPROVED_TOOLS some of them."""
    try:
        names = tools_from_settings().names
    except (ImportError, TypeError, AgentError) as error:
        return [
            Error(
                f"GATEWAY_TOOLS names {setting('GATEWAY_TOOLS')!r}, which gives no tools: {error}",
                hint="Write the dotted path of a ToolRegistry, or of a function that returns one.",
                id="gateway.E021",
            )
        ]
    return [
        Error(
            f"GATEWAY_APPROVED_TOOLS names {name!r}, and there is no such tool.",
            hint=f"Write some of: {', '.join(names) or '(there are none)'}.",
            id="gateway.E022",
        )
        for name in setting("GATEWAY_APPROVED_TOOLS")
        if name not in names and MCP not in name
    ]


@register()
def models_can_be_served(**_: Any) -> list[CheckMessage]:
    """GATEWAY_MODELS, and the endpoints that it builds on."""
    try:
        config_from_settings()
    except (ConfigError, InvalidRequest) as error:
        return [Error(str(error), hint="docs/gateway.md has the form of GATEWAY_MODELS.", id="gateway.E010")]
    return []


@register(Tags.urls)
def it_is_wired(**_: Any) -> list[CheckMessage]:
    why = unwired("chatsite.gateway.asgi")
    if not why:
        return []
    return [
        Warning(
            f"No address may lead to the gateway: {why}.",
            hint="Give what comes to /v1/ to chatsite.gateway.asgi.GatewayApp() in your ASGI application, and name "
            "that in ASGI_APPLICATION. docs/django.md has an asgi.py.",
            id="gateway.W002",
        )
    ]


@register()
def renderer_is_there(**_: Any) -> list[CheckMessage]:
    path = setting("GATEWAY_RENDERER")
    try:
        found = import_string(path) if path else None
    except ImportError as error:
        return [_no_renderer(path, f"cannot be imported: {error}")]
    return [] if found is None or callable(found) else [_no_renderer(path, "is nothing that can be called")]


def _no_renderer(path: str, why: str) -> CheckMessage:
    return Error(
        f"GATEWAY_RENDERER names {path!r}, which {why}.",
        hint="Write the dotted path of a function of messages and `name`, or nothing for plain text.",
        id="gateway.E030",
    )
