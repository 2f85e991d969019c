"""A hook in LiteLLM's form, as the relay asks hooks.

| the relay asks | and here that is |
|---|---|
| `claims` on /v1/messages | `async_should_run_agentic_loop` |
| `claims` on chat | `async_should_run_chat_completion_agentic_loop`, or the other when the class has none of its own |
| `look` on /v1/messages | `async_build_agentic_loop_plan`, or the older `async_run_agentic_loop` |
| `look` on chat | the same with `_chat_completion_`, or those when the class has none of its own |
| `after_rerun` | `async_post_agentic_loop_response_hook` |
| `cleanup` | `async_agentic_loop_cleanup_hook` |
| `pre_call` | `async_pre_call_hook`, then `async_pre_call_deployment_hook` |
| `post_call` | `async_post_call_success_hook` |

Which calls it claims is not said in that form: they are those whose id is anywhere in what the gate returned, else
those of the tools in `server_fulfilled_tool_names`.

`kwargs` holds what LiteLLM's do: `_agentic_loop_depth`, `max_agentic_loops`, `_agentic_loop_fingerprints`,
`_agentic_loop_api_surface`, `custom_llm_provider`, `litellm_call_id`, `litellm_metadata`, and what plans put there. No
key and no address of an endpoint is in it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from agent.hook_calls import log
from agent.rerun import DEFAULT_TIMEOUT, BaseHook, Call, Dialect, Json, Plan, Refusal, RelayContext, Turn
from chatsite.gateway.hooks.custom_logger import CustomLogger, overrides
from chatsite.gateway.hooks.responses import View, chat_view, view

GATE = "async_should_run_agentic_loop"
CHAT_GATE = "async_should_run_chat_completion_agentic_loop"
PLANS = ("async_build_agentic_loop_plan", "async_run_agentic_loop")
CHAT_PLANS = ("async_build_chat_completion_agentic_loop_plan", "async_run_chat_completion_agentic_loop")
POST = "async_post_agentic_loop_response_hook"
CLEANUP = "async_agentic_loop_cleanup_hook"
AROUND = ("async_pre_call_hook", "async_pre_call_deployment_hook", "async_post_call_success_hook")

SURFACES: Mapping[Dialect, str] = {"anthropic": "anthropic_messages", "openai": "chat_completions"}
CALL_TYPES: Mapping[Dialect, str] = {"anthropic": "anthropic_messages", "openai": "acompletion"}

REFUSED = "A rule of this server refused the request."
DEEPEST = 20


@dataclass(frozen=True, slots=True)
class LoggingObject:
    """What hooks read of LiteLLM's `logging_obj`."""

    litellm_call_id: str
    model: str
    stream: bool
    model_call_details: Json = field(default_factory=dict)
    dynamic_success_callbacks: tuple[Any, ...] = ()

    @property
    def litellm_trace_id(self) -> str:
        return self.litellm_call_id


@dataclass(frozen=True, slots=True)
class UserKey:
    """What hooks read of LiteLLM's `user_api_key_dict`: whose key it is, never the key."""

    key_alias: str
    user_id: str | None
    api_key: None = None
    metadata: Json = field(default_factory=dict)
    request_route: str = ""


class LiteLLMHook(BaseHook):
    """Methods that the hook does not have stay `BaseHook`'s, which the relay need not call."""

    def __init__(self, hook: CustomLogger) -> None:
        self.hook = hook
        self.serves = frozenset(hook.server_fulfilled_tool_names)
        self.timeout = hook.hook_timeout or DEFAULT_TIMEOUT
        self._gates: Mapping[Dialect, str | None] = {
            "anthropic": self._first(GATE),
            "openai": self._first(CHAT_GATE, GATE),
        }
        self._plans: Mapping[Dialect, str | None] = {
            "anthropic": self._first(*PLANS),
            "openai": self._first(*CHAT_PLANS, *PLANS),
        }
        self._leave_out("claims", GATE, CHAT_GATE)
        self._leave_out("look", GATE, CHAT_GATE)
        self._leave_out("after_rerun", POST)
        self._leave_out("cleanup", CLEANUP)
        self._leave_out("pre_call", *AROUND[:2])
        self._leave_out("post_call", AROUND[2])

    def _leave_out(self, method: str, *theirs: str) -> None:
        if self._first(*theirs) is None:
            setattr(self, method, getattr(super(), method))

    def _first(self, *methods: str) -> str | None:
        return next((method for method in methods if overrides(self.hook, method)), None)

    @property
    def name(self) -> str:
        return type(self.hook).__name__

    def wants(self, request: RelayContext) -> bool:
        return self._gates[request.dialect] is not None or self._first(*AROUND) is not None

    @property
    def is_idle(self) -> bool:
        return self._first(GATE, CHAT_GATE, *AROUND) is None

    # -- the loop --------------------------------------------------------------------------------------------

    async def claims(self, turn: Turn, call: RelayContext) -> Sequence[Call] | None:
        gate = self._gates[call.dialect]
        if gate is None:
            return None
        kwargs = call.notes["kwargs"] = kwargs_of(call)
        should_run, tools = await getattr(self.hook, gate)(
            response=response_of(turn, call),
            model=call.model,
            messages=call.messages,
            tools=call.tools,
            stream=call.stream,
            custom_llm_provider=provider_of(call),
            kwargs=kwargs,
        )
        if not should_run:
            return None
        call.notes["tools"] = tools
        return claimed(turn, tools, self.serves)

    async def look(self, turn: Turn, call: RelayContext) -> Plan | None:
        method = self._plans[call.dialect]
        if method is None:
            return None
        made = await getattr(self.hook, method)(**self._arguments(method, turn, call))
        if method.startswith("async_build"):
            plan: Plan | None = made
            return plan
        return None if made is None else Plan(response_override=made)

    def _arguments(self, method: str, turn: Turn, call: RelayContext) -> Json:
        arguments: Json = {
            "tools": call.notes.get("tools"),
            "model": call.model,
            "messages": call.messages,
            "response": response_of(turn, call),
            "logging_obj": logging_object(call),
            "stream": call.stream,
            "kwargs": kwargs_of(call),
        }
        if method in CHAT_PLANS:
            return arguments | {"optional_params": call.optional_params}
        return arguments | {
            "anthropic_messages_provider_config": None,
            "anthropic_messages_optional_request_params": call.optional_params,
        }

    async def after_rerun(self, turn: Turn, plan: Plan, call: RelayContext) -> Json | None:
        method = self.hook.async_post_agentic_loop_response_hook
        made: Json | None = await method(response=view(call.response), plan=plan, kwargs=kwargs_of(call))
        return made

    async def cleanup(self, plan: Plan | None, call: RelayContext) -> None:
        if plan is not None:
            await self.hook.async_agentic_loop_cleanup_hook(plan=plan, kwargs=kwargs_of(call))

    # -- around the request ----------------------------------------------------------------------------------

    async def pre_call(self, body: Json, call: RelayContext) -> Json | Refusal | None:
        for method in AROUND[:2]:
            if not overrides(self.hook, method):
                continue
            try:
                made = await getattr(self.hook, method)(**_before(method, body, call))
            except Exception as error:  # in this form a hook refuses a request by raising, whatever it raises
                log.warning("Hook %s refuses a request. [%s]", self.name, call.request_id, exc_info=error)
                return refusal_of(error)
            if isinstance(made, Exception):
                return refusal_of(made)
            if isinstance(made, str):
                return Refusal(made)
            body = _request_in(made, body, call) if isinstance(made, dict) else body
        return body

    async def post_call(self, body: Json, call: RelayContext) -> Json | None:
        made: Json | None = await self.hook.async_post_call_success_hook(
            data=call.body, user_api_key_dict=user_key(call), response=view(body)
        )
        return made


def _before(method: str, body: Json, call: RelayContext) -> Json:
    """In this form the request and `kwargs` are one object, which also has a `metadata` for hooks to write to."""
    data = {"metadata": {}, **kwargs_of(call), **body}
    call_type = CALL_TYPES[call.dialect]
    if method == "async_pre_call_deployment_hook":
        return {"kwargs": data, "call_type": call_type}
    return {"user_api_key_dict": user_key(call), "cache": None, "data": data, "call_type": call_type}


def _request_in(data: Json, body: Json, call: RelayContext) -> Json:
    """The request in what the hook gave back, and how often it allows the model to be run."""
    ours = {"metadata", *kwargs_of(call)} - {"max_agentic_loops"} - set(body)
    return {field: value for field, value in data.items() if field not in ours}


def refusal_of(error: Exception) -> Refusal:
    """An exception with a status (FastAPI's HTTPException) says for the caller why; of another only the log knows."""
    status, detail = getattr(error, "status_code", None), getattr(error, "detail", None)
    if not isinstance(status, int) or not 400 <= status < 500:
        return Refusal(REFUSED)
    words = detail.get("error") if isinstance(detail, dict) else detail
    return Refusal(words if isinstance(words, str) else REFUSED, status)


# -- what its methods are given ------------------------------------------------------------------------------


def response_of(turn: Turn, call: RelayContext) -> View:
    if call.dialect == "openai":
        return chat_view(call.response or {"choices": [{"index": 0, "message": turn.message}]}, turn.content)
    answer: View = view(call.response or {"role": "assistant", "content": list(turn.content)})
    return answer


def provider_of(call: RelayContext) -> str:
    return call.provider or call.dialect


def kwargs_of(call: RelayContext) -> Json:
    """With what the hook's earlier methods put into theirs: LiteLLM hands one object on."""
    return {**call.notes.get("kwargs", {}), **call.kwargs} | {
        "_agentic_loop_api_surface": SURFACES[call.dialect],
        "custom_llm_provider": provider_of(call),
        "litellm_call_id": call_id(call),
        "litellm_metadata": {"user_api_key_alias": call.key_label},
    }


def logging_object(call: RelayContext) -> LoggingObject:
    params = {"model": call.model, "custom_llm_provider": provider_of(call)}
    details = {"litellm_call_id": call_id(call), "model": call.model, "agentic_loop_params": params}
    return LoggingObject(call_id(call), call.model, call.stream, details)


def call_id(call: RelayContext) -> str:
    """Hooks keep things under it, so it is unique; a request id may be the caller's own."""
    return call.exchange_id or call.request_id


def user_key(call: RelayContext) -> UserKey:
    return UserKey(call.key_label, None if call.user_id is None else str(call.user_id))


def claimed(turn: Turn, tools: Any, serves: frozenset[str]) -> tuple[Call, ...]:
    ids = set(_texts(tools))
    found = tuple(each for each in turn.calls if each.id in ids)
    return found or tuple(each for each in turn.calls if each.name in serves)


def _texts(value: Any, depth: int = 0) -> Iterator[str]:
    """Every string in it, and the `id` of every object that is no JSON."""
    if isinstance(value, str):
        yield value
    elif depth > DEEPEST:
        return
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from _texts(item, depth + 1)
    elif isinstance(value, list | tuple | set | frozenset):
        for item in value:
            yield from _texts(item, depth + 1)
    elif isinstance(id := getattr(value, "id", None), str):
        yield id
