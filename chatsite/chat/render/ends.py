"""How a run stands or ended: the line behind it, and what a screen reader hears of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy as lazy

from chatsite.chat.render import steering, words
from chatsite.chat.render.escaping import escape
from chatsite.chat.render.links import Links
from chatsite.chat.state import RunView, Segment, ThreadState

_BUTTONS: dict[str, tuple[tuple[str, Any], ...]] = {
    "": (),
    "retry": (("retry-form", lazy("Retry")),),
    "continue": (("continue-form", lazy("Continue")),),
    "past": (("continue-form", lazy("Continue past the limit")),),
    "resume": (("resume-form", lazy("Continue")), ("retry-form", lazy("Retry"))),
}
"""What to do next: the form of the page, and the word."""


def end_html(id: str, segment: Segment, links: Links) -> str:
    """The line behind a run: that it works, or how it ended, what to do next, and what it took."""
    run = segment.run
    if run.active:
        return f'<footer id={id}e class="end busy" aria-hidden=true></footer>'
    went_on = words.waited(run) and bool(links.taken_up(run))
    resumed = run.id in links.resumed
    end = words.end_of(run, turns(segment), waits=not went_on, too_late=_too_late(links), resumed=resumed)
    if words.waited(run) and not went_on and len(links.open) > 1:
        return f"<footer id={id}e class=end>{_several(links)}</footer>"
    said = f'<p class="said {end.tone}">{escape(end.text)}</p>' if end.text else ""
    copy = "" if went_on else _copy(segment)
    # What a run took up is part of one answer, so its figures stand behind the last of these runs, as one.
    facts = (
        ""
        if links.is_continued(run)
        else _facts(links.runs_of_answer(run), _endpoints(segment) if links.own else "")
    )
    action = end.action or ("" if _is_answered(segment) else "retry")
    acts = "" if went_on else _acts(segment, links, again=action not in {"retry", "resume"})
    picks = _pickers(segment, links)
    return f"<footer id={id}e class=end>{said}{_buttons(action)}{picks}{copy}{acts}{facts}</footer>"


def _buttons(action: str) -> str:
    return "".join(f"<button class=act form={form}>{word}</button>" for form, word in _BUTTONS[action])


def _pickers(segment: Segment, links: Links) -> str:
    """Between an answer and its siblings."""
    said = [message.id for message in segment.messages if message.role == "assistant"]
    return "".join(steering.picker(links.picks.get(id)) for id in said)


def _acts(segment: Segment, links: Links, *, again: bool) -> str:
    """What else can be done with an answer; where there is none, another model may be asked for one."""
    if not links.own or not segment.messages:
        return ""
    said = [message.id for message in segment.messages if message.role == "assistant"]
    return (
        steering.answer_acts(said[-1], again=again) if said else steering.other_model(segment.messages[-1].id)
    )


def _is_answered(segment: Segment) -> bool:
    """False for a question whose answer was deleted, or left out by a fork."""
    return not segment.messages or segment.messages[-1].role != "user"


def _several(links: Links) -> str:
    """Several open questions are answered at once, so the button stands behind them all."""
    said = _("%(questions)s wait for you and are answered together.") % {
        "questions": words.count(len(links.open), "question")
    }
    return f"<p class=said>{said}</p><button class=yes form=answer-form>{_('Send answers')}</button>"


def _too_late(links: Links) -> bool:
    return bool(links.open) and all(map(links.is_over, links.open))


def _copy(segment: Segment) -> str:
    """The page asks for the answer as the model wrote it, by the message named here."""
    said = [
        message.id for message in segment.messages if message.role == "assistant" and message.text.strip()
    ]
    if not said:
        return ""
    return f'<button type=button class="copy all" value="{escape(said[-1])}">{_("Copy")}</button>'


def _endpoints(segment: Segment) -> str:
    """Who answered its turns: of several endpoints that serve a model it may be any."""
    said = (message.metadata.get("provider") for message in segment.messages if message.role == "assistant")
    return ", ".join(dict.fromkeys(words.plain(name) for name in said if name and isinstance(name, str)))


def _facts(runs: Sequence[RunView], endpoints: str) -> str:
    """Model, endpoint, time, tokens and money of the runs of one answer, as far as they are known.

    An endpoint that is named as its model is not named twice.
    """
    model = runs[-1].model
    tokens = sum(run.usage.total_tokens for run in runs)
    times = [run.duration_ms for run in runs if run.duration_ms is not None]
    costs = [run.cost for run in runs if run.cost is not None]
    facts = [
        escape(words.plain(model)),
        escape(endpoints) if endpoints != model else "",
        words.duration(sum(times) if times else None),
        words.count(tokens, "token") if tokens else "",
        escape(words.money(sum(costs))) if costs else "",
    ]
    text = " · ".join(fact for fact in facts if fact)
    return f"<small class=facts>{text}</small>" if text else ""


def spoken(state: ThreadState) -> str:
    """The boundary a screen reader hears: what runs, what is asked, or how the last run ended."""
    if not state.segments:
        return ""
    segment = state.segments[-1]
    run = segment.run
    if run.active:
        calls = _open_call_names(segment)
        return _("Running %(tools)s.") % {"tools": ", ".join(calls)} if calls else _("Answering.")
    if state.open_interrupts:
        tools = dict.fromkeys(words.plain(question.tool_name) for question in state.open_interrupts)
        return _("Your approval is needed: %(tools)s.") % {"tools": ", ".join(tools)}
    return str(words.end_of(run, turns(segment)).text) or _("Answer finished.")


def turns(segment: Segment) -> int:
    """The turns a limit counted: those that called tools, without the last words behind the limit."""
    return sum(bool(message.tool_calls) for message in segment.messages)


def _open_call_names(segment: Segment) -> list[str]:
    """The names of the calls that run now."""
    answered: set[str] = set()
    for message in reversed(segment.messages):
        if message.role == "tool":
            answered.update(result.tool_call_id for result in message.tool_results)
        elif message.role == "assistant" and message.finish_reason is not None:
            return [words.plain(call.name) for call in message.tool_calls if call.id not in answered]
        else:
            break
    return []
