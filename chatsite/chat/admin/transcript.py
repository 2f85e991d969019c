"""A page of a thread as its people see it, with what each turn and each run came to.

The text is the chat's own (`render_runs`), a run at a time; around it stands what the chat has no room
for: state and stop reason of the run, finish reason, model, tokens and time of each turn, and how many other
answers left the active branch at this place.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

from django.core.paginator import Page, Paginator
from django.utils.safestring import SafeString
from django.utils.translation import gettext
from django.utils.translation import gettext as _

from agent.messages import Message
from chatsite.adminkit.base import NOTHING, list_url
from chatsite.chat import store
from chatsite.chat.admin import naming
from chatsite.chat.models import Message as MessageRow
from chatsite.chat.models import Run, Thread
from chatsite.chat.render import words
from chatsite.chat.render.fragments import render_runs
from chatsite.chat.render.told import told
from chatsite.chat.state import Segment, ThreadState

RUNS_ON_A_PAGE = 50
MOST_HITS = 50
AROUND = 60
"""Characters on each side of a hit that are shown with it."""


@dataclass(frozen=True, slots=True)
class Turn:
    """An assistant message. `pk` is None while it has no row."""

    pk: int | None
    finish_reason: str
    provider_reason: str
    model: str
    provider: str
    tokens: str
    duration: str
    calls: str


@dataclass(frozen=True, slots=True)
class Branch:
    """What left the active branch at one place."""

    text: str
    url: str


@dataclass(frozen=True, slots=True)
class Hit:
    """A place in the thread that has the words one searched for: the run to go to, and what stands there."""

    role: str
    before: str
    found: str
    after: str
    url: str


@dataclass(frozen=True, slots=True)
class Block:
    """One run on the page. `run` is None for messages that belong to none."""

    run: Run | None
    state: str
    word: str
    facts: tuple[tuple[str, str], ...]
    html: SafeString
    turns: tuple[Turn, ...]
    branches: tuple[Branch, ...]


def page_of(thread: Thread, number: str | None, run_pk: str | None = None, query: str = "") -> dict[str, Any]:
    """The page of that number, or the one that has that run; with a query, where in the thread it is found."""
    state = store.load_state(thread)
    runs = {run.public_id: run for run in thread.runs.all()}
    tree = _Tree(thread)
    off_branch = len(runs) - sum(segment.run.id in runs for segment in state.segments)
    paginator = Paginator(state.segments, RUNS_ON_A_PAGE)
    page: Page[Segment] = paginator.get_page(number or _place_of(run_pk, state, runs) // RUNS_ON_A_PAGE + 1)
    hits = list(islice(_hits(query.strip(), state, runs), MOST_HITS + 1))
    drawn = render_runs(replace(state, segments=tuple(page.object_list)))
    return {
        "thread": thread,
        "page": page,
        "blocks": [
            _block(html, segment, runs.get(segment.run.id), tree)
            for html, segment in zip(drawn, page.object_list, strict=True)
        ],
        "run_count": len(runs),
        "off_branch": off_branch,
        "query": query,
        "hits": hits[:MOST_HITS],
        "more_hits": len(hits) > MOST_HITS,
    }


def _hits(query: str, state: ThreadState, runs: Mapping[str, Run]) -> Iterator[Hit]:
    """Where the active branch has these words, whatever their case."""
    if not query:
        return
    wanted = re.compile(re.escape(query), re.IGNORECASE)
    for segment in state.segments:
        run = runs.get(segment.run.id)
        for message in segment.messages:
            for text in _texts(message):
                if place := wanted.search(text):
                    begin, end = place.span()
                    yield Hit(
                        role=message.role,
                        before=words.plain(text[max(0, begin - AROUND) : begin], AROUND),
                        found=text[begin:end],
                        after=words.plain(text[end : end + AROUND], AROUND),
                        url=f"?run={run.pk}#run-{run.pk}" if run else "#log",
                    )
                    break


def _texts(message: Message) -> Iterator[str]:
    yield message.text
    for call in message.tool_calls:
        yield f"{call.name} {call.arguments}"
    for result in message.tool_results:
        if isinstance(result.content, str):
            yield result.content


def lasted(run: Run) -> int | None:
    """How long a run took, in ms."""
    return round((run.finished_at - run.created_at).total_seconds() * 1000) if run.finished_at else None


def finish_words(role: str, reason: str | None, *, is_open: bool = False) -> str:
    """A message's finish reason; a turn of the model without one is still going on or broke off."""
    if role != "assistant":
        return NOTHING
    return reason or (gettext("still open") if is_open else gettext("none: it broke off"))


def _place_of(run_pk: str | None, state: ThreadState, runs: Mapping[str, Run]) -> int:
    """The segment of a run; the first when it has none (it left the active branch)."""
    for place, segment in enumerate(state.segments):
        run = runs.get(segment.run.id)
        if run is not None and str(run.pk) == run_pk:
            return place
    return 0


def _block(html: SafeString, segment: Segment, run: Run | None, tree: _Tree) -> Block:
    return Block(
        run=run,
        state=segment.run.state if run else "",
        word=naming.called(naming.RUN_STATES, segment.run.state) if run else gettext("no run"),
        facts=tuple(_facts(segment, run)) if run else (),
        html=html,
        turns=tuple(_turns(segment, tree)),
        branches=tuple(tree.branches_at(segment)),
    )


def _facts(segment: Segment, run: Run) -> Iterator[tuple[str, str]]:
    usage = segment.run.usage
    yield from (
        (name, value)
        for name, value in (
            (
                _("Stop reason"),
                segment.run.stop_reason and naming.called(naming.STOP_REASONS, segment.run.stop_reason),
            ),
            (_("Finish reason"), run.finish_reason),
            (_("Error"), " – ".join(filter(None, [segment.run.error_code, told(segment.run.error)]))),
            (_("Model"), run.model),
            (_("Endpoint"), run.provider),
            (_("Door"), naming.called(naming.DOORS, run.door)),
            (_("Resumes"), segment.run.resumes and f"{segment.run.resumes} ({run.continuation})"),
            (_("Turns"), str(run.turns or "")),
            (_("Tokens"), _tokens(usage.input_tokens, usage.output_tokens)),
            (_("Duration"), words.duration(segment.run.duration_ms)),
        )
        if value
    )


def _turns(segment: Segment, tree: _Tree) -> Iterator[Turn]:
    last = segment.messages[-1] if segment.messages else None
    for message in segment.messages:
        if message.role == "assistant":
            yield _turn(message, tree, is_open=segment.run.active and message is last)


def _turn(message: Message, tree: _Tree, *, is_open: bool) -> Turn:
    usage = message.metadata.get("usage")
    usage = usage if isinstance(usage, dict) else {}
    took = message.metadata.get("durationMs")
    return Turn(
        pk=tree.pks.get(message.id),
        finish_reason=finish_words(message.role, message.finish_reason, is_open=is_open),
        provider_reason=str(message.metadata.get("providerReason") or ""),
        model=words.plain(str(message.metadata.get("model") or "")) or NOTHING,
        provider=words.plain(str(message.metadata.get("provider") or "")),
        tokens=_tokens(usage.get("inputTokens", 0), usage.get("outputTokens", 0)) or NOTHING,
        duration=words.duration(took) if isinstance(took, int) else NOTHING,
        calls=", ".join(words.plain(call.name) for call in message.tool_calls) or NOTHING,
    )


def _tokens(sent: Any, received: Any) -> str:
    if not sent and not received:
        return ""
    tokens = {"input": words.number(sent), "output": words.number(received)}
    return gettext("%(input)s in, %(output)s out") % tokens


class _Tree:
    """The thread's messages as a tree, without what they say."""

    def __init__(self, thread: Thread) -> None:
        self._thread = thread
        self.pks: dict[str, int] = {}
        self._parents: dict[int, int | None] = {}
        self._children: defaultdict[int | None, list[tuple[int, str]]] = defaultdict(list)
        for pk, parent, role, public_id in thread.messages.values_list("pk", "parent", "role", "public_id"):
            self.pks[public_id] = pk
            self._parents[pk] = parent
            self._children[parent].append((pk, role))
        self._path = set(self._walk(thread.head_id))

    def _walk(self, pk: int | None) -> Iterator[int]:
        while pk is not None:
            yield pk
            pk = self._parents.get(pk)

    def branches_at(self, segment: Segment) -> Iterator[Branch]:
        """What stands beside the messages of this run, and what once stood behind the thread's head."""
        pks = [pk for message in segment.messages if (pk := self.pks.get(message.id))]
        places = [self._parents[pk] for pk in pks]
        if self._thread.head_id in pks:
            places.append(self._thread.head_id)
        for parent in dict.fromkeys(places):
            left = [role for pk, role in self._children[parent] if pk not in self._path]
            if left:
                noun = "other question" if left[0] == MessageRow.Role.USER else "other answer"
                yield Branch(words.count(len(left), noun), self._url(parent))

    def _url(self, parent: int | None) -> str:
        if parent is None:
            return list_url(MessageRow, thread__id__exact=self._thread.pk, parent__isnull=True)
        return list_url(MessageRow, parent__id__exact=parent)
