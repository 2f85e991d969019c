"""What the open pages of a thread show: rendered once for all of them who read one language, and held once.

Rule 1: the thread's newest state is taken in at most every `FRAME_EVERY` while a run is at work, and each step to the
next one is rendered once. Who follows gets the same bytes, so a thousand readers cost one rendering a step.
Rule 2: a reader holds a number and a cursor. Who is behind by more than the last steps is brought from its cursor to
the newest state, like one who comes back.

    Screen      one for each thread somebody here has open, and each language: the newest state, the last steps to it
      Change    fragments from one step to the next
"""

from __future__ import annotations

import asyncio
import time
import weakref
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar

from django.utils.translation import get_language

from agent.wire.sse import encode_sse
from chatsite.chat import eventlog
from chatsite.chat.models import Thread
from chatsite.chat.readers import following
from chatsite.chat.readers.cursors import Cursor, parse_cursor
from chatsite.chat.render.fragments import FragmentWriter, has_been_told, render_full, standing_html
from chatsite.chat.render.swaps import replace_shown, title_html
from chatsite.chat.state import ThreadState
from chatsite.languages import here, speaking

T = TypeVar("T")

FRAME_EVERY = 0.25
"""Seconds between two steps while a run is at work: people do not read faster, and each costs a layout."""

MOST_STEPS = 16
MOST_KEPT = 128 * 1024
"""Characters of the steps that are kept for whoever is a little behind."""

LONG = 100
"""Messages from which on a whole thread is rendered aside: on the loop everybody's streams would wait for it."""

_renderer = ThreadPoolExecutor(max_workers=1, thread_name_prefix="render")


@dataclass(frozen=True)
class Change:
    """Fragments that bring a page to the state behind `cursor`."""

    html: str
    cursor: str

    @cached_property
    def frame(self) -> bytes:
        return encode_sse(self.html, id=self.cursor)


@dataclass(frozen=True, slots=True)
class Place:
    """Where a page is: behind step `number` of its screen, at `cursor`. `hint` stands before its next change."""

    number: int
    cursor: str
    hint: str = ""


class Screen:
    def __init__(self, channel: eventlog.Channel, thread: Thread, language: str) -> None:
        self._channel, self._thread, self._language = channel, thread, language
        self._lock = asyncio.Lock()
        self._version = -1
        self._due = 0.0
        self._state: ThreadState | None = None
        self._writer: FragmentWriter | None = None
        self._number = 0
        self._steps: deque[Change] = deque()
        self._jumps: dict[str, Change] = {}
        """From a cursor (or "") to the newest state: many come back at once, and from the same place."""

    async def come(self, after: Cursor | None) -> tuple[Place, Change | None]:
        """A page comes that shows the state at `after`, or nothing: where it is then, and what brings it there."""
        with speaking(self._language):
            if not self._is_fresh() or _is_news(self._state, after):
                await self._take_in(anew=True)
            return await self._jump("" if after is None else str(after))

    def named(self, place: Place) -> Change:
        """The thread's name, for a page at `place`: no cursor knows of one that was given since the page was made."""
        assert self._state is not None
        with speaking(self._language):
            return Change(title_html(self._state), place.cursor)

    async def go_on(self, place: Place) -> tuple[Place, list[Change]]:
        """What has happened since `place`."""
        pause = self._due - time.monotonic()
        if pause > 0 and self._state is not None and self._state.active_run is not None:
            await asyncio.sleep(pause)
        with speaking(self._language):
            await self._take_in()
            return await self._since(place)

    async def wait_on(self, place: Place) -> tuple[Place, list[Change]]:
        """Nothing was told for a while. The time to answer a question may have run out: nobody says so."""
        with speaking(self._language):
            async with self._lock:
                if self._state is not None and self._state.open_interrupts:
                    await self._step(self._state, self._state)
            return await self._since(place)

    async def _since(self, place: Place) -> tuple[Place, list[Change]]:
        behind = self._number - place.number
        if behind > len(self._steps):
            place, change = await self._jump(place.cursor)
            return place, [] if change is None else [change]
        changes = list(self._steps)[len(self._steps) - behind :]
        if not changes:
            return place, changes
        here = Place(self._number, changes[-1].cursor)
        if place.hint:
            changes[0] = Change(place.hint + changes[0].html, changes[0].cursor)
        return here, changes

    def _is_fresh(self) -> bool:
        if self._state is None or time.monotonic() >= self._due:
            return False
        return self._state.active_run is not None or self._version == self._channel.version

    async def _take_in(self, *, anew: bool = False) -> None:
        """The newest state, if somebody told of one since the last look; `anew`: in any case."""
        if self._version == self._channel.version and not anew:
            return
        async with self._lock:
            if self._version == self._channel.version and not anew:
                return
            version = self._channel.version
            state = await following.state_now(self._channel, self._thread)
            before = self._state
            if before is not None and state is not before:
                await self._step(before, state)
            if state.open_interrupts and self._writer is None:
                self._writer = await rendered(state, FragmentWriter, state)
            self._state, self._version = state, version
            self._due = time.monotonic() + FRAME_EVERY

    async def _step(self, before: ThreadState, state: ThreadState) -> None:
        self._jumps = {}
        try:
            if self._writer is None:
                self._writer = await rendered(before, FragmentWriter, before)
            html = self._writer.update(state)
        except Exception:
            # What cannot be rendered must not stay in everybody's way: the next look begins anew.
            self._state, self._writer, self._version = None, None, -1
            self._number += 1
            self._steps.clear()
            raise
        if not html:
            return
        self._number += 1
        self._steps.append(Change(html, state.cursor))
        while len(self._steps) > MOST_STEPS or sum(len(step.html) for step in self._steps) > MOST_KEPT:
            self._steps.popleft()

    async def _jump(self, after: str) -> tuple[Place, Change | None]:
        """From the state at a cursor to the newest one."""
        state, number = self._state, self._number
        assert state is not None
        if after and state.cursor == after and has_been_told(state):
            # As most who come back. Of long ago, they may have seen other rules than stand now.
            return Place(number, after, replace_shown(standing_html(state))), None
        change = self._jumps.get(after)
        if change is None:
            change = Change(await self._jump_html(state, parse_cursor(after)), state.cursor)
            if number == self._number:
                self._jumps[after] = change
        return Place(number, state.cursor), change if change.html else None

    async def _jump_html(self, state: ThreadState, after: Cursor | None) -> str:
        shown = state if after is not None and state.cursor == str(after) else None
        if shown is None and after is not None:
            shown = await following.state_at(self._channel, self._thread, after)
        if shown is None:
            return await rendered(state, render_full, state)
        html = await rendered(state, _difference, shown, state)
        return html + title_html(state) if html else ""


def _difference(shown: ThreadState, state: ThreadState) -> str:
    return FragmentWriter(shown).update(state)


def _is_news(state: ThreadState | None, after: Cursor | None) -> bool:
    """Whether the page may have been shown more than this state."""
    here = parse_cursor(state.cursor) if state is not None else None
    if after is None or state is None or here is None:
        return after is not None
    if here.run_id == after.run_id:
        return (after.branch, after.number) > (here.branch, here.number)
    return all(segment.run.id != after.run_id for segment in state.segments)


async def rendered(state: ThreadState, job: Callable[..., T], *args: Any) -> T:
    """`job(*args)`, which renders a whole thread: aside when that is long."""
    if sum(len(segment.messages) for segment in state.segments) < LONG:
        return job(*args)
    return await asyncio.get_running_loop().run_in_executor(_renderer, here(job, *args))


_screens: weakref.WeakValueDictionary[tuple[int, str], Screen] = weakref.WeakValueDictionary()


def screen_of(thread: Thread) -> Screen:
    """The thread's screen in this process, in the language that is spoken. It lives as long as somebody holds it."""
    channel = eventlog.channel_of(thread.pk)
    key = thread.pk, get_language() or ""
    screen = _screens.get(key)
    if screen is None or screen._channel is not channel:
        screen = _screens[key] = Screen(channel, thread, key[1])
    return screen
