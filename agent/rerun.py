"""What the gateway's hooks get and give: values, and the form of a hook. Nothing here waits.

    Turn           what the model said in one round, the same whatever protocol it came in
    RelayContext   the request that the turn answers, as this hook may see it: copies, and no secret
    Plan           what a hook wants done about the turn; the first thing that is set counts:
                     response_override   it goes to the caller as it is (an empty object too)
                     terminate           the loop stops; the turn goes out without the calls that the hook claimed
                     run_agentic_loop    one more round, with `request_patch` laid over the caller's whole request
                     none of them        the next hook is asked
    Refusal        what `pre_call` answers to a request that shall not be made

`Plan` and `Patch` have the fields of LiteLLM's `AgenticLoopPlan` and `AgenticLoopRequestPatch`, so that a hook
written for it finds here what it knows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal, Protocol

from pydantic import BaseModel, Field

from agent.events import TurnEnd
from agent.messages import FinishReason, Message, Usage
from agent.rerun_tools import tool_names
from agent.wire import anthropic, openai_chat
from agent.wire.jsonload import call_object
from agent.wire.jsontext import TOO_DEEP

Json = dict[str, Any]
Dialect = Literal["openai", "anthropic"]

DEFAULT_TIMEOUT = 30.0
"""Seconds that one hook may take over one turn, unless it says otherwise."""


class Patch(BaseModel):  # type: ignore[no-redef]  # mypy's pydantic plugin gives `__init__` a `**kwargs` too
    """What changes in the request of the next round. `messages` and `tools` may speak either dialect.

    `optional_params` are further fields of the body (None takes one out); `kwargs` are what later hooks find in
    their `kwargs`, and of them only real request fields reach the body.
    """

    model: str | None = None
    messages: list[Json] | None = None
    tools: list[Json] | None = None
    max_tokens: int | None = None
    optional_params: Json = Field(default_factory=dict)
    kwargs: Json = Field(default_factory=dict)


class Plan(BaseModel):
    """`stop_reason` and `metadata` are the hook's own: they are logged, and given back to it behind the rerun."""

    run_agentic_loop: bool = False
    request_patch: Patch | None = None
    response_override: Any | None = None
    terminate: bool = False
    stop_reason: str | None = None
    metadata: Json = Field(default_factory=dict)


AgenticLoopRequestPatch = Patch
AgenticLoopPlan = Plan


@dataclass(frozen=True, slots=True)
class Refusal:
    """`reason` is told to the caller, in the caller's dialect, with this HTTP status."""

    reason: str
    status: int = 400
    code: str = "request_refused"


@dataclass(frozen=True, slots=True)
class Call:
    """A call of a tool. `arguments` is the object; `text` is it as the model wrote it (maybe cut, maybe no JSON)."""

    id: str
    name: str
    arguments: Json
    text: str = ""


@dataclass(frozen=True, slots=True)
class Turn:
    """One round's answer. `content`: Anthropic's blocks, with signatures. `message`: OpenAI's assistant message.

    `calls` are those that somebody here or at the caller must answer; a provider's own are only in `content`.
    `model` is the public name.
    """

    text: str = ""
    thinking: str = ""
    calls: tuple[Call, ...] = ()
    stop_reason: FinishReason | None = None
    usage: Usage = Usage()
    model: str = ""
    content: tuple[Json, ...] = ()
    message: Json = field(default_factory=dict)


def turn_of(message: Message, end: TurnEnd, model: str) -> Turn:
    """The turn that these values of ours tell."""
    blocks = anthropic.encode_response(message, end, id="", model=model, created=0)["content"]
    choice = openai_chat.encode_response(message, end, id="", model=model, created=0)["choices"][0]
    calls = (call for call in message.tool_calls if not call.provider_executed)
    return Turn(
        text=message.text,
        thinking=choice["message"].get("reasoning_content", ""),
        calls=tuple(Call(c.id, c.name, call_object(c.arguments), c.arguments) for c in calls),
        stop_reason=end.finish_reason,
        usage=end.usage,
        model=model,
        content=tuple(blocks),
        message=choice["message"],
    )


@dataclass(slots=True, kw_only=True)
class RelayContext:
    """The request around a turn. What a hook gets is its own copy: nothing it does to it reaches anybody.

    `dialect` is the caller's API, `provider` what the endpoint of this round speaks. `model` is the public name.
    `body` is the caller's whole request with the patches so far, in the caller's dialect; `response` the answer
    of this round, in the same, None before there is one. `depth` counts the reruns so far. `kwargs` is control:
    `_agentic_loop_depth`, `max_agentic_loops`, and what plans put there. `notes` belongs to the hook: it finds in
    every method what it left there for this request. `asked_tools` are the server's tools that a header asks for.
    `user_id` and `key_pk` say whose the request is, `keep` how much of it may be kept. `exchange_id` is ours and
    unique, where `request_id` may be the caller's.
    """

    dialect: Dialect
    model: str
    body: Json
    request_id: str = ""
    stream: bool = False
    key_label: str = ""
    user_id: int | None = None
    key_pk: int | None = None
    keep: str = "metadata"
    exchange_id: str = ""
    asked_tools: tuple[str, ...] = ()
    provider: Dialect | None = None
    depth: int = 0
    kwargs: Json = field(default_factory=dict)
    response: Json | None = None
    notes: Json = field(default_factory=dict)

    @property
    def messages(self) -> list[Json]:
        found: list[Json] = self.body.get("messages") or []
        return found

    @property
    def tools(self) -> list[Json]:
        found: list[Json] = self.body.get("tools") or []
        return found

    @property
    def optional_params(self) -> Json:
        """The rest of the request: what is neither model, messages nor how the answer is sent."""
        return {key: value for key, value in self.body.items() if key not in NOT_OPTIONAL}

    def own_copy(self, notes: Json | None = None) -> RelayContext:
        return replace(
            self,
            body=copied(self.body),
            kwargs=copied(self.kwargs),
            response=copied(self.response),
            notes=self.notes if notes is None else notes,
        )


NOT_OPTIONAL = frozenset({"model", "messages", "stream", "stream_options"})


def copied(value: Any) -> Any:
    """The same JSON in objects and lists of its own, however deep it is. What holds itself (a hook may give anything)
    is cut off there."""
    made = _own(value)
    inside: set[int] = set()
    todo: list[tuple[Any, Any]] = [(value, made)]  # the last of each is a source alone: all within it is done
    while todo:
        source, within = todo.pop()
        if not isinstance(within, dict | list):
            inside.discard(id(source))
            continue
        inside.add(id(source))
        todo.append((source, None))
        for key, item in within.items() if isinstance(within, dict) else enumerate(within):
            if id(item) in inside:
                within[key] = TOO_DEEP
            elif isinstance(item, dict | list | tuple):
                within[key] = _own(item)
                todo.append((item, within[key]))
    return made


def _own(value: Any) -> Any:
    if isinstance(value, dict):
        return dict(value)
    return list(value) if isinstance(value, list | tuple) else value


class Hook(Protocol):
    """What the relay asks. `BaseHook` answers "no" everywhere. All but `wants` may wait, for `timeout` seconds."""

    @property
    def name(self) -> str:
        """What logs call it."""
        ...

    @property
    def serves(self) -> frozenset[str]:
        """The tools that it fulfils. Their calls are held back from a streaming caller until it has looked."""
        ...

    @property
    def timeout(self) -> float: ...

    def wants(self, request: RelayContext) -> bool:
        """Asked once, before the first round. When no hook wants a request, nothing of it is copied or parsed."""
        ...

    async def pre_call(self, body: Json, call: RelayContext) -> Json | Refusal | None:
        """The request to be made in the place of `body`; None: as it is."""
        ...

    async def claims(self, turn: Turn, call: RelayContext) -> Sequence[Call] | None:
        """The calls of this turn that it would answer; none of them, but still `look`; None: no interest. Does
        nothing else: a call that is claimed may still go unanswered."""
        ...

    async def look(self, turn: Turn, call: RelayContext) -> Plan | None: ...

    async def post_call(self, body: Json, call: RelayContext) -> Json | None:
        """The last answer, to change it; only seen, not changed, when it was streamed."""
        ...

    async def after_rerun(self, turn: Turn, plan: Plan, call: RelayContext) -> Json | None:
        """The last answer behind a rerun that this hook asked for (`call.response`); as `post_call`."""
        ...

    async def cleanup(self, plan: Plan | None, call: RelayContext) -> None:
        """Always, at the end of a request in which it gave a plan."""
        ...


class BaseHook:
    """A hook of our own form: say what it `serves`, and give a plan in `look`."""

    serves: ClassVar[frozenset[str]] = frozenset()
    timeout: ClassVar[float] = DEFAULT_TIMEOUT

    @property
    def name(self) -> str:
        return type(self).__name__

    def wants(self, request: RelayContext) -> bool:
        """A hook that serves tools and does nothing else wants the requests that have one of them."""
        only_tools = self.serves and type(self).pre_call is BaseHook.pre_call
        return not only_tools or not self.serves.isdisjoint(tool_names(request.body))

    async def pre_call(self, body: Json, call: RelayContext) -> Json | Refusal | None:
        return None

    async def claims(self, turn: Turn, call: RelayContext) -> Sequence[Call] | None:
        if not self.serves:
            return ()
        return tuple(each for each in turn.calls if each.name in self.serves) or None

    async def look(self, turn: Turn, call: RelayContext) -> Plan | None:
        return None

    async def post_call(self, body: Json, call: RelayContext) -> Json | None:
        return None

    async def after_rerun(self, turn: Turn, plan: Plan, call: RelayContext) -> Json | None:
        return None

    async def cleanup(self, plan: Plan | None, call: RelayContext) -> None:
        return None
