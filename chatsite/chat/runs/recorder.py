"""One run's log, kept and told: rows first, then the news.

| event | kept | told |
|---|---|---|
| a call is complete, a result, the end | at once | behind its commit |
| everything else | with the next of those, or soon (`KEEP_WITHIN`) | at once, unless it stands behind one that waits |

So whoever acts on what they were told acts on something that is kept, and a killed server loses at most
a quarter of a second of bare text. The run itself goes on while a result is being kept: the model may be asked about
it already, and what that says stands behind the result. The next claim and the end wait for all of it.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from django.db import DatabaseError, InterfaceError, OperationalError

from agent.events import (
    Custom,
    Event,
    Interrupted,
    RunError,
    RunFinished,
    StepFinished,
    StepStarted,
    SubagentFinished,
    SubagentStarted,
    Terminal,
    ToolCallEnd,
    ToolCallResult,
    is_delta,
)
from agent.messages import Message, ToolCallPart, Transcript, Usage
from agent.receipts import RECEIPT
from agent.underway import Underway
from chatsite.chat import db
from chatsite.chat.counting import watched
from chatsite.chat.eventlog import Channel
from chatsite.chat.limits import budgets, metering
from chatsite.chat.models import Run
from chatsite.chat.process import news
from chatsite.chat.rows import questions, values
from chatsite.chat.runs import keeping, requests
from chatsite.chat.runs.keeping import Batch
from chatsite.chat.runs.ledger import Ledger
from chatsite.chat.runs.ledger_rows import CallChange
from chatsite.chat.runs.liverun import LiveRun
from chatsite.chat.runs.requests import Note
from chatsite.chat.state import InterruptView, RunView

log = logging.getLogger(__name__)

KEEP_WITHIN = 0.15
"""Seconds after which told text is on its way to the rows: within 0.25 it is there, that is the promise."""
APART = 0.2
"""Seconds from one such batch to the next, for text that comes without a pause."""

# A call is kept soon even when its turn goes on for long; this leaves time to keep its claim with it.
KEEP_CALL_WITHIN = 0.03

RETRY_AFTER = (0.1, 0.5, 1.0, 2.0, 4.0, 8.0, 8.0)
"""Seconds between tries when the database cannot be written; then the run gives up. Enough for one that is started
anew, and less than the silence after which others take the run for lost."""

Hard = Terminal | ToolCallEnd | ToolCallResult


class Recorder:
    """Writes one run's events. One writer: the run's task, and this object's own timer."""

    def __init__(
        self,
        *,
        live: LiveRun,
        channel: Channel,
        run: Run,
        head: int | None,
        waiting: Mapping[str, CallChange],
    ) -> None:
        """`waiting`: what the rows say of calls that earlier runs left open, by call id."""
        self.live = live
        self.channel = channel
        self.run = run
        self._ended: RunView | None = None
        self.turns = 0
        self.provider = ""  # the endpoint that answered last
        self._head = head  # of the thread, which grows by this run's messages alone
        self._kept = 0
        self._held = 0  # number of the newest event that must be kept before it is told
        self._unsaved: list[str] = []  # ids of messages that are whole and have no row yet, in order
        self._inserted: list[tuple[str, str]] = []  # (id, id of the one it stands before) of such results
        self._asked: list[Note] = []  # requests of the turn that goes on
        self._answered: list[Note] = []  # those of turns that are over and not kept yet
        self._rewritten: set[str] = set()  # ids of earlier runs' messages that this run changed
        self._ledger = Ledger(waiting)
        self._lock = asyncio.Lock()
        self._timer: asyncio.TimerHandle | None = None
        self._flushed_at = 0.0
        self._flushing: set[asyncio.Task[None]] = set()

    async def record(self, event: Event) -> None:
        """Fold, keep and tell. Returns when the run may go on: behind its end that is kept."""
        if not is_delta(event) and event.timestamp is None:
            event = replace(event, timestamp=time.time_ns() // 1_000_000)
        self.live.append(event)
        self._note(event)
        if isinstance(event, Hard):
            self._held = len(self.live.events)
        if isinstance(event, Terminal):
            await self.flush()
            return
        if isinstance(event, ToolCallResult):
            self._flush_behind()
            return
        if len(self.live.events) > self._held and self._held <= self._kept:
            self._tell(len(self.live.events), self.live.transcript, self.live.underway)
        self._keep_within(KEEP_CALL_WITHIN if isinstance(event, ToolCallEnd) else self._patience())

    def note(self, request: Note) -> None:
        """Keep this with the end of its turn."""
        self._asked.append(request)

    async def claim(self, call: ToolCallPart, arguments: Mapping[str, Any]) -> None:
        """Keep that this call's tool is about to start. Returns when that is committed."""
        self._ledger.claim(call)
        await self.flush()

    async def flush(self) -> None:
        """Keep all that is not kept, then tell it. Raises DatabaseError when that cannot be done.

        In a task of its own: a stop may cancel whoever waits here (a tool that is being claimed), and what is
        written has to be known as written all the same.
        """
        task = asyncio.ensure_future(self._flush())
        self._flushing.add(task)
        task.add_done_callback(self._flushing.discard)
        await asyncio.shield(task)

    async def _flush(self) -> None:
        async with self._lock:
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None
            self._flushed_at = asyncio.get_running_loop().time()
            number, transcript, underway = len(self.live.events), self.live.transcript, self.live.underway
            saved, calls = list(self._unsaved), self._ledger.changes()
            inserted, rewritten = list(self._inserted), set(self._rewritten)
            answered = tuple(self._answered)
            if number == self._kept and not calls:
                return
            batch = Batch(
                run_pk=self.live.run_pk,
                thread_pk=self.channel.thread_pk,
                head=self._head,
                first=self._kept + 1,
                events=tuple(self.live.events[self._kept : number]),
                messages=self._rows(saved),
                inserted=tuple(
                    zip(self._rows([id for id, _ in inserted]), (to for _, to in inserted), strict=True)
                ),
                rewritten=self._rows(list(rewritten)),
                calls=tuple(calls.values()),
                turns=self.turns,
                provider=self.provider,
                requests=answered,
                began=self.run.created_at,
                owner=self.run.owner,
                metered=metering.is_metered(self.run),
            )
            self._head = await self._keep(batch)
            watched.kept(self.run, batch)
            self._kept = number
            self._unsaved = self._unsaved[len(saved) :]
            self._inserted = self._inserted[len(inserted) :]
            self._rewritten -= rewritten
            self._answered = self._answered[len(answered) :]
            requests.kept(answered)
            self._ledger.kept(calls)
        if number > self.live.shown:
            self._tell(number, transcript, underway)
        news.thread_changed(self.channel.thread_pk)

    async def close(self) -> None:
        """Let go of the timer; what was told and not kept yet is kept."""
        if self._timer is not None:
            self._timer.cancel()
            await self._flush_quietly()
        await asyncio.gather(*self._flushing, return_exceptions=True)

    # -- what an event means for the rows --------------------------------------------------------------------

    def _note(self, event: Event) -> None:
        self._ledger.note(event, self.live.transcript)
        if event.subagent_run_id is not None and not isinstance(event, SubagentStarted | SubagentFinished):
            return  # the transcript leaves it out
        match event:
            case Custom(name="subagent_state", value={"toolCallId": str(call_id)}):
                self._rewritten.add(_caller_of(self.live.transcript, call_id))
            case StepStarted():
                self.turns += 1
            case StepFinished(metadata=metadata):
                self._turn_over()
                facts = metadata or {}
                self.provider = facts.get("provider", self.provider)
                self._whole(facts.get("messageId"))
            case ToolCallResult():
                self._place(event)
            case RunFinished() | RunError():
                self._turn_over()
                self._ended = _end_of(self.run, event)

    def _turn_over(self) -> None:
        self._answered += self._asked
        self._asked = []

    def _whole(self, message_id: str | None) -> None:
        if message_id is not None and any(message.id == message_id for message in self.live.transcript.live):
            self._unsaved.append(message_id)

    def _place(self, result: ToolCallResult) -> None:
        """A result mostly ends the transcript; one of a call that somebody spoke over stands in front of that."""
        messages = self.live.transcript.live
        place = next((at for at, message in enumerate(messages) if message.id == result.message_id), None)
        if place is None:
            return  # an answered call keeps its first result
        behind = next((message for message in messages[place + 1 :] if message.role != "tool"), None)
        if behind is None:
            self._unsaved.append(result.message_id)
        else:
            self._inserted.append((result.message_id, behind.id))
        if not {"editedArguments", "subagent"}.isdisjoint(result.metadata or {}):
            self._rewritten.add(_caller_of(self.live.transcript, result.tool_call_id))

    def _rows(self, ids: list[str]) -> tuple[Message, ...]:
        found: dict[str, Message] = {}
        messages = reversed(self.live.transcript)
        while len(found) < len(ids):
            message = next(messages)
            if message.id in ids:
                found[message.id] = message
        return tuple(found[id] for id in ids)

    # -- keeping and telling ---------------------------------------------------------------------------------

    def _tell(self, number: int, transcript: Transcript, underway: Underway) -> None:
        last = self.live.events[number - 1]
        over = isinstance(last, Terminal)
        asked = _asked_by(last, self.run.public_id)
        self.live.show(number, transcript, self._ended if over else None, asked, underway)
        self.channel.tell()

    def _patience(self) -> float:
        return max(KEEP_WITHIN, self._flushed_at + APART - asyncio.get_running_loop().time())

    def _keep_within(self, seconds: float) -> None:
        loop = asyncio.get_running_loop()
        due = loop.time() + seconds
        if self._timer is not None:
            if self._timer.when() <= due:
                return
            self._timer.cancel()
        self._timer = loop.call_at(due, self._flush_due)

    def _flush_due(self) -> None:
        self._timer = None
        self._flush_behind()

    def _flush_behind(self) -> None:
        task = asyncio.ensure_future(self._flush_quietly())
        self._flushing.add(task)
        task.add_done_callback(self._flushing.discard)

    async def _flush_quietly(self) -> None:
        try:
            await self.flush()
        except (DatabaseError, keeping.RunTaken) as error:
            # The run's own next flush meets the same fault and ends the run; here it is only worth a line.
            log.warning("run %s: could not keep a batch of its log: %s", self.live.run_id, error)

    async def _keep(self, batch: Batch) -> int | None:
        for pause in (*RETRY_AFTER, None):
            try:
                return await db.write_together(keeping.keep, batch)
            except (OperationalError, InterfaceError):
                if pause is None:
                    raise
                log.warning("run %s: the database could not be written; trying again", self.live.run_id)
            await asyncio.sleep(pause)
        raise AssertionError("unreachable")


def _asked_by(event: Event, run_id: str) -> tuple[InterruptView, ...]:
    if isinstance(event, RunFinished) and isinstance(event.outcome, Interrupted):
        return tuple(questions.asked_view(interrupt, run_id) for interrupt in event.outcome.interrupts)
    return ()


def _caller_of(transcript: Transcript, call_id: str) -> str:
    """The id of the message that holds the call."""
    return next(
        message.id
        for message in reversed(transcript)
        if any(call.id == call_id for call in message.tool_calls)
    )


def _end_of(run: Run, event: Terminal) -> RunView:
    """The view that the run's row will give, once it is written."""
    ending = keeping.ending_of(event)
    return replace(
        values.view_of(run),
        state=ending.state,
        stop_reason=ending.stop_reason,
        error=ending.error,
        error_code=ending.error_code,
        usage=sum((entry.usage for entry in event.usage), Usage()),
        cost=budgets.cost_of(event.usage),
        duration_ms=values.lasted_ms(run.created_at, values.told_at(event)),
        receipt=(event.metadata or {}).get(RECEIPT, {}),
    )
