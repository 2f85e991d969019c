"""The two dialects: who speaks one, caller or endpoint, is served by the same codec."""

from __future__ import annotations

from types import ModuleType
from typing import Literal

from agent.wire import anthropic, openai_chat

Dialect = Literal["openai", "anthropic"]

CODECS: dict[Dialect, ModuleType] = {"openai": openai_chat, "anthropic": anthropic}
