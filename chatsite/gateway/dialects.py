"""The two dialects: who speaks one, caller or endpoint, is served by the same codec."""

from __future__ import annotations

from types import ModuleType

from agent.rerun import Dialect
from agent.wire import anthropic, openai_chat

__all__ = ["CODECS", "Dialect"]

CODECS: dict[Dialect, ModuleType] = {"openai": openai_chat, "anthropic": anthropic}
