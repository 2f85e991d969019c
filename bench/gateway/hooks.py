"""Hooks for the bench, in LiteLLM's form, so that both gateways run the same class."""

from __future__ import annotations

from typing import Any

try:  # in LiteLLM's process, which finds ours as well: it runs in this folder
    from litellm.integrations.custom_logger import CustomLogger
    from litellm.types.integrations.custom_logger import AgenticLoopPlan, AgenticLoopRequestPatch
except ImportError:
    from chatsite.gateway.hooks import AgenticLoopPlan, AgenticLoopRequestPatch, CustomLogger

TOOL = "look_up"


class Declines(CustomLogger):
    """Looks at each answer, and wants nothing."""

    async def async_should_run_agentic_loop(self, response: Any, **rest: Any) -> tuple[bool, dict[str, Any]]:
        _blocks(response)
        return False, {}

    async def async_should_run_chat_completion_agentic_loop(
        self, response: Any, **rest: Any
    ) -> tuple[bool, dict[str, Any]]:
        _calls(response)
        return False, {}


class LooksUp(CustomLogger):
    """Answers `look_up` by itself, and has the model go on: one rerun."""

    server_fulfilled_tool_names = frozenset({TOOL})

    async def async_should_run_agentic_loop(self, response: Any, **rest: Any) -> tuple[bool, dict[str, Any]]:
        uses = [block for block in _blocks(response) if block.get("type") == "tool_use"]
        return bool(uses), {"uses": uses}

    async def async_build_agentic_loop_plan(
        self, tools: dict[str, Any], messages: list[Any], **rest: Any
    ) -> AgenticLoopPlan:
        results = [
            {"type": "tool_result", "tool_use_id": use["id"], "content": "62"} for use in tools["uses"]
        ]
        said = [{"role": "assistant", "content": tools["uses"]}, {"role": "user", "content": results}]
        return AgenticLoopPlan(
            run_agentic_loop=True, request_patch=AgenticLoopRequestPatch(messages=[*messages, *said])
        )

    async def async_should_run_chat_completion_agentic_loop(
        self, response: Any, **rest: Any
    ) -> tuple[bool, dict[str, Any]]:
        calls = _calls(response)
        return bool(calls), {"calls": calls}

    async def async_build_chat_completion_agentic_loop_plan(
        self, tools: dict[str, Any], messages: list[Any], **rest: Any
    ) -> AgenticLoopPlan:
        calls = [
            {
                "id": call.id,
                "type": "function",
                "function": {"name": call.function.name, "arguments": call.function.arguments},
            }
            for call in tools["calls"]
        ]
        results = [{"role": "tool", "tool_call_id": call["id"], "content": "62"} for call in calls]
        said = [{"role": "assistant", "content": None, "tool_calls": calls}, *results]
        return AgenticLoopPlan(
            run_agentic_loop=True, request_patch=AgenticLoopRequestPatch(messages=[*messages, *said])
        )


def _blocks(response: Any) -> list[Any]:
    content = response.get("content") if isinstance(response, dict) else getattr(response, "content", None)
    return list(content or ())


def _calls(response: Any) -> list[Any]:
    return list(response.choices[0].message.tool_calls or ())


declines = Declines()
looks_up = LooksUp()
