"""Lists of threads and runs: sorted and filtered by what they came to, in people's words."""

from __future__ import annotations

import re
from datetime import timedelta
from importlib import import_module

import pytest
from django.apps import apps
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from chatsite.chat.admin import naming
from chatsite.chat.counting import booking
from chatsite.chat.models import Run, Thread, ToolCall
from tests.chat.test_admin import listing, logged_in, page

FIGURES = ("turns", "calls", "errors", "tokens", "cost", "duration_ms")
COLUMNS = {"turns": 8, "calls": 9, "errors": 10, "tokens": 11, "cost": 12, "duration_ms": 13}
"""Where they stand in both lists."""


@pytest.fixture
def admin(db) -> Client:
    return logged_in(User.objects.create_superuser("root", password="a long enough secret"))


def ended(thread: Thread, turns: int, calls: int = 0, bad: int = 0, **more: object) -> Run:
    now = timezone.now()
    run = Run.objects.create(
        thread=thread,
        created_at=now - timedelta(minutes=turns),
        finished_at=now,
        turns=turns,
        **{
            "state": "finished", "stop_reason": "stop", "tokens": 100 * turns, "cost": turns / 100,
            "duration_ms": 1000 * turns, **more,
        },
    )  # fmt: skip
    for place in range(calls):
        state = "failed" if place < bad else "done"
        ToolCall.objects.create(run=run, call_id=f"c{place}", name="look", state=state, finished_at=now)
    return run


def book() -> None:
    while booking.step():
        pass


@pytest.fixture
def three(person) -> list[Thread]:
    """One with little, one with much, one that failed."""
    threads = [Thread.objects.create(owner=person, title=title) for title in ("Little", "Much", "Failed")]
    ended(threads[0], 1)
    ended(threads[1], 5, calls=3, bad=1)
    ended(threads[1], 2, calls=1)
    ended(threads[2], 3, state="failed", stop_reason="provider_error", error_code="provider_error", cost=None)
    return threads


def titles(text: str) -> list[str]:
    rows = text.split("<tbody>", 1)[1].split("</tbody>")[0] if "<tbody>" in text else ""
    return re.findall(r"Little|Much|Failed", re.sub(r"<[^>]*>", " ", rows))


def figures_of(row: Run | Thread) -> tuple[object, ...]:
    row.refresh_from_db()
    return tuple(getattr(row, name) for name in FIGURES)


def test_what_a_thread_came_to_is_the_sum_of_its_runs_and_is_counted_once(three):
    book()
    book()
    assert [figures_of(thread) for thread in three] == [
        (1, 0, 0, 100, 0.01, 1000),
        (7, 4, 1, 700, pytest.approx(0.07), 7000),
        (3, 0, 1, 300, 0, 3000),
    ]
    ended(three[0], 4, calls=2, bad=2)
    book()
    assert figures_of(three[0]) == (5, 2, 2, 500, pytest.approx(0.05), 5000)


def test_a_call_that_a_later_run_settled_counts_where_it_was_made(person):
    thread = Thread.objects.create(owner=person)
    first = ended(thread, 1)
    call = ToolCall.objects.create(run=first, call_id="c", name="send_email", state="waiting")
    book()
    assert figures_of(first)[1:3] == (1, 0)
    ToolCall.objects.filter(pk=call.pk).update(state="failed")
    ended(thread, 1)
    book()
    assert figures_of(first)[1:3] == (1, 1)
    assert figures_of(thread)[:3] == (2, 1, 1)


@pytest.mark.parametrize("name", FIGURES)
@pytest.mark.parametrize("model", ["thread", "run"])
def test_lists_are_sorted_by_each_figure_and_an_index_has_the_order(model, name, admin, three):
    book()
    rows = Thread if model == "thread" else Run
    for sign in ("", "-"):
        with CaptureQueriesContext(
            connection,
        ) as asked:
            text = page(admin, listing(model, o=f"{sign}{COLUMNS[name]}"))
        ties = (
            (f"{sign}pk",)
            if model == "thread" or name in ("turns", "calls", "errors")
            else ("-created_at", "-pk")
        )
        ordered = rows.objects.order_by(f"{sign}{name}", *ties)
        expected = [str(getattr(row, "thread", row).title) for row in ordered]
        if not (
            model == "run" and name == "cost"
        ):  # nobody knows what one cost: first or last, as the database has it
            assert titles(text) == expected
        lists = [each["sql"] for each in asked if each["sql"].startswith(f'SELECT "chat_{model}"."id"')]
        sql = next(each for each in lists if f'"chat_{model}"."{name}" {"DESC" if sign else "ASC"}' in each)
        if connection.vendor == "sqlite":
            with connection.cursor() as cursor:
                cursor.execute(f"EXPLAIN QUERY PLAN {sql}")
                plan = " ".join(str(row[-1]) for row in cursor.fetchall())
            assert re.search(rf"(SCAN|SEARCH) chat_{model} USING INDEX chat_{model}_\w*{name}", plan), plan
            if len(ties) == 1:
                assert "TEMP B-TREE" not in plan


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ({"min_turns": 3}, ["Failed", "Much"]),
        ({"min_turns": 3, "max_turns": 6}, ["Failed"]),
        ({"min_calls": 1}, ["Much"]),
        ({"min_errors": 1}, ["Failed", "Much"]),
        ({"max_errors": 0}, ["Little"]),
        ({"min_tokens": 101, "max_cost": 0.001}, ["Failed"]),
        ({"min_duration_ms": 6.5}, ["Much"]),
        (
            {"min_duration_ms": "x", "max_turns": "-1", "min_cost": "nan", "max_tokens": "1e400"},
            ["Failed", "Much", "Little"],
        ),
    ],
)
def test_threads_are_found_by_what_they_came_to(query, found, admin, three):
    book()
    assert titles(page(admin, listing("thread", **query))) == found


def test_runs_are_found_by_what_they_came_to(admin, three):
    book()
    assert titles(page(admin, listing("run", min_calls=2))) == ["Much"]
    assert titles(page(admin, listing("run", min_errors=1, max_tokens=300))) == ["Failed"]
    assert titles(page(admin, listing("run", min_duration_ms=4.9, state="finished"))) == ["Much"]


def test_threads_are_found_by_the_tools_they_called(admin, three):
    ToolCall.objects.filter(run__thread=three[1], call_id="c2").update(name="send_email")
    ToolCall.objects.create(run=three[0].runs.get(), call_id="c", name="look", state="done")
    assert titles(page(admin, listing("thread", tool="look"))) == ["Much", "Little"]
    assert titles(page(admin, listing("thread", tool="send_email"))) == ["Much"]
    assert not titles(page(admin, listing("thread", tool="no_such_tool")))


def test_what_is_not_counted_yet_is_shown_as_it_is(admin, three):
    cells = re.findall(
        r'class="field-(turns|tools|failures|tokens)[^"]*">(?:<a[^>]*>)?([^<]*)',
        page(admin, listing("thread")),
    )
    assert [value for _name, value in cells[4:8]] == ["7", "–", "–", "700"]
    cells = re.findall(
        r'class="field-(tools|failures)[^"]*">(?:<a[^>]*>)?([^<]*)', page(admin, listing("run"))
    )
    assert ("tools", "3") in cells
    assert ("failures", "1") in cells


def test_lists_and_filters_say_it_in_words(admin, three):
    for model in ("thread", "run"):
        text = page(admin, listing(model))
        table, sidebar = text.split('id="changelist-filter"')
        for words in ("finished", "answered", "failed", "error of the model&#x27;s service"):
            assert words in table
            assert words in sidebar
        shown = re.sub(r"<[^>]*>", " ", text)
        assert "provider_error" not in shown
    calls = page(admin, listing("toolcall"))
    assert ">done<" in calls
    assert "outcome unknown" in calls


def test_every_state_and_every_known_end_has_its_words():
    assert set(naming.RUN_STATES) == set(Run.State.values)
    assert set(naming.CALL_STATES) == set(ToolCall.State.values)
    from chatsite.chat.render import words

    assert set(words.END_WORDS) <= set(naming.STOP_REASONS)
    assert set(words.ERROR_WORDS) <= set(naming.RUN_ERRORS)
    assert naming.called(naming.STOP_REASONS, "of_a_middleware") == "of_a_middleware"
    assert naming.called(naming.STOP_REASONS, "") == "–"


def test_rows_from_before_are_counted_by_the_migration(three):
    Run.objects.update(booked=True)
    migration = import_module("chatsite.chat.migrations.0018_count_figures")
    migration.count_runs(apps, None)
    migration.count_threads(apps, None)
    counted = [figures_of(thread) for thread in three]
    Run.objects.update(booked=False)
    ToolCall.objects.update(booked=False)
    book()
    assert [figures_of(thread) for thread in three] == counted
    assert counted[1][:3] == (7, 4, 1)
