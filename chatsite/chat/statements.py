"""The statements of the token path, built once a process.

Django's ORM builds each statement anew, which takes several times as long as the database needs to carry it out.
These mean the same as the ORM's on SQLite and PostgreSQL: every field prepares its own value (JSON, times). They
send no signals. The caller holds the transaction.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Any

from django.db import DEFAULT_DB_ALIAS, connection, connections, models
from django.db.models import Field, Model

Fields = tuple["Field[Any, Any]", ...]

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
    _, fields = _insert(type(row))
    row.pk = add(type(row), {field.attname: getattr(row, field.attname) for field in fields})
    row._state.adding, row._state.db = False, connection.alias


def add(model: type[Model], values: Mapping[str, Any]) -> int:
    """A row of these columns (a relation's is `..._id`), the others as they are by default; its key."""
    statement, fields = _insert(model)
    with connection.cursor() as cursor:
        cursor.execute(f"{statement} RETURNING id", _prepared(fields, _row(fields, values)))
        return int(cursor.fetchone()[0])


def upsert(
    model: type[Model],
    rows: Sequence[Mapping[str, Any]],
    *,
    unique: tuple[str, ...],
    update: tuple[str, ...],
) -> None:
    """Add rows; where the `unique` columns are there already, set that row's `update` columns."""
    statement, fields = _upsert(model, unique, update)
    with connection.cursor() as cursor:
        cursor.executemany(statement, [_prepared(fields, _row(fields, values)) for values in rows])


def update(model: type[Model], values: Mapping[str, Any], where: str, given: Sequence[Any]) -> int:
    """Set the columns of the rows that `where` (SQL, with `given` for its places) holds of; how many these are."""
    statement, fields = _update(model, tuple(values), where)
    with connection.cursor() as cursor:
        cursor.execute(statement, [*_prepared(fields, values.values()), *given])
        return int(cursor.rowcount)


def _row(fields: Fields, values: Mapping[str, Any]) -> list[Any]:
    # Not a Model: to make one of them costs as much as to write it.
    return [values[field.attname] if field.attname in values else field.get_default() for field in fields]


def _prepared(fields: Fields, values: Iterable[Any]) -> list[Any]:
    here = connections[DEFAULT_DB_ALIAS]  # what stands behind `connection`, looked up once
    return [
        value if value is None or type(value) is as_it_is else field.get_db_prep_save(value, here)
        for field, as_it_is, value in zip(fields, _as_they_are(fields), values, strict=True)
    ]


@cache
def _as_they_are(fields: Fields) -> tuple[type | None, ...]:
    """For each field the class whose values it hands to the database as they are; its own preparation costs 5 us."""
    return tuple(
        next((plain for kind, plain in AS_IT_IS if isinstance(field, kind)), None) for field in fields
    )


@cache
def _insert(model: type[Model]) -> tuple[str, Fields]:
    fields: Fields = tuple(field for field in model._meta.concrete_fields if not field.primary_key)
    columns, places = ", ".join(_column(field) for field in fields), ", ".join("%s" for _ in fields)
    return f"INSERT INTO {_table(model)} ({columns}) VALUES ({places})", fields  # noqa: S608 - our own names


@cache
def _upsert(model: type[Model], unique: tuple[str, ...], update: tuple[str, ...]) -> tuple[str, Fields]:
    statement, fields = _insert(model)
    known = ", ".join(_columns(model, unique))
    new = ", ".join(f"{column} = EXCLUDED.{column}" for column in _columns(model, update))
    return f"{statement} ON CONFLICT ({known}) DO UPDATE SET {new}", fields


@cache
def _update(model: type[Model], names: tuple[str, ...], where: str) -> tuple[str, Fields]:
    new = ", ".join(f"{column} = %s" for column in _columns(model, names))
    fields: Fields = tuple(model._meta.get_field(name) for name in names)  # type: ignore[misc]
    return f"UPDATE {_table(model)} SET {new} WHERE {where}", fields  # noqa: S608 - likewise


def _columns(model: type[Model], names: tuple[str, ...]) -> list[str]:
    return [_column(model._meta.get_field(name)) for name in names]


def _column(field: Any) -> str:
    return connection.ops.quote_name(field.column)


def _table(model: type[Model]) -> str:
    return connection.ops.quote_name(model._meta.db_table)
