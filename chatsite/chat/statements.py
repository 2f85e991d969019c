"""The statements of the token path, built once a process.

Django's ORM builds each statement anew, which takes several times as long as the database needs to carry it out.
These mean the same as the ORM's on SQLite and PostgreSQL: every field prepares its own value (JSON, times). They
send no signals. The caller holds the transaction.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from django.db import DEFAULT_DB_ALIAS, connection, connections, models
from django.db.models import Field, Model

AS_IT_IS: tuple[tuple[type, type], ...] = (
    (models.CharField, str),
    (models.TextField, str),
    (models.BooleanField, bool),
    (models.FloatField, float),
    (models.IntegerField, int),
    (models.ForeignKey, int),
)


def insert(row: Model) -> None:
    """Like `row.save(force_insert=True)`: the row has its key behind it."""
    names = _insert(type(row)).names
    row.pk = add(type(row), {name: getattr(row, name) for name in names})
    row._state.adding, row._state.db = False, connection.alias


def add(model: type[Model], values: Mapping[str, Any]) -> int:
    """A row of these columns (a relation's is `..._id`), the others as they are by default; its key."""
    statement = _insert(model)
    with connection.cursor() as cursor:
        cursor.execute(f"{statement.sql} RETURNING id", statement.row(values))
        return int(cursor.fetchone()[0])


def upsert(
    model: type[Model],
    rows: Sequence[Mapping[str, Any]],
    *,
    unique: tuple[str, ...],
    update: tuple[str, ...],
) -> None:
    """Add rows; where the `unique` columns are there already, set that row's `update` columns."""
    statement = _upsert(model, unique, update)
    with connection.cursor() as cursor:
        cursor.executemany(statement.sql, [statement.row(values) for values in rows])


def update(model: type[Model], values: Mapping[str, Any], where: str, given: Sequence[Any]) -> int:
    """Set the columns of the rows that `where` (SQL, with `given` for its places) holds of; how many these are."""
    statement = _update(model, tuple(values), where)
    with connection.cursor() as cursor:
        cursor.execute(statement.sql, [*statement.prepared(values.values()), *given])
        return int(cursor.rowcount)


@dataclass(frozen=True, slots=True)
class _Statement:
    """SQL whose first places are for these fields. `plain` has for each the class whose values go to the database as
    they are: its own preparation of one costs 5 us."""

    sql: str
    fields: tuple[Field[Any, Any], ...]
    names: tuple[str, ...]
    plain: tuple[type | None, ...]

    def row(self, values: Mapping[str, Any]) -> list[Any]:
        # Not of a Model: to make one costs as much as to write it.
        return self.prepared(
            values[name] if name in values else field.get_default()
            for name, field in zip(self.names, self.fields, strict=True)
        )

    def prepared(self, values: Iterable[Any]) -> list[Any]:
        here = connections[DEFAULT_DB_ALIAS]  # what stands behind `connection`, looked up once
        return [
            value if value is None or type(value) is plain else field.get_db_prep_save(value, here)
            for field, plain, value in zip(self.fields, self.plain, values, strict=True)
        ]


def _statement(sql: str, fields: Iterable[Field[Any, Any]]) -> _Statement:
    fields = tuple(fields)
    plain = tuple(
        next((type for kind, type in AS_IT_IS if isinstance(field, kind)), None) for field in fields
    )
    return _Statement(sql, fields, tuple(field.attname for field in fields), plain)


@cache
def _insert(model: type[Model]) -> _Statement:
    fields = [field for field in model._meta.concrete_fields if not field.primary_key]
    columns, places = ", ".join(_column(field) for field in fields), ", ".join("%s" for _ in fields)
    sql = f"INSERT INTO {_table(model)} ({columns}) VALUES ({places})"  # noqa: S608 - our own names
    return _statement(sql, fields)


@cache
def _upsert(model: type[Model], unique: tuple[str, ...], update: tuple[str, ...]) -> _Statement:
    insert = _insert(model)
    known = ", ".join(_columns(model, unique))
    new = ", ".join(f"{column} = EXCLUDED.{column}" for column in _columns(model, update))
    return _statement(f"{insert.sql} ON CONFLICT ({known}) DO UPDATE SET {new}", insert.fields)


@cache
def _update(model: type[Model], names: tuple[str, ...], where: str) -> _Statement:
    new = ", ".join(f"{column} = %s" for column in _columns(model, names))
    sql = f"UPDATE {_table(model)} SET {new} WHERE {where}"  # noqa: S608 - likewise
    return _statement(sql, [model._meta.get_field(name) for name in names])  # type: ignore[misc]


def _columns(model: type[Model], names: tuple[str, ...]) -> list[str]:
    return [_column(model._meta.get_field(name)) for name in names]


def _column(field: Any) -> str:
    return connection.ops.quote_name(field.column)


def _table(model: type[Model]) -> str:
    return connection.ops.quote_name(model._meta.db_table)
