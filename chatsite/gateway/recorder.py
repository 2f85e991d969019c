"""Writes exchanges in batches, off the path of requests.

Rule 1: `note` costs microseconds and never waits: it puts a value into a queue.
Rule 2: one thread writes what has come, a transaction at a time: every `EVERY` seconds, or at once where a whole
        batch waits. Only the first exchange after none wakes it.
Rule 3: memory is bounded. Over `MOST_BYTES` new exchanges lose their content, over `MOST_WAITING` they are not kept;
        both are counted and logged. What a key has used is never dropped: sums wait apart, one for each key.
Rule 4: a database that is away is tried again; an exchange that it refuses is logged and left out.
"""

from __future__ import annotations

import atexit
import logging
import threading
import time
from collections import defaultdict, deque
from collections.abc import Callable
from decimal import Decimal

from django.db import DatabaseError, InterfaceError, OperationalError, connection, transaction

from chatsite.accounts import usage
from chatsite.accounts.usage import Used
from chatsite.gateway import ledger, retention, rows, watched
from chatsite.gateway.records import ExchangeRecord, RoundRecord
from chatsite.usage.booking import book
from chatsite.usage.tally import Tally, Use

log = logging.getLogger(__name__)

EVERY = 0.25
MOST_IN_ONE_COMMIT = 200
MOST_WAITING = 20_000
MOST_BYTES = 64 * 1024 * 1024
RETRY_AFTER = 2.0
"""Seconds until a database that did not answer is asked again."""
AT_MOST_EVERY = 60.0
"""Seconds between two lines of the log about one thing, and between two looks at older rows."""
LEFT = 499
"""The status of one whose caller had left: that is nobody's error."""
MOST_PRUNINGS = 200
"""Of one look: more than can have been written since the last one."""


class Recorder:
    """One for a process (`recorder`). Its thread starts with the first exchange."""

    def __init__(self) -> None:
        self.dropped = 0
        self.without_content = 0
        self._waiting: deque[ExchangeRecord] = deque()
        self._bytes = 0
        self._sums: defaultdict[int, Used] = defaultdict(Used)
        self._figures = Tally()
        self._busy = False
        self._hurried = False
        # Its holder may take it again: where memory is collected, requests that were let go of end, and are noted.
        self._lock = threading.RLock()
        self._came = threading.Condition(self._lock)
        """Told when there is work, after there was none."""
        self._turned = threading.Condition(self._lock)
        """Told when a batch is written, and when somebody is in a hurry."""
        self._thread: threading.Thread | None = None
        self._next: defaultdict[str, float] = defaultdict(float)
        self._told = (0, 0)

    def note(self, record: ExchangeRecord) -> None:
        """Keep it, as its `keep` says, and book what it used. From here on it is the recorder's."""
        record.complete()
        watched.ended(record)
        with self._lock:
            was_idle = not self._has_work()
            _count(self._figures, record)
            if record.key_pk is not None:
                self._sums[record.key_pk] += _used(record)
            if record.keep != "off":
                self._queue(record)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="gateway-recorder", daemon=True)
                self._thread.start()
            if was_idle:
                self._came.notify()

    def flush(self, seconds: float = 10.0) -> bool:
        """Wait until everything noted so far is written. False when the database would not have it in that time."""
        with self._lock:
            self._hurried = True
            self._turned.notify_all()
            done = self._turned.wait_for(lambda: not (self._busy or self._has_work()), seconds)
            self._hurried = False
            return done

    def _queue(self, record: ExchangeRecord) -> None:
        if len(self._waiting) >= MOST_WAITING:
            self.dropped += 1
            return
        if record.keep != "full":
            record.forget_content()
        elif self._bytes + record.content_bytes > MOST_BYTES:
            self.without_content += 1
            record.forget_content()
        self._bytes += record.content_bytes
        self._waiting.append(record)

    def _has_work(self) -> bool:
        return bool(self._waiting or self._sums or self._figures)

    # -- in the thread ---------------------------------------------------------------------------------------

    def _run(self) -> None:
        while True:
            with self._lock:
                self._came.wait_for(self._has_work)
                if len(self._waiting) < MOST_IN_ONE_COMMIT:
                    self._pause(EVERY)  # what comes meanwhile is part of the same commit
                records, sums, figures = self._take()
            written = self._write(records, sums, figures)
            if written and self._is_time("upkeep"):
                _look_after_rows(lambda: self._hurried)
            with self._lock:
                self._busy = False
                if not written:
                    self._put_back(records, sums, figures)
                    self._pause(RETRY_AFTER)
                self._turned.notify_all()
            self._tell_of_losses()

    def _pause(self, seconds: float) -> None:
        """Let the others go on for so long, or until somebody waits in `flush`."""
        if self._hurried:
            self._turned.wait_for(lambda: not self._hurried, min(seconds, 0.02))
        else:
            self._turned.wait_for(lambda: self._hurried, seconds)

    def _take(self) -> tuple[list[ExchangeRecord], dict[int, Used], Tally]:
        count = min(len(self._waiting), MOST_IN_ONE_COMMIT)
        records = [self._waiting.popleft() for _ in range(count)]
        self._bytes -= sum(record.content_bytes for record in records)
        sums, self._sums = dict(self._sums), defaultdict(Used)
        figures, self._figures = self._figures, Tally()
        self._busy = True
        return records, sums, figures

    def _put_back(self, records: list[ExchangeRecord], sums: dict[int, Used], figures: Tally) -> None:
        self._waiting.extendleft(reversed(records))
        self._bytes += sum(record.content_bytes for record in records)
        for pk, used in sums.items():
            self._sums[pk] += used
        self._figures.merge(figures)

    def _write(self, records: list[ExchangeRecord], sums: dict[int, Used], figures: Tally) -> bool:
        """Whether the database had it. What it refuses for good counts as had, and is logged."""
        try:
            _commit(records, sums, figures)
        except (OperationalError, InterfaceError) as error:
            if self._is_time("away"):
                log.warning("The gateway's records wait, since the database does not take them: %s", error)
            return False
        except Exception:  # whatever it was, the thread must live to write what comes next
            log.exception("%d records of the gateway could not be written, and are lost", len(records))
        finally:
            connection.close()
        return True

    def _tell_of_losses(self) -> None:
        losses = (self.dropped, self.without_content)
        if losses != self._told and self._is_time("losses"):
            log.warning("Too much at once: %d exchanges were not kept, %d without their content", *losses)
            self._told = losses

    def _is_time(self, what: str) -> bool:
        if time.monotonic() < self._next[what]:
            return False
        self._next[what] = time.monotonic() + AT_MOST_EVERY
        return True


def _look_after_rows(hurried: Callable[[], bool]) -> None:
    """What is too old goes, as much as one look allows; calls that nobody settles are called unknown."""
    try:
        if lost := ledger.settle_lost():
            log.warning("%d tool calls had begun, and nobody knows how they ended", lost)
        for _ in range(MOST_PRUNINGS):
            if retention.prune() < retention.AT_ONCE or hurried():
                break
        while not hurried() and retention.prune_by_policy():
            pass
    except DatabaseError as error:
        log.warning("The gateway's older records could not be looked through: %s", error)
    finally:
        connection.close()


def _used(record: ExchangeRecord) -> Used:
    return Used(1, record.usage.input_tokens, record.usage.output_tokens, record.cost or Decimal(0))


def _count(figures: Tally, record: ExchangeRecord) -> None:
    """Into the figures of its day, whatever its key keeps."""
    use = Use(
        day=record.started_at.date(),
        source="gateway",
        error=record.status >= 400 and record.status != LEFT,
        input_tokens=record.usage.input_tokens,
        output_tokens=record.usage.output_tokens,
        cost=float(record.cost or 0),
        ms=record.ms,
    )
    # A name that no endpoint was asked for is whatever a caller wrote.
    model = record.model if record.rounds else ""
    end = record.error_code or ("left" if record.status == LEFT else "answered")
    endpoints = {each.endpoint for each in record.rounds}
    only = endpoints.pop() if len(endpoints) == 1 else ""
    figures.add(use, model=model, user=record.user_id, end=end, endpoint=only)
    for name in endpoints:
        figures.add_endpoint(_part(use, [each for each in record.rounds if each.endpoint == name]), name)


def _part(whole: Use, rounds: list[RoundRecord]) -> Use:
    """What one endpoint had of a request: it failed where all that it was asked did."""
    return whole._replace(
        error=all(each.error_code or each.status >= 400 for each in rounds),
        input_tokens=sum(each.usage.input_tokens for each in rounds),
        output_tokens=sum(each.usage.output_tokens for each in rounds),
        cost=float(sum(each.cost or 0 for each in rounds)),
        ms=sum(each.ms for each in rounds),
    )


def _commit(records: list[ExchangeRecord], sums: dict[int, Used], figures: Tally) -> None:
    """All in one transaction; when a record does not fit, each alone, so that one's fault is no other's."""
    try:
        with transaction.atomic():
            rows.insert(records)
            usage.book(sums)
            book(figures)
        return
    except (OperationalError, InterfaceError):
        raise
    except Exception as error:  # of a record's content; which one is at fault shows below
        log.info("A batch of the gateway's records is written one by one: %s", error)
    with transaction.atomic():
        usage.book(sums)
        book(figures)
    for record in records:
        try:
            with transaction.atomic():
                rows.insert([record])
        except Exception:  # the sums are booked: nothing may ask for this batch again
            log.exception("The exchange %s could not be kept", record.request_id)


recorder = Recorder()


@atexit.register
def _at_exit() -> None:
    # No server tells us in time that it ends: daphne leaves without `finally`. Whatever can still be written, is.
    if not recorder.flush(5.0):
        log.warning("The gateway's last records could not be written")
