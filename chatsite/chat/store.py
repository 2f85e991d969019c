"""Rows <-> values.

Rule: while a run is active, its log is the truth about it, and its message rows (but for those that it
began with) are left aside when a thread is read. When it has ended, the message rows are the truth. Both are the same
fold, `agent.reducer.apply`, so a reader cannot tell which one it got.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import accumulate, islice, pairwise
from typing import Any
from urllib.parse import quote, unquote

from django.db.models import Max

from agent.events import (
    Event,
    MessagesSnapshot,
    ModelUsage,
    RunStarted,
    Terminal,
)
from agent.messages import Message, Transcript, Usage
from agent.reducer import apply
from agent.underway import NOTHING, Underway, take
from agent.wire.agui import decode_event
from agent.wire.parts import dump_parts, load_parts
from chatsite.chat import budgets, models, questions, tree
from chatsite.chat.models import Run, RunEvent, Thread
from chatsite.chat.state import RunView, Segment, ThreadState, refilled

State = Run.State

# What a message row's metadata says besides what the message does, so that a query finds it there.
ROW_ONLY = ("finishReason", "stopReason")

BRINGS = (models.Message.Role.USER, models.Message.Role.SYSTEM)
"""Roles of the messages that a run begins with: a person's, or the notice of one that goes on with a lost one."""

# -- cursors -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Cursor:
    """A place in a thread's logs: behind event `number` of run `run_id`, as branch number `branch` was shown.

    As text it travels in headers, where only ASCII is safe, so a program's own run id is percent-encoded.
    """

    run_id: str
    number: int
    branch: int = 0

    def __str__(self) -> str:
        place = f"{quote(self.run_id, safe='')}:{self.number}"
        return f"{place}.{self.branch}" if self.branch else place


LONGEST_NUMBER = 10
"""Digits. No log is that long, and Python refuses to read a number of thousands of them."""


def parse_cursor(text: str) -> Cursor | None:
    """None when it is no cursor: whoever sent it is then told everything from the start."""
    run_id, _, number = text.rpartition(":")
    run_id = unquote(run_id)
    number, dot, branch = number.partition(".")
    sane = run_id.isprintable() and _is_number(number) and (not dot or _is_number(branch))
    return Cursor(run_id, int(number), int(branch or 0)) if run_id and sane else None


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= LONGEST_NUMBER


# -- reading -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Played:
    """A run as its log tells it, up to event `number`."""

    run: Run
    number: int
    folded: Transcript
    underway: Underway
    over: bool = False


@dataclass(frozen=True, slots=True)
class Look:
    """What a reader sees. While a run is at work also where its log was left, so that a later look goes on from there
    (`look_again`); `run_pks` are the runs of the branch."""

    state: ThreadState
    run_pks: tuple[int, ...] = ()
    played: Played | None = None


def load_state(thread: Thread, until: Cursor | None = None) -> ThreadState:
    """What a reader of the thread sees; with `until`, what one saw who had read so far.

    With an `until` that names no run of the active branch the state has no segments and an empty cursor.
    """
    return look(thread, until).state


def look(thread: Thread, until: Cursor | None = None) -> Look:
    # Runs first: what one of them says has ended has all its rows by the time those are read.
    runs = {run.pk: run for run in thread.runs.select_related("parent")}
    last = max(runs.values(), key=lambda run: run.pk, default=None)
    ended_at = last_number(last.pk) if last is not None else 0
    everything = {row.pk: row for row in thread.messages.all()}
    path = path_to(everything, thread.head_id)
    rows = [row for row in path if row.run_id is None or row.run_id in runs]
    groups = _by_run(rows)
    if last is not None and last.state in Run.ACTIVE and (not groups or groups[-1][0] != last.pk):
        groups.append((last.pk, []))

    if until is not None:
        places = [
            place for place, (pk, _) in enumerate(groups) if pk in runs and runs[pk].public_id == until.run_id
        ]
        if not places:
            return Look(ThreadState(thread.public_id, thread.title, branch=thread.branch))
        groups = groups[: places[-1] + 1]

    segments: list[Segment] = []
    cursor = ""
    played: Played | None = None
    for place, (pk, messages) in enumerate(groups):
        run = runs.get(pk)
        newest = place == len(groups) - 1
        if run is None:
            segments.append(Segment(RunView(id="", state=State.FINISHED), tuple(map(message_of, messages))))
        elif newest and (run.state in Run.ACTIVE or until is not None):
            earlier = tuple(message for segment in segments for message in segment.messages)
            played = _replay(run, earlier, messages, until.number if until else None)
            segments.append(_segment_of(played, len(earlier)))
            cursor = str(Cursor(run.public_id, played.number, thread.branch))
        else:
            segments.append(Segment(view_of(run), tuple(map(message_of, messages))))
    if not cursor and last is not None:
        cursor = str(Cursor(last.public_id, ended_at, thread.branch))
    run_pks = tuple(pk for pk, _ in groups if pk in runs)
    state = ThreadState(
        thread.public_id,
        thread.title,
        tuple(segments),
        cursor,
        interrupts=questions.views_for(run_pks),
        always_allowed=_always_allowed(thread),
        branch=thread.branch,
        forks=tree.forks(everything.values(), path),
    )
    return Look(state, run_pks, played)


def look_again(thread: Thread, seen: Look) -> Look:
    """As `look`. While the same run is at work, only what is new in its log is read: the rest stands."""
    run = thread.runs.select_related("parent").order_by("-pk").first()
    before = seen.played
    same = before is not None and run is not None and before.run.pk == run.pk
    if not same or run.state not in Run.ACTIVE or thread.branch != seen.state.branch:
        return look(thread)
    new = events_after(run.pk, before.number)
    if new and isinstance(new[-1][1], Terminal):
        return look(thread)
    played = _played(run, before, new)
    earlier = seen.state.segments[:-1]
    state = replace(
        seen.state,
        title=thread.title,
        segments=(
            *refilled(earlier, played.folded.messages),
            _segment_of(played, sum(len(segment.messages) for segment in earlier)),
        ),
        cursor=str(Cursor(run.public_id, played.number, thread.branch)),
        interrupts=questions.views_for(seen.run_pks),
        always_allowed=_always_allowed(thread),
    )
    return Look(state, seen.run_pks, played)


def _always_allowed(thread: Thread) -> tuple[str, ...]:
    return tuple(sorted(thread.approval_rules.values_list("tool_name", flat=True)))


def as_read_by_others(state: ThreadState, *, live: bool) -> ThreadState:
    """Without what only its owner can do anything about; a run that goes on belongs to what is `live`."""
    segments = state.segments if live else tuple(one for one in state.segments if not one.run.active)
    return replace(state, segments=segments, interrupts=(), always_allowed=(), cursor="", forks={})


def load_transcript(thread: Thread) -> Transcript:
    """The messages of the active branch, as the model will read them."""
    return transcript_of(load_state(thread))


def transcript_of(state: ThreadState) -> Transcript:
    return Transcript(tuple(message for segment in state.segments for message in segment.messages))


def active_branch(thread: Thread) -> list[models.Message]:
    """The path from the root to the thread's head."""
    return path_to({row.pk: row for row in thread.messages.all()}, thread.head_id)


def runs_on_branch(thread: Thread) -> set[int]:
    """Keys of the runs whose messages are on the active branch. One that has none stands where its parent does."""
    here = {row.run_id for row in active_branch(thread)}
    told = set(thread.messages.values_list("run_id", flat=True))
    found: set[int] = set()
    for pk, parent in thread.runs.order_by("pk").values_list("pk", "parent_id"):
        if pk in here or (pk not in told and parent in found):
            found.add(pk)
    return found


def path_to(rows: Mapping[Any, models.Message], to: int | None) -> list[models.Message]:
    """The rows from the root to that key, out of all by key."""
    path: list[models.Message] = []
    here = rows.get(to)
    while here is not None:
        path.append(here)
        here = rows.get(here.parent_id)
    return path[::-1]


def events_after(
    run_pk: int, number: int, up_to: int | None = None, *, at_most: int | None = None
) -> list[tuple[int, Event]]:
    """The kept events of a run behind `number`, each with its own number; the first `at_most` of them."""
    rows = RunEvent.objects.filter(run_id=run_pk, number__gt=number).order_by("number")[:at_most]
    events = (
        (at, event)
        for row in rows
        for at, event in _unpack(row, number)
        if at > number and (up_to is None or at <= up_to)
    )
    return list(islice(events, at_most))


def last_number(run_pk: int) -> int:
    return RunEvent.objects.filter(run_id=run_pk).aggregate(last=Max("number"))["last"] or 0


def snapshot_in_gap(run_pk: int, number: int) -> tuple[MessagesSnapshot, ...]:
    """For a reader at a place that the log has not, though it goes on behind it: what was told there was lost with its
    server. Empty for one whose place is known."""
    rows = RunEvent.objects.filter(run_id=run_pk)
    if rows.filter(first__lte=number, number__gte=number).exists():
        return ()
    run = Run.objects.select_related("thread").get(pk=run_pk)
    return (MessagesSnapshot(messages=tuple(map(message_of, _branch_of(run)))),)


def next_run(thread_pk: int, after: int) -> Run | None:
    """The first run of the thread that began after the one with key `after`."""
    return Run.objects.filter(thread_id=thread_pk, pk__gt=after).order_by("pk").first()


def view_of(run: Run) -> RunView:
    used = used_in(run.usage)
    return RunView(
        id=run.public_id,
        state=run.state,
        stop_reason=run.stop_reason,
        error=run.error,
        error_code=run.error_code,
        model=run.model,
        usage=sum((each.usage for each in used), Usage()),
        cost=budgets.cost_of(used),
        duration_ms=lasted_ms(run.created_at, run.finished_at) if run.finished_at else None,
        resumes=run.parent.public_id if run.continuation and run.parent else "",
        receipt=run.receipt,
    )


def lasted_ms(began: datetime, ended: datetime) -> int:
    return round((ended - began).total_seconds() * 1000)


def told_at(event: Event) -> datetime:
    """When the event was told, by its own clock, so that rows and memory agree to the millisecond."""
    assert event.timestamp is not None
    return datetime.fromtimestamp(event.timestamp / 1000, tz=UTC)


def message_of(row: models.Message) -> Message:
    return Message(
        id=row.public_id,
        role=row.role,
        parts=load_parts(row.parts),
        finish_reason=row.finish_reason or None,
        metadata={key: value for key, value in row.metadata.items() if key not in ROW_ONLY},
    )


def row_of(
    message: Message, *, thread_id: int, run_id: int | None, parent_id: int | None, **extra: Any
) -> models.Message:
    metadata = dict(message.metadata)
    if message.role == "assistant":
        metadata["finishReason"] = message.finish_reason
    return models.Message(
        public_id=message.id,
        thread_id=thread_id,
        run_id=run_id,
        parent_id=parent_id,
        role=message.role,
        parts=dump_parts(message.parts),
        text=message.text,
        finish_reason=message.finish_reason,
        metadata=metadata,
        **extra,
    )


def _by_run(rows: list[models.Message]) -> list[tuple[int | None, list[models.Message]]]:
    """The messages of each run; those of none by what was asked."""
    groups: list[tuple[int | None, list[models.Message]]] = []
    for row in rows:
        begins = row.run_id is None and row.role == "user"
        if not groups or groups[-1][0] != row.run_id or begins:
            groups.append((row.run_id, []))
        groups[-1][1].append(row)
    return groups


def _replay(run: Run, earlier: tuple[Message, ...], rows: list[models.Message], number: int | None) -> Played:
    """The run as its log tells it, up to `number`, behind the `earlier` messages."""
    asked = tuple(message_of(row) for row in rows if row.role in BRINGS)
    return _played(run, Played(run, 0, Transcript(earlier + asked), NOTHING), events_after(run.pk, 0, number))


def _played(run: Run, before: Played, new: list[tuple[int, Event]]) -> Played:
    number, folded, underway = before.number, before.folded, before.underway
    for number, event in new:  # noqa: B007 (the last one counts)
        folded = apply(folded, event)
        underway = take(underway, event, folded)
    over = bool(new) and isinstance(new[-1][1], Terminal)
    return Played(run, number, folded, underway, over)


def _segment_of(played: Played, earlier: int) -> Segment:
    view = view_of(played.run)
    if not played.over:
        view = replace(view, state=State.RUNNING, stop_reason="", duration_ms=None)
    return Segment(view, played.folded.messages[earlier:], played.underway)


def _unpack(row: RunEvent, after: int = 0) -> Iterator[tuple[int, Event]]:
    """The events of a row, but for deltas up to number `after`: a line of them may be long."""
    if row.first == row.number:
        yield row.number, decode_event(row.data)
    elif "delta" in row.data:
        unread = max(0, after + 1 - row.first)
        for at, delta in enumerate(deltas_of(row.data)[unread:], start=row.first + unread):
            yield at, decode_event({**row.data, "delta": delta})
    else:
        yield from _rebuilt(row)


def deltas_of(data: Mapping[str, Any]) -> list[str]:
    """The deltas of a row, whichever way it holds them."""
    delta = data["delta"]
    if "sizes" not in data:
        return delta if isinstance(delta, list) else [delta]
    ends = list(accumulate(map(int, data["sizes"].split())))
    return [delta[begin:end] for begin, end in pairwise([0, *ends])]


def batches_of(data: Mapping[str, Any]) -> list[tuple[int, int | None]]:
    """The batches that a row's deltas came in: how many each had, and when it was kept, in ms."""
    at = data.get("at")
    if "batches" not in data:
        return [(len(deltas_of(data)), at)]
    found: list[tuple[int, int | None]] = []
    for batch in data["batches"].split():
        count, _, later = batch.partition("+")
        at = at + int(later or 0) if at is not None else None
        found.append((int(count), at))
    return found


def as_batches(batches: Sequence[tuple[int, int | None]]) -> dict[str, Any]:
    """The same as a row holds it: `at` is the first one's, and `batches` says how much later each of the others came,
    as in "12 9+204 8+199". Nothing where a time is not known, as in logs from before they were kept."""
    times = [at for _, at in batches if at is not None]
    if len(times) < len(batches):
        return {}
    counts = [str(count) for count, _ in batches]
    later = [
        f"{count}+{at - before}" for count, (before, at) in zip(counts[1:], pairwise(times), strict=True)
    ]
    return {"at": times[0], "batches": " ".join([counts[0], *later])}


def _rebuilt(end: RunEvent) -> Iterator[tuple[int, Event]]:
    """What stands for a pruned log. A reader from any place in it has all it needs once it has the snapshot."""
    run = Run.objects.select_related("thread", "parent").get(pk=end.run_id)
    yield (
        1,
        RunStarted(
            thread_id=run.thread.public_id,
            run_id=run.public_id,
            parent_run_id=run.parent.public_id if run.parent else None,
            timestamp=round(run.created_at.timestamp() * 1000),
            metadata={"continuation": run.continuation} if run.continuation else None,
        ),
    )
    messages = tuple(map(message_of, _branch_of(run)))
    if messages:
        yield end.number - 1, MessagesSnapshot(messages=messages)
    yield end.number, decode_event(end.data)


def _branch_of(run: Run) -> list[models.Message]:
    """The path from the root to the run's last message; empty when a retry took over all that it had."""
    rows = {row.pk: row for row in run.thread.messages.all()}
    own = [row for row in rows.values() if row.run_id == run.pk]
    followed = {row.parent_id for row in own}
    return path_to(rows, max((row.pk for row in own if row.pk not in followed), default=None))


def used_in(entries: Iterable[Mapping[str, Any]]) -> list[ModelUsage]:
    """A run's usage, as its row holds it."""
    return [ModelUsage(entry.get("model", ""), usage_of(entry)) for entry in entries]


def usage_of(entry: Mapping[str, Any]) -> Usage:
    return Usage(
        entry.get("inputTokens", 0),
        entry.get("outputTokens", 0),
        entry.get("reasoningTokens", 0),
        entry.get("cachedInputTokens", 0),
        entry.get("cacheWriteInputTokens", 0),
    )
