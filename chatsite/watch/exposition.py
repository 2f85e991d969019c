"""The counters in Prometheus' text form. Its library is loaded when somebody asks: most installations never do."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import accumulate
from typing import Any

from chatsite.watch import counters

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


def exposition() -> bytes:
    from prometheus_client import (
        CollectorRegistry,
        GCCollector,
        PlatformCollector,
        ProcessCollector,
        generate_latest,
    )

    registry = CollectorRegistry()
    for collector in (ProcessCollector, PlatformCollector, GCCollector):
        collector(registry=registry)
    registry.register(_Ours())
    return generate_latest(registry)


class _Ours:
    def collect(self) -> Iterator[Any]:
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily

        for counter in counters.counters():
            family = CounterMetricFamily(counter.name, counter.help, labels=counter.labels)
            for labels, value in counter.read().items():
                family.add_metric(labels, value)
            yield family
        for timing in counters.timings():
            family = HistogramMetricFamily(timing.name, timing.help, labels=timing.labels)
            for labels, (counts, total) in timing.read().items():
                family.add_metric(labels, _buckets(counts), total)
            yield family
        for gauge in counters.gauges():
            yield GaugeMetricFamily(gauge.name, gauge.help, value=gauge.read())


def _buckets(counts: list[int]) -> list[tuple[str, int]]:
    """Prometheus counts up: each bucket holds the ones below it too."""
    bounds = [*(str(bound) for bound in counters.SECONDS), "+Inf"]
    return list(zip(bounds, accumulate(counts), strict=True))
