"""The tools that models get, and the MCP servers behind some of them: what is there, and what is missing and why.

Which there are is the environment's to say, and who may use them the policies'.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from django.contrib import admin
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.utils.text import Truncator
from django.utils.translation import gettext as _

from agent import Tool
from chatsite.adminkit.base import NOTHING, ReadOnlyAdmin
from chatsite.chat.tools import every_tool, remote
from chatsite.operator.models import ToolServer

DESCRIPTION = 200


@dataclass(frozen=True, slots=True)
class ToolView:
    name: str
    description: str
    asks: str
    again: str
    timeout: str


@dataclass(frozen=True, slots=True)
class ServerView:
    name: str
    place: str
    state: str
    is_away: bool
    tools: int
    refused: tuple[str, ...]


@admin.register(ToolServer)
class ToolServerAdmin(ReadOnlyAdmin):
    def changelist_view(self, request: HttpRequest, extra_context: Any = None) -> HttpResponse:
        self.require_view(request)
        if request.method not in {"GET", "HEAD"}:
            raise PermissionDenied
        context = {
            **self.admin_site.each_context(request),
            "title": _("Tools"),
            "opts": self.opts,
            "media": self.media,
            "servers": tuple(servers()),
            "tools": tuple(map(view_of, every_tool())),
        }
        return TemplateResponse(request, "admin/operator/tools.html", context)

    # There is no table behind it, so no row has pages of its own.

    def change_view(self, request: HttpRequest, object_id: str, *args: Any, **kwargs: Any) -> HttpResponse:
        raise Http404

    def delete_view(self, request: HttpRequest, object_id: str, extra_context: Any = None) -> HttpResponse:
        raise Http404

    def history_view(self, request: HttpRequest, object_id: str, extra_context: Any = None) -> HttpResponse:
        raise Http404


def servers() -> Iterator[ServerView]:
    found = remote.servers()
    for config, known in found.known() if found is not None else ():
        if known.problem:
            state = _("away: %(why)s") % {"why": known.problem}
        elif known.protocol:
            state = _("there (protocol %(version)s)") % {"version": known.protocol}
        else:
            state = _("not asked yet")
        yield ServerView(
            name=config.name,
            place=config.place,
            state=state,
            is_away=bool(known.problem),
            tools=len(known.tools),
            refused=tuple(f"{each.name}: {each.why}" for each in known.refused),
        )


def view_of(tool: Tool) -> ToolView:
    return ToolView(
        name=tool.name,
        description=Truncator(tool.description).chars(DESCRIPTION),
        asks=_asks(tool),
        again=_("yes") if tool.idempotent else _("no"),
        timeout=f"{tool.timeout:g} s" if tool.timeout else NOTHING,
    )


def _asks(tool: Tool) -> str:
    if callable(tool.needs_approval):
        return _("for some arguments")
    return _("yes") if tool.needs_approval else _("no")
