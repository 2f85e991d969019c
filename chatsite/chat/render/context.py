"""What the look of a message depends on besides itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from agent.messages import ToolResultPart
from chatsite.chat.render.links import Links
from chatsite.chat.render.steering import question_acts
from chatsite.chat.render.within import Source, source_of
from chatsite.chat.state import InterruptView, Segment

Typed = Mapping[str, Sequence[str]]
"""What a person typed into a form that was refused, by the names of its controls."""


@dataclass(frozen=True, slots=True)
class Question:
    """A question about a call, as it is shown. `alone`: the only one that is open in the thread."""

    view: InterruptView
    alone: bool = True
    over: bool = False
    typed: Typed | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Context:
    """See the head of this file. `run_state` is `active` or the state of a run that is over."""

    run_state: str
    is_open: bool
    """More may come into this message."""
    goes_on: bool
    """There are assistant messages behind it in its run."""
    results: tuple[ToolResultPart | None, ...]
    """Of each call; a later run may have brought it."""
    beside: tuple[Mapping[str, Any], ...] = ()
    """Of each result: what the model was not given (`agent.result_events.result_event`)."""
    questions: tuple[tuple[Question, ...], ...] = ()
    """Of each call, in the order in which they were asked."""
    progress: tuple[Any, ...] = ()
    """Of each call: what it told last of how far it is; None for nothing."""
    within: tuple[Source | None, ...] = ()
    """Of each call: where the run behind it is told."""
    taken_up: str = ""
    """While a call is open: how the later run stands that took this one up."""
    acts: str = ""
    """What can be done with a person's message, as HTML."""


def contexts_of(segment: Segment, links: Links, typed: Typed | None = None) -> list[Context]:
    """The context of each message of a run."""
    own: dict[str, ToolResultPart] = {
        result.tool_call_id: result for message in segment.messages for result in message.tool_results
    }
    beside = {
        result.tool_call_id: message.metadata
        for message in segment.messages
        for result in message.tool_results
        if message.metadata
    }
    last = max((i for i, m in enumerate(segment.messages) if m.role == "assistant"), default=-1)
    state = "active" if segment.run.active else segment.run.state
    contexts = []
    for index, message in enumerate(segment.messages):
        calls = message.tool_calls
        results = tuple(own.get(call.id) or links.results.get(call.id) for call in calls)
        besides = tuple(beside.get(call.id) or links.beside.get(call.id) or {} for call in calls)
        underway = links.underway
        contexts.append(
            Context(
                run_state=state,
                is_open=state == "active" and index == last and message.finish_reason is None,
                goes_on=index < last,
                results=results,
                beside=besides,
                questions=tuple(_questions(call.id, links, typed) for call in calls),
                progress=tuple(underway.progress.get(call.id) for call in calls),
                within=tuple(
                    source_of(message, call.id, underway.behind(call.id), kept)
                    for call, kept in zip(calls, besides, strict=True)
                ),
                taken_up=links.taken_up(segment.run) if None in results else "",
                acts=question_acts(message.id, links.picks.get(message.id))
                if links.own and message.role == "user"
                else "",
            )
        )
    return contexts


def _questions(call_id: str, links: Links, typed: Typed | None) -> tuple[Question, ...]:
    return tuple(
        Question(view, alone=len(links.open) == 1, over=links.is_over(view), typed=typed)
        if view.open
        else Question(view)
        for view in links.questions.get(call_id, ())
    )
