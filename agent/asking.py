"""Asking the hooks of one request: in their order, each in its turn, and what comes of it as a `Decision`.

Between what a hook claims and what it does stand two rules, so that no tool runs whose result nobody will use:

    mixed turn   it has calls that no hook claims: they are the caller's. The turn goes out with them and without ours;
                 the model asks for ours again when the caller comes back with its results
    guard        a rail is reached (`rerun_guard`): the model is asked once more, without tools

A hook that fails is as one that says no. A call that it claimed goes to the caller when the caller declared the tool;
of another the caller knows nothing, so the model is told that the tool is out of order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from agent.claims import Claims
from agent.decisions import KEEP, Decision
from agent.errors import InvalidRequest
from agent.hook_calls import FAILED, as_json, call_hook, is_default, log, timeout_of, wants
from agent.rerun import Call, Hook, Json, Plan, Refusal, RelayContext, Turn, copied
from agent.rerun_body import is_control, last_body, next_body, without_control, without_orphans
from agent.rerun_guard import STOPPED, Guard, max_loops
from agent.rerun_tools import client_tools


@dataclass(frozen=True, slots=True)
class _Given:
    """A plan that was followed, and the turn it was for."""

    hook: Hook
    plan: Plan
    turn: Turn


class Asking:
    """One request's hooks. `before` the first round, `ask` behind each, `finish` with the last answer, then always
    `close`. `call` is the request as it stands; the decisions replace it."""

    def __init__(
        self,
        hooks: Iterable[Hook],
        call: RelayContext,
        guard: Guard | None = None,
        *,
        knows_model: Callable[[str], bool] = lambda name: True,
        may_use: Callable[[str], bool] = lambda name: True,
    ) -> None:
        """`may_use`: the models that the caller may use. No hook opens another one."""
        self.call = replace(call, body=without_control(call.body))
        self.guard = guard or Guard()
        self.hooks = tuple(hook for hook in hooks if wants(hook, self.call))
        self._declared = client_tools(call.body)
        self._knows_model = knows_model
        self._may_use = may_use
        self._notes: dict[int, Json] = {id(hook): {} for hook in self.hooks}
        self._given: list[_Given] = []
        self._stopped = ""

    @property
    def serves(self) -> frozenset[str]:
        """The tools whose calls a streaming caller must not see before the hooks have looked."""
        return frozenset().union(*(hook.serves for hook in self.hooks))

    @property
    def looks(self) -> bool:
        """Somebody wants to see the turns, and not only the request or the last answer."""
        return any(not is_default(hook, "look") for hook in self.hooks)

    # -- before ----------------------------------------------------------------------------------------------

    async def before(self) -> RelayContext | Refusal:
        for hook in self.hooks:
            if is_default(hook, "pre_call"):
                continue
            view = self._view(hook)
            made = await self._run(hook, "pre_call", view.body, view)
            if isinstance(made, Refusal):
                return made
            if isinstance(made, dict):
                self._take_body(hook, made)
            elif made is not None and made is not FAILED:
                self._nonsense(hook, "pre_call", made)
        return self.call

    def _take_body(self, hook: Hook, made: Json) -> None:
        loops = made.get("max_agentic_loops")
        if loops is not None:
            try:
                self.guard.max_reruns = max_loops(loops, "max_agentic_loops")
            except ValueError as error:
                log.error("Hook %s: %s [%s]", hook.name, error, self.call.request_id)
        self.call = replace(self.call, body=without_control(copied(self._with_a_model(hook, made))))

    def _with_a_model(self, hook: Hook, made: Json) -> Json:
        """What the hook made of the request; under the caller's model where it chose one that is not the caller's to
        use. All else of it holds: it may be what keeps a secret here."""
        model = made.get("model")
        if model == self.call.model or not isinstance(model, str) or self._may_use(model):
            return made
        self._nonsense(hook, "the request's model", model)
        return made | {"model": self.call.model}

    # -- behind each round -----------------------------------------------------------------------------------

    async def ask(self, turn: Turn, response: Json | None = None) -> Decision:
        """`response` is the turn in the caller's dialect, as it would go out."""
        self.call = replace(self.call, response=response, depth=self.guard.depth)
        claims = Claims(self.hooks, turn, self._claimed)
        if self._stopped:
            return await self._after_last(claims, turn)
        for hook in self.hooks:
            decision = await self._ask_one(hook, turn, claims)
            if decision is not None:
                return decision
        return self._unanswered(turn, claims)

    async def _ask_one(self, hook: Hook, turn: Turn, claims: Claims) -> Decision | None:
        claimed = await claims.of(hook)
        if claimed is None:
            return None
        if claimed and await claims.callers_own():
            return Decision("strip", claims.ids, reason="mixed")
        if reason := self.guard.stop(claimed):
            return self._last(turn, reason) if claimed else None
        plan = await self._run(hook, "look", _own(turn), self._view(hook))
        if plan is None or plan is FAILED:
            return None
        if not isinstance(plan, Plan):
            self._nonsense(hook, "look", plan)
            return None
        return self._follow(hook, plan, turn, claimed)

    def _follow(self, hook: Hook, plan: Plan, turn: Turn, claimed: Sequence[Call]) -> Decision | None:
        """None: the plan asks for nothing, or for nothing that can be done."""
        ids = frozenset(call.id for call in claimed)
        if plan.response_override is not None:
            response = as_json(plan.response_override)
            if response is None:
                self._nonsense(hook, "response_override", plan.response_override)
                return None
            decision = Decision("answer", ids, response=response, hook=hook.name)
        elif plan.terminate:
            decision = Decision("strip" if ids else "keep", ids, hook=hook.name, reason="terminated")
        elif plan.run_agentic_loop:
            call = self._patched(hook, plan, turn)
            if call is None:
                return None
            self.guard.begin_rerun(claimed)
            self.call = replace(call, depth=self.guard.depth)
            decision = Decision("rerun", ids, self.call, hook=hook.name)
        else:
            return None
        self._given.append(_Given(hook, plan, turn))
        return decision

    def _patched(self, hook: Hook, plan: Plan, turn: Turn) -> RelayContext | None:
        """The next request; None for a patch that makes none."""
        patch = plan.request_patch
        if patch is None:
            self._nonsense(hook, "run_agentic_loop", "no request_patch")
            return None
        if patch.model is not None:
            known = self._known_model(patch.model)
            if known is None:
                self._nonsense(hook, "the patch's model", patch.model)
                return None
            patch = patch.model_copy(update={"model": known})
        try:
            body = next_body(self.call.body, patch, self.call.dialect)
        except InvalidRequest as error:
            self._nonsense(hook, "the patch", str(error))
            return None
        body["messages"] = without_orphans(body["messages"], frozenset(call.id for call in turn.calls))
        kwargs = self.call.kwargs | {key: value for key, value in patch.kwargs.items() if not is_control(key)}
        return replace(self.call, body=body, model=body["model"], kwargs=copied(kwargs), response=None)

    def _known_model(self, name: str) -> str | None:
        """LiteLLM's hooks often put the provider in front."""
        candidates = (name, name.partition("/")[2])
        return next((e for e in candidates if e and self._knows_model(e) and self._may_use(e)), None)

    def _unanswered(self, turn: Turn, claims: Claims) -> Decision:
        """No hook has answered. What was claimed, or is served here, may be nothing that the caller can answer."""
        stray = frozenset(
            call.id
            for call in turn.calls
            if (call.id in claims.ids or call.name in self.serves) and call.name not in self._declared
        )
        if not stray:
            return KEEP
        if len(stray) < len(turn.calls):
            return Decision("strip", stray, reason="hook_failed")
        return self._last(turn, "hook_failed")

    def _last(self, turn: Turn, reason: str) -> Decision:
        log.warning("The loop is stopped: %s. [%s]", reason, self.call.request_id)
        self._stopped = reason
        body = last_body(self.call.body, turn, reason, self.call.dialect)
        self.call = replace(self.call, body=body, response=None)
        return Decision("last", frozenset(call.id for call in turn.calls), self.call, reason=reason)

    async def _after_last(self, claims: Claims, turn: Turn) -> Decision:
        """A model that calls although it has no tools is not asked again."""
        for hook in self.hooks:
            await claims.of(hook)
        text = f"I cannot go on here: {STOPPED[self._stopped]}."
        if not claims.ids:
            return Decision("keep" if turn.text or turn.calls else "strip", reason=self._stopped, text=text)
        return Decision("strip", claims.ids, reason=self._stopped, text=text)

    # -- at the end ------------------------------------------------------------------------------------------

    async def finish(self, response: Json) -> Json:
        """The last answer as the hooks leave it. What was streamed is only seen by them: the result is `response`."""
        for given in reversed(self._given):
            if given.plan.response_override is None:
                turn = _own(given.turn)
                response = await self._shape(given.hook, "after_rerun", response, turn, given.plan)
        for hook in self.hooks:
            response = await self._shape(hook, "post_call", response)
        return response

    async def _shape(self, hook: Hook, what: str, response: Json, *args: Any) -> Json:
        if is_default(hook, what):
            return response
        self.call = replace(self.call, response=response)
        view = self._view(hook)
        made = await self._run(hook, what, *(args or (view.response,)), view)
        if made is None or made is FAILED or self.call.stream:
            return response
        shaped = as_json(made)
        if shaped is None:
            self._nonsense(hook, what, made)
            return response
        return shaped

    async def close(self) -> None:
        """Every hook that gave a plan may release what it holds. Safe to call twice."""
        given, self._given = self._given, []
        for each in reversed(given):
            if not is_default(each.hook, "cleanup"):
                await self._run(each.hook, "cleanup", each.plan, self._view(each.hook))

    # -- one hook --------------------------------------------------------------------------------------------

    def _view(self, hook: Hook) -> RelayContext:
        """The request as this hook may see it: its own, with the loop's control values."""
        control = {
            "_agentic_loop_depth": self.guard.depth,
            "max_agentic_loops": self.guard.max_reruns,
            "_agentic_loop_fingerprints": self.guard.fingerprints,
        }
        view = self.call.own_copy(self._notes[id(hook)])
        view.kwargs |= control
        return view

    async def _claimed(self, hook: Hook, turn: Turn) -> Sequence[Call] | None:
        """Calls of this turn, whatever the hook said; None when it is not interested or failed."""
        said = await self._run(hook, "claims", _own(turn), self._view(hook))
        if said is None or said is FAILED:
            return None
        if not isinstance(said, list | tuple):
            self._nonsense(hook, "claims", said)
            return None
        ids = {getattr(each, "id", None) for each in said}
        return tuple(call for call in turn.calls if call.id in ids)

    async def _run(self, hook: Hook, what: str, *args: Any) -> Any:
        if is_default(hook, what):
            return await getattr(hook, what)(*args)
        request_id = self.call.request_id
        return await call_hook(hook.name, what, request_id, timeout_of(hook), getattr(hook, what), *args)

    def _nonsense(self, hook: Hook, what: str, made: object) -> None:
        kind = type(made).__name__
        log.error(
            "Hook %s: %s is of no use: %s %.200r. [%s]", hook.name, what, kind, made, self.call.request_id
        )


def _own(turn: Turn) -> Turn:
    return replace(turn, content=tuple(copied(turn.content)), message=copied(turn.message))
