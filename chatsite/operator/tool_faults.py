"""What is wrong with an MCP server or with one of its tools, in the reader's language.

`agent.mcp.faults` has the codes, and the same sentences for models, logs and commands. A code that is not here is said
as it is there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.utils.translation import gettext_lazy as _

if TYPE_CHECKING:
    from agent.mcp import Fault

SENTENCES = {
    "silent": _("it did not say what tools it has within %(seconds)s seconds"),
    "nonsense": _("its answer is not of the protocol"),
    "no_command": _("its command cannot be started; is it installed here, and may it be run?"),
    "unreachable": _("it cannot be reached (%(why)s)"),
    "no_answer": _("it cannot be reached (no answer in time)"),
    "broken": _("the connection broke (%(why)s)"),
    "packed": _("it packs its answers, though none was asked for"),
    "forgotten": _("it does not know this session any more"),
    "locked": _("it lets nobody in with these headers (HTTP %(status)s)"),
    "no_protocol": _(
        "nothing at this address speaks the protocol (HTTP %(status)s); the older HTTP+SSE transport is not spoken "
        "here; give the server's streamable HTTP address"
    ),
    "refused": _("it refuses the request (HTTP %(status)s)"),
    "failed": _("it failed (HTTP %(status)s)"),
    "absent": _("the server has no such tool"),
    "too_many": _("the server has more than %(most)s tools"),
    "twice": _("the server names it twice"),
    "no_name": _("it has no name"),
    "no_object": _("its schema is not one of an object"),
    "no_properties": _("its schema's properties are no object"),
    "odd_argument": _("an argument has a name that not every provider takes"),
    "deep": _("its schema is more than %(most)s deep"),
    "large": _("its schema is larger than %(most)s KB"),
}


def words_of(fault: Fault) -> str:
    sentence = SENTENCES.get(fault.code)
    return str(fault) if sentence is None else str(sentence % fault.values)
