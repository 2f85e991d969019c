"""Whether the tables in the database are those that this version knows.

    pending    this version has migrations that the database has not seen: they are applied at the start
    unknown    the database has seen migrations of a newer version: nobody may work on it with this one
    half       the database and its own record of migrations contradict each other: only a person can mend that

A migration is one transaction on both databases, so one that was killed left nothing; what was applied before it stays,
and the next start goes on. `half` is what cannot come from that.
"""

from __future__ import annotations

from dataclasses import dataclass

from django.db import connection
from django.db.migrations.exceptions import InconsistentMigrationHistory
from django.db.migrations.executor import MigrationExecutor
from django.db.migrations.migration import Migration
from django.db.migrations.operations import CreateModel


@dataclass(frozen=True, slots=True)
class Schema:
    pending: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()
    half: str = ""
    """What contradicts what, as a sentence."""
    is_empty: bool = False
    """No migration was ever applied here."""


def look() -> Schema:
    executor = MigrationExecutor(connection)
    loader = executor.loader
    applied = loader.applied_migrations
    plan = [migration for migration, _ in executor.migration_plan(loader.graph.leaf_nodes())]
    unknown = sorted(
        f"{app}.{name}"
        for app, name in applied
        # An app that is not installed (any more) is nobody's concern.
        if app in loader.migrated_apps and (app, name) not in loader.disk_migrations
    )
    return Schema(
        pending=tuple(f"{migration.app_label}.{migration.name}" for migration in plan),
        unknown=tuple(unknown),
        half="" if unknown else _contradiction(executor, plan),
        is_empty=not applied,
    )


def _contradiction(executor: MigrationExecutor, plan: list[Migration]) -> str:
    try:
        executor.loader.check_consistent_history(connection)
    except InconsistentMigrationHistory as problem:
        return str(problem)
    with connection.cursor() as cursor:
        tables = set(connection.introspection.table_names(cursor))
    # SQLite changes a table by making a new one in its place, under such a name.
    if left := sorted(name for name in tables if name.startswith("new__")):
        return f"The table {left[0]} was left by a migration that did not end."
    for migration in plan:
        for operation in migration.operations:
            table = _table_made_by(migration, operation)
            if table in tables:
                made = f"{migration.app_label}.{migration.name}"
                return f"The table {table} is there, and {made}, which makes it, is not recorded as applied."
    return ""


def _table_made_by(migration: Migration, operation: object) -> str:
    if not isinstance(operation, CreateModel) or not operation.options.get("managed", True):
        return ""
    return operation.options.get("db_table") or f"{migration.app_label}_{operation.name.lower()}"
