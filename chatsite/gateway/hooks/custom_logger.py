"""LiteLLM's form of a hook: the class to derive from, with its methods, their arguments and what they answer.

Signatures and defaults are those of LiteLLM 1.110, so that a hook written for it works with this import changed:

    from chatsite.gateway.hooks import CustomLogger, AgenticLoopPlan, AgenticLoopRequestPatch

`litellm_form.py` says when each is called. What else LiteLLM's class has (logging, routing, caching) is not called
here: some of those methods are here so that a subclass may call `super()`, and the start warns of those of `NOT_CALLED`
that it overrides.
"""

from __future__ import annotations

from typing import Any, ClassVar

from agent.rerun import AgenticLoopPlan

Json = dict[str, Any]


class CustomLogger:
    """Override what you need. All methods that are called here are async and are called with keywords."""

    server_fulfilled_tool_names: ClassVar[frozenset[str]] = frozenset()
    """The tools that are fulfilled here: a streaming caller then gets one message without their calls."""

    hook_timeout: ClassVar[float | None] = None
    """Seconds for one method; None: as other hooks have. (No field of LiteLLM's.)"""

    def __init__(self, message_logging: bool = True, **kwargs: Any) -> None:
        self.message_logging = message_logging

    # -- the loop, on /v1/messages ---------------------------------------------------------------------------

    async def async_should_run_agentic_loop(
        self,
        response: Any,
        model: str,
        messages: list[Json],
        tools: list[Json] | None,
        stream: bool,
        custom_llm_provider: str,
        kwargs: Json,
    ) -> tuple[bool, Json]:
        """Is there something to do about this answer? The second value is handed on as `tools`."""
        return False, {}

    async def async_build_agentic_loop_plan(
        self,
        tools: Json,
        model: str,
        messages: list[Json],
        response: Any,
        anthropic_messages_provider_config: Any,
        anthropic_messages_optional_request_params: Json,
        logging_obj: Any,
        stream: bool,
        kwargs: Json,
    ) -> AgenticLoopPlan:
        return AgenticLoopPlan(run_agentic_loop=False)

    async def async_run_agentic_loop(
        self,
        tools: Json,
        model: str,
        messages: list[Json],
        response: Any,
        anthropic_messages_provider_config: Any,
        anthropic_messages_optional_request_params: Json,
        logging_obj: Any,
        stream: bool,
        kwargs: Json,
    ) -> Any:
        """The older form: what it returns is the answer; None keeps the one that is there."""
        return None

    # -- the loop, on chat -----------------------------------------------------------------------------------

    async def async_should_run_chat_completion_agentic_loop(
        self,
        response: Any,
        model: str,
        messages: list[Json],
        tools: list[Json] | None,
        stream: bool,
        custom_llm_provider: str,
        kwargs: Json,
    ) -> tuple[bool, Json]:
        return False, {}

    async def async_build_chat_completion_agentic_loop_plan(
        self,
        tools: Json,
        model: str,
        messages: list[Json],
        response: Any,
        optional_params: Json,
        logging_obj: Any,
        stream: bool,
        kwargs: Json,
    ) -> AgenticLoopPlan:
        return AgenticLoopPlan(run_agentic_loop=False)

    async def async_run_chat_completion_agentic_loop(
        self,
        tools: Json,
        model: str,
        messages: list[Json],
        response: Any,
        optional_params: Json,
        logging_obj: Any,
        stream: bool,
        kwargs: Json,
    ) -> Any:
        return None

    # -- behind the loop -------------------------------------------------------------------------------------

    async def async_post_agentic_loop_response_hook(
        self, response: Any, plan: AgenticLoopPlan, kwargs: Json
    ) -> Any:
        """The last answer behind a rerun, to change it."""
        return response

    async def async_agentic_loop_cleanup_hook(self, plan: AgenticLoopPlan, kwargs: Json) -> None:
        return None

    # -- around the request ----------------------------------------------------------------------------------

    async def async_pre_call_hook(
        self, user_api_key_dict: Any, cache: Any, data: Json, call_type: str
    ) -> Exception | str | Json | None:
        """The request to make in the place of `data`; a string, or an exception, refuses it."""
        return None

    async def async_pre_call_deployment_hook(self, kwargs: Json, call_type: Any) -> Json | None:
        return None

    async def async_post_call_success_hook(self, data: Json, user_api_key_dict: Any, response: Any) -> Any:
        return None

    # -- not called here -------------------------------------------------------------------------------------

    def log_pre_api_call(self, model: Any, messages: Any, kwargs: Any) -> None: ...

    def log_post_api_call(self, kwargs: Any, response_obj: Any, start_time: Any, end_time: Any) -> None: ...

    def log_success_event(self, kwargs: Any, response_obj: Any, start_time: Any, end_time: Any) -> None: ...

    def log_failure_event(self, kwargs: Any, response_obj: Any, start_time: Any, end_time: Any) -> None: ...

    async def async_log_success_event(
        self, kwargs: Any, response_obj: Any, start_time: Any, end_time: Any
    ) -> None: ...

    async def async_log_failure_event(
        self, kwargs: Any, response_obj: Any, start_time: Any, end_time: Any
    ) -> None: ...


NOT_CALLED = frozenset(
    {"log_pre_api_call", "log_post_api_call", "log_success_event", "log_failure_event"}
    | {"async_log_success_event", "async_log_failure_event", "async_log_pre_api_call", "async_logging_hook"}
    | {"async_moderation_hook", "async_post_call_failure_hook", "async_post_call_streaming_hook"}
    | {"async_post_call_streaming_iterator_hook", "async_filter_deployments", "async_dataset_hook"}
)
"""Methods of LiteLLM's class that do nothing here."""


def overrides(hook: object, method: str) -> bool:
    """Does this hook have a method of its own there, in its class or on the instance?"""
    own = getattr(hook, method, None)
    return getattr(own, "__func__", own) is not getattr(CustomLogger, method, None)
