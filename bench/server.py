"""The whole server against the least one: `python -m bench.server`.

Processes on loopback: a model that is never the bottleneck (`model.py`), the least server that does the same
work and keeps nothing (`floor.py`), the same as a Django view that keeps rows (`full_floor.py`), Threadloom
under uvicorn and under daphne with a database of its own, and this client. The servers take turns, repeat
after repeat, so that a busy moment of the machine hits all of them.

A delta here is one of the *model's*. Every delta arrives, and this checks it: the text of every answer
is the text that the model wrote. But our provider folds what one network read brings into one event, and
the floor does not, so at full speed ours sends fewer frames; at 10 deltas a second, where nothing can be
folded, the same.

CPU is the server's own, all its threads, from /proc. Memory is the most that was resident while the 200
slow streams ran, on a server that had done nothing else but warm up.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import re
import statistics
import sys
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass

import uvloop

from bench.client import Answer, ask, chat_request
from bench.common import Server, machine, module, percentile, print_table, site, spread
from bench.model import SAID, WORD

FIRST_TEXT = b'"TEXT_MESSAGE_CONTENT"'
STAMP = re.compile(rb"t=(\d+);")

Figures = dict[str, float]


@dataclass(frozen=True)
class Taken:
    """One repeat of a job on one server."""

    answers: list[Answer]
    seconds: float
    cpu: float
    peak: float  # MiB resident


@dataclass(frozen=True)
class Job:
    """`count` runs of a model, `at_once` of them at a time."""

    model: str
    count: int
    at_once: int
    figures: Callable[[Job, Taken], Figures]
    spread_over: float = 0.0  # seconds within which the first ones begin

    @property
    def deltas(self) -> int:
        return self.count * int(self.model.partition("-")[2] or 0)


async def run(server: Server, job: Job) -> Taken:
    left = iter(range(job.count))
    answers: list[Answer] = []
    requests = [chat_request(job.model) for _ in range(job.count)]

    async def work(delay: float) -> None:
        await asyncio.sleep(delay)
        for number in left:
            answers.append(await ask(server.port, requests[number], first_text=FIRST_TEXT))

    cpu, watch = server.cpu(), asyncio.ensure_future(peak_of(server))
    await asyncio.gather(*(work(job.spread_over * number / job.at_once) for number in range(job.at_once)))
    cpu = server.cpu() - cpu
    watch.cancel()
    seconds = max(each.ended_at for each in answers) - min(each.asked_at for each in answers)
    for answer in answers:
        check(job, answer)
    with contextlib.suppress(asyncio.CancelledError):
        await watch
    return Taken(answers, seconds, cpu, peaks[server.pid])


peaks: dict[int, float] = defaultdict(float)


async def peak_of(server: Server) -> None:
    while True:
        peaks[server.pid] = max(peaks[server.pid], server.resident())
        await asyncio.sleep(0.25)


def check(job: Job, answer: Answer) -> None:
    """The run ended well, and the answer's text is the model's."""
    lines = answer.body.decode().split("\n")
    events = [json.loads(line[6:]) for line in lines if line.startswith("data: ")]
    said = "".join(event["delta"] for event in events if event["type"] == "TEXT_MESSAGE_CONTENT")
    name, _, size = job.model.partition("-")
    if name == "paced":
        whole = len(STAMP.findall(said.encode())) == int(size)
    else:
        whole = said == (WORD * int(size) if name == "text" else SAID)
    results = sum(event["type"] == "TOOL_CALL_RESULT" for event in events)
    if events[-1]["type"] != "RUN_FINISHED" or not whole or results != {"tools": 2, "args": 1}.get(name, 0):
        raise SystemExit(f"{job.model}: not what the model wrote; it ended with {events[-1]}")


# -- what is read off a repeat -------------------------------------------------------------------------------


def slow_streams(job: Job, taken: Taken) -> Figures:
    """The first row is of the time in which all of the streams are under way. The second is of all of it: at its
    begin 67 runs a second start, and what a start costs comes late to those that stream."""
    late = [
        [(int(found[1]) / 1e9, answer.arrived(found.start())) for found in STAMP.finditer(answer.raw)]
        for answer in taken.answers
    ]
    begun, ending = max(deltas[0][0] for deltas in late), min(deltas[-1][0] for deltas in late)
    delays = [(begun <= written <= ending, came - written) for deltas in late for written, came in deltas]
    return {
        "200 streams at 10 deltas/s: p99 lateness, ms": 1e3
        * percentile([d for all_run, d in delays if all_run], 99),
        "... those included that begin and end": 1e3 * percentile([delay for _, delay in delays], 99),
        "... most memory resident, MiB": taken.peak,
        "... CPU per delta, us": 1e6 * taken.cpu / job.deltas,
    }


def first_text(job: Job, taken: Taken) -> Figures:
    return {
        "first text added, ms": 1e3 * statistics.median(a.first_text_at - a.asked_at for a in taken.answers)
    }


def fast_streams(job: Job, taken: Taken) -> Figures:
    name = "one stream" if job.at_once == 1 else f"{job.at_once} streams"
    return {
        f"deltas/s, {name}": job.deltas / taken.seconds,
        f"CPU per delta, us, {name}": 1e6 * taken.cpu / job.deltas,
    }


def tool_runs(job: Job, taken: Taken) -> Figures:
    figures = {f"three-turn tool run, runs/s, {job.at_once} at once": job.count / taken.seconds}
    if job.at_once == 1:
        p50 = statistics.median(answer.ended_at - answer.asked_at for answer in taken.answers)
        figures = {"three-turn tool run, p50 ms, alone": 1e3 * p50, **figures}
    return {**figures, f"... CPU per run, ms, {job.at_once} at once": 1e3 * taken.cpu / job.count}


def big_arguments(job: Job, taken: Taken) -> Figures:
    return {"250 KB of arguments, s": taken.seconds / job.count}


GOALS = {
    "first text added, ms": "<= 5",
    "deltas/s, one stream": ">= 30,000",
    "deltas/s, 200 streams": ">= 15,000",
    "CPU per delta, us, one stream": "<= 30",
    "CPU per delta, us, 200 streams": "<= 65",
    "three-turn tool run, p50 ms, alone": "<= 12",
    "three-turn tool run, runs/s, 1 at once": ">= 80",
    "three-turn tool run, runs/s, 64 at once": ">= 100",
    "250 KB of arguments, s": "<= 0.5",
    "200 streams at 10 deltas/s: p99 lateness, ms": "<= 10",
    "... most memory resident, MiB": "<= 110",
}


def jobs(quick: bool) -> list[Job]:
    """The slow streams come first, while a server's memory still is what they need."""
    return [
        Job(f"paced-{50 if quick else 80}", 200, 200, slow_streams, spread_over=3.0),
        Job("text-16", 20 if quick else 60, 1, first_text),
        Job(f"text-{20_000 if quick else 60_000}", 1, 1, fast_streams),
        Job(f"text-{100 if quick else 300}", 200, 200, fast_streams),
        Job("tools", 40 if quick else 100, 1, tool_runs),
        Job("tools", 128 if quick else 320, 64, tool_runs),
        Job("args-250", 1, 1, big_arguments),
    ]


async def measure(servers: list[Server], todo: list[Job], repeats: int) -> dict[str, dict[str, list[float]]]:
    """Row -> server -> its figures, one a repeat."""
    rows: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for server in servers:
        await run(server, Job("tools", 64, 16, tool_runs))
        peaks.clear()
    for job in todo:
        for _ in range(repeats):
            for server in servers:
                for row, figure in job.figures(job, await run(server, job)).items():
                    rows[row][server.name].append(figure)
    return rows


def show(servers: list[Server], rows: dict[str, dict[str, list[float]]]) -> None:
    floors, ours = [server.name for server in servers[:2]], servers[2].name
    table = []
    for row, figures in rows.items():
        mine = statistics.median(figures[ours])
        ratios = [f"{mine / statistics.median(figures[floor]):.2f}" for floor in floors]
        cells = [spread(figures[server.name]) for server in servers]
        table.append([row, *cells, *ratios, GOALS.get(row, "")])
    against = [f"ours / {floor}" for floor in floors]
    print_table(["", *(server.name for server in servers), *against, "goal"], table)


def main() -> None:
    parser = argparse.ArgumentParser(description="The whole server against the least one.")
    parser.add_argument("--quick", action="store_true", help="shorter jobs, one repeat: a look, no figures")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--only", default="", help="only jobs of models whose name begins so")
    parser.add_argument("--without-daphne", action="store_true")
    options = parser.parse_args()
    todo = [job for job in jobs(options.quick) if job.model.startswith(options.only)]
    print(f"{machine()}; medians of {1 if options.quick else options.repeats} (least-most)\n", flush=True)
    with contextlib.ExitStack() as stack:
        model = stack.enter_context(module("model"))
        url = f"http://127.0.0.1:{model.port}"
        models = ",".join(sorted({job.model for job in jobs(False) + jobs(True)}))
        settings = {"OPENAI_BASE_URL": url, "OPENAI_MODELS": models}
        servers = [stack.enter_context(module(name, "--model", url)) for name in ("floor", "full_floor")]
        for server in ("uvicorn",) if options.without_daphne else ("uvicorn", "daphne"):
            servers.append(stack.enter_context(site(server, **settings)))
        rows = uvloop.run(measure(servers, todo, 1 if options.quick else options.repeats))
    show(servers, rows)


if __name__ == "__main__":
    sys.exit(main())
