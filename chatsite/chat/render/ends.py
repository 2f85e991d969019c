"""How a run stands or ended: the line behind it, and what a screen reader hears of it."""

from __future__ import annotations

from chatsite.chat.render import words
from chatsite.chat.render.markdown import escape
from chatsite.chat.state import RunView, Segment, ThreadState

_BUTTONS = {
    "": "",
    "retry": "<button class=act form=retry-form>Retry</button>",
    "continue": "<button class=act form=continue-form>Continue</button>",
}


def end_html(id: str, segment: Segment) -> str:
    """The line behind a run: that it works, or how it ended, what to do next, and what it took."""
    run = segment.run
    if run.active:
        dots = "<span class=dots><i></i><i></i><i></i></span>"
        return f'<footer id={id}e class="end busy" aria-hidden=true>{dots}</footer>'
    end = words.end_of(run, turns(segment))
    said = f'<p class="said {end.tone}">{escape(end.text)}</p>' if end.text else ""
    copy = '<button type=button class="copy all">Copy</button>' if _has_answer(segment) else ""
    return f"<footer id={id}e class=end>{said}{_BUTTONS[end.action]}{copy}{_facts(run)}</footer>"


def _has_answer(segment: Segment) -> bool:
    return any(message.role == "assistant" and message.text.strip() for message in segment.messages)


def _facts(run: RunView) -> str:
    """Model, time and tokens, as far as they are known."""
    tokens = run.usage.total_tokens
    facts = [
        escape(words.plain(run.model)),
        words.duration(run.duration_ms),
        words.count(tokens, "token") if tokens else "",
    ]
    text = " · ".join(fact for fact in facts if fact)
    return f"<small class=facts>{text}</small>" if text else ""


def spoken(state: ThreadState) -> str:
    """The boundary a screen reader hears: what runs, or how the last run ended."""
    if not state.segments:
        return ""
    segment = state.segments[-1]
    run = segment.run
    if not run.active:
        end = words.end_of(run, turns(segment))
        return end.text or "Answer finished."
    calls = _open_call_names(segment)
    return f"Running {', '.join(calls)}." if calls else "Answering."


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
