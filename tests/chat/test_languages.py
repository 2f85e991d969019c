"""Readers of one thread, each in their language; programs in English; a failure's own sentence in the reader's."""

from __future__ import annotations

import httpx
import pytest
from django.utils.translation import override

from agent.providers.scripted import Turn
from agent.wire.problems import provider_error
from chatsite.chat import db
from chatsite.chat.problems import Busy
from chatsite.chat.readers import stream
from chatsite.chat.render.markdown import block_html
from chatsite.chat.render.told import SENTENCES, told
from chatsite.languages import here
from chatsite.phrases import count, duration, number
from tests.chat.test_runs import begin


async def first_of(thread) -> str:
    """What a page gets that comes with nothing."""
    changes = stream.html_changes(thread, None)
    async for change in changes:
        if change is not None:
            await changes.aclose()
            return change.html
    raise AssertionError("nothing came")


async def test_each_reader_of_a_thread_gets_its_own_words(person, plays, settled):
    plays(Turn("Code:\n\n```python\n1\n```\n", finish_reason="length"))
    done = await begin(person)
    await settled()
    english = await first_of(done.thread)
    with override("de"):
        german = await first_of(done.thread)
    assert "Cut off: the answer" in english
    assert ">Copy</button>" in english
    assert "Abgeschnitten: Die Antwort" in german
    assert ">Kopieren</button>" in german
    assert "Copy" not in german
    assert await first_of(done.thread) == english


async def test_a_stream_keeps_the_language_it_was_asked_in(person, plays, settled):
    """Django is done with a request before the first frame of its answer is made."""
    plays(Turn("", finish_reason="length"))
    done = await begin(person)
    await settled()
    with override("de"):
        frames = stream.html_frames(done.thread, None)
    told = b""
    async for frame in frames:
        told += frame or b""
        if b"</footer>" in told:
            break
    await frames.aclose()
    assert b"Abgeschnitten" in told


async def test_a_job_for_the_database_refuses_in_its_callers_language():
    def refuse():
        return str(Busy())

    with override("de"):
        assert await db.read(refuse) == await db.write(refuse) == here(refuse)()
        assert "Hier wird noch eine Antwort geschrieben" in await db.read(refuse)
    assert "An answer is still being written" in await db.read(refuse)


async def test_programs_read_english_whatever_they_accept(http: httpx.AsyncClient, key: str, settings):
    settings.LANGUAGE_CODE = "de"
    by_key = {"Authorization": f"Bearer {key}", "Accept-Language": "de"}
    answer = await http.get("/api/chat?threadId=none", headers=by_key)
    assert answer.json()["error"]["message"] == "There is no such thread."
    answer = await http.get("/threads/none/events?format=json", headers=by_key)
    assert answer.json()["error"]["message"] == "There is no such thread."


@pytest.mark.parametrize("status", [302, 400, 401, 402, 404, 408, 413, 429, 500, 503])
def test_what_an_endpoint_answered_is_told_in_the_readers_language(status):
    error = str(provider_error(status, {"retry-after": "7"}, b""))
    assert told(error) == error
    with override("de"):
        assert told(error) != error
        assert str(status) in told(error)
        assert told(f"Quite another: {error}") == f"Quite another: {error}"


def test_every_known_failure_has_its_words():
    for sentence in SENTENCES:
        filled = sentence.format(status=418, seconds="12.5")
        with override("de"):
            assert told(filled) not in (sentence, filled)


def test_numbers_are_written_as_they_are_in_the_language():
    assert (number(1234.5, 1), duration(2340), count(1234, "token")) == ("1,234.5", "2.3 s", "1,234 tokens")
    with override("de"):
        assert (number(1234.5, 1), duration(2340)) == ("1.234,5", "2,3 s")
        assert (count(1, "question"), count(1234, "question")) == ("1 Frage", "1.234 Fragen")


def test_a_block_that_is_kept_is_kept_for_each_language():
    block = "```\nof two languages\n```"
    assert ">Copy<" in block_html(block)
    with override("de"):
        assert ">Kopieren<" in block_html(block)
    assert ">Copy<" in block_html(block)
