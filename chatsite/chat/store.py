"""A thread as its readers see it, from its rows.

Rule: while a run is active, its log is the truth about it, and its message rows (but for those that it
began with) are left aside when a thread is read. When it has ended, the message rows are the truth. Both are the same
fold, `agent.reducer.apply`, so a reader cannot tell which one it got.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from agent.events import Event, Terminal
from agent.messages import Message, Transcript
from agent.reducer import apply
from agent.underway import NOTHING, Underway, take
from chatsite.chat import models
from chatsite.chat.models import Run, Thread
from chatsite.chat.readers.cursors import Cursor
from chatsite.chat.rows import questions, tree
from chatsite.chat.rows.branches import path_to
from chatsite.chat.rows.kept_log import events_after, last_number
from chatsite.chat.rows.values import message_of, view_of
from chatsite.chat.state import RunView, Segment, ThreadState, refilled

State = Run.State

BRINGS = (models.Message.Role.USER, models.Message.Role.SYSTEM)
"""Roles of the messages that a run begins with: a person's, or the notice of one that goes on with a lost one."""


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
            segments.append(segment_of(played, len(earlier)))
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
    played = play_on(run, before, new)
    earlier = seen.state.segments[:-1]
    state = replace(
        seen.state,
        title=thread.title,
        segments=(
            *refilled(earlier, played.folded.messages),
            segment_of(played, sum(len(segment.messages) for segment in earlier)),
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


def transcript_of(state: ThreadState) -> Transcript:
    """The messages of the active branch, as the model will read them."""
    return Transcript(tuple(message for segment in state.segments for message in segment.messages))


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
    return play_on(run, Played(run, 0, Transcript(earlier + asked), NOTHING), events_after(run.pk, 0, number))


def play_on(run: Run, before: Played, new: list[tuple[int, Event]]) -> Played:
    number, folded, underway = before.number, before.folded, before.underway
    for number, event in new:  # noqa: B007 - the last one counts
        folded = apply(folded, event)
        underway = take(underway, event, folded)
    over = bool(new) and isinstance(new[-1][1], Terminal)
    return Played(run, number, folded, underway, over)


def segment_of(played: Played, earlier: int) -> Segment:
    view = view_of(played.run)
    if not played.over:
        view = replace(view, state=State.RUNNING, stop_reason="", duration_ms=None)
    return Segment(view, played.folded.messages[earlier:], played.underway)
