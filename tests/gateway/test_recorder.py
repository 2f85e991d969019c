"""Exchanges are written off the path of requests, in batches, and what a key has used is never lost."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from decimal import Decimal

import pytest
from django.db import OperationalError, connection

from agent.messages import Usage
from chatsite.accounts import keys
from chatsite.accounts.models import ApiKey
from chatsite.gateway import recorder as module
from chatsite.gateway import rows as written
from chatsite.gateway.models import Exchange, Round
from chatsite.gateway.recorder import Recorder, recorder
from chatsite.gateway.records import ExchangeRecord, RoundRecord

USAGE = Usage(1000, 200, 50, 400, 100)


@pytest.fixture(autouse=True)
def _prices(settings):
    settings.MODEL_PRICES = {"fox-1": (1.0, 10.0)}


def exchange(key: ApiKey | None = None, **changes) -> ExchangeRecord:
    first = RoundRecord(
        endpoint="main", model="fox-1", dialect="openai", status=200, ms=90, stop_reason="tool_calls", usage=USAGE,
        request=b'{"model": "fox-1", "messages": []}', response=b'{"choices": []}',
    )  # fmt: skip
    second = RoundRecord(
        endpoint="main", model="fox-1", dialect="openai", depth=1, asked_by="Weather", status=200, ms=60,
        stop_reason="stop", usage=USAGE, request={"model": "fox-1"}, response="data: [DONE]\n\n",
    )  # fmt: skip
    facts = {
        "request_id": "req-1", "key_pk": key and key.pk, "user_id": key and key.user_id, "keep": "full",
        "dialect": "openai", "model": "fox", "stream": True, "status": 200, "ms": 160, "first_byte_ms": 20,
        "rounds": [first, second], "request": b'{"model": "fox"}', "response": b'{"id": "x"}',
    }  # fmt: skip
    return ExchangeRecord(**facts | changes)


def test_an_exchange_is_a_row_with_its_rounds_and_their_sums(key_row):
    record = exchange(key_row)
    recorder.note(record)
    assert recorder.flush()
    row = Exchange.objects.get()
    assert (row.public_id, row.request_id, row.key, row.user_id) == (
        record.id,
        "req-1",
        key_row,
        key_row.user_id,
    )
    assert (row.dialect, row.model, row.stream, row.status, row.ms, row.first_byte_ms) == (
        "openai", "fox", True, 200, 160, 20,
    )  # fmt: skip
    assert (row.input_tokens, row.output_tokens, row.reasoning_tokens, row.cached_input_tokens) == (
        2000, 400, 100, 800,
    )  # fmt: skip
    assert row.cost == Decimal("0.006")
    assert (row.request, row.response) == ('{"model":"fox"}', '{"id":"x"}')
    first, second = row.rounds.order_by("number")
    assert (first.number, first.depth, first.asked_by, first.stop_reason) == (1, 0, "", "tool_calls")
    assert (second.number, second.depth, second.asked_by, second.stop_reason) == (2, 1, "Weather", "stop")
    assert (first.request, first.response) == ('{"model":"fox-1","messages":[]}', '{"choices":[]}')
    assert second.response == "data: [DONE]\n\n"
    assert first.cost + second.cost == row.cost


@pytest.mark.parametrize(
    ("keep", "count", "content"), [("off", 0, None), ("metadata", 1, ""), ("full", 1, "{")]
)
def test_a_key_decides_what_is_kept_and_its_use_is_booked_all_the_same(key_row, keep, count, content):
    recorder.note(exchange(key_row, keep=keep))
    assert recorder.flush()
    assert Exchange.objects.count() == count
    for row in (*Exchange.objects.all(), *Round.objects.filter(number=1)):
        assert row.request[:1] == content
        assert row.response[:1] == content
    key_row.refresh_from_db()
    assert (key_row.requests, key_row.input_tokens, key_row.output_tokens) == (1, 2000, 400)
    assert key_row.spent == key_row.spent_this_month == Decimal("0.006")


def test_a_month_that_is_over_is_not_added_to(key_row):
    ApiKey.objects.update(spent=10, spent_this_month=10, month="2020-01")
    recorder.note(exchange(key_row))
    recorder.note(exchange(key_row))
    assert recorder.flush()
    key_row.refresh_from_db()
    assert (key_row.spent, key_row.spent_this_month) == (Decimal("10.012"), Decimal("0.012"))


def test_a_model_without_a_price_has_no_cost(key_row, settings):
    settings.MODEL_PRICES = {"other": (1.0, 1.0)}
    recorder.note(exchange(key_row))
    assert recorder.flush()
    assert Exchange.objects.get().cost is None
    key_row.refresh_from_db()
    assert (key_row.spent, key_row.input_tokens) == (0, 2000)


def test_the_price_may_stand_under_the_public_name(key_row, settings):
    settings.MODEL_PRICES = {"fox": (1.0, 10.0)}
    recorder.note(exchange(key_row))
    assert recorder.flush()
    assert Exchange.objects.get().cost == Decimal("0.006")


def test_a_key_and_user_that_are_gone_lose_no_other_exchange(key_row, person):
    gone = exchange(key_row, request_id="gone")
    person.delete()
    recorder.note(gone)
    recorder.note(exchange(None, request_id="stays"))
    assert recorder.flush()
    assert list(Exchange.objects.values_list("request_id", flat=True)) == ["stays"]


def test_names_of_any_length_and_content_are_no_reason_to_lose_a_record(key_row):
    recorder.note(
        exchange(key_row, request_id="r" * 5000, model="m\0\ud800" * 500, error_code="e" * 500, ms=10**15)
    )
    assert recorder.flush()
    assert Exchange.objects.get().request_id == "r" * 200


def test_five_hundred_exchanges_are_few_commits(key_row, monkeypatch):
    commits = []
    commit = module._commit
    monkeypatch.setattr(
        module, "_commit", lambda records, *sums: (commits.append(len(records)), commit(records, *sums))
    )
    for _ in range(500):
        recorder.note(exchange(key_row))
    assert recorder.flush(30)
    assert Exchange.objects.count() == 500
    assert len(commits) < 50


def test_what_fills_a_whole_commit_does_not_wait_for_more(key_row, monkeypatch):
    begun, held = threading.Event(), threading.Event()
    commit, sizes = module._commit, []

    def held_commit(records, *sums):
        sizes.append(len(records))
        begun.set()
        held.wait(20)
        commit(records, *sums)

    monkeypatch.setattr(module, "_commit", held_commit)
    monkeypatch.setattr(module, "MOST_IN_ONE_COMMIT", 5)
    monkeypatch.setattr(module, "EVERY", 0.001)
    own = Recorder()
    own.note(exchange(key_row))
    assert begun.wait(20)
    monkeypatch.setattr(module, "EVERY", 3600)
    for _ in range(12):
        own.note(exchange(key_row))
    held.set()
    deadline = time.monotonic() + 20
    while Exchange.objects.count() < 11 and time.monotonic() < deadline:
        time.sleep(0.01)
    assert (sizes, Exchange.objects.count()) == ([1, 5, 5], 11)
    assert own.flush()  # the last two wait for more, and for nobody who is in a hurry
    assert Exchange.objects.count() == 13


def test_a_request_that_ends_while_another_is_noted_is_noted_too(key_row, monkeypatch):
    """As where the collector of memory lets go of one that nobody waits for any more."""
    own, late = Recorder(), [exchange(key_row, request_id="late")]
    count = module._count

    def counted(figures, record):
        count(figures, record)
        if late:
            own.note(late.pop())

    monkeypatch.setattr(module, "_count", counted)
    noting = threading.Thread(target=own.note, args=[exchange(key_row, request_id="first")], daemon=True)
    noting.start()
    noting.join(20)
    assert not noting.is_alive()
    assert own.flush()
    assert sorted(Exchange.objects.values_list("request_id", flat=True)) == ["first", "late"]


@pytest.mark.parametrize(
    ("model", "names"), [(Exchange, written.EXCHANGE), (Round, ("exchange", *written.ROUND))]
)
def test_no_column_of_a_record_is_forgotten(model, names):
    assert sorted(names) == sorted(
        field.name for field in model._meta.concrete_fields if not field.primary_key
    )


def test_a_database_that_is_away_is_tried_again_and_nothing_is_booked_twice(key_row, monkeypatch):
    commit, failures = module._commit, iter(range(3))

    def away(*what):
        if next(failures, None) is not None:
            raise OperationalError("connection refused")
        commit(*what)

    monkeypatch.setattr(module, "_commit", away)
    monkeypatch.setattr(module, "RETRY_AFTER", 0.01)
    recorder.note(exchange(key_row))
    recorder.note(exchange(key_row))
    assert recorder.flush()
    assert Exchange.objects.count() == 2
    key_row.refresh_from_db()
    assert key_row.requests == 2


def test_flush_says_so_when_the_database_stays_away(rows, monkeypatch):
    def away(*what):
        raise OperationalError("connection refused")

    own = Recorder()
    monkeypatch.setattr(module, "_commit", away)
    own.note(exchange())
    assert not own.flush(0.2)
    monkeypatch.undo()
    assert own.flush()
    assert Exchange.objects.count() == 1


def test_memory_is_bounded_and_what_is_dropped_is_counted_while_the_sums_stay(key_row, monkeypatch):
    held = threading.Event()
    commit = module._commit
    monkeypatch.setattr(module, "_commit", lambda *what: (held.wait(20), commit(*what)))
    monkeypatch.setattr(module, "MOST_WAITING", 5)
    monkeypatch.setattr(module, "MOST_BYTES", 100_000)
    own = Recorder()
    for _ in range(20):
        own.note(exchange(key_row, request=b" " * 40_000))
    assert own.dropped >= 20 - 5 - 5
    assert own.without_content >= 2
    held.set()
    assert own.flush()
    assert Exchange.objects.count() == 20 - own.dropped
    key_row.refresh_from_db()
    assert key_row.requests == 20


def test_noting_costs_little(key_row):
    def cost_of_one() -> float:
        records = [exchange(key_row) for _ in range(100)]
        began = time.thread_time()
        for record in records:
            recorder.note(record)
        return (time.thread_time() - began) / len(records)

    assert min(cost_of_one() for _ in range(10)) < 0.001
    assert recorder.flush(60)


LAST_WORDS = """
import django
django.setup()
from chatsite.gateway.records import ExchangeRecord
from chatsite.gateway.recorder import recorder
recorder.note(ExchangeRecord(request_id="the last", keep="metadata"))
"""


def test_what_is_noted_last_is_written_when_the_process_ends(rows):
    database = connection.settings_dict
    if database["ENGINE"].endswith("sqlite3"):
        address = f"sqlite:////{database['NAME']}"
    else:
        address = f"postgres://{database['USER']}@{database['HOST']}:{database['PORT']}/{database['NAME']}"
    environment = {**os.environ, "DATABASE_URL": address, "DJANGO_SETTINGS_MODULE": "tests.settings"}
    subprocess.run([sys.executable, "-c", LAST_WORDS], env=environment, check=True, timeout=110)
    assert Exchange.objects.get().request_id == "the last"


def test_the_budget_sees_what_was_booked(person):
    key = keys.new_api_key(person, budget=Decimal(1))
    recorder.note(exchange(ApiKey.objects.get()))
    assert recorder.flush()
    assert keys.look_up(key).spent == Decimal("0.006")
