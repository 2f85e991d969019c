"""Plain words for what a run, a tool call or a connection came to, and what to do about it.

Everything is a table. Whoever adds a stop reason, an error code or a state adds a line here; one that is not
here is still said, by its name.

    END_WORDS      a run's stop reason        -> a sentence and the next action
    ERROR_WORDS    a failed run's error code  -> the sentence when the run brought none
    CALL_WORDS     a tool result's code       -> the state of its card
    ANSWER_WORDS   what a person answered     -> the line of the card that says so
    PROBLEM_WORDS  why it could not be taken  -> the sentence
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Literal

from django.utils.dateformat import format as date_format
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from chatsite.chat.conf import setting
from chatsite.chat.render.told import told
from chatsite.chat.state import RunView
from chatsite.phrases import count as count
from chatsite.phrases import duration as duration
from chatsite.phrases import number as number
from chatsite.phrases import plain as plain
from chatsite.policies.words import STOPPED

Action = Literal["", "retry", "continue", "past", "resume"]
Tone = Literal["quiet", "warn", "bad"]


@dataclass(frozen=True, slots=True)
class End:
    """How a run ended: the sentence, what to do next, how loud."""

    text: str
    action: Action = ""
    tone: Tone = "quiet"


END_WORDS: dict[str, End] = {
    "stop": End(""),
    "length": End(_("Cut off: the answer reached the output limit."), "continue", "warn"),
    "content_filter": End(_("The provider's content filter stopped this answer."), "retry", "warn"),
    "cancelled": End(_("Stopped by you. What was written so far is kept."), "retry"),
    "aborted": End(_("Stopped by a rule of this server. What was written so far is kept."), "retry", "warn"),
    "client_tools": End(_("Waiting for the page that runs this tool.")),
    "interrupt": End(_("Waiting for your answer.")),
    "no_calls": End(_("The model said it would use a tool, but named none."), "retry", "warn"),
    "max_iterations": End(_("Stopped after {turns} (the limit for one answer)."), "past", "warn"),
    "max_tool_calls": End(_("Stopped at the limit of tool calls for one answer."), "past", "warn"),
    "tool_call_budget": End(_("Stopped: the tool calls allowed for one answer are used up."), "past", "warn"),
    "max_tokens": End(_("Stopped at the limit of tokens for one answer."), "past", "warn"),
    "max_cost": End(_("Stopped at the cost limit for one answer."), "past", "warn"),
    "max_seconds": End(_("Stopped at the time limit for one answer."), "past", "warn"),
    "no_repeated_calls": End(_("Stopped: the model kept making the same tool call."), "retry", "warn"),
    **{limit: End(words, "continue", "warn") for limit, words in STOPPED.items()},
}
TOO_LATE = End(_("The time to answer is over. Cancel the question, or write a message."), tone="warn")
ABORTED_BECAUSE = End(
    _("Stopped by a rule of this server: {why}. What was written so far is kept."), "retry", "warn"
)
OTHER_LIMIT = End(_("Stopped by the limit “{name}”."), "past", "warn")

LOST = End(_("The server stopped while this was being answered. What was written is kept."), "resume", "bad")
LOST_AND_RESUMED = End(_("The server stopped here. What was written is kept."))
RESUMED = _("Resumed after a restart")

OUTCOME_WORDS = {
    "done": _("Done before"),
    "failed": _("Failed before"),
    "unknown": _("May have happened"),
    "not_run": _("Not run"),
}
"""What a stopped run's receipt says of its calls, by their outcome."""

ERROR_WORDS: dict[str, str] = {
    "provider_error": _("The model's service had an error."),
    "provider_unreachable": _("The model could not be reached."),
    "provider_timeout": _("The model did not answer in time."),
    "rate_limited": _("The model's service is asking for a pause (rate limit)."),
    "provider_auth": _("The model's service does not accept the configured key."),
    "model_not_found": _("The model's service does not know this model."),
    "provider_rejected": _("The model's service refused the request."),
    "context_too_long": _("This thread is too long for the model."),
    "bad_stream": _("The model's answer broke off or could not be read."),
    "invalid_request": _("The request could not be carried out."),
    "internal_error": _("Something went wrong on the server."),
}
FAILED = _("The answer failed.")


@dataclass(frozen=True, slots=True)
class CallState:
    """The state of a tool call: the word on its card, and its look (also the CSS class)."""

    word: str
    look: Literal["busy", "done", "failed", "idle", "asks"]


PREPARING = CallState(_("preparing"), "busy")
RUNNING = CallState(_("running"), "busy")
DONE = CallState(_("done"), "done")
BY_PROVIDER = CallState(_("done by the provider"), "done")
WAITING = CallState(_("waiting"), "idle")
WAITING_FOR_YOU = CallState(_("waiting for you"), "asks")
NOTHING_CAME = CallState(_("no result"), "failed")
NO_RESULT = {
    "cancelled": CallState(_("cancelled"), "idle"),
    "lost": CallState(_("outcome unknown"), "failed"),
    "interrupted": WAITING,
    "finished": WAITING,
}
"""A call without a result in a run that is over, by the run's state."""
TAKEN_UP_NO_RESULT = {state: NO_RESULT[state] for state in ("cancelled", "lost")}
"""The same, when a later run took the call up and is over."""

FAILED_CALL = CallState(_("failed"), "failed")
CALL_WORDS: dict[str, CallState] = {
    "max_tokens": CallState(_("cut off"), "failed"),
    "not_executed": CallState(_("not run"), "idle"),
    "content_filter": CallState(_("not run: filtered"), "idle"),
    "incomplete_stream": CallState(_("cut off"), "failed"),
    "invalid_arguments": CallState(_("not run: bad arguments"), "failed"),
    "unknown_tool": CallState(_("unknown tool"), "failed"),
    "aborted": CallState(_("cancelled"), "idle"),
    "timeout": CallState(_("timed out"), "failed"),
    "outcome_unknown": CallState(_("outcome unknown"), "failed"),
    "over_budget": CallState(_("skipped"), "idle"),
    "skipped": CallState(_("skipped"), "idle"),
    "denied": CallState(_("denied"), "idle"),
    "cancelled": CallState(_("cancelled"), "idle"),
    "not_answered": CallState(_("not answered"), "idle"),
    "policy_failed": CallState(_("not run: permission unclear"), "failed"),
}

ANSWER_WORDS = {
    "approved": _("Approved"),
    "edited": _("Approved with changes"),
    "denied": _("Denied"),
    "cancelled": _("Cancelled"),
    "passed_over": _("Not answered: the thread went on without it"),
}

PROBLEM_WORDS = {
    "unknown_interrupt": _("This question is not open any more. Look at the thread for what came of it."),
    "missing_answer": _(
        "Other questions of this thread are open too, and all are answered together. "
        "Reload the page to see them."
    ),
    "interrupt_expired": _("The time to answer is over. The question can only be cancelled now."),
    "unknown_tool": _("This tool is not there any more. The question can only be denied or cancelled."),
}

PAGE_WORDS = {
    "copy": _("Copy"),
    "copied": _("Copied"),
    "long": _("That is {size} characters; the limit is {most}. Send it in parts."),
    "signed_out": _("You are signed out. Sign in in another tab, then send again; your text is kept here."),
    "old": _("The server refused this, perhaps because the page is old. Copy your text and reload the page."),
    "large": _("That message is too large for the server."),
    "error": _("The server had an error ({status}). Your text is kept; try again."),
    "unreached": _("The server cannot be reached. Your text is kept; send it again later."),
    "offline": _("You are offline. Your text is kept; send it again later."),
    "gone": _("This thread is not here any more."),
}
"""Of the page's own script."""

UPLOAD_WORDS = {
    "file": _("file"),
    "waiting": _("Waiting"),
    "checking": _("Checking"),
    "attached": _("{name} is attached."),
    "remove": _("Remove {name}"),
    "again": _("Try again"),
    "lost": _("The connection was lost at {percent} %."),
    "error": _("The server had an error. Try again."),
    "large": _("The file is too large: {max} is the most."),
    "big": _("{name} has {size}; {max} is the most. Send a smaller one, or a part of it."),
    "empty": _("{name} is empty."),
    "many": _("A message takes at most {most} files. Send the others with another one."),
    "wait": _("Your files are still on their way. Send again when they are there."),
    "unsent": _("A file could not be uploaded. Try it again or remove it, then send."),
}
"""Of the script that uploads files."""

TURN_WORDS = {
    "length": _("Cut off by the output limit."),
    "content_filter": _("Stopped by the provider's content filter."),
}
"""A turn inside a run that went on behind it."""


def waited(run: RunView) -> bool:
    """Whether the run ended because somebody else had to do something."""
    return run.state == "interrupted" or run.stop_reason == "client_tools"


def end_of(
    run: RunView, turns: int, *, waits: bool = True, too_late: bool = False, resumed: bool = False
) -> End:
    """How a run that is over ended. One that waited says so as long as it `waits`; a lost one may be `resumed`."""
    if waited(run):
        waiting = TOO_LATE if too_late else END_WORDS[run.stop_reason or "interrupt"]
        return waiting if waits else End("")
    if run.state == "failed":
        return End(told(run.error) or ERROR_WORDS.get(run.error_code, FAILED), "retry", "bad")
    if run.state == "lost":
        return LOST_AND_RESUMED if resumed else LOST
    if run.state == "cancelled":
        end = END_WORDS["aborted" if run.stop_reason == "aborted" else "cancelled"]
        if run.error:
            end = replace(
                ABORTED_BECAUSE, text=ABORTED_BECAUSE.text.format(why=plain(run.error, 300).rstrip("."))
            )
        return replace(end, text=" ".join([str(end.text), *receipt_words(run.receipt)]))
    end = END_WORDS.get(run.stop_reason or "stop")
    if end is None:
        return replace(OTHER_LIMIT, text=OTHER_LIMIT.text.format(name=run.stop_reason))
    return replace(end, text=end.text.format(turns=count(turns, "turn")))


def receipt_words(receipt: Mapping[str, Any]) -> list[str]:
    """A sentence for each outcome that a stopped run's calls had."""
    calls = receipt.get("calls", ())
    said = []
    for outcome, word in OUTCOME_WORDS.items():
        names = [plain(str(call.get("toolName", ""))) for call in calls if call.get("outcome") == outcome]
        if names:
            said.append(f"{word}: {', '.join(dict.fromkeys(names))}.")
    return said


def thought(duration_ms: int | None, *, going_on: bool) -> str:
    """The line over a folded thought."""
    if duration_ms is None:
        return gettext("Thinking…") if going_on else gettext("Thoughts")
    return gettext("Thought for {time}").format(time=duration(duration_ms))


def call_state(code: str | None) -> CallState:
    """The state of a call that has its result."""
    return DONE if code is None else CALL_WORDS.get(code, FAILED_CALL)


def money(amount: float) -> str:
    """`$1.50`, `$0.0042`, `< $0.0001`; "" for nothing."""
    if amount <= 0:
        return ""
    unit = setting("MODEL_PRICES_UNIT")
    shown = number(amount, 2) if amount >= 0.1 else number(max(amount, 0.0001), 4)
    # “$1.50”, and where a comma parts the cents the sign stands behind: “1,50 $”.
    worded = f"{unit}{shown}" if len(unit) == 1 and number(0, 1) == "0.0" else f"{shown} {unit}"
    return worded if amount >= 0.0001 else f"< {worded}"


def moment(iso: str) -> str:
    """A point in time for people, in UTC; "" for what is none."""
    at = moment_of(iso)
    return f"{date_format(at, gettext('j M Y, H:i'))} UTC" if at else ""


def moment_of(iso: str | None) -> datetime | None:
    try:
        at = datetime.fromisoformat(iso or "")
    except ValueError:
        return None
    return (at if at.tzinfo else at.replace(tzinfo=UTC)).astimezone(UTC)
