"""What a gateway costs between a program and a provider: `python -m bench.gateway`.

Processes on loopback: a provider that is never the bottleneck (`upstream.py`), the least gateway that passes on
(`floor.py`), Threadloom under uvicorn and under daphne, with no hook, with one that looks and declines, and with one
that asks for a rerun; and LiteLLM's proxy when `--litellm PYTHON` names an interpreter that has `litellm[proxy]`. They
take turns, repeat after repeat, so that a busy moment of the machine hits all of them.

What a gateway adds is the difference to the same request sent to the provider itself, in the same round. CPU is
the gateway's own, all its threads, from /proc.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import statistics
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import uvloop

from bench.common import (
    KEY,
    ROOT,
    Server,
    environment,
    free_port,
    machine,
    print_table,
    process,
    site,
    spread,
    wait_for,
)
from bench.common import module as bench_module
from bench.gateway import load
from bench.gateway.load import Answer
from bench.gateway.upstream import SAID, TOOL

DIRECT = "direct"
MODELS = ("say", "look", *(f"text-{n}" for n in (2_000, 20_000, 500)), "pace-200")
Figures = dict[str, float]


@dataclass(frozen=True)
class Job:
    """`count` requests of a model, `clients` of them at a time."""

    name: str
    model: str
    count: int
    clients: int
    figures: Callable[[Job, list[Answer], float, float], Figures]
    stream: bool = False
    tool: str = ""

    @property
    def events(self) -> int:
        return self.count * int(self.model.partition("-")[2] or 0)

    def request(self, protocol: str) -> bytes:
        return load.request(protocol, self.model, stream=self.stream, tool=self.tool)


def plain(job: Job, answers: list[Answer], seconds: float, cpu: float) -> Figures:
    took = [answer.ended_at - answer.asked_at for answer in answers]
    figures = {f"requests/s, {job.clients} at once": job.count / seconds}
    if job.clients == 1:
        figures["p50 added, ms"] = 1e3 * statistics.median(took)
    return {**figures, f"CPU per request, ms, {job.clients} at once": 1e3 * cpu / job.count}


def first_event(job: Job, answers: list[Answer], seconds: float, cpu: float) -> Figures:
    return {"first event added, ms": 1e3 * statistics.median(a.first_at - a.asked_at for a in answers)}


def flood(job: Job, answers: list[Answer], seconds: float, cpu: float) -> Figures:
    return {f"events/s, {job.clients} stream(s)": job.events / seconds}


def paced(job: Job, answers: list[Answer], seconds: float, cpu: float) -> Figures:
    return {"50 streams paced at 10 ms: CPU per event, us": 1e6 * cpu / job.events}


def rerun(job: Job, answers: list[Answer], seconds: float, cpu: float) -> Figures:
    took = statistics.median(answer.ended_at - answer.asked_at for answer in answers)
    return {"one rerun by a hook, ms in all": 1e3 * took}


GOALS = {
    "requests/s, 1 at once": ">= 900",
    "requests/s, 16 at once": ">= 1,600",
    "requests/s, 64 at once": ">= 1,600",
    "p50 added, ms": "<= 1.0",
    "CPU per request, ms, 1 at once": "<= 0.8",
    "CPU per request, ms, 16 at once": "<= 0.8",
    "CPU per request, ms, 64 at once": "<= 0.8",
    "first event added, ms": "<= 1.2",
    "events/s, 1 stream(s)": ">= 50,000",
    "events/s, 50 stream(s)": ">= 40,000",
    "50 streams paced at 10 ms: CPU per event, us": "<= 70",
    "most memory resident, MiB": "<= 100",
    "start, s": "<= 2",
}
ADDED = {"p50 added, ms", "first event added, ms"}
"""Rows whose figure is what stands above the provider's own."""


def jobs(quick: bool) -> list[Job]:
    part = 4 if quick else 1
    return [
        Job("plain", "say", 400 // part, 1, plain),
        Job("plain", "say", 1600 // part, 16, plain),
        Job("plain", "say", 1600 // part, 64, plain),
        Job("stream", "say", 200 // part, 1, first_event, stream=True),
        Job("flood", f"text-{2_000 if quick else 20_000}", 1, 1, flood, stream=True),
        Job("flood", "text-500", 50, 50, flood, stream=True),
        Job("paced", "pace-200", 50, 50, paced, stream=True),
    ]


RERUN = Job("rerun", "look", 100, 1, rerun, tool=TOOL)
SLOW = {"LiteLLM"}


def fit(job: Job, gateway: str) -> Job:
    """The same job, shorter, for who would need minutes for it."""
    if gateway not in SLOW or job.count == 50:
        return job
    if job.model.startswith("text"):
        return Job(job.name, "text-2000", 1, 1, job.figures, stream=True)
    return Job(job.name, job.model, max(40, job.count // 10), job.clients, job.figures, job.stream, job.tool)


async def measure(
    gateways: list[Server], todo: list[Job], protocol: str, repeats: int
) -> dict[str, dict[str, list[float]]]:
    """Row -> gateway -> its figures, one a repeat."""
    rows: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for gateway in gateways:
        await run(gateway, Job("plain", "say", 50, 4, plain), protocol)
    for job in todo:
        for _ in range(repeats):
            own: Figures = {}
            for gateway in gateways:
                figures = await run(gateway, fit(job, gateway.name), protocol)
                own = own or figures  # the provider itself is asked first
                for row, figure in figures.items():
                    base = own[row] if row in ADDED and gateway.name != DIRECT else 0.0
                    rows[row][gateway.name].append(figure - base)
    return rows


async def run(gateway: Server, job: Job, protocol: str) -> Figures:
    request = job.request(protocol)
    cpu, begun = gateway.cpu(), time.monotonic()
    answers = await load.run(gateway.port, request, count=job.count, clients=job.clients)
    seconds, cpu = time.monotonic() - begun, gateway.cpu() - cpu
    for answer in answers:
        check(job, protocol, bytes(answer.body))
    return job.figures(job, answers, seconds, cpu)


def check(job: Job, protocol: str, body: bytes) -> None:
    """The answer is the provider's, whole."""
    size = int(job.model.partition("-")[2] or 0)
    right = body.count(load.MARKS[protocol]) == size if size else SAID.encode() in body
    if not right and size:  # another writer of JSON may set blanks
        right = body.replace(b'": " word', b'":" word').count(load.MARKS[protocol]) == size
    if not right:
        raise SystemExit(f"{job.model}: not what the provider said: {body[:600]!r}")


# -- the gateways --------------------------------------------------------------------------------------------


@contextlib.contextmanager
def threadloom(server: str, upstream: str, protocol: str, hook: str = "") -> Iterator[Server]:
    kind = {"chat": "OPENAI", "messages": "ANTHROPIC"}[protocol]
    settings = {f"{kind}_BASE_URL": f"{upstream}/v1", f"{kind}_MODELS": ",".join(MODELS)}
    settings |= {"GATEWAY_HOOKS": f"bench.gateway.hooks.{hook}", "PYTHONPATH": str(ROOT)} if hook else {}
    with site(server, **settings) as found:
        yield Server(f"{found.name}{f', {hook}' if hook else ''}", found.port, found.pid)


@contextlib.contextmanager
def litellm(python: str, upstream: str, protocol: str, hook: str = "") -> Iterator[Server]:
    """LiteLLM's proxy, one worker, without a database."""
    port = free_port()
    kind, base = {"chat": ("openai", f"{upstream}/v1"), "messages": ("anthropic", upstream)}[protocol]
    models = [
        {
            "model_name": model,
            "litellm_params": {"model": f"{kind}/{model}", "api_base": base, "api_key": "none"},
        }
        for model in MODELS
    ]
    with tempfile.TemporaryDirectory(prefix="threadloom-bench-") as folder:
        config = Path(folder) / "config.yaml"  # JSON is YAML too
        settings: dict[str, object] = {"callbacks": [f"bench_hooks.{hook}"]} if hook else {}
        general = {"master_key": KEY}
        config.write_text(
            json.dumps({"model_list": models, "litellm_settings": settings, "general_settings": general})
        )
        (Path(folder) / "bench_hooks.py").write_text((ROOT / "bench/gateway/hooks.py").read_text())
        env = environment(LITELLM_LOG="ERROR", LITELLM_LOCAL_MODEL_COST_MAP="True")
        command = ["-m", "litellm.proxy.proxy_cli", "--config", str(config), "--port", str(port)]
        begun = time.monotonic()
        with process(*command, "--host", "127.0.0.1", env=env, python=python) as child:
            wait_for(port, child, b"GET /health/liveliness HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
            print(f"LiteLLM was up after {time.monotonic() - begun:.1f} s\n", flush=True)
            yield Server("LiteLLM", port, child.pid)


def compare(options: argparse.Namespace, protocol: str, kind: str) -> None:
    todo = [RERUN] if kind == "looks_up" else jobs(options.quick)
    todo = [job for job in todo if job.name.startswith(options.only)]
    hook = "" if kind == "none" else kind
    print(f"\n{load.PATHS[protocol]}, hook: {kind}\n", flush=True)
    with contextlib.ExitStack() as stack:
        upstream = stack.enter_context(bench_module("gateway.upstream"))
        url = f"http://127.0.0.1:{upstream.port}"
        gateways = [Server(DIRECT, upstream.port, upstream.pid)]
        if not hook:
            gateways.append(stack.enter_context(bench_module("gateway.floor", "--upstream", url)))
        for server in ("uvicorn",) if options.without_daphne else ("uvicorn", "daphne"):
            gateways.append(stack.enter_context(threadloom(server, url, protocol, hook)))
        # Its chat completions ask no hook of this form when the tool is the caller's own.
        if options.litellm and (protocol, hook) != ("chat", "looks_up"):
            gateways.append(stack.enter_context(litellm(options.litellm, url, protocol, hook)))
        if hook == "looks_up":
            gateways = gateways[1:]
        rows = uvloop.run(measure(gateways, todo, protocol, 1 if options.quick else options.repeats))
        for gateway in gateways:
            rows["most memory resident, MiB"][gateway.name].append(gateway.resident())
    names = [gateway.name for gateway in gateways]
    print_table(
        ["", *names, "goal"],
        [
            [row, *(spread(figures[name]) for name in names), GOALS.get(row, "")]
            for row, figures in rows.items()
        ],
    )


def main() -> None:
    parser = argparse.ArgumentParser(description="What a gateway costs.")
    parser.add_argument("--quick", action="store_true", help="shorter jobs, one repeat: a look, no figures")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument(
        "--only", default="", help="only jobs whose name begins so: plain, stream, flood, paced"
    )
    parser.add_argument("--protocol", choices=[*load.PATHS], action="append")
    parser.add_argument("--hook", choices=["none", "declines", "looks_up"], action="append")
    parser.add_argument("--without-daphne", action="store_true")
    parser.add_argument("--litellm", default=os.environ.get("LITELLM_PYTHON", ""), metavar="PYTHON")
    options = parser.parse_args()
    print(f"{machine()}; medians of {1 if options.quick else options.repeats} (least-most)", flush=True)
    for protocol in options.protocol or load.PATHS:
        for kind in options.hook or ["none", "declines", "looks_up"]:
            compare(options, protocol, kind)


if __name__ == "__main__":
    main()
