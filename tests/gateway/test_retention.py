"""What is too old goes, a little at a time."""

from __future__ import annotations

import time
from datetime import timedelta

import pytest
from django.utils import timezone

from chatsite.gateway import recorder as module
from chatsite.gateway import retention
from chatsite.gateway.models import Exchange, ExchangeCall, Round
from chatsite.gateway.recorder import Recorder
from chatsite.gateway.records import ExchangeRecord, RoundRecord
from chatsite.gateway.rows import insert


def old(days: float, count: int = 1) -> None:
    at = timezone.now() - timedelta(days=days)
    insert(
        [
            ExchangeRecord(request_id=f"{days} days", started_at=at, rounds=[RoundRecord(endpoint="e")])
            for _ in range(count)
        ]
    )
    ExchangeCall.objects.create(exchange_id=f"e{days}", call_id="c", name="t", claimed_at=at, state="done")


def test_exchanges_rounds_and_calls_go_when_they_are_too_old(rows, settings):
    settings.GATEWAY_KEEP_DAYS = 2.5
    old(1)
    old(3)
    assert retention.prune() == 1
    assert [row.request_id for row in Exchange.objects.all()] == ["1 days"]
    assert Round.objects.count() == 1
    assert [call.exchange_id for call in ExchangeCall.objects.all()] == ["e1"]


def test_the_oldest_go_first_and_not_all_at_once(rows, monkeypatch):
    monkeypatch.setattr(retention, "AT_ONCE", 3)
    old(40, 2)
    old(50, 3)
    assert retention.prune() == 3
    assert {row.request_id for row in Exchange.objects.all()} == {"40 days"}
    assert retention.prune() == 2
    assert retention.prune() == 0


@pytest.mark.parametrize("days", [1e9, 36_500])
def test_no_number_of_days_is_too_many(rows, settings, days):
    settings.GATEWAY_KEEP_DAYS = days
    old(1)
    assert retention.prune() == 0


def test_the_recorder_does_it_in_passing_once_a_while(rows, monkeypatch):
    old(400, 7)
    monkeypatch.setattr(retention, "AT_ONCE", 3)
    looks = []
    look = module._look_after_rows
    monkeypatch.setattr(module, "_look_after_rows", lambda hurried: looks.append(look(hurried)))
    own = Recorder()
    own.note(ExchangeRecord(request_id="new"))
    until_gone = time.monotonic() + 20
    while Exchange.objects.count() != 1:
        assert time.monotonic() < until_gone
        time.sleep(0.01)
    own.note(ExchangeRecord(request_id="newer"))
    assert own.flush()
    assert len(looks) == 1
    assert {row.request_id for row in Exchange.objects.all()} == {"new", "newer"}


def test_nobody_who_waits_for_the_recorder_waits_for_that(rows, monkeypatch):
    old(400, 7)
    monkeypatch.setattr(retention, "AT_ONCE", 3)
    own = Recorder()
    own.note(ExchangeRecord(request_id="new"))
    assert own.flush()
    assert Exchange.objects.filter(request_id="new").exists()
    assert Exchange.objects.count() in {1, 2, 5}  # a look that had begun before may have gone on
