"""What goes on inside a call: its progress in the card's line, and the run behind it, folded in the card.

A run behind a call comes from one of three places: from what is told of it now (`agent.underway`), from what is kept
beside the call's result, or, while it waits for a person, from the message that made the call.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from django.utils.translation import gettext as _

from agent.messages import Message, ToolResultPart
from agent.nesting import states_of
from agent.underway import Inner
from agent.wire.agui_messages import decode_messages
from chatsite.chat.render import words
from chatsite.chat.render.escaping import escape
from chatsite.chat.state import RunView, Segment

Source = Inner | Mapping[str, Any]


def source_of(
    message: Message, call_id: str, inner: Inner | None, beside: Mapping[str, Any]
) -> Source | None:
    """Where the run behind that call of the message is told; None: there is none."""
    if inner is not None:
        return inner
    kept = beside.get("subagent")
    return kept if isinstance(kept, Mapping) else states_of(message).get(call_id)


def segment_of(source: Source, result: ToolResultPart | None) -> Segment:
    """The run, to be shown: what it was asked stands in the arguments of its call."""
    if isinstance(source, Inner):
        said, state, id = tuple(source.transcript), "finished" if source.over else "running", source.run_id
    else:
        said, id = decode_messages(source.get("messages") or ()), str(source.get("runId"))
        state = _STATES.get(result.error, "failed") if result is not None else "interrupted"
    return Segment(RunView(id=id, state=state), tuple(message for message in said if message.role != "user"))


_STATES: Mapping[str | None, str] = {None: "finished", "aborted": "cancelled"}


def head_html(id: str, segment: Segment) -> str:
    word = {"running": _("Subagent at work…"), "interrupted": _("What the subagent did so far")}.get(
        segment.run.state, _("What the subagent did")
    )
    return f"<span id={id}>{escape(word)}</span>"


# -- progress ------------------------------------------------------------------------------------------------


def progress_html(value: Any) -> str:
    """How far a call is: a bar for {"progress": 0..1} or {"done", "total"}, words for whatever else it told."""
    part = _part_of(value)
    said = words.plain(_words_of(value)[:400])
    if part is None:
        return escape(said)
    done, figure = part
    bar = f'<progress max=1 value="{done:.3f}" aria-label="{escape(_("Progress"))}"></progress>'
    return f"{bar}{escape(f'{figure} {said}'.rstrip())}"


def _part_of(value: Any) -> tuple[float, str] | None:
    """How much of one is done, and in words."""
    match value:
        case {"progress": bool()} | {"done": bool()} | {"total": bool()}:
            return None
        case {"progress": int() | float() as share} if 0 <= share <= 1:
            return share, f"{share:.0%}"
        case {"done": int() | float() as done, "total": int() | float() as total} if (
            0 <= done <= total and total > 0
        ):
            return done / total, _("{done} of {total}").format(done=_figure(done), total=_figure(total))
    return None


def _figure(value: float) -> str:
    return words.number(value, 0 if isinstance(value, int) else 1)


_SAID = ("message", "text", "label", "status")


def _words_of(value: Any) -> str:
    if isinstance(value, Mapping):
        said = next((value[key] for key in _SAID if isinstance(value.get(key), str)), None)
        if said is not None:
            return said
        if _part_of(value) is not None:
            return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)[:400]
