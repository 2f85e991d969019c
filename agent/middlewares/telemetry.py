"""OpenTelemetry spans of a run, by the conventions for generative AI (`gen_ai.*`).

    Agent(..., middleware=[Telemetry])

    span                   kind       attributes besides gen_ai.operation.name and gen_ai.provider.name
    invoke_agent           internal   conversation id, run id; usage of the whole run; error.type
      chat <model>         client     request and response model, usage, finish reasons
      execute_tool <name>  internal   tool name, call id, type; error.type when it failed

Nothing that anybody said is in them: no prompt, no answer, no arguments, no results. Without the OpenTelemetry API
installed nothing happens, and without its SDK the API's own spans do nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from agent.events import RunError, RunFinished
from agent.messages import ToolResultPart
from agent.middleware import Middleware, MiddlewareContext, ToolCall, TurnUsage

try:
    from opentelemetry import trace
except ImportError:  # pragma: no cover - the package is optional
    trace = None  # type: ignore[assignment]  # no module then

SCOPE = "threadloom.agent"


class Telemetry(Middleware):
    name: ClassVar[str] = "telemetry"

    def __init__(self, tracer: Any = None) -> None:
        self._tracer = tracer or (trace.get_tracer(SCOPE) if trace is not None else None)
        self._run: Any = None
        self._turn: Any = None
        self._calls: dict[str, Any] = {}
        self._tokens = [0, 0]

    def fresh(self) -> Telemetry:
        return Telemetry(self._tracer)

    # -- the run ---------------------------------------------------------------------------------------------

    def on_start(self, ctx: MiddlewareContext) -> None:
        facts = {"gen_ai.conversation.id": ctx.thread_id, "threadloom.run.id": ctx.run_id}
        self._run = self._begin("invoke_agent", "invoke_agent", ctx, None, facts)

    def on_finish(self, ctx: MiddlewareContext, end: RunFinished) -> None:
        self._end_run({"threadloom.run.stop_reason": end.stop_reason})

    def on_abort(self, ctx: MiddlewareContext, reason: str) -> None:
        self._end_run({"threadloom.run.stop_reason": "cancelled"})

    def on_error(self, ctx: MiddlewareContext, end: RunError) -> None:
        self._end_run({}, end.code or "error")

    def _end_run(self, facts: Mapping[str, Any], error: str | None = None) -> None:
        for span in (*self._calls.values(), self._turn):
            _end(span, {})
        self._calls, self._turn = {}, None
        used = dict(
            zip(("gen_ai.usage.input_tokens", "gen_ai.usage.output_tokens"), self._tokens, strict=True)
        )
        _end(self._run, {**used, **facts}, error)
        self._run = None

    # -- its turns -------------------------------------------------------------------------------------------

    def on_iteration(self, ctx: MiddlewareContext) -> None:
        self._turn = self._begin(
            f"chat {ctx.model}", "chat", ctx, self._run, {"gen_ai.request.model": ctx.model}, client=True
        )

    def on_usage(self, ctx: MiddlewareContext, turn: TurnUsage) -> None:
        self._tokens[0] += turn.usage.input_tokens
        self._tokens[1] += turn.usage.output_tokens
        facts = {
            "gen_ai.provider.name": turn.provider,  # of several it may not be the one that was asked first
            "gen_ai.response.model": turn.model,
            "gen_ai.usage.input_tokens": turn.usage.input_tokens,
            "gen_ai.usage.output_tokens": turn.usage.output_tokens,
        }
        if turn.finish_reason is not None:
            facts["gen_ai.response.finish_reasons"] = (turn.finish_reason,)
        _end(self._turn, facts, None if turn.finish_reason else "incomplete_stream")
        self._turn = None

    # -- their calls -----------------------------------------------------------------------------------------

    def on_before_tool_call(self, ctx: MiddlewareContext, call: ToolCall) -> None:
        facts = {
            "gen_ai.tool.name": call.name,
            "gen_ai.tool.call.id": call.id,
            "gen_ai.tool.type": "function",
        }
        self._calls[call.id] = self._begin(f"execute_tool {call.name}", "execute_tool", ctx, self._run, facts)

    def on_after_tool_call(self, ctx: MiddlewareContext, call: ToolCall, result: ToolResultPart) -> None:
        _end(self._calls.pop(call.id, None), {}, result.error)

    # -- spans -----------------------------------------------------------------------------------------------

    def _begin(
        self,
        name: str,
        operation: str,
        ctx: MiddlewareContext,
        parent: Any,
        facts: Mapping[str, Any],
        *,
        client: bool = False,
    ) -> Any:
        if self._tracer is None or trace is None:
            return None
        # The parent is given and not taken from the surroundings: a run works in several tasks.
        above = None if parent is None else trace.set_span_in_context(parent)
        kind = trace.SpanKind.CLIENT if client else trace.SpanKind.INTERNAL
        attributes = {"gen_ai.operation.name": operation, "gen_ai.provider.name": ctx.provider, **facts}
        return self._tracer.start_span(name, context=above, kind=kind, attributes=attributes)


def _end(span: Any, facts: Mapping[str, Any], error: str | None = None) -> None:
    if span is None:
        return
    for name, value in facts.items():
        span.set_attribute(name, value)
    if error is not None and trace is not None:
        span.set_attribute("error.type", error)
        span.set_status(trace.StatusCode.ERROR)
    span.end()
