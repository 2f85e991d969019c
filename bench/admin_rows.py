"""A database with very many rows, made by the database itself: `INSERT ... SELECT` over counted numbers.

    users 50, threads 20,000, runs 200,000, messages 1,000,000 (five a run), tool calls 200,000, exchanges 200,000

What a row does not say here it has from its field's default. Of the times, the newest are now and the oldest a year
ago. One thread is long: 1,000 messages in 200 runs.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.contrib.auth import get_user_model
from django.db import connection, transaction
from django.db.models import Model
from django.utils import timezone

USERS = 50
RUNS_A_THREAD = 10
MESSAGES_A_RUN = 5
LONG_RUNS = 200
TEXT = "It is 62 degrees and cloudy in San Francisco today, so a light jacket will do; leave the umbrella at home."

STATES = (
    "CASE WHEN i % 50 = 7 THEN 'failed' WHEN i % 40 = 3 THEN 'cancelled' WHEN i % 997 = 5 THEN 'lost'"
    " ELSE 'finished' END"
)
ENDINGS = (
    f"CASE WHEN i % {MESSAGES_A_RUN} IN (0, 2) THEN NULL WHEN i % 5003 = 3 THEN 'length' ELSE 'stop' END"
)
REASONS = (
    "CASE WHEN i % 50 = 7 THEN 'provider_error' WHEN i % 40 = 3 THEN 'cancelled' WHEN i % 997 = 5 THEN 'lost'"
    " WHEN i % 61 = 0 THEN 'length' ELSE 'stop' END"
)
ERRORS = "CASE WHEN i % 50 = 7 THEN 'provider_error' WHEN i % 997 = 5 THEN 'lost' ELSE '' END"


def build(messages: int) -> None:
    runs = messages // MESSAGES_A_RUN
    threads = runs // RUNS_A_THREAD
    with transaction.atomic(), connection.cursor() as cursor:
        # The text index would take most of the time, and no page of the admin asks it.
        for name in ("new", "old", "changed"):
            cursor.execute(f"DROP TRIGGER IF EXISTS chat_message_fts_{name}")
        _fill(cursor, get_user_model(), USERS, username="'user' || i")
        first = get_user_model().objects.order_by("pk").get(username="user0").pk
        _chat(cursor, threads, runs, messages, first)
        _long_thread(cursor, threads, runs, messages)
        _gateway(cursor, runs, first)
        _figures(first)


def _at(count: int) -> str:
    """Spread over a year, the highest number last, as text in which Django reads a time."""
    ago = f"CAST(({count} - i) * 31536000.0 / {count} AS TEXT)"
    return f"strftime('%Y-%m-%d %H:%M:%f', 'now', '-' || {ago} || ' seconds')"


def _chat(cursor: Any, threads: int, runs: int, messages: int, first: int) -> None:
    from chatsite.chat.models import Message, Run, Thread, ToolCall

    _fill(
        cursor, Thread, threads, id="i + 1", public_id="'thread-' || i", owner_id=f"{first} + i % {USERS}",
        title="'Weather ' || i", head_id=f"(i + 1) * {RUNS_A_THREAD * MESSAGES_A_RUN}", created_at=_at(threads),
        updated_at=_at(threads), turns="10 + i % 40", calls=str(RUNS_A_THREAD), errors="i % 3", tokens="i * 37 % 90000",
        cost="(i * 13 % 1000) / 1000.0", duration_ms="2000 + i * 7919 % 600000",
    )  # fmt: skip
    _fill(
        cursor, Run, runs, id="i + 1", public_id="'run-' || i", thread_id=f"i / {RUNS_A_THREAD} + 1", state=STATES,
        stop_reason=REASONS, error_code=ERRORS, model="'model-' || (i % 7)", turns="1 + i % 5", tokens="i * 37 % 9000",
        cost="(i * 13 % 1000) / 10000.0", duration_ms="200 + i * 7919 % 60000", calls="1",
        errors="CASE WHEN i % 70 = 1 THEN 1 ELSE 0 END", created_at=_at(runs), finished_at=_at(runs), log="'pruned'",
        booked="1",
    )  # fmt: skip
    place = f"i % {RUNS_A_THREAD * MESSAGES_A_RUN}"
    role = f"CASE i % {MESSAGES_A_RUN} WHEN 0 THEN 'user' WHEN 2 THEN 'tool' ELSE 'assistant' END"
    _fill(
        cursor, Message, messages, id="i + 1", public_id="'m-' || i",
        thread_id=f"i / {RUNS_A_THREAD * MESSAGES_A_RUN} + 1",
        parent_id=f"CASE WHEN {place} = 0 THEN NULL ELSE i END", run_id=f"i / {MESSAGES_A_RUN} + 1", role=role,
        text=f"'{TEXT} ' || i", parts=f"""'[{{"type": "text", "text": "{TEXT} ' || i || '"}}]'""",
        finish_reason=ENDINGS,
        created_at=_at(messages),
    )  # fmt: skip
    _fill(
        cursor, ToolCall, runs, run_id="i + 1", call_id="'c-' || i", name="'tool_' || (i % 30)",
        state="CASE WHEN i % 70 = 1 THEN 'failed' ELSE 'done' END",
        error_code="CASE WHEN i % 70 = 1 THEN 'timeout' ELSE '' END", arguments="'{}'", result=f"'{TEXT}'",
        duration_ms="i % 3000", created_at=_at(runs), finished_at=_at(runs),
    )  # fmt: skip


def _long_thread(cursor: Any, threads: int, runs: int, messages: int) -> None:
    from chatsite.chat.models import Message, Run, Thread

    many = LONG_RUNS * MESSAGES_A_RUN
    thread = Thread.objects.get(pk=threads)
    Thread.objects.filter(pk=thread.pk).update(public_id="long", head=None)
    Message.objects.filter(thread=thread).delete()
    Run.objects.filter(thread=thread).delete()
    run, message = runs + 1, messages + 1
    _fill(
        cursor, Run, LONG_RUNS, id=f"{run} + i", public_id="'long-' || i", thread_id=str(thread.pk),
        state="'finished'",
        stop_reason="'stop'", model="'model-1'", created_at=_at(LONG_RUNS), finished_at=_at(LONG_RUNS), log="'pruned'",
    )  # fmt: skip
    _fill(
        cursor, Message, many, id=f"{message} + i", public_id="'long-' || i", thread_id=str(thread.pk),
        parent_id=f"CASE WHEN i = 0 THEN NULL ELSE {message} + i - 1 END", run_id=f"{run} + i / {MESSAGES_A_RUN}",
        role=f"CASE i % {MESSAGES_A_RUN} WHEN 0 THEN 'user' ELSE 'assistant' END", text=f"'{TEXT} ' || i",
        parts=f"""'[{{"type": "text", "text": "{TEXT} ' || i || '"}}]'""", finish_reason="'stop'", created_at=_at(many),
    )  # fmt: skip
    Thread.objects.filter(pk=thread.pk).update(head=message + many - 1)


def _gateway(cursor: Any, count: int, first: int) -> None:
    from chatsite.gateway.models import Exchange

    _fill(
        cursor, Exchange, count, public_id="'x-' || i", request_id="'req-' || i", user_id=f"{first} + i % {USERS}",
        model="'model-' || (i % 7)", status="CASE WHEN i % 90 = 4 THEN 502 ELSE 200 END", ms="100 + i * 7919 % 20000",
        input_tokens="i * 37 % 9000", output_tokens="i % 900", cost="(i * 13 % 1000) / 10000.0", created_at=_at(count),
    )  # fmt: skip


def _figures(first: int) -> None:
    """What the upkeep would have counted: each day each model, each user, each tool, some ends."""
    from chatsite.usage.models import Day

    today = timezone.now().date()
    spread = {str(bucket): 30 for bucket in range(25, 45)}
    names = {
        "all": [""],
        "model": [f"model-{n}" for n in range(7)],
        "user": [str(first + n) for n in range(USERS)],
        "tool": [f"tool_{n}" for n in range(30)],
        "end": ["stop", "length", "cancelled", "lost", "provider_error"],
    }
    Day.objects.bulk_create(
        (
            Day(day=today - timedelta(days=back), source=source, about=about, value=value, count=600, errors=back % 7,
                input_tokens=1000 * back, output_tokens=100 * back, cost=back / 10, ms=600 * 900, spread=spread)
            for back in range(366)
            for source in ("chat", "gateway")
            for about, values in names.items()
            for value in values
        ),
        batch_size=500,
    )  # fmt: skip


def _fill(cursor: Any, table: type[Model], count: int, /, **expressions: str) -> None:
    row, columns, values, given = table(), [], [], []
    for field in table._meta.concrete_fields:
        if field.primary_key and field.attname not in expressions:
            continue
        columns.append(f'"{field.column}"')
        values.append(expressions.get(field.attname, "%s"))
        if field.attname not in expressions:
            value = timezone.now() if field.attname == "date_joined" else getattr(row, field.attname)
            given.append(field.get_db_prep_save(value, connection))
    counted = f"WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i + 1 < {count})"
    names, said = (
        ", ".join(columns),
        ", ".join(value.replace("%", "%%") if value != "%s" else value for value in values),
    )
    cursor.execute(f'INSERT INTO "{table._meta.db_table}" ({names}) {counted} SELECT {said} FROM n', given)
