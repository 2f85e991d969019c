"""How a database is emptied behind a test that had transactions of its own: rows go from the tables that have some.

Django's way (`flush`) empties every table, and then makes all content types and permissions anew: most of the
time of such a test, and there are 1,500. Here they stay; only a test that changed their number has them made again.
"""

from __future__ import annotations

from typing import Any

from django.contrib.contenttypes.models import ContentType
from django.core.management import call_command
from django.db import connections, transaction
from django.db.backends.base.base import BaseDatabaseWrapper


class Emptying:
    """Made when the database is: whatever `flush` leaves in a table belongs there, and nothing else does."""

    def __init__(self, connection: BaseDatabaseWrapper) -> None:
        flush(connection)
        tables = connection.introspection.django_table_names(only_existing=True, include_views=False)
        self._look = " UNION ALL ".join(f"SELECT '{table}', count(*) FROM {table}" for table in tables)
        self._empty = self._rows(connection)

    def again(self, connection: BaseDatabaseWrapper) -> None:
        found = self._rows(connection)
        changed = [table for table, rows in found.items() if rows != self._empty[table]]
        if any(self._empty[table] for table in changed):
            return flush(connection)
        with transaction.atomic(using=connection.alias), connection.cursor() as cursor:
            for table in changed:
                cursor.execute(f"DELETE FROM {table}")
        ContentType.objects.clear_cache()
        return None

    def _rows(self, connection: BaseDatabaseWrapper) -> dict[str, int]:
        with connection.cursor() as cursor:
            cursor.execute(self._look)
            return dict(cursor.fetchall())


def flush(connection: BaseDatabaseWrapper) -> None:
    call_command("flush", verbosity=0, interactive=False, database=connection.alias, reset_sequences=False)


def teardown(emptying: Emptying) -> Any:
    """In place of `TransactionTestCase._fixture_teardown`."""

    def empty(case: Any) -> None:
        for alias in case._databases_names(include_mirrors=False):
            emptying.again(connections[alias])

    return empty
