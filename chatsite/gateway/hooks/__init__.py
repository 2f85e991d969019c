"""Hooks: what looks at a model's answer, fulfils its calls here, and may run the model again, unseen by the caller.

    from chatsite.gateway.hooks import BaseHook, Plan, RelayContext, Turn, rerun_with            our own form
    from chatsite.gateway.hooks import CustomLogger, AgenticLoopPlan, AgenticLoopRequestPatch    LiteLLM's form

A hook is an instance; `GATEWAY_HOOKS` names it by its dotted path (`loading.py`).
"""

from agent.rerun import (
    AgenticLoopPlan,
    AgenticLoopRequestPatch,
    BaseHook,
    Call,
    Hook,
    Patch,
    Plan,
    Refusal,
    RelayContext,
    Turn,
)
from agent.rerun_answers import answered, rerun_with
from chatsite.gateway.hooks.custom_logger import CustomLogger

__all__ = [
    "AgenticLoopPlan",
    "AgenticLoopRequestPatch",
    "BaseHook",
    "Call",
    "CustomLogger",
    "Hook",
    "Patch",
    "Plan",
    "Refusal",
    "RelayContext",
    "Turn",
    "answered",
    "rerun_with",
]
