"""What a process tells of itself: ready or not, its numbers, its log."""

from __future__ import annotations

import asyncio
import json
import logging
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from django.contrib.auth.models import User
from django.db import OperationalError, connection
from prometheus_client.parser import text_string_to_metric_families

from chatsite.chat.process import draining
from chatsite.operator import readiness, tracing
from chatsite.watch import counters, ids
from chatsite.watch.exposition import exposition
from chatsite.watch.logs import Json, Plain, WithIds
from tests.live.api import Api
from tests.server import Server
from tests.site.processes import wait_until

TOKEN = "a token for the one who counts"


@pytest.fixture(autouse=True)
def _look_again():
    readiness.forget()
    yield
    readiness.forget()


# -- readiness


@pytest.mark.django_db
def test_a_process_that_has_all_it_needs_is_ready(client):
    answer = client.get("/readyz")
    assert answer.status_code == 200
    assert answer.text.splitlines() == [f"{name}: ok" for name in readiness.CHECKS]


@pytest.mark.django_db
def test_a_process_that_is_about_to_stop_is_healthy_and_not_ready(client):
    draining.drain()
    try:
        answer = client.get("/readyz")
        assert client.get("/healthz").status_code == 200
    finally:
        draining.serve()
    assert answer.status_code == 503
    assert "process: is about to stop" in answer.text


@pytest.mark.django_db
def test_what_is_wrong_is_told_without_details(client):
    def down(execute, sql, params, many, context):
        raise OperationalError("could not connect to db.internal as chat")

    with connection.execute_wrapper(down):
        answer = client.get("/readyz")
    assert answer.status_code == 503
    assert "database: does not answer" in answer.text
    assert "internal" not in answer.text


@pytest.mark.django_db
def test_a_redis_that_is_away_is_told(client, settings):
    settings.REDIS_URL = "redis://127.0.0.1:9/0"
    answer = client.get("/readyz")
    assert answer.status_code == 503
    assert "redis: does not answer" in answer.text


# -- numbers


def test_a_counter_has_a_bounded_number_of_series(monkeypatch):
    monkeypatch.setattr(counters, "_counters", [])
    counter = counters.Counter("c", "Things.", ("kind",))
    for number in range(counters.MOST_SERIES + 50):
        counter.add(str(number))
    counter.add("0")
    read = counter.read()
    assert read["0",] == 2
    assert read[counters.OTHER,] == 50
    assert len(read) == counters.MOST_SERIES + 1


def test_a_name_that_no_page_can_hold_is_counted_and_takes_no_page_with_it(monkeypatch):
    monkeypatch.setattr(counters, "_counters", [])
    monkeypatch.setattr(counters, "_timings", [])
    counters.Counter("c", "Things.", ("model",)).add("half \ud800 of a pair")
    counters.Timing("t", "How long.", ("model",)).add(1.0, "half \ud800 of a pair")
    told = exposition().decode()
    assert told.count('model="half \ufffd of a pair"') > 2


def test_a_timing_counts_each_duration_in_one_bucket(monkeypatch):
    monkeypatch.setattr(counters, "_timings", [])
    timing = counters.Timing("t", "How long.")
    for seconds in (0.01, 0.05, 0.06, 1000.0):
        timing.add(seconds)
    ((counts, total),) = timing.read().values()
    assert (counts[0], counts[1], counts[-1], sum(counts)) == (2, 1, 1, 4)
    assert total == pytest.approx(1000.12)


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("token", "headers", "status"),
    [
        ("", {"Authorization": f"Bearer {TOKEN}"}, 404),
        (TOKEN, {}, 401),
        (TOKEN, {"Authorization": "Bearer another"}, 401),
        (TOKEN, {"Authorization": f"Basic {TOKEN}"}, 401),
        (TOKEN, {"Authorization": f"Bearer {TOKEN}"}, 200),
    ],
)
def test_the_numbers_are_for_who_has_the_token(client, settings, token, headers, status):
    settings.METRICS_TOKEN = token
    client.force_login(User.objects.create_superuser("root"))  # who is logged in is not asked
    assert client.get("/metrics", headers=headers).status_code == status


def numbers_at_rest(api: Api) -> str:
    """A run leaves those who work a moment behind its end."""
    told = api.http.get("/metrics", headers={"Authorization": f"Bearer {TOKEN}"}).text
    return told if "\nthreadloom_runs_at_work 0" in told else ""


@pytest.mark.slow
def test_what_a_server_did_stands_in_its_numbers_and_its_log(tmp_path):
    with Server(
        tmp_path, METRICS_TOKEN=TOKEN, LOG_FORMAT="json", LOG_LEVEL="DEBUG", SERVER="uvicorn"
    ) as server:
        with Api(server, server.people(1)[0]) as api:
            events = api.run("What should I wear in Oslo?", "t-numbers")
            assert events[-1]["type"] == "RUN_FINISHED"
            page = api.http.get("/no/such/page", headers={"x-request-id": "asked-by-a-test"})
            told = wait_until(lambda: numbers_at_rest(api), "the numbers of a server with nothing to do")
        log = server.output
    assert page.headers["x-request-id"] == "asked-by-a-test"
    series = {
        (sample.name, *sorted(sample.labels.values())): sample.value
        for family in text_string_to_metric_families(str(told))
        for sample in family.samples
    }
    assert series["threadloom_runs_total", "demo", "finished", "stop"] == 1
    assert series["threadloom_tool_calls_total", "done", "get_weather"] == 1
    assert series["threadloom_tool_calls_total", "done", "get_clothing_advice"] == 1
    assert series["threadloom_run_seconds_count", "finished"] == 1
    assert series["threadloom_tokens_total", "demo", "output"] > 0
    assert series["threadloom_runs_at_work",] == 0
    assert series["process_resident_memory_bytes",] > 0
    lines = [json.loads(line) for line in log.splitlines() if line.startswith("{")]
    assert {"time", "level", "logger", "message"} <= lines[0].keys()
    assert any(line.get("thread") == "t-numbers" for line in lines)
    assert any(line.get("request") == "asked-by-a-test" for line in lines)


# -- the log


def _line(
    formatter: logging.Formatter, message: str, error: BaseException | None = None, stack: str | None = None
) -> str:
    info = (type(error), error, error.__traceback__) if error else None
    record = logging.LogRecord("a.logger", logging.WARNING, __file__, 1, message, None, info, sinfo=stack)
    assert WithIds().filter(record)
    return formatter.format(record)


@pytest.mark.parametrize("formatter", [Plain(), Json()], ids=["plain", "json"])
def test_nobody_can_write_a_line_of_the_log_for_us(formatter):
    forged = "nothing\r\n2026-01-01 INFO root: all is well\x1b[2J\u2028\u202e"
    line = _line(formatter, forged)
    assert len(line.splitlines()) == 1
    assert line.isprintable()
    try:
        raise ValueError(forged)
    except ValueError as error:
        traced = _line(formatter, "it broke", error).splitlines()
    assert all(line.startswith("    ") for line in traced[1:])
    assert all(line.isprintable() for line in traced)
    with_stack = _line(formatter, "where it was", stack=f"Stack:\n{forged}").splitlines()
    assert all(line.startswith("    ") for line in with_stack[1:])
    token = ids.run_id.set(forged)
    try:
        about = _line(formatter, "of a run")
    finally:
        ids.run_id.reset(token)
    assert len(about.splitlines()) == 1
    assert about.isprintable()


@pytest.mark.parametrize("formatter", [Plain(), Json()], ids=["plain", "json"])
async def test_a_line_says_which_run_it_is_about(formatter):
    async def work() -> str:
        ids.begin_run("r1", "t1")
        return await asyncio.to_thread(_line, formatter, "something happened")

    line = await asyncio.create_task(work())
    assert "r1" in line
    assert "t1" in line
    assert "r1" not in _line(formatter, "something else happened")
    assert (
        json.loads(line)["run"] == "r1"
        if isinstance(formatter, Json)
        else line.endswith("[run=r1 thread=t1]")
    )


# -- traces


class Collector:
    """Takes spans over HTTP, as an OpenTelemetry collector does, and keeps what came."""

    def __init__(self) -> None:
        self.bodies: list[bytes] = []
        bodies = self.bodies

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                bodies.append(self.rfile.read(int(self.headers["Content-Length"])))
                self.send_response(200)
                self.end_headers()

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> Collector:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()


@pytest.mark.slow
def test_spans_of_a_run_reach_a_collector_and_hold_nothing_that_was_said(tmp_path):
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

    with (
        Collector() as collector,
        Server(
            tmp_path,
            SERVER="uvicorn",
            OTEL_EXPORTER_OTLP_ENDPOINT=collector.url,
            OTEL_BSP_SCHEDULE_DELAY="50",
        ) as server,
    ):
        with Api(server, server.people(1)[0]) as api:
            api.run("What should I wear in Reykjavik?", "t-traced")
        wait_until(lambda: b"invoke_agent" in b"".join(collector.bodies), "the spans")
    request = ExportTraceServiceRequest()
    for body in collector.bodies:
        request.MergeFromString(body)
    names = [s.name for r in request.resource_spans for scope in r.scope_spans for s in scope.spans]
    assert names.count("chat demo") == 3
    assert {"invoke_agent", "execute_tool get_weather", "execute_tool get_clothing_advice"} <= set(names)
    assert b"Reykjavik" not in b"".join(collector.bodies)
    assert b"t-traced" in b"".join(collector.bodies)


def test_traces_that_cannot_be_sent_stop_the_start_in_words(settings, monkeypatch):
    settings.TRACES_TO = "http://127.0.0.1:4318"
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk.trace", None)
    with pytest.raises(tracing.NoTracing, match=r"threadloom\[telemetry\]"):
        tracing.begin()
