"""The templates: what they show, that nothing in them is inline, and what the page weighs."""

from __future__ import annotations

import gzip
import re
from datetime import timedelta
from types import SimpleNamespace

import pytest
from django.conf import settings
from django.contrib.auth.models import User
from django.template.loader import render_to_string
from django.test import RequestFactory
from django.utils import timezone

from chatsite.chat.render.fragments import render_transcript
from chatsite.chat.state import ThreadState
from chatsite.chat.templatetags.page import by_age
from tests.chat.render.hostile import HOSTILE
from tests.chat.render.test_fragments import DONE, history

TEMPLATES = sorted((settings.BASE_DIR / "templates").rglob("*.html"))
STATIC = settings.BASE_DIR / "static"
NEW = ThreadState("")


def page(state: ThreadState = NEW, **context) -> str:
    thread = SimpleNamespace(public_id=state.thread_id, title=state.title) if state.thread_id else None
    models = [{"id": "demo", "label": "Demo model", "note": ""}]
    given = {
        "thread": thread,
        "state": state,
        "transcript_html": render_transcript(state),
        "threads": [],
        "models": models,
        "model": "demo",
        "demo": True,
        "user": User(pk=1, username="ada"),
        "problems": [],
        "notice": "",
        "draft": "",
    } | context
    return render_to_string("chat/page.html", given, RequestFactory().get("/"))


@pytest.mark.parametrize("path", TEMPLATES, ids=lambda path: path.name)
def test_nothing_is_inline(path):
    source = path.read_text()
    assert not re.search(r"<script(?![^>]*\bsrc=)|<style|\sstyle=|\son\w+=|hx-on|javascript:", source)
    assert not re.search(r"https?://|//\w", source), "asks another site"


def test_a_new_thread_is_made_by_a_plain_form():
    html = page()
    assert 'action="/threads/"' in html
    assert 'id="log"' not in html
    assert "What should I wear" in html


def test_a_thread_shows_its_transcript_and_follows_from_its_cursor():
    state = list(history())[-1]
    html = page(state)
    assert render_transcript(state) in html
    assert "events?format=html&amp;after=run-1%3A4" in html or "after=run-1:4" in html
    assert "<title>Jackets</title>" in html
    assert "<i id=live hidden></i>" in html


def test_stop_works_without_javascript():
    html = page(next(history()))
    assert "<i id=live hidden class=on><input type=hidden name=run form=stop-form value=" in html
    assert '<form id="stop-form" method="post" action="/threads/thread/stop"' in html
    assert "<noscript>" in html


def test_a_failed_send_keeps_the_text():
    html = page(list(history())[-1], notice="An answer is being written.", draft="my </textarea>words")
    assert "An answer is being written." in html
    assert "my &lt;/textarea&gt;words</textarea>" in html


def test_a_model_is_picked_when_there_are_several():
    models = [{"id": "a", "label": "A", "note": "here"}, {"id": "b", "label": "B", "note": ""}]
    html = page(models=models, model="b", demo=False)
    assert '<option value="b" selected>B</option>' in html
    assert "it is no language model" not in html


@pytest.mark.parametrize("text", HOSTILE)
def test_no_text_becomes_markup(text):
    state = ThreadState("thread", text, list(history())[-1].segments, "c")
    plain = page(ThreadState("thread", "x", state.segments, "c"), notice="x", draft="x", problems=["x"])
    threads = [{"public_id": "t", "title": text, "updated_at": timezone.now(), "running": False}]
    models = [{"id": text, "label": text, "note": text}]
    html = page(state, notice=text, draft=text, problems=[text], threads=threads, models=models, model=text)
    assert text not in html or "<" not in text
    assert html.count("<script") == plain.count("<script")


def test_threads_are_grouped_by_age():
    now = timezone.now()
    threads = [{"title": days, "updated_at": now - timedelta(days=days)} for days in (0, 2, 30)]
    groups = {name: [item["title"] for item in group] for name, group in by_age(threads)}
    assert groups == {"Today": [0], "This week": [2], "Older": [30]}
    assert list(by_age([])) == []


def test_the_page_is_light():
    own = list(STATIC.glob("chat/*.js"))
    assert sum(path.read_text().count("\n") for path in own) <= 660
    scripts = [*own, *STATIC.glob("vendor/htmx/*.js")]
    assert sum(len(gzip.compress(path.read_bytes())) for path in scripts) < 60_000
    assert sum(len(gzip.compress(path.read_bytes())) for path in STATIC.glob("chat/*.css")) < 20_000


def test_an_ended_run_offers_forms_that_are_on_the_page():
    html = page(ThreadState("thread", "x", list(history())[-1].segments, "c"))
    for form in ("retry-form", "continue-form", "stop-form", "composer"):
        assert f'<form id="{form}"' in html
    assert DONE.model in html
