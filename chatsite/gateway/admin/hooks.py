"""The hooks that are loaded, in the order in which they are asked. Where they come from is the environment's to say."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from django.contrib import admin
from django.http import HttpRequest
from django.utils.translation import gettext_lazy as _

from agent.rerun import Hook
from chatsite.adminkit.base import NOTHING
from chatsite.adminkit.pages import PageAdmin
from chatsite.gateway.conf import setting
from chatsite.gateway.hooks.litellm_form import LiteLLMHook
from chatsite.gateway.hooks.loading import HookError, loaded_hooks
from chatsite.gateway.hooks.server_tools import server_tools
from chatsite.gateway.models import LoadedHook


@dataclass(frozen=True, slots=True)
class HookView:
    place: int
    entry: str
    name: str
    form: str
    serves: str
    timeout: str
    file: str


@admin.register(LoadedHook)
class LoadedHookAdmin(PageAdmin):
    page_template = "admin/gateway/hooks.html"
    page_title = _("Loaded hooks")

    def content(self, request: HttpRequest) -> dict[str, Any]:
        problem, hooks = "", ()
        try:
            hooks = tuple(views_of(*_in_order()))
        except HookError as error:  # the environment was changed since the start
            problem = str(error)
        return {"hooks": hooks, "problem": problem, "max_reruns": setting("GATEWAY_MAX_RERUNS")}


def _in_order() -> tuple[list[str], tuple[Hook, ...]]:
    """The entries and their hooks: the server's own tools are asked first."""
    entries, hooks = list(setting("GATEWAY_HOOKS")), loaded_hooks()
    own = server_tools()
    return (["GATEWAY_TOOLS", *entries], (own, *hooks)) if own.serves else (entries, hooks)


def views_of(entries: Sequence[str], hooks: Sequence[Hook]) -> Iterator[HookView]:
    for place, (entry, hook) in enumerate(zip(entries, hooks, strict=True), 1):
        yield HookView(
            place=place,
            entry=entry,
            name=hook.name,
            form=_("LiteLLM's") if isinstance(hook, LiteLLMHook) else _("our own"),
            serves=", ".join(sorted(hook.serves)) or NOTHING,
            timeout=f"{hook.timeout:g} s",
            file=_file_of(hook),
        )


def _file_of(hook: Hook) -> str:
    try:
        return inspect.getfile(type(hook.hook if isinstance(hook, LiteLLMHook) else hook))
    except (OSError, TypeError):
        return NOTHING
