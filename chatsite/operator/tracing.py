"""Traces of runs, sent to whom `OTEL_EXPORTER_OTLP_ENDPOINT` names (OpenTelemetry's own variable, as are the others
that begin with OTEL_: its SDK reads them itself).

The spans are `agent.middlewares.Telemetry`'s; settings put it around every run when the variable is set. Nothing that
anybody said is in them.
"""

from django.conf import settings

LACKING = (
    "OTEL_EXPORTER_OTLP_ENDPOINT is set, and OpenTelemetry's packages are not installed: "
    "run `.venv/bin/pip install 'threadloom[telemetry]'` (in a clone: `'.[telemetry]'`), or unset it."
)


class NoTracing(Exception):
    """A sentence for whoever started the server."""


def begin() -> None:
    """Once per process, before the first run."""
    if not settings.TRACES_TO:
        return
    try:
        from opentelemetry import trace
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import SERVICE_NAME, Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ImportError:
        raise NoTracing(LACKING) from None
    # `create` lets OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES have the last word.
    provider = TracerProvider(resource=Resource.create({SERVICE_NAME: "threadloom"}))
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    trace.set_tracer_provider(provider)
