"""The hooks that are loaded, in the order in which they are asked. Where they come from is the environment's to say."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from django.contrib import admin
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.utils.translation import gettext_lazy as _

from agent.rerun import Hook
from chatsite.adminkit.base import NOTHING, ReadOnlyAdmin
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
class LoadedHookAdmin(ReadOnlyAdmin):
    def changelist_view(self, request: HttpRequest, extra_context: Any = None) -> HttpResponse:
        self.require_view(request)
        if request.method not in {"GET", "HEAD"}:
            raise PermissionDenied
        problem, hooks = "", ()
        try:
            hooks = tuple(views_of(*_in_order()))
        except HookError as error:  # the environment was changed since the start
            problem = str(error)
        context = {
            **self.admin_site.each_context(request),
            "title": _("Loaded hooks"),
            "opts": self.opts,
            "media": self.media,
            "hooks": hooks,
            "problem": problem,
            "max_reruns": setting("GATEWAY_MAX_RERUNS"),
        }
        return TemplateResponse(request, "admin/gateway/hooks.html", context)

    # There is no table behind it, so no row has pages of its own.

    def change_view(self, request: HttpRequest, object_id: str, *args: Any, **kwargs: Any) -> HttpResponse:
        raise Http404

    def delete_view(self, request: HttpRequest, object_id: str, extra_context: Any = None) -> HttpResponse:
        raise Http404

    def history_view(self, request: HttpRequest, object_id: str, extra_context: Any = None) -> HttpResponse:
        raise Http404


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
