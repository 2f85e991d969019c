"""Limits on connections of their own: nobody waits in a circle, whoever counts, ends and renews at the same time."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import timedelta
from decimal import Decimal

import pytest
from django.db import connection, transaction

from chatsite.policies.models import Reservation, Used
from chatsite.policies.quotas import Account, Amount, admit, go_on, renew, settle
from chatsite.policies.values import Limits
from tests.site.processes import wait_until

pytestmark = pytest.mark.django_db(transaction=True)

NEED = Amount(100, Decimal("0.1"))
HOUR = timedelta(hours=1)
Start = Callable[[Callable[[], object]], "Future[None]"]


@pytest.fixture
def start() -> Iterator[Start]:
    """Runs a job at the side, in a transaction on a connection of its own."""

    def committed(job: Callable[[], object]) -> None:
        try:
            with transaction.atomic():
                job()
        finally:
            connection.close()

    with ThreadPoolExecutor(4) as threads:
        yield lambda job: threads.submit(committed, job)


def of(subject: str) -> Account:
    return Account(subject, Limits(tokens_per_day=10**9))


def tokens(subject: str) -> int:
    return Used.objects.get(subject=subject, span="day").tokens


def those_waiting() -> int:
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(DISTINCT pid) FROM pg_locks WHERE NOT granted")
        return int(cursor.fetchone()[0])


@pytest.mark.skipif(connection.vendor == "sqlite", reason="SQLite has one writer, and nobody to wait for")
def test_who_goes_on_who_ends_and_who_renews_do_not_wait_in_a_circle(start: Start):
    """One goes on and waits for the person's row, as does one that ends behind it; somebody renews them both."""
    account = of("user:1")
    with transaction.atomic():
        for holder in ("goes on", "ends"):
            admit([account], holder, NEED)
    with transaction.atomic():
        list(Used.objects.select_for_update())
        going_on = start(lambda: go_on([account], "goes on", Amount(30), NEED))
        wait_until(lambda: those_waiting() == 1, "the first wait")
        ending = start(lambda: settle("ends", Amount(50)))
        wait_until(lambda: those_waiting() == 2, "the second wait")
        start(lambda: renew(["goes on", "ends"], HOUR)).result(timeout=60)
    going_on.result(timeout=60)
    ending.result(timeout=60)
    assert tokens("user:1") == 80


def test_many_who_share_people_and_groups_all_get_through(start: Start):
    subjects = [f"{kind}:{number}" for kind in ("user", "group") for number in range(3)]

    def work(chance: random.Random) -> Counter[str]:
        booked: Counter[str] = Counter()
        for _ in range(20):
            mine, holder = [of(subject) for subject in chance.sample(subjects, 3)], str(chance.random())
            with transaction.atomic():
                assert admit(mine, holder, NEED) is None
            renew(list(Reservation.objects.values_list("holder", flat=True)), HOUR)
            with transaction.atomic():
                go_on(mine, holder, Amount(10), NEED)
            with transaction.atomic():
                settle(holder, Amount(25))
            booked.update({account.subject: 25 for account in mine})
        connection.close()
        return booked

    with ThreadPoolExecutor(3) as threads:
        booked = sum(threads.map(work, map(random.Random, range(3)), timeout=100), Counter())
    assert {subject: tokens(subject) for subject in subjects} == booked
    assert not Reservation.objects.exists()
