"""The hooks that `GATEWAY_HOOKS` names, loaded once.

An entry is the dotted path of an instance: `my_module.my_hook`. Modules are found as Python finds them (PYTHONPATH),
then in `DATA_DIR/hooks/`. Whatever is wrong with an entry is a HookError: one sentence that names the entry, and one
that says what to write. It stops the start, since a hook that silently is not there may be a rule that silently is not.
"""

from __future__ import annotations

import importlib
import inspect
import sys
import traceback
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

from django.core.exceptions import ImproperlyConfigured

from agent.rerun import BaseHook, Hook
from chatsite.gateway.conf import setting
from chatsite.gateway.hooks.custom_logger import NOT_CALLED, CustomLogger, overrides
from chatsite.gateway.hooks.litellm_form import (
    AROUND,
    CHAT_GATE,
    CHAT_PLANS,
    CLEANUP,
    GATE,
    PLANS,
    POST,
    LiteLLMHook,
)

ASYNC_METHODS: dict[type, Sequence[str]] = {
    BaseHook: ("pre_call", "claims", "look", "post_call", "after_rerun", "cleanup"),
    CustomLogger: (
        *(GATE, CHAT_GATE, *PLANS, *CHAT_PLANS, *AROUND),
        *(POST, CLEANUP),
    ),
}
IN_LITELLM = (
    "A hook of LiteLLM's needs one other import: "
    "from chatsite.gateway.hooks import CustomLogger, AgenticLoopPlan, AgenticLoopRequestPatch."
)

ELSEWHERE = (
    "Called here are the agentic loop's methods, async_pre_call_hook, async_pre_call_deployment_hook and "
    "async_post_call_success_hook."
)


class HookError(ImproperlyConfigured):
    """`str(error)` names the entry and what is wrong; `mend` says what to write."""

    def __init__(self, entry: str, wrong: str, mend: str) -> None:
        super().__init__(f"GATEWAY_HOOKS names {entry!r}: {wrong} {mend}")
        self.wrong = f"GATEWAY_HOOKS names {entry!r}: {wrong}"
        self.mend = mend


@cache
def loaded_hooks() -> tuple[Hook, ...]:
    """Those of the settings, in their order. Raises HookError. `loaded_hooks.cache_clear()` forgets them."""
    return load_hooks(setting("GATEWAY_HOOKS"), hooks_folder())


def hooks_folder() -> Path | None:
    folder = setting("DATA_DIR")
    return Path(folder) / "hooks" if folder else None


def load_hooks(entries: Iterable[str], folder: Path | None = None) -> tuple[Hook, ...]:
    if folder is not None and folder.is_dir() and str(folder) not in sys.path:
        sys.path.append(str(folder))  # last, so that no file in it can stand in for another module
        importlib.invalidate_caches()
    entries = list(entries)
    for number, entry in enumerate(entries):
        if entry in entries[:number]:
            raise HookError(entry, "it is there twice.", "Take one of the two out.")
    return tuple(as_hook(entry, _found(entry, folder)) for entry in entries)


# -- finding -------------------------------------------------------------------------------------------------


def _found(entry: str, folder: Path | None) -> Any:
    name, _, attribute = entry.rpartition(".")
    if not name or not all(part.isidentifier() for part in entry.split(".")):
        raise HookError(entry, "that is no dotted path.", "Write module.instance, such as my_module.my_hook.")
    module = _module(entry, name, folder)
    if not hasattr(module, attribute):
        near = ", ".join(_instances(module)) or "none"
        raise HookError(
            entry,
            f"there is no {attribute!r} in {name}.",
            f"Write {attribute} = ... there, or name an instance it has ({near}).",
        )
    return getattr(module, attribute)


def _module(entry: str, name: str, folder: Path | None) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and (name == error.name or name.startswith(f"{error.name}.")):
            where = f"PYTHONPATH and in {folder}" if folder else "PYTHONPATH"
            raise HookError(
                entry, f"there is no module {error.name!r}.", f"Put {error.name}.py on {where}."
            ) from None
        mend = IN_LITELLM if error.name and error.name.partition(".")[0] == "litellm" else "Install it."
        raise HookError(entry, f"it imports {error.name!r}, which is not installed.", mend) from error
    except (Exception, SystemExit) as error:  # whatever foreign code raises while it is imported
        raise HookError(
            entry,
            f"its import raised {type(error).__name__}: {str(error)[:200] or 'without a word'}{_where(error)}.",
            "Mend the module.",
        ) from error


def _where(error: BaseException) -> str:
    if isinstance(error, SyntaxError):
        return ""  # its text has the place already
    frames = traceback.extract_tb(error.__traceback__)
    return f" ({frames[-1].filename}, line {frames[-1].lineno})" if frames else ""


def _instances(module: ModuleType) -> list[str]:
    return [name for name, value in vars(module).items() if isinstance(value, BaseHook | CustomLogger)]


# -- judging -------------------------------------------------------------------------------------------------


def as_hook(entry: str, found: Any) -> Hook:
    if isinstance(found, type):
        module, _, name = entry.rpartition(".")
        instance = _snake(name)
        raise HookError(
            entry,
            "that is a class, and a hook is an instance of one.",
            f"Write {instance} = {name}() in {module}, and name {module}.{instance}.",
        )
    if not isinstance(found, BaseHook | CustomLogger):
        raise HookError(
            entry,
            f"that is no hook but {_a(type(found).__name__)}.",
            "A hook is an instance of a subclass of BaseHook or CustomLogger, both in chatsite.gateway.hooks."
            + (f" {IN_LITELLM}" if "litellm" in str(type(found).__mro__) else ""),
        )
    form = CustomLogger if isinstance(found, CustomLogger) else BaseHook
    for method in ASYNC_METHODS[form]:
        _check_async(entry, found, method)
    hook = LiteLLMHook(_with_names(entry, found)) if isinstance(found, CustomLogger) else _own(entry, found)
    if not isinstance(hook.timeout, int | float) or isinstance(hook.timeout, bool) or not hook.timeout > 0:
        raise HookError(entry, f"its timeout is {hook.timeout!r}.", "Write seconds, a number above 0.")
    return hook


def _check_async(entry: str, hook: Any, method: str) -> None:
    if not inspect.iscoroutinefunction(getattr(hook, method, None)):
        raise HookError(entry, f"its {method} is not async.", f"Write `async def {method}(...)`.")


def _own(entry: str, hook: BaseHook) -> BaseHook:
    if inspect.iscoroutinefunction(hook.wants):
        raise HookError(entry, "its wants is async.", "Write `def wants(self, request)`: it is asked often.")
    _check_names(entry, "serves", hook.serves)
    return hook


def _with_names(entry: str, hook: CustomLogger) -> CustomLogger:
    _check_names(entry, "server_fulfilled_tool_names", hook.server_fulfilled_tool_names)
    return hook


def _check_names(entry: str, field: str, names: Any) -> None:
    fine = isinstance(names, set | frozenset | list | tuple) and all(isinstance(name, str) for name in names)
    if not fine:
        mend = f'Write {field} = frozenset({{"tool_name"}}).'
        raise HookError(entry, f"its {field} is {names!r}, which is no set of names.", mend)


def idle_hooks(hooks: Iterable[Hook]) -> list[tuple[str, str]]:
    """Of each hook in LiteLLM's form that has methods which are not called here: what is wrong, and the mend."""
    found = []
    for hook in hooks:
        if not isinstance(hook, LiteLLMHook):
            continue
        unused = sorted(method for method in NOT_CALLED if overrides(hook.hook, method))
        if unused:
            found.append(
                (f"The hook {hook.name} has {', '.join(unused)}, which is not called here.", ELSEWHERE)
            )
        elif hook.is_idle:
            found.append((f"The hook {hook.name} has no method that is called here.", ELSEWHERE))
    return found


def _snake(name: str) -> str:
    made = "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name).lstrip("_")
    return made if made != name else f"{made}_hook"


def _a(noun: str) -> str:
    return f"{'an' if noun[:1].lower() in 'aeiou' else 'a'} {noun}"
