"""Full-text search over a person's messages.

    SQLite        an FTS5 table over the message rows (external content), kept by triggers
    PostgreSQL    an index over `to_tsvector` of the text

The index is derived: `prepare` makes what is missing behind each `migrate`, and fills it. It is no migration, because
SQLite drops a table's triggers whenever a later migration changes that table.

A query is words; all of them have to be there, the last one may be half written, and "several words" in quotes stand
together. Everything else in it means nothing, so no text can be a wrong query.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db import connections
from django.db.backends.base.base import BaseDatabaseWrapper

from chatsite.chat.models import Message
from chatsite.chat.rows.snippets import Term, snippet

MAX_QUERY = 200
MAX_TERMS = 12
MAX_HITS = 50
LOOKED_THROUGH = 1_000
"""Messages, the newest, in which threads are looked for: a word that stands everywhere finds enough of them."""

_VECTOR = "to_tsvector('simple', left(text, 200000))"
"""PostgreSQL's vectors have a size, so the end of a very long message is not indexed there."""

_SQLITE = (
    "CREATE VIRTUAL TABLE IF NOT EXISTS chat_message_fts USING fts5"
    "(text, content='chat_message', content_rowid='id', tokenize='unicode61 remove_diacritics 2')",
    """CREATE TRIGGER IF NOT EXISTS chat_message_fts_new AFTER INSERT ON chat_message
    WHEN new.text <> '' AND new.role IN ('user', 'assistant') BEGIN
        INSERT INTO chat_message_fts(rowid, text) VALUES (new.id, new.text);
    END""",
    """CREATE TRIGGER IF NOT EXISTS chat_message_fts_old AFTER DELETE ON chat_message
    WHEN old.text <> '' AND old.role IN ('user', 'assistant') BEGIN
        INSERT INTO chat_message_fts(chat_message_fts, rowid, text) VALUES ('delete', old.id, old.text);
    END""",
    """CREATE TRIGGER IF NOT EXISTS chat_message_fts_changed AFTER UPDATE OF text ON chat_message
    WHEN old.text <> new.text AND new.role IN ('user', 'assistant') BEGIN
        INSERT INTO chat_message_fts(chat_message_fts, rowid, text)
            SELECT 'delete', old.id, old.text WHERE old.text <> '';
        INSERT INTO chat_message_fts(rowid, text) SELECT new.id, new.text WHERE new.text <> '';
    END""",
)
_POSTGRESQL = (f"CREATE INDEX IF NOT EXISTS chat_message_text_search ON chat_message USING gin ({_VECTOR})",)


def prepare(using: str = "default", **_: Any) -> None:
    """Make the index if it is not there, and fill it. Behind every `migrate` (signal `post_migrate`)."""
    connection = connections[using]
    with connection.cursor() as cursor:
        if "chat_message" not in connection.introspection.table_names(cursor):
            return  # migrated back to nothing, or to another database
        if connection.vendor != "sqlite":
            for statement in _POSTGRESQL:
                cursor.execute(statement)
            return
        there = _parts(cursor)
        for statement in _SQLITE:
            cursor.execute(statement)
        if there != _parts(cursor):
            fill(connection)


def _parts(cursor: Any) -> set[str]:
    cursor.execute("SELECT name FROM sqlite_master WHERE tbl_name IN ('chat_message', 'chat_message_fts')")
    return {name for (name,) in cursor.fetchall() if name.startswith("chat_message_fts")}


def fill(connection: BaseDatabaseWrapper) -> None:
    """Index what is there, from nothing."""
    with connection.cursor() as cursor:
        cursor.execute("INSERT INTO chat_message_fts(chat_message_fts) VALUES ('delete-all')")
        cursor.execute(
            "INSERT INTO chat_message_fts(rowid, text)"
            " SELECT id, text FROM chat_message WHERE text <> '' AND role IN ('user', 'assistant')"
        )


# -- asking --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Hit:
    """A thread in which something was found: its newest such message, and a piece of that. `pieces` are texts, of which
    every second one is what was looked for."""

    thread_id: str
    title: str
    message_id: str
    at: datetime
    pieces: tuple[str, ...]


def terms_of(query: str) -> list[Term]:
    query = query[:MAX_QUERY].lower()
    phrases = re.findall(r'"([^"]*)"|([^\s"]+)', query)
    words = [tuple(re.findall(r"\w+", quoted or bare)) for quoted, bare in phrases]
    return [term for term in words if term][:MAX_TERMS]


def find(user_pk: int, query: str, limit: int = MAX_HITS) -> list[Hit]:
    """The person's threads that hold all of it in one message, the newest first. Empty for a query without a word."""
    terms = terms_of(query)
    if not terms:
        return []
    connection = connections[Message.objects.db]
    sql, value = (_IN_FTS, _fts_query) if connection.vendor == "sqlite" else (_IN_VECTORS, _ts_query)
    with connection.cursor() as cursor:
        cursor.execute(sql, [value(terms), user_pk, LOOKED_THROUGH])
        newest: dict[int, int] = {}
        for message_pk, thread_pk in cursor.fetchall():
            newest.setdefault(thread_pk, message_pk)
    found = list(newest.values())[:limit]
    rows = Message.objects.filter(pk__in=found).select_related("thread").order_by("-pk")
    return [
        Hit(row.thread.public_id, row.thread.title, row.public_id, row.created_at, snippet(row.text, terms))
        for row in rows
    ]


_IN_FTS = """
    SELECT m.id, m.thread_id FROM chat_message_fts f
    JOIN chat_message m ON m.id = f.rowid JOIN chat_thread t ON t.id = m.thread_id
    WHERE chat_message_fts MATCH %s AND t.owner_id = %s AND t.deleted_at IS NULL AND m.deleted_at IS NULL
    ORDER BY m.id DESC LIMIT %s
"""
_IN_VECTORS = """
    SELECT chat_message.id, thread_id FROM chat_message JOIN chat_thread t ON t.id = thread_id
    WHERE to_tsvector('simple', left(text, 200000)) @@ to_tsquery('simple', %s)
        AND role IN ('user', 'assistant') AND t.owner_id = %s AND t.deleted_at IS NULL
        AND chat_message.deleted_at IS NULL
    ORDER BY chat_message.id DESC LIMIT %s
"""


def _fts_query(terms: Sequence[Term]) -> str:
    """Words have only letters, digits and `_`, so nothing in them is an operator."""
    said = [f'"{" ".join(term)}"' for term in terms]
    return " AND ".join([*said[:-1], f"{said[-1]} *"])


def _ts_query(terms: Sequence[Term]) -> str:
    said = ["(" + " <-> ".join(f"'{word}'" for word in term) + ")" for term in terms]
    last = terms[-1]
    said[-1] = "(" + " <-> ".join([*(f"'{word}'" for word in last[:-1]), f"'{last[-1]}':*"]) + ")"
    return " & ".join(said)
