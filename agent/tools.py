"""Tools: what a model may ask for, and what runs here when it does.

    @tool                                    @tool(timeout=5, idempotent=True, retries=2)
    def get_time(zone: str) -> str: ...      async def search(query: str, ctx: ToolContext) -> list[Hit]: ...

    Tool("pick_file", "Let the person pick a file.", schema)            no function: a client tool

A parameter annotated `ToolContext` is given by the loop and the model is not told of it. Sync functions run
in a thread of their own, so they may block; one that is stopped or out of time is left behind there, since a
thread cannot be ended.

    option           means
    needs_approval   True, or a condition `(args)` or `(args, ctx)`, sync or async, of the arguments as the tool
                     gets them: a person is asked first. Not for a client tool: its page asks
    timeout          seconds for one attempt
    retries          how often an attempt that raised or ran out of time is made again; a ToolError is final
    parallel_safe    False: the call runs alone, behind those before it and before those behind it
    idempotent       may run twice with the effect of once; `retries` need it
    max_output       bytes of text the model gets; what is missing is said, and the whole is kept for people
    permission       the name of a permission that the application checks; nothing here reads it
"""

from __future__ import annotations

import inspect
import logging
import re
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Protocol, overload

from pydantic import ValidationError
from pydantic_core import from_json

from agent.abort import AbortSignal
from agent.errors import AgentError, InvalidRequest
from agent.providers.base import ToolSpec
from agent.schemas import problems
from agent.signatures import read_signature

log = logging.getLogger(__name__)

UNCHECKED = "The arguments could not be checked because of an internal error."
NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
NO_ARGUMENTS = "{}"
MOST_PROBLEMS = 5
"""How many of them a model is told at once."""

NeedsApproval = (
    bool
    | Callable[[Mapping[str, Any]], bool | Awaitable[bool]]
    | Callable[[Mapping[str, Any], "ToolContext"], bool | Awaitable[bool]]
)


class InvalidArguments(AgentError):
    """The arguments of a call are no JSON, or not what the tool takes."""

    code = "invalid_arguments"


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolContext:
    """What a tool may know of the call it runs for.

    `attempt` counts from 1. `idempotency_key` is the same for every attempt of the call, also after a
    restart. `abort.aborted` turns true when the run is stopped: async tools are cancelled then, sync ones may
    look. `berth` is for a tool whose work is another run, and nothing to any other (`subagents.py`).
    """

    thread_id: str
    run_id: str
    tool_call_id: str
    user: Any
    abort: AbortSignal
    tell: Callable[[str, Any], None]
    attempt: int = 1
    berth: Any = None

    @property
    def idempotency_key(self) -> str:
        return f"{self.thread_id}:{self.tool_call_id}"

    def emit(self, name: str, value: Any) -> None:
        """Tell whoever reads the run of progress, from any thread: Custom(name, {toolCallId, value})."""
        self.tell(name, value)


@dataclass(frozen=True, slots=True)
class ToolOutput:
    """What a tool may give instead of a value: `metadata` stays beside the result, where the model does not read it.
    With `error`, its code, the value is the words of it."""

    value: Any
    metadata: Mapping[str, Any] = field(default_factory=dict)
    error: str | None = None


class Execute(Protocol):
    """Runs a tool with keyword arguments that were checked; the result may be awaitable."""

    def __call__(self, arguments: Mapping[str, Any], ctx: ToolContext, /) -> Any: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class _Options:
    needs_approval: NeedsApproval = False
    timeout: float | None = None
    retries: int = 0
    parallel_safe: bool = True
    idempotent: bool = False
    max_output: int | None = None
    permission: str | None = None

    def __post_init__(self) -> None:
        if self.retries and not self.idempotent:
            raise ValueError(
                "A tool with retries must be idempotent: a failed attempt may have had its effect."
            )


@dataclass(frozen=True, slots=True, eq=False)
class Tool(_Options):
    """One tool. `execute` None: it runs at the client, never here.

    `check` turns the JSON text of the arguments into what `execute` gets, and raises pydantic's
    ValidationError when that fails; without one any JSON object with the required properties does. `function`
    is the one that `@tool` was put on; calling the tool calls it. `inner` are the tools of the agent behind it, when
    it is a subagent's.
    """

    name: str
    description: str
    parameters: Mapping[str, Any] = field(default_factory=lambda: {"type": "object", "properties": {}})
    execute: Execute | None = None
    check: Callable[[str], Mapping[str, Any]] | None = None
    function: Callable[..., Any] | None = None
    inner: ToolRegistry | None = None

    def __post_init__(self) -> None:
        _Options.__post_init__(self)
        if not NAME.fullmatch(self.name):
            raise ValueError(f"{self.name!r} is no tool name: 1 to 64 letters, digits, '_' and '-'.")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self.function is None:
            raise TypeError(f"The tool {self.name} was not made from a function.")
        return self.function(*args, **kwargs)

    @property
    def blocking(self) -> bool:
        """It may block, so it gets a thread."""
        work = self.function or self.execute
        return not (inspect.iscoroutinefunction(work) or inspect.iscoroutinefunction(type(work).__call__))

    @property
    def spec(self) -> ToolSpec:
        return ToolSpec(self.name, self.description, self.parameters)

    def read(self, text: str) -> Mapping[str, Any]:
        """The arguments as `execute` gets them. Raises InvalidArguments with the path of what is wrong."""
        raw = self.json_text(text)
        if self.check is not None:
            try:
                return self.check(raw)
            except ValidationError as error:
                raise InvalidArguments(explain(error)) from error
            except Exception as error:
                # A validator with a bug: nobody can say whether these arguments fit, so nothing runs on them.
                log.exception("tool %s: its arguments could not be checked", self.name)
                raise InvalidArguments(UNCHECKED, code="internal_error") from error
        arguments = parse(raw)
        wrong = list(islice(problems(arguments, self.parameters), MOST_PROBLEMS))
        if wrong:
            raise InvalidArguments("; ".join(wrong))
        if not isinstance(arguments, dict):
            raise InvalidArguments("arguments: Should be object")
        return arguments

    def json_text(self, text: str) -> str:
        """Nothing means no arguments, and so does `null` unless the schema takes it."""
        text = text.strip()
        kinds = self.parameters.get("type", "object")
        takes_null = kinds == "null" or (isinstance(kinds, list) and "null" in kinds)
        return NO_ARGUMENTS if text == "" or (text == "null" and not takes_null) else text


def parse(text: str) -> Any:
    """The JSON value of a call's arguments. Raises InvalidArguments; never RecursionError."""
    try:
        return from_json(text or NO_ARGUMENTS, allow_inf_nan=False)
    except (ValueError, TypeError) as error:
        # A TypeError is half a surrogate pair in the text itself.
        raise InvalidArguments(f"The arguments are not valid JSON: {error}.") from error


def explain(error: ValidationError) -> str:
    """What is wrong and where, without repeating the value: it may be long, and the model knows it."""
    found = error.errors(include_url=False, include_context=False, include_input=False)
    lines = [
        f"{'.'.join(map(str, problem['loc'])) or 'arguments'}: {problem['msg']}"
        for problem in found[:MOST_PROBLEMS]
    ]
    more = len(found) - len(lines)
    return "; ".join(lines) + (f"; and {more} more" if more > 0 else "")


@overload
def tool(function: Callable[..., Any], /) -> Tool: ...
@overload
def tool(
    *,
    name: str | None = None,
    description: str | None = None,
    needs_approval: NeedsApproval = False,
    timeout: float | None = None,
    retries: int = 0,
    parallel_safe: bool = True,
    idempotent: bool = False,
    max_output: int | None = None,
    permission: str | None = None,
) -> Callable[[Callable[..., Any]], Tool]: ...
def tool(
    function: Callable[..., Any] | None = None,
    /,
    *,
    name: str | None = None,
    description: str | None = None,
    **options: Any,
) -> Tool | Callable[[Callable[..., Any]], Tool]:
    """Makes a Tool of a function: name, description and schema come from its signature and docstring."""

    def make(function: Callable[..., Any]) -> Tool:
        signature = read_signature(function, ToolContext)

        def execute(arguments: Mapping[str, Any], ctx: ToolContext) -> Any:
            return function(**arguments, **dict.fromkeys(signature.injected, ctx))

        return Tool(
            name=name or function.__name__,
            description=description or signature.description,
            parameters=signature.parameters,
            execute=execute,
            check=signature.arguments,
            function=function,
            **options,
        )

    return make if function is None else make(function)


class ToolRegistry:
    """The tools of one agent, by name. Raises InvalidRequest when they cannot be used together."""

    def __init__(self, tools: Iterable[Tool] = ()) -> None:
        self._tools: dict[str, Tool] = {}
        for tool in tools:
            if tool.name in self._tools:
                raise InvalidRequest(f"There are two tools called {tool.name}.")
            if tool.needs_approval and tool.execute is None:
                raise InvalidRequest(f"The tool {tool.name} runs at the client, where its page asks.")
            self._tools[tool.name] = tool

    def get(self, name: str) -> Tool | None:
        return self._tools.get(name)

    def __iter__(self) -> Iterator[Tool]:
        return iter(self._tools.values())

    def __len__(self) -> int:
        return len(self._tools)

    def __contains__(self, name: object) -> bool:
        return name in self._tools

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._tools)

    @property
    def specs(self) -> tuple[ToolSpec, ...]:
        return tuple(tool.spec for tool in self)


def with_client_tools(registry: ToolRegistry, specs: Iterable[ToolSpec]) -> ToolRegistry:
    """The tools of one run: the server's, and those its client brings. Of one name, the server's is the tool.

    Raises InvalidRequest for a name that no provider takes, and for two of one name.
    """
    theirs: list[Tool] = []
    for spec in specs:
        try:
            tool = Tool(name=spec.name, description=spec.description, parameters=spec.parameters)
        except ValueError as error:
            raise InvalidRequest(f"tools: {error}") from error
        if spec.name not in registry:
            theirs.append(tool)
    return ToolRegistry([*registry, *theirs]) if theirs else registry
