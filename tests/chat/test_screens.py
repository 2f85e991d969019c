"""What changes on a page is rendered once for all who have it open, and a slow reader holds nothing."""

from __future__ import annotations

import asyncio

from agent.providers.scripted import Turn
from chatsite.chat import db, eventlog, store
from chatsite.chat.actions import organizing
from chatsite.chat.models import Thread
from chatsite.chat.readers import screens, stream
from chatsite.chat.readers.cursors import parse_cursor
from chatsite.chat.render.fragments import FragmentWriter, render_transcript
from tests.chat.conftest import until
from tests.chat.render.page import Page
from tests.chat.test_runs import begin

ANSWER = "A *word* after the other.\n\n" * 20


async def test_all_pages_show_the_stored_answer_and_each_step_is_rendered_once(
    person, plays, settled, monkeypatch
):
    monkeypatch.setattr(screens, "FRAME_EVERY", 0.0)
    monkeypatch.setattr(screens, "MOST_STEPS", 1)  # who is behind by more is brought from its cursor
    monkeypatch.setattr(eventlog, "LOOK_UP", 0.05)
    rendered = []
    update = FragmentWriter.update
    monkeypatch.setattr(
        FragmentWriter, "update", lambda self, state: rendered.append(state.cursor) or update(self, state)
    )
    gate = asyncio.Event()
    plays(Turn(ANSWER, delta_size=3, gate=gate))
    done = await begin(person)
    await until(lambda: eventlog.channel_of(done.thread.pk).active)
    pages, slow = [Page() for _ in range(20)], Page()

    async def show(page: Page) -> None:
        quiet = 0  # a look-up that began before the last news may end behind them, with nothing
        async for change in stream.html_changes(done.thread, None):
            quiet = quiet + 1 if change is None and eventlog.channel_of(done.thread.pk).active is None else 0
            if change is not None:
                page.apply(change.html)
            elif quiet == 2:
                return

    late = stream.html_changes(done.thread, None)
    first = await anext(late)
    assert first is not None
    slow.apply(first.html)
    reading = [asyncio.ensure_future(show(page)) for page in pages]
    await until(lambda: eventlog.channel_of(done.thread.pk).readers >= 21)
    rendered.clear()
    gate.set()
    await settled()
    async with asyncio.timeout(30):
        await asyncio.gather(*reading)
    assert len(rendered) <= 4 * len(set(rendered)), "not once for each of twenty"
    async with asyncio.timeout(30):
        while (change := await anext(late)) is not None:
            slow.apply(change.html)
    await late.aclose()
    stored = await db.read(lambda: store.load_state(Thread.objects.get(pk=done.thread.pk)))
    whole = Page(render_transcript(stored)).log
    assert all(page.log == whole for page in [*pages, slow])


async def test_a_page_whose_thread_was_named_before_its_stream_opened_shows_the_name(person, plays, settled):
    plays(Turn("Hi."))
    done = await begin(person)
    await settled()
    shown = await db.read(lambda: store.load_state(Thread.objects.get(pk=done.thread.pk)))
    await db.write(organizing.name_by_model, done.thread.pk, "A coat for the trip")
    changes = stream.html_changes(done.thread, parse_cursor(shown.cursor), opened=True)
    first = await anext(changes)
    await changes.aclose()
    assert first is not None
    assert first.cursor == shown.cursor
    assert "A coat for the trip</hx-partial>" in first.html
