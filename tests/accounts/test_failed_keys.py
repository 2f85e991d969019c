"""The count of wrong keys: by address, for a minute, and never without bounds."""

from __future__ import annotations

import pytest

from chatsite.accounts import failed_keys


@pytest.fixture
def clock(monkeypatch):
    class Clock:
        now = 1000.0

        def monotonic(self) -> float:
            return self.now

    clock = Clock()
    monkeypatch.setattr(failed_keys, "time", clock)
    return clock


def test_so_many_a_minute_and_no_more(clock):
    for _ in range(failed_keys.MOST):
        assert failed_keys.wait("a") == 0
        failed_keys.failed("a")
    clock.now += 0.5
    assert failed_keys.wait("a") == 60
    assert failed_keys.wait("b") == 0
    clock.now += 60
    assert failed_keys.wait("a") == 0
    failed_keys.failed("a")
    assert failed_keys.wait("a") == 0


def test_addresses_that_are_many_are_forgotten_oldest_first(clock, monkeypatch):
    monkeypatch.setattr(failed_keys, "MOST_ADDRESSES", 3)
    for address in "abcd":
        failed_keys.failed(address)
    assert list(failed_keys._seen) == ["b", "c", "d"]
