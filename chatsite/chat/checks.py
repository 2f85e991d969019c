"""What `manage.py check` (and so every start) says about this app's settings, and about the project that has it in."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from django.conf import settings
from django.contrib.sessions.middleware import SessionMiddleware
from django.contrib.staticfiles import finders
from django.core.checks import CheckMessage, Error, Tags, Warning, register
from django.db import connection
from django.shortcuts import resolve_url
from django.template import TemplateDoesNotExist
from django.template.loader import get_template
from django.urls import NoReverseMatch, get_script_prefix, is_valid_path, reverse
from django.utils.module_loading import import_string

from chatsite.chat.conf import setting
from chatsite.wired import unwired


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


CLONE = Path(__file__).resolve().parents[2]
"""Where templates/, static/ and locale/ lie, beside the packages."""


@register(Tags.urls)
def urls_are_included(**_: Any) -> list[CheckMessage]:
    try:
        reverse("chat:home")
    except NoReverseMatch:
        return [
            Error(
                "chatsite.chat is installed, and no address leads to it.",
                hint='Add path("", include("chatsite.chat.urls")), with a prefix if you like, to your urls.',
                id="chat.E004",
            )
        ]
    return []


@register(Tags.urls)
def sockets_are_wired(**_: Any) -> list[CheckMessage]:
    why = unwired("chatsite.chat.routing")
    if not why:
        return []
    return [
        Warning(
            f"No WebSocket may lead to the chat: {why}.",
            hint="Put URLRouter(chatsite.chat.routing.websocket_urlpatterns), in SessionMiddlewareStack and "
            "KnownOrigin, into your ASGI application and name that in ASGI_APPLICATION. docs/django.md has an asgi.py.",
            id="chat.W003",
        )
    ]


@register(Tags.urls)
def people_can_sign_in(**_: Any) -> list[CheckMessage]:
    """Whoever is not signed in is sent there by the page. Another server's address nobody can look at."""
    try:
        address = resolve_url(settings.LOGIN_URL)
    except NoReverseMatch:
        address = repr(str(settings.LOGIN_URL))
    else:
        path = "/" + address.partition("?")[0].removeprefix(get_script_prefix())
        if not address.startswith("/") or address.startswith("//") or is_valid_path(path):
            return []
    return [
        Warning(
            f"LOGIN_URL leads to {address}, and nothing is there: nobody can sign in to the chat.",
            hint="Set LOGIN_URL to the name or the path of your login page, such as 'admin:login'.",
            id="chat.W004",
        )
    ]


@register(Tags.templates)
def templates_are_found(**_: Any) -> list[CheckMessage]:
    try:
        get_template("chat/page.html")
    except TemplateDoesNotExist:
        return [
            Error(
                "The chat's templates are not found.",
                hint=f"Add {str(CLONE / 'templates')!r} to the DIRS of TEMPLATES, behind your own.",
                id="chat.E005",
            )
        ]
    return []


@register()
def sessions_are_read(**_: Any) -> list[CheckMessage]:
    """The page knows people by their session, whoever signed them in."""
    if any(_is_session_middleware(path) for path in settings.MIDDLEWARE):
        return []
    return [
        Error(
            "The chat's page needs sessions, and MIDDLEWARE has none.",
            hint="Add 'django.contrib.sessions.middleware.SessionMiddleware'.",
            id="chat.E006",
        )
    ]


def _is_session_middleware(path: str) -> bool:
    found = import_string(path)
    return isinstance(found, type) and issubclass(found, SessionMiddleware)


@register(Tags.staticfiles)
def static_files_are_found(**_: Any) -> list[CheckMessage]:
    if finders.find("chat/chat.js"):
        return []
    return [
        Warning(
            "The chat's style sheets and scripts are not found: its page works without, and looks like nothing.",
            hint=f"Add {str(CLONE / 'static')!r} to STATICFILES_DIRS.",
            id="chat.W001",
        )
    ]


@register()
def sqlite_takes_turns(**_: Any) -> list[CheckMessage]:
    """What writers on SQLite need to wait for one another: else they fail by the thousand."""
    options = settings.DATABASES["default"].get("OPTIONS", {})
    if connection.vendor != "sqlite" or str(options.get("transaction_mode", "")).upper() == "IMMEDIATE":
        return []
    return [
        Warning(
            "SQLite refuses whoever writes beside another: runs would fail with 'database is locked'.",
            hint="Give DATABASES the OPTIONS transaction_mode 'IMMEDIATE', timeout 20 and init_command "
            "'PRAGMA journal_mode=WAL'.",
            id="chat.W002",
        )
    ]
