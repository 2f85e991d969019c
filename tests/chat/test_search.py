"""What was said is found by its words, by its owner alone, on both databases."""

from __future__ import annotations

import pytest
from django.db import connection

from chatsite.chat.models import Message, Thread
from chatsite.chat.rows import search


@pytest.fixture
def say(person):
    def said(
        text: str, *, thread: Thread | None = None, owner=person, role: str = "user", title: str = ""
    ) -> Message:
        thread = thread or Thread.objects.create(owner=owner, title=title)
        return Message.objects.create(
            public_id=f"m{Message.objects.count()}", thread=thread, role=role, text=text, parts=[]
        )

    return said


def found(person, query: str) -> list[str]:
    return [hit.message_id for hit in search.find(person.pk, query)]


def test_all_words_have_to_be_there_and_the_last_may_be_half_written(person, say):
    weather = say("The weather in Oslo is mild.")
    say("The weather in Bergen is wet.")
    assert found(person, "weather oslo") == [weather.public_id]
    assert found(person, "oslo weath") == [weather.public_id]
    assert found(person, "osl weather") == []
    assert len(found(person, "weather")) == 2


def test_quoted_words_stand_together(person, say):
    say("mild and wet")
    together = say("wet and mild")
    assert found(person, '"wet and mild"') == [together.public_id]


@pytest.mark.parametrize("query", ["café", "CAFÉ", "caf"])
def test_case_does_not_count(person, say, query):
    there = say("Meet me at the Café.")
    assert found(person, query) == [there.public_id]


def test_accents_do_not_count_on_sqlite(person, say):
    """PostgreSQL has no index without accents of its own."""
    there = say("Meet me at the café.")
    assert found(person, "cafe") == ([there.public_id] if connection.vendor == "sqlite" else [])


def test_nobody_finds_what_is_anothers(person, stranger, say):
    say("A secret word", owner=stranger)
    assert found(person, "secret") == []
    assert len(search.find(stranger.pk, "secret")) == 1


def test_what_changes_or_goes_is_not_found_any_more(person, say):
    message = say("first words")
    message.text = "other words"
    message.save()
    assert found(person, "first") == []
    assert found(person, "other") == [message.public_id]
    message.delete()
    assert found(person, "other") == []


def test_a_thread_is_found_once_by_its_newest_message(person, say):
    first = say("a word", title="Words")
    second = say("the word again", thread=first.thread, role="assistant")
    (hit,) = search.find(person.pk, "word")
    assert (hit.thread_id, hit.message_id, hit.title) == (first.thread.public_id, second.public_id, "Words")
    assert hit.pieces == ("the ", "word", " again")


def test_tool_results_are_not_searched(person, say):
    say('{"city": "Oslo"}', role="tool")
    assert found(person, "oslo") == []


@pytest.mark.parametrize(
    "query",
    [
        *(
            "",
            " ",
            '"',
            '""',
            "'",
            "*",
            "(",
            ")",
            "-",
            "AND",
            "OR NOT",
            "NEAR(a b)",
            "text:x",
            "^q",
            "q*b",
            "%",
            "_",
        ),
        *(
            "\x00",
            "\ud800",
            "'; DROP TABLE chat_message; --",
            ":*",
            "a & | ! <-> b",
            "\\",
            "x" * 10_000,
            "a " * 5_000,
        ),
        *("\N{BLACK HEART SUIT}", "العربية", "日本語", '"unended', "<script>", "{a b}"),
    ],
)
def test_no_text_is_a_wrong_query(person, say, query):
    say("something else altogether")
    assert found(person, query) == []


def test_the_index_is_made_anew_when_a_part_of_it_is_gone(person, say):
    message = say("needle")
    with connection.cursor() as cursor:
        if connection.vendor == "sqlite":
            cursor.execute("DROP TRIGGER chat_message_fts_old")
            cursor.execute("INSERT INTO chat_message_fts(chat_message_fts) VALUES ('delete-all')")
        else:
            cursor.execute("DROP INDEX chat_message_text_search")
    search.prepare()
    assert found(person, "needle") == [message.public_id]
    with connection.cursor() as cursor:
        if connection.vendor == "sqlite":
            cursor.execute(
                "SELECT count(*) FROM sqlite_master WHERE name LIKE 'chat_message_fts_%' AND type = 'trigger'"
            )
            assert cursor.fetchone() == (3,)


def test_searching_uses_the_index(person, say):
    say("needle")
    with connection.cursor() as cursor:
        if connection.vendor == "sqlite":
            cursor.execute("EXPLAIN QUERY PLAN " + search._IN_FTS, ["needle", person.pk, 10])
            assert "VIRTUAL TABLE INDEX" in str(cursor.fetchall())
        else:
            cursor.execute("SET enable_seqscan = off")  # the table is too small to be worth an index
            cursor.execute(
                f"EXPLAIN SELECT 1 FROM chat_message WHERE {search._VECTOR} @@ to_tsquery('simple', 'x')"
            )
            assert "chat_message_text_search" in str(cursor.fetchall())
