"""A backup is made while twenty answers are written, and becomes a site elsewhere that takes them up."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from pathlib import Path

import pytest
from django.db import connection

from agent.providers.scripted import Turn
from chatsite.chat import db
from chatsite.chat.models import Message, Run, RunEvent
from chatsite.operator.backup import making
from tests.chat.test_runs import begin
from tests.site.processes import manage, served, wait_until

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(400),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]
RUNS = 20
WORDS = "".join(f"word {number} " for number in range(400))


@pytest.mark.skipif(
    connection.vendor != "sqlite", reason="it reads the restored file; PostgreSQL has a test in tests/site"
)
async def test_what_was_committed_is_restored_equal_and_runs_go_on(
    person, plays, settled, settings, tmp_path
):
    settings.DATA_DIR = tmp_path / "data"
    settings.DATA_DIR.mkdir()
    settings.ATTACHMENTS_DIR = settings.DATA_DIR / "attachments"
    gates = [asyncio.Event() for _ in range(RUNS)]
    plays(*(Turn(WORDS, delta_size=7, pace=0.005, gate=gate) for gate in gates))
    for number in range(RUNS):
        await begin(person, f"Question {number}")
    file = tmp_path / "b.tar.gz"
    async with asyncio.timeout(60):  # until all of them have something kept
        while await db.read(RunEvent.objects.values("run").distinct().count) < RUNS:  # noqa: ASYNC110
            await asyncio.sleep(0.05)
    await asyncio.to_thread(_made, file)
    for gate in gates:
        gate.set()
    await settled()
    there = tmp_path / "there" / "data"
    restored = await asyncio.to_thread(
        manage, "restore", str(file), DATA_DIR=str(there), SECRET_KEY=settings.SECRET_KEY
    )
    assert restored.returncode == 0, restored.stderr
    kept, at_work = _rows(there / "db.sqlite3")
    assert at_work == RUNS, "the backup was made while all of them were at work"
    whole = await db.read(_deltas_here)
    for key, said in kept.items():
        assert whole[key].startswith(said), key
    assert any(0 < len(said) < len(whole[key]) for key, said in kept.items())
    await asyncio.to_thread(_taken_up, there, settings.SECRET_KEY)


def _made(file: Path) -> None:
    try:
        making.make(file)
    finally:
        connection.close()


def _deltas_here() -> dict[str, str]:
    return {
        question: "".join(_text(row.data) for row in RunEvent.objects.filter(run=run).order_by("number"))
        for run in Run.objects.all()
        for question in Message.objects.filter(thread=run.thread_id, role="user").values_list(
            "text", flat=True
        )
    }


def _text(data: dict) -> str:
    if data["type"] != "TEXT_MESSAGE_CONTENT":
        return ""
    return data["delta"] if isinstance(data["delta"], str) else "".join(data["delta"])


def _rows(file: Path) -> tuple[dict[str, str], int]:
    """What each question's answer was so far, and how many runs were at work."""
    with sqlite3.connect(file) as database:
        assert database.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        runs = database.execute(
            "SELECT r.id, m.text, r.state FROM chat_run r JOIN chat_message m ON m.thread_id = r.thread_id"
            " WHERE m.role = 'user'"
        ).fetchall()
        said = {}
        for pk, question, _ in runs:
            rows = database.execute("SELECT data FROM chat_runevent WHERE run_id = ? ORDER BY number", [pk])
            said[question] = "".join(_text(json.loads(data)) for (data,) in rows.fetchall())
    return said, sum(state in {"queued", "running"} for _, _, state in runs)


def _taken_up(there: Path, secret: str) -> None:
    """Their process is not this server's, so each of them is lost, and goes on with the site's own model."""
    with served(there.parent, SECRET_KEY=secret):

        def over() -> bool:
            with sqlite3.connect(there / "db.sqlite3", timeout=20) as database:
                rows = database.execute("SELECT state, count(*) FROM chat_run GROUP BY state").fetchall()
            return dict(rows).get("lost", 0) >= RUNS and not {"queued", "running"} & set(dict(rows))

        wait_until(over, "the end of the runs that were at work", seconds=120)
