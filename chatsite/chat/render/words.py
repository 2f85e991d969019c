"""Plain words for what a run, a tool call or a connection came to, and what to do about it.

Everything is a table. Whoever adds a stop reason, an error code or a state adds a line here; one that is not
here is still said, by its name.

    END_WORDS      a run's stop reason        -> a sentence and the next action
    ERROR_WORDS    a failed run's error code  -> the sentence when the run brought none
    CALL_WORDS     a tool result's code       -> the state of its card
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from chatsite.chat.state import RunView

Action = Literal["", "retry", "continue"]
Tone = Literal["quiet", "warn", "bad"]


@dataclass(frozen=True, slots=True)
class End:
    """How a run ended: the sentence, what to do next, how loud."""

    text: str
    action: Action = ""
    tone: Tone = "quiet"


END_WORDS: dict[str, End] = {
    "stop": End(""),
    "length": End("Cut off: the answer reached the output limit.", "continue", "warn"),
    "content_filter": End("The provider's content filter stopped this answer.", "retry", "warn"),
    "cancelled": End("Stopped by you. What was written so far is kept.", "retry"),
    "client_tools": End("Waiting for a tool that runs on the client's side."),
    "interrupt": End("Waiting for an answer from you."),
    "no_calls": End("The model said it would use a tool, but named none.", "retry", "warn"),
    "max_iterations": End("Stopped after {turns} (the limit for one answer).", "continue", "warn"),
    "max_tool_calls": End("Stopped at the limit of tool calls for one answer.", "continue", "warn"),
    "max_tokens": End("Stopped at the limit of tokens for one answer.", "continue", "warn"),
    "max_cost": End("Stopped at the cost limit for one answer.", "continue", "warn"),
    "max_seconds": End("Stopped at the time limit for one answer.", "continue", "warn"),
    "no_repeated_calls": End("Stopped: the model kept making the same tool call.", "retry", "warn"),
}
OTHER_LIMIT = End("Stopped by the limit “{name}”.", "continue", "warn")

LOST = End("The server stopped while this was being answered. What was written is kept.", "retry", "bad")

ERROR_WORDS: dict[str, str] = {
    "provider_error": "The model's service had an error.",
    "provider_unreachable": "The model could not be reached.",
    "provider_timeout": "The model did not answer in time.",
    "rate_limited": "The model's service is asking for a pause (rate limit).",
    "provider_auth": "The model's service does not accept the configured key.",
    "model_not_found": "The model's service does not know this model.",
    "provider_rejected": "The model's service refused the request.",
    "context_too_long": "This thread is too long for the model.",
    "bad_stream": "The model's answer broke off or could not be read.",
    "invalid_request": "The request could not be carried out.",
    "internal_error": "Something went wrong on the server.",
}
FAILED = "The answer failed."


@dataclass(frozen=True, slots=True)
class CallState:
    """The state of a tool call: the word on its card, and its look (also the CSS class)."""

    word: str
    look: Literal["busy", "done", "failed", "idle"]


PREPARING = CallState("preparing", "busy")
RUNNING = CallState("running", "busy")
DONE = CallState("done", "done")
BY_PROVIDER = CallState("done by the provider", "done")
WAITING = CallState("waiting", "idle")
NO_RESULT = {
    "cancelled": CallState("cancelled", "idle"),
    "lost": CallState("outcome unknown", "failed"),
    "interrupted": WAITING,
    "finished": WAITING,
}
"""A call without a result in a run that is over, by the run's state."""

FAILED_CALL = CallState("failed", "failed")
CALL_WORDS: dict[str, CallState] = {
    "max_tokens": CallState("cut off", "failed"),
    "not_executed": CallState("not run", "idle"),
    "content_filter": CallState("not run: filtered", "idle"),
    "incomplete_stream": CallState("cut off", "failed"),
    "invalid_arguments": CallState("not run: bad arguments", "failed"),
    "unknown_tool": CallState("unknown tool", "failed"),
    "aborted": CallState("cancelled", "idle"),
    "timeout": CallState("timed out", "failed"),
    "outcome_unknown": CallState("outcome unknown", "failed"),
    "over_budget": CallState("skipped", "idle"),
    "skipped": CallState("skipped", "idle"),
    "denied": CallState("denied", "idle"),
}

TURN_WORDS = {
    "length": "Cut off by the output limit.",
    "content_filter": "Stopped by the provider's content filter.",
}
"""A turn inside a run that went on behind it."""


def end_of(run: RunView, turns: int) -> End:
    """How a run that is over ended."""
    if run.state == "failed":
        return End(run.error or ERROR_WORDS.get(run.error_code, FAILED), "retry", "bad")
    if run.state == "lost":
        return LOST
    if run.state == "cancelled":
        return END_WORDS["cancelled"]
    if run.state == "interrupted":
        return END_WORDS["interrupt"]
    end = END_WORDS.get(run.stop_reason or "stop")
    if end is None:
        return End(OTHER_LIMIT.text.format(name=run.stop_reason), OTHER_LIMIT.action, OTHER_LIMIT.tone)
    return End(end.text.format(turns=count(turns, "turn")), end.action, end.tone)


def call_state(code: str | None) -> CallState:
    """The state of a call that has its result."""
    return DONE if code is None else CALL_WORDS.get(code, FAILED_CALL)


def count(number: int, noun: str) -> str:
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def duration(ms: int | None) -> str:
    """`12 ms`, `1.4 s`, `2 min 5 s`; "" when nobody measured."""
    if ms is None:
        return ""
    if ms < 1:
        return "< 1 ms"
    if ms < 1000:
        return f"{ms} ms"
    if ms < 60_000:
        return f"{ms / 1000:.1f} s"
    return f"{ms // 60_000} min {ms % 60_000 // 1000} s"


def plain(name: str) -> str:
    """A name from outside as one line of text, not longer than a line."""
    line = re.sub(r"\s+", " ", name).strip()
    return line if len(line) <= 80 else line[:79] + "…"
