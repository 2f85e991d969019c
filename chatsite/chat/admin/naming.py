"""What lists call the states of runs and calls: short words in the place of codes. Ends are in `chatsite.outcomes`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.utils.translation import gettext_lazy as _

from chatsite.chat.models import Run, ToolCall
from chatsite.chat.render.words import CALL_WORDS
from chatsite.outcomes import DOORS, RUN_ERRORS, STOP_REASONS, called

__all__ = ["CALL_ERRORS", "CALL_STATES", "DOORS", "RUN_ERRORS", "RUN_STATES", "STOP_REASONS", "called"]

RUN_STATES: Mapping[str, Any] = {
    Run.State.QUEUED: _("about to begin"),
    Run.State.RUNNING: _("at work"),
    Run.State.FINISHED: _("finished"),
    Run.State.INTERRUPTED: _("waiting for somebody"),
    Run.State.CANCELLED: _("stopped"),
    Run.State.FAILED: _("failed"),
    Run.State.LOST: _("lost with its server"),
}
CALL_STATES: Mapping[str, Any] = {
    ToolCall.State.PROPOSED: _("asked for"),
    ToolCall.State.WAITING: _("waiting for somebody"),
    ToolCall.State.CLAIMED: _("running"),
    ToolCall.State.DONE: _("done"),
    ToolCall.State.FAILED: _("failed"),
    ToolCall.State.SKIPPED: _("not run"),
    ToolCall.State.DENIED: _("denied"),
    ToolCall.State.CANCELLED: _("cancelled"),
    ToolCall.State.UNKNOWN: _("outcome unknown"),
}
CALL_ERRORS: Mapping[str, Any] = {code: state.word for code, state in CALL_WORDS.items()}
