"""How often somebody may try to come in, at every door where there is something to guess.

Rule 1: an attempt is counted before it is made, and taken back when it leads on: of many at once none slips through,
        and nobody is locked out by being right.
Rule 2: counts are rows of the database, so a restart does not forget them and all processes share them.
Rule 3: a refusal costs one read, and is the same whether there is such an account or not.
Rule 4: whom a count is about is kept as a keyed hash.

Limits hold for an address and, more tightly, for what is being guessed at (an account).
"""

from __future__ import annotations

import random
import time
from dataclasses import dataclass

from django.db import connection
from django.utils.crypto import salted_hmac

from chatsite.accounts.models import Attempts


@dataclass(frozen=True, slots=True)
class Limit:
    most: int
    seconds: int


@dataclass(frozen=True, slots=True)
class Door:
    address: Limit
    account: Limit | None = None


QUARTER, HOUR = 15 * 60, 3600

DOORS = {
    "login": Door(Limit(30, QUARTER), Limit(10, QUARTER)),
    "code": Door(Limit(30, QUARTER), Limit(8, QUARTER)),
    "again": Door(Limit(30, QUARTER), Limit(10, QUARTER)),
    "passkey": Door(Limit(30, QUARTER)),
    "reset": Door(Limit(20, HOUR), Limit(4, HOUR)),
    "mail": Door(Limit(30, HOUR), Limit(10, HOUR)),
    "link": Door(Limit(40, QUARTER)),
    "signup": Door(Limit(20, HOUR)),
    "setup": Door(Limit(20, QUARTER)),
    "invitation": Door(Limit(20, QUARTER)),
    "oidc": Door(Limit(40, QUARTER)),
}
"""Door -> what it bears. `code` is a second factor's, `again` a password before something is changed."""

TIDY_EACH = 200

COUNT = """
INSERT INTO accounts_attempts (who, tries, until) VALUES (%s, 1, %s)
ON CONFLICT (who) DO UPDATE SET
  tries = CASE WHEN accounts_attempts.until <= %s THEN 1 ELSE accounts_attempts.tries + 1 END,
  until = CASE WHEN accounts_attempts.until <= %s THEN excluded.until ELSE accounts_attempts.until END
RETURNING tries, until
"""
# In SQL, as one statement: of two attempts at the same moment both count.

TAKE_BACK = "UPDATE accounts_attempts SET tries = tries - 1 WHERE who = %s AND tries > 0 AND until > %s"


class TooMany(Exception):
    """No further attempt for now."""

    def __init__(self, seconds: int) -> None:
        super().__init__(f"too many attempts; again in {seconds} s")
        self.seconds = seconds


class Attempt:
    """One that was counted."""

    def __init__(self, counted: list[str]) -> None:
        self._counted = counted

    def led_on(self) -> None:
        """It was right, so it is no attempt."""
        with connection.cursor() as cursor:
            for who in self._counted:
                cursor.execute(TAKE_BACK, [who, int(time.time())])


def knock(door: str, address: str, account: str = "") -> Attempt:
    """Count an attempt. Raises TooMany; then nothing was counted further."""
    limits = [(f"{door}:address:{address}", DOORS[door].address)]
    if account and (limit := DOORS[door].account):
        limits.append((f"{door}:account:{account.strip().lower()}", limit))
    hashed = [(salted_hmac(__name__, who).hexdigest(), limit) for who, limit in limits]
    now = int(time.time())
    full = Attempts.objects.filter(who__in=[who for who, _ in hashed], until__gt=now)
    known = {row.who: row for row in full}
    for who, limit in hashed:
        if (row := known.get(who)) and row.tries >= limit.most:
            raise TooMany(row.until - now)
    for who, limit in hashed:
        tries, until = _count(who, now, limit.seconds)
        if tries > limit.most:
            raise TooMany(until - now)
    return Attempt([who for who, _ in hashed])


def _count(who: str, now: int, seconds: int) -> tuple[int, int]:
    if random.randrange(TIDY_EACH) == 0:
        Attempts.objects.filter(until__lte=now).delete()
    with connection.cursor() as cursor:
        cursor.execute(COUNT, [who, now + seconds, now, now])
        tries, until = cursor.fetchone()
    return tries, until
