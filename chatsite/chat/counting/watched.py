"""What the chat counts of its runs, as they end."""

from __future__ import annotations

import logging
from collections.abc import Iterable

from agent.events import Terminal
from chatsite.chat.models import Run, ToolCall
from chatsite.chat.rows import values
from chatsite.chat.runs.keeping import Batch, ending_of
from chatsite.chat.runs.ledger_rows import CallChange
from chatsite.watch.counters import Counter, Timing

log = logging.getLogger(__name__)

RUNS = Counter(
    "threadloom_runs", "Runs that ended, by their state and why.", ("state", "stop_reason", "model")
)
RUN_SECONDS = Timing("threadloom_run_seconds", "From a run's beginning to its end.", ("state",))
TOKENS = Counter("threadloom_tokens", "Tokens of runs, as the models' endpoints say.", ("model", "direction"))
TOOL_CALLS = Counter("threadloom_tool_calls", "Tool calls that ended.", ("tool", "state"))
RECOVERED = Counter(
    "threadloom_runs_recovered", "Runs whose process was gone, and what became of them.", ("fate",)
)

ENDED = frozenset(ToolCall.State.values) - {
    ToolCall.State.PROPOSED,
    ToolCall.State.WAITING,
    ToolCall.State.CLAIMED,
}


def kept(run: Run, batch: Batch) -> None:
    """A batch of the run's log has its rows."""
    if batch.calls:
        _calls_changed(batch.calls)
    if batch.terminal is not None:
        _run_ended(run, batch.terminal)


def _run_ended(run: Run, event: Terminal) -> None:
    ending = ending_of(event)
    seconds = values.lasted_ms(run.created_at, values.told_at(event)) / 1000
    RUNS.add(ending.state, ending.stop_reason, run.model)
    RUN_SECONDS.add(seconds, ending.state)
    log.info("a run of %s ended: %s (%s) in %.2f s", run.model, ending.state, ending.stop_reason, seconds)
    for entry in event.usage:
        model = entry.model or run.model
        TOKENS.add(model, "input", by=entry.usage.input_tokens)
        TOKENS.add(model, "output", by=entry.usage.output_tokens)


def _calls_changed(changes: Iterable[CallChange]) -> None:
    """Only tools that began are named: a model may invent others, and each name would be a series of its own."""
    for change in changes:
        if change.state in ENDED:
            TOOL_CALLS.add(change.name if change.claimed_at else "", change.state)
