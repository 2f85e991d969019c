"""How much of their limits people and groups have used, held in a run and not only before the next.

    admit(accounts, holder, need)          a request begins: it is counted, and `need` is held for its first turn
    go_on(accounts, holder, used, need)    a turn has ended, another is wanted (need None: none)
    settle(holder, total)                  it is over: the rest is booked, nothing is held any more

    over(accounts)                         whether something small may be done beside: no request, nothing is held
    book(accounts, used)                   what that used

Rule 1: of N that begin at once each sees what the others hold, so that together they pass a limit by one turn and not
by N. A turn may begin while less than the limit is used and held: the last one may go over it, none begins behind it.
Rule 2: exact over all processes. Whoever decides holds the rows of its subjects until the transaction ends; the caller
holds the transaction.
Rule 3: no two wait for each other. Rows are taken in one order, a holder's own reservations, then the windows of its
subjects in theirs, then a key; a reservation of another holder is never waited for.
Rule 4: what was used is booked, also of a holder that was silent for so long that nothing was held for it any more.
Rule 5: an account counts from its first limit on; nobody else costs a query.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal

from django.db import connection, transaction
from django.db.models import Count, F, QuerySet, Sum
from django.utils import timezone

from chatsite.accounts import keys, usage
from chatsite.accounts.keys import KeyView
from chatsite.accounts.models import ApiKey
from chatsite.policies.counting import Counted, Counting, add, count
from chatsite.policies.models import Reservation
from chatsite.policies.values import NO_LIMITS, Limits, Policy
from chatsite.policies.windows import DAY, MINUTE, MONTH, next_of

KEY = "key:"
HELD_FOR = timedelta(hours=6)
"""A holder that says nothing for so long is gone. Whose end nobody else would write holds for less, and renews it."""
FORGOTTEN_AFTER = timedelta(days=30)
"""From there on a holder that is gone has no end that anybody might still book."""
SOON = 10
"""Seconds until something that is under way may be done."""
ASK_AN_ADMIN = 3600

COUNTED = {
    "requests_per_minute": (MINUTE, "requests"),
    "requests_per_day": (DAY, "requests"),
    "tokens_per_minute": (MINUTE, "tokens"),
    "tokens_per_day": (DAY, "tokens"),
    "tokens_per_month": (MONTH, "tokens"),
    "cost_per_month": (MONTH, "cost"),
}
"""What of which window a limit looks at."""


@dataclass(frozen=True, slots=True)
class Account:
    """Whose limits. `group` is a group's name."""

    subject: str
    limits: Limits
    group: str = ""


@dataclass(frozen=True, slots=True)
class Amount:
    """`output`: how many of the tokens came from the model."""

    tokens: int = 0
    cost: Decimal = Decimal(0)
    output: int = 0


@dataclass(frozen=True, slots=True)
class Over:
    """The limit that is reached. `held`: there would be room, but for what is under way."""

    limit: str
    account: Account
    held: bool = False

    @property
    def name(self) -> str:
        """As a run that it stops gives it for its reason: `tokens_per_day`, `group_tokens_per_day`."""
        whose = self.account.subject.partition(":")[0]
        return self.limit if whose == "user" else f"{whose}_{self.limit}"

    def retry_after(self, now: datetime) -> int:
        if self.held or self.limit == "runs_at_once":
            return SOON
        if self.limit not in COUNTED:
            return ASK_AN_ADMIN
        return max(1, round((next_of(COUNTED[self.limit][0], now) - now).total_seconds()))


def accounts_of(user_pk: object, policy: Policy) -> tuple[Account, ...]:
    """Empty for whom nothing limits."""
    if not policy.has_limits:
        return ()
    groups = [Account(f"group:{each.group_id}", each.limits, each.group) for each in policy.budgets]
    return (Account(f"user:{user_pk}", policy.limits or NO_LIMITS), *groups)


def account_of_key(key: KeyView) -> Account | None:
    """None for one without limits."""
    limits = Limits(
        requests_per_minute=key.requests_per_minute,
        tokens_per_minute=key.tokens_per_minute,
        runs_at_once=key.requests_at_once,
        cost=key.budget,
    )
    return Account(f"{KEY}{key.pk}", limits) if limits else None


def admit(accounts: Sequence[Account], holder: str, need: Amount, lasts: timedelta = HELD_FOR) -> Over | None:
    """Count a request and hold what it needs first. When it is over a limit nothing is counted."""
    now = timezone.now()
    _forget(accounts, now)
    used = count(_subjects(accounts), now)
    over = _first_over(accounts, used, requests=1)
    if over is None:
        count(_subjects(accounts), now, requests=1)
        Reservation.objects.bulk_create(
            Reservation(
                subject=account.subject,
                holder=holder,
                tokens=need.tokens,
                cost=need.cost,
                until=now + lasts,
            )
            for account in accounts
        )
    return over


def go_on(
    accounts: Sequence[Account],
    holder: str,
    used: Amount,
    need: Amount | None,
    lasts: timedelta = HELD_FOR,
) -> Over | None:
    """Book what a turn used, and hold what the next needs; nothing is held behind a no."""
    now = timezone.now()
    _book_turn(accounts, holder, used, now + lasts)
    counted = count(_subjects(accounts), now, tokens=used.tokens, cost=used.cost)
    if need is None:
        return None
    over = _first_over(accounts, counted, requests=0)
    if over is None:
        mine = Reservation.objects.filter(holder=holder, subject__in=_subjects(accounts))
        mine.update(tokens=need.tokens, cost=need.cost)
    return over


def renew(holders: Iterable[str], lasts: timedelta) -> None:
    """They are still under way. What somebody works on this moment is renewed there, or over."""
    with transaction.atomic():
        rows = _free(Reservation.objects.filter(holder__in=list(holders)))
        Reservation.objects.filter(pk__in=rows).update(until=timezone.now() + lasts)


def settle(holder: str, total: Amount) -> None:
    """Book what of `total` no turn has booked, and let go of the rest. A second time it does nothing."""
    mine = Reservation.objects.filter(holder=holder)
    holds = sorted(mine.select_for_update(), key=lambda hold: hold.subject)
    if not holds:
        return
    mine.delete()
    add([rest for hold in holds if any((rest := _rest_of(hold, total))[1:])], timezone.now())
    for hold in holds:
        if hold.subject.startswith(KEY):
            _book_on_key(hold.subject, total)


def over(accounts: Sequence[Account]) -> Over | None:
    return _first_over(accounts, count(_subjects(accounts), timezone.now()), requests=0)


def book(accounts: Sequence[Account], used: Amount) -> None:
    count(_subjects(accounts), timezone.now(), tokens=used.tokens, cost=used.cost)
    for subject in _subjects(accounts):
        if subject.startswith(KEY):
            _book_on_key(subject, used, requests=0)


def _rest_of(hold: Reservation, total: Amount) -> Counting:
    tokens = max(0, total.tokens - hold.booked_tokens)
    return hold.subject, 0, tokens, max(Decimal(0), total.cost - hold.booked_cost)


def _book_turn(accounts: Sequence[Account], holder: str, used: Amount, until: datetime) -> None:
    for subject in _subjects(accounts):
        mine = Reservation.objects.filter(subject=subject, holder=holder)
        booked = {
            "booked_tokens": F("booked_tokens") + used.tokens,
            "booked_cost": F("booked_cost") + used.cost,
        }
        if not mine.update(tokens=0, cost=0, until=until, **booked):
            # A limit that is new since it began, or a run that goes on with a lost one.
            Reservation.objects.create(
                subject=subject,
                holder=holder,
                booked_tokens=used.tokens,
                booked_cost=used.cost,
                until=until,
            )


def _forget(accounts: Sequence[Account], now: datetime) -> None:
    gone = Reservation.objects.filter(subject__in=_subjects(accounts), until__lte=now - FORGOTTEN_AFTER)
    Reservation.objects.filter(pk__in=_free(gone)).delete()


def _free(rows: QuerySet[Reservation]) -> list[int]:
    """Those that nobody works on, held from here on."""
    skip = connection.features.has_select_for_update_skip_locked
    return list(rows.select_for_update(skip_locked=skip).values_list("pk", flat=True))


def _book_on_key(subject: str, total: Amount, requests: int = 1) -> None:
    """A key's own books have what it used here beside what it used at the gateway."""
    used = usage.Used(requests, total.tokens - total.output, total.output, total.cost)
    usage.book({int(subject.removeprefix(KEY)): used})


# -- the decision --------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Held:
    count: int = 0
    tokens: int = 0
    cost: Decimal = Decimal(0)
    booked: Decimal = Decimal(0)


def _first_over(accounts: Sequence[Account], used: Counted, *, requests: int) -> Over | None:
    """`requests` 0: inside of a run, where neither requests nor runs at once are counted anew."""
    held = _held_of(accounts)
    for account in accounts:
        now_held = held.get(account.subject, _Held())
        if requests and _reached(account.limits.runs_at_once, now_held.count):
            return Over("runs_at_once", account)
        over = _over_budget(account, now_held)
        if over is not None:
            return over
        for limit, (span, what) in COUNTED.items():
            if what == "requests" and not requests:
                continue
            most, amount = getattr(account.limits, limit), getattr(used[account.subject, span], what)
            if _reached(most, amount):
                return Over(limit, account)
            if what != "requests" and _reached(most, amount + getattr(now_held, what)):
                return Over(limit, account, held=True)
    return None


def _over_budget(account: Account, held: _Held) -> Over | None:
    """Of a key, whose own books say what is spent; what its runs have booked here comes there with their ends."""
    most = account.limits.cost
    row = None if most is None else ApiKey.objects.filter(pk=account.subject.removeprefix(KEY)).first()
    if row is None:
        return None
    spent = keys.spent_of(row) + held.booked
    if _reached(most, spent):
        return Over("cost", account)
    return Over("cost", account, held=True) if _reached(most, spent + held.cost) else None


def _reached(most: int | Decimal | None, amount: int | Decimal) -> bool:
    return most is not None and amount >= most


def _held_of(accounts: Sequence[Account]) -> dict[str, _Held]:
    rows = Reservation.objects.filter(subject__in=_subjects(accounts), until__gt=timezone.now())
    sums = rows.values_list("subject").annotate(Count("pk"), Sum("tokens"), Sum("cost"), Sum("booked_cost"))
    return {subject: _Held(*held) for subject, *held in sums}


def _subjects(accounts: Iterable[Account]) -> list[str]:
    return sorted({account.subject for account in accounts})
