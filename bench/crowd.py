"""Many at once on one process: `python -m bench.crowd`.

    500 live streams     each a run of its own, 10 deltas a second, all read to the end
    one run, 500 readers 10 deltas a second, each reader on a connection of its own
    writes               what one run costs the database: rows of its log, and commits

Lateness is the time from the model's writing of a delta to its arrival at the client; this client, the model and the
server share the machine. CPU is the server's own, in cores. Commits are counted from outside, by SQLite's
`data_version`, which another connection sees change; two within 2 ms look like one.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import sqlite3
import statistics
import sys
import uuid
from collections import defaultdict
from pathlib import Path

import uvloop

from bench import server as whole
from bench.client import Answer, ask, chat_request, join_request
from bench.common import Server, machine, module, percentile, print_table, site, spread
from bench.server import STAMP, Figures, Job, Taken

STREAMS = READERS = 500
SPREAD_OVER = 5.0
"""Seconds within which they begin, as people do."""
LOOK_EVERY = 0.002


def lateness(answers: list[Answer]) -> list[float]:
    return [
        1e3 * (answer.arrived(found.start()) - int(found[1]) / 1e9)
        for answer in answers
        for found in STAMP.finditer(answer.raw)
    ]


def live_streams(job: Job, taken: Taken) -> Figures:
    late, name = lateness(taken.answers), f"{job.count} streams at 10 deltas/s"
    return {
        f"{name}: p50 lateness, ms": statistics.median(late),
        "... p99 lateness, ms": percentile(late, 99),
        "... CPU, cores": taken.cpu / taken.seconds,
        "... most memory resident, MiB": taken.peak,
    }


async def fan_out(server: Server, deltas: int, readers: int) -> Figures:
    """One run and its readers, who come while it is under way."""
    run_id = uuid.uuid4().hex
    cpu, resident = server.cpu(), server.resident()
    run = asyncio.ensure_future(ask(server.port, chat_request(f"paced-{deltas}", run_id=run_id)))
    await asyncio.sleep(0.5)

    async def read(delay: float) -> Answer:
        await asyncio.sleep(delay)
        return await ask(server.port, join_request(run_id))

    answers = await asyncio.gather(*(read(2.0 * number / readers) for number in range(readers)))
    own = await run
    grown = server.resident() - resident
    for answer in answers:
        if len(STAMP.findall(answer.raw)) != deltas:
            raise SystemExit("a reader did not get the whole run")
    # What was said before a reader came is late by its coming, and no measure of anything.
    late = [
        1e3 * (answer.arrived(found.start()) - written)
        for answer in answers
        for found in STAMP.finditer(answer.raw)
        if (written := int(found[1]) / 1e9) > answer.asked_at + 0.5
    ]
    name = f"one run at 10 deltas/s, {readers} readers"
    return {
        f"{name}: p50 lateness, ms": statistics.median(late),
        "... p99 lateness, ms ": percentile(late, 99),
        "... CPU, cores ": (server.cpu() - cpu) / (own.ended_at - own.asked_at),
        "... memory grown, MiB": grown,
    }


class Database:
    """The server's database, seen from outside."""

    def __init__(self, server: Server) -> None:
        self.connection = sqlite3.connect(Path(server.env["DATA_DIR"]) / "db.sqlite3", isolation_level=None)

    def rows_of(self, run_id: str) -> int:
        of_run = (
            "SELECT count(*) FROM chat_runevent e JOIN chat_run r ON r.id = e.run_id WHERE r.public_id = ?"
        )
        return int(self.connection.execute(of_run, [run_id]).fetchone()[0])

    async def commits(self) -> None:
        """Counts until it is cancelled; `seen` is how many."""
        self.seen, last = -1, None
        while True:
            version = self.connection.execute("PRAGMA data_version").fetchone()[0]
            self.seen, last = self.seen + (version != last), version
            await asyncio.sleep(LOOK_EVERY)


async def writes(server: Server, model: str, what: str) -> Figures:
    database, run_id = Database(server), uuid.uuid4().hex
    watch = asyncio.ensure_future(database.commits())
    await asyncio.sleep(0.1)
    answer = await ask(server.port, chat_request(model, run_id=run_id))
    await asyncio.sleep(0.1)
    watch.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await watch
    seconds = answer.ended_at - answer.asked_at
    return {
        f"{what}: rows of its log": database.rows_of(run_id),
        "... commits": database.seen,
        "... commits a second": database.seen / max(seconds, 1.0),
    }


async def measure(servers: list[Server], quick: bool, repeats: int) -> dict[str, dict[str, list[float]]]:
    """Row -> server -> its figures, one a repeat."""
    rows: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    crowd = Job(f"paced-{50 if quick else 100}", STREAMS, STREAMS, live_streams, spread_over=SPREAD_OVER)
    for server in servers:
        await whole.run(server, Job("tools", 32, 16, whole.tool_runs))
        # First, and in the first minute: upkeep, which writes too, looks for work only then.
        for row, figure in (await writes(server, "paced-50", "a run of 5 s at 10 deltas/s")).items():
            rows[row][server.name].append(figure)
    for _ in range(repeats):
        for server in servers:
            whole.peaks.clear()
            figures = crowd.figures(crowd, await whole.run(server, crowd))
            figures |= await fan_out(server, 50 if quick else 80, READERS)
            for row, figure in figures.items():
                rows[row][server.name].append(figure)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description="Many at once on one process.")
    parser.add_argument("--quick", action="store_true", help="shorter, one repeat: a look, no figures")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--only", choices=["uvicorn", "daphne"], help="one of the two servers")
    options = parser.parse_args()
    repeats = 1 if options.quick else options.repeats
    print(f"{machine()}; medians of {repeats} (least-most)\n", flush=True)
    with contextlib.ExitStack() as stack:
        model = stack.enter_context(module("model"))
        settings = {
            "OPENAI_BASE_URL": f"http://127.0.0.1:{model.port}",
            "OPENAI_MODELS": "tools,paced-50,paced-80,paced-100",
        }
        kinds = [options.only] if options.only else ["uvicorn", "daphne"]
        servers = [stack.enter_context(site(kind, **settings)) for kind in kinds]
        rows = uvloop.run(measure(servers, options.quick, repeats))
    table = [[row.strip(), *(spread(rows[row][server.name]) for server in servers)] for row in rows]
    print_table(["", *(server.name for server in servers)], table)


if __name__ == "__main__":
    sys.exit(main())
