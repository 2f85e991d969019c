"""Whether this process should be given requests: `/readyz`. `/healthz` says whether it lives.

One line for each thing it needs, `ok` or what is wrong, without details that are nobody else's business: those are
in the log. 200 when all are ok, else 503. A balancer asks often, so an answer holds for `HOLDS` seconds.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

from django.conf import settings
from django.contrib.staticfiles.storage import ManifestFilesMixin, staticfiles_storage
from django.db import DatabaseError, connection
from django.db.migrations.executor import MigrationExecutor

from chatsite.chat.process import draining

log = logging.getLogger(__name__)

HOLDS = 1.0
REDIS_WITHIN = 2.0


@dataclass(frozen=True, slots=True)
class Readiness:
    lines: tuple[str, ...]
    ready: bool


def readiness() -> Readiness:
    global _last
    at, last = _last
    if last is None or time.monotonic() - at > HOLDS or draining.is_draining():
        last = _look()
        _last = (time.monotonic(), last)
    return last


_last: tuple[float, Readiness | None] = (0.0, None)


def forget() -> None:
    """The next one looks again."""
    global _last
    _last = (0.0, None)


def _look() -> Readiness:
    found = {name: _quietly(name, check) for name, check in CHECKS.items()}
    lines = tuple(f"{name}: {wrong or 'ok'}" for name, wrong in found.items())
    return Readiness(lines, not any(found.values()))


def _quietly(name: str, check: Callable[[], str]) -> str:
    try:
        return check()
    except Exception as error:  # whatever keeps it from being looked at keeps it from working
        log.warning("not ready: %s: %s", name, error)
        return "does not answer"


def _process() -> str:
    return "is about to stop" if draining.is_draining() else ""


def _database() -> str:
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")
    except DatabaseError as error:
        log.warning("not ready: database: %s", error)
        return "does not answer"
    return ""


@cache
def _migrations_applied() -> None:
    """Once they are applied they stay so for this process: its code does not change."""
    executor = MigrationExecutor(connection)
    if executor.migration_plan(executor.loader.graph.leaf_nodes()):
        raise LookupError("migrations are pending")


def _migrations() -> str:
    try:
        _migrations_applied()
    except LookupError:
        return "are pending: run `manage.py migrate`"
    return ""


def _redis() -> str:
    if settings.REDIS_URL:
        import redis  # only where it is used: it is large

        with redis.Redis.from_url(settings.REDIS_URL, socket_timeout=REDIS_WITHIN) as client:
            client.ping()
    return ""


def _static_files() -> str:
    if isinstance(staticfiles_storage, ManifestFilesMixin) and not staticfiles_storage.hashed_files:
        return "are not collected: run `manage.py collectstatic`"
    return ""


CHECKS: dict[str, Callable[[], str]] = {
    "process": _process,
    "database": _database,
    "migrations": _migrations,
    "redis": _redis,
    "static files": _static_files,
}
