"""Middlewares that are ready to use, one file each."""

from agent.middlewares.redact import Redact
from agent.middlewares.telemetry import Telemetry
from agent.middlewares.tool_cache import ToolCache
from agent.middlewares.tool_call_budget import ToolCallBudget

__all__ = ["Redact", "Telemetry", "ToolCache", "ToolCallBudget"]
