"""The statements of the token path, built once a process.

Django's ORM builds each statement anew, which takes several times as long as the database needs to carry it out.
These mean the same as the ORM's on SQLite and PostgreSQL: every field prepares its own value (JSON, times). They
send no signals. The caller holds the transaction.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from itertools import repeat
from typing import Any

from django.db import DEFAULT_DB_ALIAS, connection, connections, models
from django.db.models import Field, Model

MOST_AT_ONCE = 500
"""Rows of one statement."""

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


def add(model: type[Model], values: Mapping[str, Any], key: int | None = None) -> int:
    """A row of these columns (a relation's is `..._id`), the others as they are by default; its key.

    With a `key` (one of `keys`) nobody waits for the database to make one.
    """
    statement = _insert(model)
    if key is not None:
        _run(_with_key(model), [*statement.row(values), key])
        return key
    ((made,),) = _ask(f"{statement.sql} RETURNING id", statement.row(values))
    return int(made)


def append(model: type[Model], values: Mapping[str, Any]) -> None:
    """The same for a row whose key nobody needs."""
    statement = _insert(model)
    _run(statement.sql, statement.row(values))


def keys(model: type[Model], count: int) -> Iterator[int | None]:
    """Keys for so many rows that are to be added, in order. None: the database is asked behind each, which costs
    nothing where it is in this process."""
    if not count or connections[DEFAULT_DB_ALIAS].vendor != "postgresql":
        return repeat(None)
    sql = "SELECT nextval(pg_get_serial_sequence(%s, 'id')) FROM generate_series(1, %s)"
    return iter([int(key) for (key,) in _ask(sql, [model._meta.db_table, count])])


def add_many(model: type[Model], names: tuple[str, ...], rows: Sequence[Sequence[Any]]) -> None:
    """Rows of these columns, which are all there are, with values as the database takes them."""
    sql, places = _insert_many(model, names)
    if connections[DEFAULT_DB_ALIAS].vendor != "postgresql":
        _run_many(sql + places, rows)
        return
    for begin in range(0, len(rows), MOST_AT_ONCE):
        some = rows[begin : begin + MOST_AT_ONCE]
        _run(sql + ", ".join([places] * len(some)), [value for row in some for value in row])


def hold(model: type[Model], names: tuple[str, ...], pks: Sequence[int]) -> list[tuple[Any, ...]]:
    """These columns of the rows with these keys, which stay as they are until the transaction ends."""
    here = connections[DEFAULT_DB_ALIAS]
    lock = here.ops.for_update_sql(no_key=True) if here.features.has_select_for_update else ""
    return _ask(f"{_select(model, names)} ({', '.join(['%s'] * len(pks))}) ORDER BY id {lock}", pks)


@contextmanager
def in_one_go() -> Iterator[None]:
    """What is written within goes to PostgreSQL without waiting for an answer to each; errors come at the end.

    Only for statements of this module that say nothing back: the ORM asks how many rows it changed, and would be told
    none.
    """
    here = connections[DEFAULT_DB_ALIAS]
    if here.vendor != "postgresql":
        yield
        return
    here.ensure_connection()
    with here.wrap_database_errors, here.connection.pipeline():
        yield


def upsert(
    model: type[Model],
    rows: Sequence[Mapping[str, Any]],
    *,
    unique: tuple[str, ...],
    update: tuple[str, ...],
) -> None:
    """Add rows; where the `unique` columns are there already, set that row's `update` columns."""
    statement = _upsert(model, unique, update)
    _run_many(statement.sql, [statement.row(values) for values in rows])


def change(model: type[Model], values: Mapping[str, Any], pk: int) -> None:
    """Set columns of one row."""
    statement = _update(model, tuple(values))
    _run(statement.sql, [*statement.prepared(values.values()), pk])


# -- past Django's cursors, where that is the same ---------------------------------------------------------------


def _run(sql: str, values: Sequence[Any]) -> None:
    here = connections[DEFAULT_DB_ALIAS]
    if _is_plain(here):
        with here.wrap_database_errors:
            here.connection.execute(_asked_by_sqlite(sql), values)
        return
    with here.cursor() as cursor:
        cursor.execute(sql, values)


def _ask(sql: str, values: Sequence[Any]) -> list[tuple[Any, ...]]:
    here = connections[DEFAULT_DB_ALIAS]
    if _is_plain(here):
        with here.wrap_database_errors:
            return list(here.connection.execute(_asked_by_sqlite(sql), values))
    with here.cursor() as cursor:
        cursor.execute(sql, values)
        return list(cursor.fetchall())


def _run_many(sql: str, rows: Sequence[Sequence[Any]]) -> None:
    here = connections[DEFAULT_DB_ALIAS]
    if _is_plain(here):
        with here.wrap_database_errors:
            here.connection.executemany(_asked_by_sqlite(sql), rows)
        return
    with here.cursor() as cursor:
        cursor.executemany(sql, rows)


def _is_plain(here: Any) -> bool:
    """SQLite's own cursor does, within a transaction and where nobody listens to statements.

    Django's looks at each text anew to put SQLite's marks into it, in four layers: 15 us of a statement that takes 20.
    """
    return (
        here.vendor == "sqlite"
        and here.in_atomic_block
        and not (here.needs_rollback or here.execute_wrappers or here.queries_logged)
    )


@cache
def _asked_by_sqlite(sql: str) -> str:
    return sql.replace("%s", "?")


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
            value if value is None or type(value) is plain else _prepared(field, value, here)
            for field, plain, value in zip(self.fields, self.plain, values, strict=True)
        ]


def _prepared(field: Field[Any, Any], value: Any, here: Any) -> Any:
    """As the database takes it: a time that is UTC's already, which most are, without being asked four times for it."""
    if type(value) is datetime and value.tzinfo is UTC and here.vendor == "sqlite" and here.timezone is UTC:
        return str(value.replace(tzinfo=None))
    return field.get_db_prep_save(value, here)


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
def _update(model: type[Model], names: tuple[str, ...]) -> _Statement:
    new = ", ".join(f"{column} = %s" for column in _columns(model, names))
    sql = f"UPDATE {_table(model)} SET {new} WHERE id = %s"  # noqa: S608 - likewise
    return _statement(sql, [model._meta.get_field(name) for name in names])


@cache
def _with_key(model: type[Model]) -> str:
    insert = _insert(model)
    columns = ", ".join(map(_column, insert.fields))
    places = ", ".join(["%s"] * len(insert.fields))
    return f"INSERT INTO {_table(model)} ({columns}, id) VALUES ({places}, %s)"  # noqa: S608 - likewise


@cache
def _insert_many(model: type[Model], names: tuple[str, ...]) -> tuple[str, str]:
    places = ", ".join(["%s"] * len(names))
    return f"INSERT INTO {_table(model)} ({', '.join(names)}) VALUES ", f"({places})"  # noqa: S608 - likewise


@cache
def _select(model: type[Model], names: tuple[str, ...]) -> str:
    return f"SELECT {', '.join(names)} FROM {_table(model)} WHERE id IN"  # noqa: S608 - likewise


def _columns(model: type[Model], names: tuple[str, ...]) -> list[str]:
    return [_column(model._meta.get_field(name)) for name in names]


def _column(field: Any) -> str:
    return connection.ops.quote_name(field.column)


def _table(model: type[Model]) -> str:
    return connection.ops.quote_name(model._meta.db_table)
