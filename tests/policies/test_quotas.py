"""Limits of people and groups: counted once, held for what is under way, exact over all processes."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest
from django.contrib.auth.models import User
from django.db import connection, transaction

from chatsite.accounts.keys import new_api_key, view_of
from chatsite.accounts.models import ApiKey
from chatsite.policies import quotas, words
from chatsite.policies.models import Reservation, Used
from chatsite.policies.quotas import Account, Amount, Over, account_of_key, admit, go_on, settle
from chatsite.policies.values import LIMITS, Limits

NEED = Amount(100, Decimal("0.1"))
NOON = datetime(2026, 11, 30, 12, 0, 30, tzinfo=UTC)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Callable[[datetime], None]:
    now = [NOON]
    monkeypatch.setattr(quotas.timezone, "now", lambda: now[0])

    def set_to(moment: datetime) -> None:
        now[0] = moment

    return set_to


def of(name: str = "user:1", group: str = "", **limits: object) -> Account:
    return Account(name, Limits(**limits), group)


def used(subject: str = "user:1", span: str = "day") -> Used:
    return Used.objects.get(subject=subject, span=span)


@pytest.mark.parametrize(
    ("limit", "most", "later"),
    [
        ("requests_per_minute", 2, NOON + timedelta(seconds=30)),
        ("requests_per_day", 2, datetime(2026, 12, 1, tzinfo=UTC)),
        ("tokens_per_day", 200, datetime(2026, 12, 1, tzinfo=UTC)),
        ("tokens_per_month", 200, datetime(2026, 12, 1, tzinfo=UTC)),
        ("cost_per_month", Decimal("0.2"), datetime(2026, 12, 1, tzinfo=UTC)),
    ],
)
def test_what_is_used_up_comes_back_with_the_next_window(db, clock, limit, most, later):
    account = of(**{limit: most})
    for holder in ("a", "b"):
        assert admit([account], holder, NEED) is None
        settle(holder, NEED)
    over = admit([account], "c", NEED)
    assert (over.limit, over.held) == (limit, False)
    assert over.retry_after(NOON) == (later - NOON).total_seconds()
    clock(later - timedelta(seconds=1))
    assert admit([account], "c", NEED) is not None
    clock(later)
    assert admit([account], "c", NEED) is None


def test_what_is_refused_is_not_counted(db, clock):
    account = of(requests_per_day=1)
    assert admit([account], "a", NEED) is None
    for _ in range(3):
        assert admit([account], "b", NEED) is not None
    assert used().requests == 1
    assert Reservation.objects.count() == 1


def test_runs_at_once_are_free_again_when_one_ends(db, clock):
    account = of(runs_at_once=2)
    assert [admit([account], holder, NEED) and "no" for holder in "abc"] == [None, None, "no"]
    settle("a", NEED)
    assert admit([account], "c", NEED) is None


def test_a_holder_that_died_holds_nothing_for_ever(db, clock):
    account = of(runs_at_once=1)
    assert admit([account], "a", NEED) is None
    clock(NOON + quotas.HELD_FOR - timedelta(seconds=1))
    assert admit([account], "b", NEED) is not None
    clock(NOON + quotas.HELD_FOR + timedelta(seconds=1))
    assert admit([account], "b", NEED) is None


def test_who_was_silent_for_too_long_pays_all_the_same(db, clock):
    """Nothing is held for it any more, and others may have taken its place: what it used in the end is used."""
    account = of(runs_at_once=1, tokens_per_day=1000)
    admit([account], "a", NEED)
    go_on([account], "a", Amount(30), NEED)
    clock(NOON + quotas.HELD_FOR + timedelta(seconds=1))
    assert admit([account], "b", NEED) is None
    for _ in range(2):
        settle("a", Amount(50))
    assert used().tokens == 50
    assert admit([account], "c", NEED).limit == "runs_at_once", "the one that took its place is still there"


def test_a_holder_without_an_end_leaves_no_row_for_ever(db, clock):
    account = of(runs_at_once=2)
    admit([account], "a", NEED)
    clock(NOON + quotas.HELD_FOR + quotas.FORGOTTEN_AFTER + timedelta(seconds=1))
    admit([account], "b", NEED)
    assert Reservation.objects.get().holder == "b"


def test_what_is_held_for_others_counts(db, clock):
    account = of(tokens_per_day=150)
    assert [admit([account], holder, NEED) for holder in "ab"] == [None, None]
    over = admit([account], "c", NEED)
    assert (over.limit, over.held, over.retry_after(NOON)) == ("tokens_per_day", True, quotas.SOON)
    settle("a", Amount(10))
    assert admit([account], "c", NEED) is None


def test_a_run_is_stopped_between_two_turns_by_what_it_used(db, clock):
    account = of(tokens_per_day=250)
    admit([account], "a", NEED)
    assert go_on([account], "a", Amount(120), NEED) is None
    over = go_on([account], "a", Amount(140), NEED)
    assert (over.name, over.held) == ("tokens_per_day", False)
    assert Reservation.objects.get().tokens == 0
    settle("a", Amount(260))
    assert (used().tokens, used().requests, Reservation.objects.count()) == (260, 1, 0)


def test_the_end_books_what_no_turn_has_booked_and_only_once(db, clock):
    account = of(cost_per_month=Decimal(9))
    admit([account], "a", NEED)
    go_on([account], "a", Amount(30, Decimal("0.25")), None)
    for _ in range(2):
        settle("a", Amount(50, Decimal("0.75")))
    month = used(span="month")
    assert (month.tokens, month.cost, month.requests) == (50, Decimal("0.75"), 1)


def test_a_run_that_goes_on_for_another_holds_and_books_too(db, clock):
    account = of(tokens_per_day=100)
    assert go_on([account], "b", Amount(30), NEED) is None
    settle("b", Amount(40))
    assert used().tokens == 40


def test_a_group_is_charged_beside_the_person_and_stops_them_by_name(db, clock):
    mine, team = of(tokens_per_day=1000), of("group:7", "team", tokens_per_day=100)
    admit([mine, team], "a", NEED)
    over = go_on([mine, team], "a", Amount(100), NEED)
    assert (over.name, over.account.group) == ("group_tokens_per_day", "team")
    assert used().tokens == used("group:7").tokens == 100
    assert "“team”" in words.said(over, NOON)


def test_money_of_a_key_is_in_its_own_books(db, clock):
    new_api_key(User.objects.create_user("ada"), budget=Decimal(5))
    row = ApiKey.objects.get()
    ApiKey.objects.update(spent=Decimal("4.95"))
    key = account_of_key(view_of(row))
    assert admit([key], "a", NEED) is None
    over = admit([key], "b", NEED)
    assert (over.name, over.held) == ("key_cost", True)
    assert go_on([key], "a", Amount(10, Decimal("0.05")), NEED).held is False
    settle("a", Amount(10, Decimal("0.05"), output=4))
    row.refresh_from_db()
    assert (row.spent, row.requests, row.input_tokens, row.output_tokens) == (Decimal(5), 1, 6, 4)
    assert admit([key], "b", NEED).held is False


def test_a_key_without_limits_has_no_account(db):
    new_api_key(User.objects.create_user("ada"))
    assert account_of_key(view_of(ApiKey.objects.get())) is None


def test_a_clock_that_is_behind_begins_no_window_anew(db, clock):
    account = of(tokens_per_day=100)
    clock(datetime(2026, 12, 1, tzinfo=UTC))
    admit([account], "a", NEED)
    settle("a", Amount(100))
    clock(datetime(2026, 11, 30, 23, 59, 59, tzinfo=UTC))
    assert admit([account], "b", NEED) is not None


@pytest.mark.parametrize("group", ["", "team"])
@pytest.mark.parametrize("limit", LIMITS)
def test_each_limit_says_in_words_whose_it_is_and_when_it_comes_back(limit, group):
    account = of("group:7" if group else "user:1", group, **{limit: 5})
    said = words.said(Over(limit, account), NOON)
    assert ("“team”" in said) == bool(group)
    when = {"minute": "30 s", "day": "00:00 UTC", "month": "1 December (UTC)"}
    assert when.get(limit.rpartition("_")[2], "") in said
    assert "%" not in said


@pytest.mark.parametrize(("account", "limit"), [("user:1", "tokens_per_day"), ("group:7", "cost_per_month")])
def test_each_limit_that_stops_a_run_has_words_for_its_end(account, limit):
    assert words.STOPPED[Over(limit, of(account)).name]


@pytest.mark.django_db(transaction=True)
def test_of_many_that_begin_at_once_over_connections_of_their_own_only_so_many_get_in():
    account, admitted, barrier = of(runs_at_once=3, requests_per_minute=50), [], threading.Barrier(8)

    def begin(name: str) -> None:
        try:
            barrier.wait(timeout=60)
            with transaction.atomic():
                over = admit([account, of("group:1", "team", requests_per_day=9)], name, NEED)
            if over is None:
                admitted.append(name)
        finally:
            connection.close()

    threads = [threading.Thread(target=begin, args=(f"h{n}",)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
    assert len(admitted) == 3
    assert (used(span="day").requests, used("group:1").requests, Reservation.objects.count()) == (3, 3, 6)
