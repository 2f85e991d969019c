"""The tools that models get, and the MCP servers behind some of them: what is there, and what is missing and why.

Which there are is the environment's to say, and who may use them the policies'.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from django.contrib import admin
from django.http import HttpRequest
from django.utils.text import Truncator
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from agent import Tool
from chatsite.adminkit.base import NOTHING
from chatsite.adminkit.pages import PageAdmin
from chatsite.chat.tools import every_tool, remote
from chatsite.operator.models import ToolServer
from chatsite.operator.tool_faults import words_of
from chatsite.phrases import number

if TYPE_CHECKING:
    from agent.mcp import Known

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
class ToolServerAdmin(PageAdmin):
    page_template = "admin/operator/tools.html"
    page_title = gettext_lazy("Tools")

    def content(self, request: HttpRequest) -> dict[str, Any]:
        return {"servers": tuple(servers()), "tools": tuple(map(view_of, every_tool()))}


def servers() -> Iterator[ServerView]:
    found = remote.servers()
    for config, known in found.known() if found is not None else ():
        if known.problem:
            state = _("away: %(why)s") % {"why": words_of(known.problem)}
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
            refused=tuple(_refused(known)),
        )


def _refused(known: Known) -> Iterator[str]:
    for each in known.refused:
        yield f"{each.name}: {words_of(each.why)}"
    if known.more:
        yield _("and %(count)s more") % {"count": number(known.more)}


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
