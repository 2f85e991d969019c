"""The database itself refuses to change or delete an entry, and to set the head back.

They are made by a migration. SQLite drops a table's triggers when a later migration changes that table: such a one ends
with `install` again (a test sees to it). Whoever owns the database can take them away; `verify_audit` says so.
"""

from __future__ import annotations

from typing import Any

from django.db.backends.base.base import BaseDatabaseWrapper

REFUSAL = "the audit log only grows"
RULES = {
    "audit_entry_no_update": ("audit_entry", "UPDATE", ""),
    "audit_entry_no_delete": ("audit_entry", "DELETE", ""),
    "audit_head_no_delete": ("audit_head", "DELETE", ""),
    "audit_head_no_return": ("audit_head", "UPDATE", "WHEN (NEW.number < OLD.number)"),
}
"""Trigger -> table, what is refused, when."""
TRUNCATIONS = {"audit_entry_no_truncate": "audit_entry", "audit_head_no_truncate": "audit_head"}

_FUNCTION = f"""
    CREATE OR REPLACE FUNCTION audit_refuse() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN RAISE EXCEPTION '{REFUSAL}' USING ERRCODE = 'integrity_constraint_violation'; END $$
"""


def install(connection: BaseDatabaseWrapper) -> None:
    """Make those that are not there."""
    with connection.cursor() as cursor:
        for statement in _statements(connection.vendor, missing(connection)):
            cursor.execute(statement)


def remove(connection: BaseDatabaseWrapper) -> None:
    """For going back before the migration that made them, and for the emptying of a test database."""
    with connection.cursor() as cursor:
        for name, table in _tables(connection.vendor).items():
            on = f" ON {table}" if connection.vendor == "postgresql" else ""
            cursor.execute(f"DROP TRIGGER IF EXISTS {name}{on}")


def missing(connection: BaseDatabaseWrapper) -> list[str]:
    names = _tables(connection.vendor)
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT tgname FROM pg_trigger WHERE tgrelid::regclass::text IN ('audit_entry', 'audit_head')"
            " AND tgenabled <> 'D'"
            if connection.vendor == "postgresql"
            else "SELECT name FROM sqlite_master WHERE type = 'trigger'"
        )
        there = {name for (name,) in cursor.fetchall()}
    return [name for name in names if name not in there]


def _tables(vendor: str) -> dict[str, str]:
    tables = {name: table for name, (table, _, _) in RULES.items()}
    return tables | TRUNCATIONS if vendor == "postgresql" else tables


def _statements(vendor: str, names: list[str]) -> list[str]:
    if vendor == "postgresql":
        return [_FUNCTION, *(_postgresql(name) for name in names)]
    return [_sqlite(name) for name in names]


def _sqlite(name: str) -> str:
    table, what, when = RULES[name]
    return (
        f"CREATE TRIGGER {name} BEFORE {what} ON {table} {when} BEGIN SELECT RAISE(ABORT, '{REFUSAL}'); END"
    )


def _postgresql(name: str) -> str:
    if name in TRUNCATIONS:
        return f"CREATE TRIGGER {name} BEFORE TRUNCATE ON {TRUNCATIONS[name]} EXECUTE FUNCTION audit_refuse()"
    table, what, when = RULES[name]
    return (
        f"CREATE TRIGGER {name} BEFORE {what} ON {table} FOR EACH ROW {when} EXECUTE FUNCTION audit_refuse()"
    )


def install_in_migration(apps: Any, schema_editor: Any) -> None:
    install(schema_editor.connection)


def remove_in_migration(apps: Any, schema_editor: Any) -> None:
    remove(schema_editor.connection)
