"""Hooks around a run: when each is asked, how several are composed, and what none of them can break."""

from __future__ import annotations

import asyncio
import logging
from contextlib import aclosing
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from agent import (
    Abort,
    Agent,
    AgentRun,
    InvalidRequest,
    Middleware,
    Resolution,
    Skip,
    Tool,
    ToolError,
    Transcript,
    Transform,
    combine_strategies,
    max_iterations,
    tool,
    until_finish_reason,
)
from agent import events as ev
from agent.errors import ProviderError
from agent.messages import TextPart, ToolResultPart, Usage
from agent.providers.scripted import ScriptedProvider, Turn
from tests.agent.runs import ASKED, Told, context, drive, play, said

ran: list[Any] = []


@tool
async def echo(text: str = "") -> str:
    ran.append(text)
    if text == "fail":
        raise ToolError("It failed.")
    return text


@tool(needs_approval=True)
async def risky() -> str:
    ran.append("risky")
    return "done"


PICK = Tool("pick", "At the client.")
TOOLS = [echo, risky, PICK]


@pytest.fixture(autouse=True)
def _nothing_ran():
    ran.clear()


def calls(*texts: str) -> Turn:
    return Turn(calls=[(f"c{n}", "echo", {"text": text}) for n, text in enumerate(texts, 1)])


HELLO = (Turn("Hello."),)


async def through(*middleware: Any, turns: Any = HELLO, agent: Any = None, **rest: Any) -> Told:
    return await play(*turns, tools=TOOLS, agent={"middleware": middleware, **(agent or {})}, **rest)


def hooking(hook: str, does: Any) -> type[Middleware]:
    """A middleware class with one hook."""
    return type("Hooking", (Middleware,), {hook: lambda self, *given: does(*given)})


def log_of(waits: bool = False, name: str = "") -> tuple[list[Any], Any]:
    """A middleware that writes down which hooks it was asked, and for what."""
    log: list[Any] = []

    class Log(Middleware):
        pass

    def hook(hook_name: str) -> Any:
        def note(self: Any, ctx: Any, *given: Any) -> Any:
            if hook_name != "on_event":
                log.append(hook_name)
            return getattr(Middleware, hook_name)(self, ctx, *given)

        async def note_later(self: Any, ctx: Any, *given: Any) -> Any:
            await asyncio.sleep(0)
            return note(self, ctx, *given)

        return note_later if waits else note

    for each in vars(Middleware):
        if each.startswith("on_") or each == "setup":
            setattr(Log, each, hook(each))
    return log, Log


# -- when each hook is asked


@pytest.mark.parametrize("waits", [False, True])
async def test_the_hooks_of_a_whole_run_in_order(waits):
    log, made = log_of(waits)
    told = await through(made, turns=(calls("a"), Turn("Done.")))
    assert told.text == "Done."
    assert log == [
        "setup",
        "on_start",
        "on_iteration",
        "on_config",
        "on_usage",
        "on_before_tool_call",
        "on_after_tool_call",
        "on_tool_phase_complete",
        "on_should_continue",
        "on_iteration",
        "on_config",
        "on_usage",
        "on_finish",
    ]


async def test_defaults_change_nothing():
    script = (calls("a"), Turn("Done.", thinking="hm", usage=Usage(1, 2)))
    _, made = log_of()
    plain, hooked = await play(*script, tools=TOOLS), await through(Middleware, made, turns=script)
    assert hooked.events == plain.events


async def test_a_run_that_waits_pauses_and_finishes():
    log, made = log_of()
    waits = []
    pause = hooking("on_pause", lambda ctx, wait: waits.append(wait))
    told = await through(made, pause, turns=(Turn(calls=[("c1", "risky", {}), ("c2", "pick", {})]),))
    assert told.stop_reason == "interrupt"
    assert log[-2:] == ["on_pause", "on_finish"]
    assert ([c.id for c in waits[0].approvals], [c.id for c in waits[0].client_calls]) == (["c1"], ["c2"])


@pytest.mark.parametrize(
    ("turn", "hook"),
    [
        (Turn("ok"), "on_finish"),
        (Turn(error=ProviderError("Down.")), "on_error"),
        (Turn(error=KeyError("b")), "on_error"),
    ],
)
async def test_exactly_one_terminal_hook(turn, hook):
    log, made = log_of()
    await through(made, turns=(turn,))
    assert [each for each in log if each in ("on_finish", "on_abort", "on_error")] == [hook]


async def test_a_stopped_run_is_aborted_with_its_reason():
    reasons = []
    ctx = context()
    ctx.abort.abort("by ann")
    told = await through(hooking("on_abort", lambda ctx, reason: reasons.append(reason)), ctx=ctx)
    assert (told.stop_reason, reasons) == ("cancelled", ["by ann"])


async def test_a_run_that_nobody_reads_any_more_is_aborted():
    log, made = log_of()
    agent = Agent(ScriptedProvider(Turn("A long answer.", delta_size=1)), "m", middleware=[made])
    async with aclosing(AgentRun(agent, Transcript(), context()).events([ASKED])) as events:
        async for event in events:
            if isinstance(event, ev.TextMessageContent):
                break
    assert log[-1] == "on_abort"


async def test_a_terminal_hook_comes_behind_the_terminal_event():
    told: list[Any] = []
    made = hooking("on_finish", lambda ctx, end: told.append(end.stop_reason))
    agent = Agent(ScriptedProvider(Turn("Hi.")), "m", middleware=[made])
    async for event in AgentRun(agent, Transcript(), context()).events([ASKED]):
        told.append(type(event))
    assert told[-2:] == [ev.RunFinished, "stop"]


async def test_each_run_has_a_middleware_and_a_state_of_its_own():
    seen = []

    class Count(Middleware):
        def setup(self, ctx):
            seen.append((self, dict(ctx.state)))
            ctx.state["was"] = "here"

    provider = ScriptedProvider(each=lambda request: Turn("ok"))
    agent = Agent(provider, "m", middleware=[Count, lambda: Count()])
    await drive(agent)
    await drive(agent, ctx=context(run_id="r2"))
    assert len({id(made) for made, _ in seen}) == 4
    assert all(state == {} for _, state in seen)


async def test_two_middlewares_do_not_share_a_state():
    states = []
    make = lambda: hooking("on_start", lambda ctx: states.append(ctx.state))  # noqa: E731
    await through(make(), make())
    assert states[0] is not states[1]


def test_an_instance_that_runs_would_share_is_refused():
    with pytest.raises(InvalidRequest, match="give the agent the class"):
        Agent(ScriptedProvider(), "m", middleware=[Middleware()])
    with pytest.raises(InvalidRequest, match="makes no middleware"):
        Agent(ScriptedProvider(), "m", middleware=["redact"])


async def test_an_instance_that_makes_fresh_ones_is_taken():
    class Fresh(Middleware):
        made = 0

        def fresh(self):
            Fresh.made += 1
            return Fresh()

    agent = Agent(ScriptedProvider(each=lambda request: Turn("ok")), "m", middleware=[Fresh()])
    await drive(agent)
    await drive(agent, ctx=context(run_id="r2"))
    assert Fresh.made == 2


@pytest.mark.parametrize("source", [lambda: 7, partial(int, "x")])
async def test_what_makes_no_middleware_ends_the_run_with_an_error(source, caplog):
    told = await through(source)
    assert told.end.code == "middleware_error"
    assert told.turns == 0


async def test_a_context_knows_its_run():
    seen = []

    class Look(Middleware):
        def on_start(self, ctx):
            seen.append(
                (
                    ctx.thread_id,
                    ctx.run_id,
                    ctx.parent_run_id,
                    ctx.user,
                    ctx.provider,
                    ctx.model,
                    ctx.iteration,
                )
            )

        def on_iteration(self, ctx):
            seen.append((ctx.iteration, len(ctx.transcript)))

    await through(Look, turns=(calls("a"), Turn("ok")), ctx=context(parent_run_id="r0", user="ann"))
    assert seen == [("t1", "r1", "r0", "ann", "scripted", "m", 0), (1, 1), (2, 3)]


# -- config


async def test_config_is_piped_and_asked_for_each_turn():
    class Add(Middleware):
        def on_config(self, ctx, config):
            return replace(config, system=f"{config.system} {ctx.iteration}", model=f"{config.model}+")

    told = await through(Add, Add, turns=(calls("a"), Turn("ok")), agent={"system": "Be brief."})
    assert [request.system for request in told.provider.requests] == ["Be brief. 1 1", "Be brief. 2 2"]
    assert [request.model for request in told.provider.requests] == ["m++", "m++"]
    assert told.end.model == "m++"


async def test_none_leaves_the_config_as_it_is():
    told = await through(hooking("on_config", lambda ctx, config: None))
    assert told.provider.requests[0].model == "m"


async def test_parameters_may_change():
    told = await through(hooking("on_config", lambda ctx, config: replace(config, parameters={"seed": 7})))
    assert told.provider.requests[0].parameters == {"seed": 7}


async def test_a_tool_that_was_taken_away_cannot_be_reached():
    hide = hooking("on_config", lambda ctx, config: replace(config, tools=()))
    told = await through(hide, turns=(calls("a"), Turn("ok")))
    assert told.provider.requests[0].tools == ()
    assert (ran, told.codes) == ([], ["unknown_tool"])


async def test_a_tool_that_was_added_can_also_in_a_run_that_takes_its_call_up():
    @tool(needs_approval=True)
    async def extra() -> str:
        ran.append("extra")
        return "ok"

    add = hooking("on_config", lambda ctx, config: replace(config, tools=(*config.tools, extra)))
    told = await through(add, turns=(Turn(calls=[("c1", "extra", {})]),))
    assert told.stop_reason == "interrupt"
    answer = Resolution("c1", told.interrupts[0].id, "approved")
    later = await through(
        add,
        turns=(Turn("ok"),),
        transcript=told.transcript,
        input=(),
        resolutions=[answer],
        ctx=context(run_id="r2"),
    )
    assert (ran, later.codes) == (["extra"], [None])


async def test_two_tools_of_one_name_in_a_config_are_an_error(caplog):
    twice = hooking("on_config", lambda ctx, config: replace(config, tools=(echo, echo)))
    told = await through(twice)
    assert told.end.code == "invalid_request"


# -- events


async def test_events_are_piped_and_the_state_is_folded_behind_them():
    class Say(Middleware):
        def __init__(self, before: str) -> None:
            self.before = before

        def on_event(self, ctx, event):
            if isinstance(event, ev.TextMessageContent):
                return replace(event, delta=f"{self.before}({event.delta})")
            return event

    told = await through(partial(Say, "f"), partial(Say, "g"))
    assert told.text == "g(f(Hello.))"
    assert told.transcript[-1].parts == (TextPart("g(f(Hello.))"),)


async def test_an_event_may_become_several_or_none():
    def split(ctx, event):
        if isinstance(event, ev.TextMessageContent):
            return [replace(event, delta=letter) for letter in event.delta if letter != "l"]
        return event

    told = await through(hooking("on_event", split))
    assert [event.delta for event in told.of(ev.TextMessageContent)] == list("Heo.")
    told = await through(hooking("on_event", lambda ctx, event: None))
    assert [type(event) for event in told.events] == [
        ev.RunStarted,
        ev.StepStarted,
        ev.StepFinished,
        ev.RunFinished,
    ]
    assert told.transcript == Transcript((ASKED,))


async def test_changed_arguments_are_the_ones_that_run():
    def change(ctx, event):
        if isinstance(event, ev.ToolCallArgs):
            return replace(event, delta=event.delta.replace("a", "b"))
        return event

    told = await through(hooking("on_event", change), turns=(calls("a"), Turn("ok")))
    assert (ran, told.codes) == (["b"], [None])


async def test_a_middleware_tells_events_of_its_own():
    class Note(Middleware):
        def on_iteration(self, ctx):
            ctx.emit("note", {"turn": ctx.iteration})

    told = await through(Note)
    assert told.of(ev.Custom) == [ev.Custom("note", {"turn": 1})]
    assert told.events.index(told.of(ev.Custom)[0]) < len(told.events) - 1


# -- calls


async def test_a_call_is_shown_as_it_is_going_to_run():
    seen = []

    def look(ctx, call):
        seen.append((call.id, call.name, call.arguments, call.tool, call.ran))

    script = (Turn(calls=[("c1", "echo", "{}"), ("c2", "nobody", {}), ("c3", "echo", "{")]), Turn("ok"))
    await through(hooking("on_before_tool_call", look), turns=script)
    assert seen == [("c1", "echo", {"text": ""}, echo, False)]


async def test_transformed_arguments_run_and_are_kept_for_people():
    claims = []

    async def claim(made, arguments):
        claims.append(arguments)

    change = hooking("on_before_tool_call", lambda ctx, call: Transform({"text": "other"}))
    told = await through(change, turns=(calls("a"), Turn("ok")), ctx=context(on_claim=claim))
    assert (ran, claims) == (["other"], [{"text": "other"}])
    assert told.results[0].metadata == {"transformedArguments": '{"text":"other"}'}
    assert told.transcript[1].tool_calls[0].arguments == '{"text": "a"}'


async def test_transformed_arguments_that_do_not_fit_run_nothing():
    change = hooking("on_before_tool_call", lambda ctx, call: Transform({"text": 7}))
    told = await through(change, turns=(calls("a"), Turn("ok")))
    assert (ran, told.codes) == ([], ["invalid_arguments"])


@pytest.mark.parametrize(
    ("skip", "content", "code"),
    [
        (Skip("cached"), "cached", None),
        (Skip({"t": 1}), '{"t":1}', None),
        (Skip([TextPart("x")]), (TextPart("x"),), None),
        (Skip("No.", error="over_budget"), '{"error": "No."}', "over_budget"),
    ],
)
async def test_a_skipped_call_has_the_result_it_was_given(skip, content, code):
    claims = []

    async def claim(made, arguments):
        claims.append(made)

    told = await through(
        hooking("on_before_tool_call", lambda ctx, call: skip),
        turns=(calls("a"), Turn("ok")),
        ctx=context(on_claim=claim),
    )
    assert (ran, claims) == ([], [])
    assert (told.results[0].content, told.results[0].error) == (content, code)


async def test_abort_ends_the_run_and_the_call_does_not_run():
    stop = hooking(
        "on_before_tool_call", lambda ctx, call: Abort("too dangerous") if call.id == "c2" else None
    )
    log, made = log_of()
    told = await through(stop, made, turns=(calls("a", "b"),))
    assert told.end.outcome == ev.Cancelled()
    assert (told.stop_reason, told.end.metadata["abortReason"]) == ("aborted", "too dangerous")
    assert [call["outcome"] for call in told.end.metadata["receipt"]["calls"]] == ["done", "not_run"]
    assert told.codes[1] == "aborted"
    assert "b" not in ran
    assert log[-1] == "on_abort"


async def test_the_first_decision_wins_and_the_others_are_not_asked():
    asked = []

    def decide(name, decision):
        return hooking("on_before_tool_call", lambda ctx, call: asked.append(name) or decision)

    told = await through(
        decide(1, None), decide(2, Skip("two")), decide(3, Skip("three")), turns=(calls("a"), Turn("ok"))
    )
    assert (asked, told.results[0].content) == ([1, 2], "two")


async def test_results_pass_through_all_in_order_each_seeing_the_earlier():
    def add(letter):
        return hooking(
            "on_after_tool_call",
            lambda ctx, call, result: replace(result, content=f"{result.content}{letter}"),
        )

    told = await through(
        add("x"), hooking("on_after_tool_call", lambda *_: None), add("y"), turns=(calls("a"), Turn("ok"))
    )
    assert told.results[0].content == "axy"


async def test_an_error_stays_an_error_whatever_its_words():
    gloss = hooking(
        "on_after_tool_call",
        lambda ctx, call, result: ToolResultPart("other", "All is well.", None, 999),
    )
    cut = Turn(calls=[("c1", "echo", '{"text": "a')], finish_reason="length")
    strategy = combine_strategies([max_iterations(5), until_finish_reason(["content_filter"])])
    for script in (
        (calls("fail"), Turn("ok")),
        (cut, Turn("ok")),
        (Turn(calls=[("c1", "nobody", {})]), Turn("ok")),
    ):
        told = await through(gloss, turns=script, agent={"strategy": strategy})
        assert (told.results[0].content, told.results[0].tool_call_id) == ("All is well.", "c1")
        assert told.codes[0] in ("tool_error", "max_tokens", "unknown_tool")
        assert told.results[0].duration_ms in (None, 0)


async def test_whether_a_call_ran_is_told_with_its_result():
    seen = []
    look = hooking(
        "on_after_tool_call", lambda ctx, call, result: seen.append((call.id, call.ran, call.arguments))
    )
    await through(
        look, turns=(Turn(calls=[("c1", "echo", {}), ("c2", "nobody", {}), ("c3", "echo", "{")]), Turn("ok"))
    )
    assert sorted(seen) == [("c1", True, {"text": ""}), ("c2", False, None), ("c3", False, None)]


async def test_a_batch_is_complete_when_its_results_are_told():
    batches = []
    look = hooking(
        "on_tool_phase_complete", lambda ctx, results: batches.append([r.tool_call_id for r in results])
    )
    await through(look, turns=(calls("a", "b"), Turn(calls=[("c3", "nobody", {})]), Turn("ok")))
    assert batches == [["c1", "c2"], ["c3"]]


# -- going on


async def test_all_must_agree_to_go_on_and_who_does_not_gives_the_reason():
    class EnoughForToday(Middleware):
        def on_should_continue(self, ctx, state):
            return state.tool_call_count < 2

    agree = hooking("on_should_continue", lambda ctx, state: True)
    silent = hooking("on_should_continue", lambda ctx, state: None)
    told = await through(agree, silent, EnoughForToday, turns=(calls("a"), Turn(calls=[("c2", "echo", {})])))
    assert (told.stop_reason, told.turns) == ("enough_for_today", 2)


async def test_a_name_may_be_given():
    made = hooking("on_should_continue", lambda ctx, state: False)
    made.name = "house_rule"
    told = await through(made, turns=(calls("a"), Turn("Sorry.")), agent={"final_answer": True})
    assert (told.stop_reason, told.text) == ("house_rule", "Sorry.")


async def test_usage_of_each_turn():
    used = []
    note = hooking(
        "on_usage", lambda ctx, turn: used.append((turn.model, turn.usage, turn.finish_reason, turn.cost))
    )
    script = (replace(calls("a"), usage=Usage(10, 1)), Turn("ok", usage=Usage(20, 2)))
    await through(note, turns=script, agent={"cost": lambda model, usage: usage.output_tokens * 0.5})
    assert used == [("m", Usage(10, 1), "tool_calls", 0.5), ("m", Usage(20, 2), "stop", 1.0)]


async def test_usage_of_a_turn_that_broke_off():
    used = []
    note = hooking("on_usage", lambda ctx, turn: used.append(turn.finish_reason))
    await through(note, turns=(Turn("Hel", cut=True, usage=Usage(1, 1)),))
    assert used == [None]


# -- ending a run


async def test_a_middleware_may_end_the_run_from_any_hook():
    for hook in ("on_start", "on_iteration", "on_usage", "on_config"):
        told = await through(
            hooking(hook, lambda ctx, *_: ctx.abort("enough")), turns=(calls("a"), Turn("ok"))
        )
        assert (told.stop_reason, told.end.metadata["abortReason"]) == ("aborted", "enough"), hook


async def test_a_middleware_that_ends_the_run_from_an_event_keeps_what_was_said():
    def stop(ctx, event):
        if isinstance(event, ev.TextMessageContent) and "5" in event.delta:
            ctx.abort("enough")
        return event

    told = await through(hooking("on_event", stop), turns=(Turn("123456789", delta_size=1),))
    assert (told.stop_reason, told.text) == ("aborted", "12345")


async def test_a_stop_by_a_person_stays_one():
    def stop(ctx, event):
        if isinstance(event, ev.TextMessageContent):
            ctx.abort("too late")
        return event

    ctx = context()
    ctx.abort.abort("ann")
    told = await through(hooking("on_event", stop), ctx=ctx)
    assert told.stop_reason == "cancelled"


async def test_ending_one_run_ends_no_other_of_the_same_signal():
    ctx = context()
    told = await through(hooking("on_start", lambda ctx: ctx.abort("enough")), ctx=ctx)
    assert told.stop_reason == "aborted"
    assert not ctx.abort.aborted


async def test_deferred_work_is_done_behind_the_terminal_hook_whatever_becomes_of_it(caplog):
    done = []

    class Later(Middleware):
        def on_start(self, ctx):
            ctx.defer(self.work("a"))
            ctx.defer(self.work("fail"))

        def on_finish(self, ctx, end):
            done.append("finish")
            ctx.defer(self.work("b"))

        async def work(self, name):
            await asyncio.sleep(0)
            if name == "fail":
                raise RuntimeError(name)
            done.append(name)

    told = await through(Later)
    assert (told.stop_reason, done) == ("stop", ["finish", "a", "b"])
    assert "deferred work failed" in caplog.text


# -- what raises


HOOKS = [
    "setup",
    "on_start",
    "on_config",
    "on_iteration",
    "on_usage",
    "on_before_tool_call",
    "on_after_tool_call",
    "on_tool_phase_complete",
    "on_should_continue",
    "on_event",
]


@pytest.mark.parametrize("hook", HOOKS)
@pytest.mark.parametrize("waits", [False, True])
async def test_a_middleware_that_raises_ends_its_run_with_an_error(hook, waits, caplog):
    async def later(*_):
        await asyncio.sleep(0)
        raise KeyError("secret")

    def now(*_):
        raise KeyError("secret")

    log, made = log_of()
    told = await through(made, hooking(hook, later if waits else now), turns=(calls("a"), Turn("Done.")))
    assert isinstance(told.end, ev.RunError)
    assert told.end.code == "middleware_error"
    assert "secret" not in told.end.message
    assert "Hooking" in caplog.text or "hooking" in caplog.text
    assert "secret" in caplog.text
    assert log[-1] == "on_error"
    assert "Done." not in told.text


@pytest.mark.parametrize("hook", ["on_config", "on_before_tool_call", "on_after_tool_call"])
async def test_a_middleware_that_answers_nonsense_ends_its_run_with_an_error(hook, caplog):
    told = await through(hooking(hook, lambda *_: 42), turns=(calls("a"), Turn("Done.")))
    assert told.end.code == "middleware_error"
    assert "42" in caplog.text
    assert "Done." not in told.text


@pytest.mark.parametrize(
    "kind",
    [
        ev.RunStarted,
        ev.StepStarted,
        ev.TextMessageStart,
        ev.TextMessageContent,
        ev.TextMessageEnd,
        ev.ToolCallStart,
        ev.ToolCallArgs,
        ev.ToolCallEnd,
        ev.StepFinished,
        ev.ToolCallResult,
        ev.RunFinished,
    ],
)
async def test_a_middleware_that_raises_at_any_event_leaves_a_well_formed_run(kind, caplog):
    def fail(ctx, event):
        if isinstance(event, kind):
            raise RuntimeError("bug")
        return event

    script = (replace(calls("a", "b"), text="Let me see."), Turn("Done."))
    told = await through(hooking("on_event", fail), turns=script)
    assert told.end.code == "middleware_error"


async def test_what_a_failing_middleware_was_given_is_not_told(caplog):
    def fail(ctx, event):
        if isinstance(event, ev.TextMessageContent | ev.ToolCallResult):
            raise RuntimeError("bug")
        return event

    told = await through(hooking("on_event", fail), turns=(Turn("A secret."),))
    assert told.text == ""
    told = await through(hooking("on_event", fail), turns=(calls("secret", "other secret"),))
    assert ran == ["secret", "other secret"]
    assert "secret" not in str([result.content for result in told.results])
    assert {said(result)["error"] for result in told.results} == {
        "The result is not shown, because a middleware of this server failed."
    }


async def test_a_middleware_that_fails_behind_a_tool_leaves_that_it_ran(caplog):
    fail = hooking("on_after_tool_call", lambda *_: 1 / 0)
    told = await through(fail, turns=(calls("a"),))
    assert ran == ["a"]
    assert told.codes == [None]
    assert "not shown" in told.results[0].content


async def test_a_decision_that_is_none_is_a_failure(caplog):
    told = await through(hooking("on_before_tool_call", lambda *_: "no"), turns=(calls("a"),))
    assert (ran, told.end.code) == ([], "middleware_error")


@pytest.mark.parametrize("hook", ["on_finish", "on_error", "on_abort"])
async def test_terminal_hooks_are_isolated_and_change_no_outcome(hook, caplog):
    done = []
    ctx = context()
    if hook == "on_abort":
        ctx.abort.abort()
    turn = Turn(error=ProviderError("Down.")) if hook == "on_error" else Turn("ok")
    told = await through(
        hooking(hook, lambda *_: 1 / 0), hooking(hook, lambda *_: done.append(1)), turns=(turn,), ctx=ctx
    )
    assert done == [1]
    assert (told.end.code if hook == "on_error" else told.stop_reason) == {
        "on_finish": "stop",
        "on_error": "provider_error",
        "on_abort": "cancelled",
    }[hook]
    assert "failed at the end of it" in caplog.text


async def test_a_terminal_hook_that_hangs_is_given_up(monkeypatch, caplog):
    monkeypatch.setattr("agent.stack.AT_THE_END", 0.01)
    done = []

    async def hang(*_):
        await asyncio.Event().wait()

    await through(hooking("on_finish", hang), hooking("on_finish", lambda *_: done.append(1)))
    assert done == [1]


@pytest.mark.parametrize(
    "hook", ["setup", "on_start", "on_config", "on_event", "on_before_tool_call", "on_usage"]
)
async def test_a_hook_that_hangs_is_ended_by_a_stop(hook):
    waiting = asyncio.Event()

    async def hang(ctx, *_):
        waiting.set()
        await asyncio.Event().wait()

    ctx = context()

    async def stop():
        await waiting.wait()
        ctx.abort.abort()

    stopper = asyncio.create_task(stop())
    told = await through(hooking(hook, hang), turns=(calls("a"), Turn("ok")), ctx=ctx)
    await stopper
    assert told.end.outcome == ev.Cancelled()
    assert ran == []


async def test_what_is_told_behind_a_stop_passes_through_async_hooks_too():
    async def shout(ctx, event):
        await asyncio.sleep(0)
        if isinstance(event, ev.ToolCallResult):
            return replace(event, content=event.content.upper())
        return event

    started = asyncio.Event()

    @tool
    async def hang() -> str:
        started.set()
        await asyncio.Event().wait()

    ctx = context()

    async def stop():
        await started.wait()
        ctx.abort.abort()

    stopper = asyncio.create_task(stop())
    told = await play(
        Turn(calls=[("c1", "hang", {})]),
        tools=[hang],
        agent={"middleware": [hooking("on_event", shout)]},
        ctx=ctx,
    )
    await stopper
    assert told.results[0].content.isupper()
    assert told.stop_reason == "cancelled"


# -- no middleware


async def test_hooks_that_are_not_overridden_are_not_called(monkeypatch):
    def never(self, *given):
        raise AssertionError("called")

    for hook in HOOKS:
        monkeypatch.setattr(Middleware, hook, never)

    class Nothing(Middleware):
        pass

    told = await through(Nothing, Nothing, turns=(calls("a"), Turn("ok")))
    assert told.stop_reason == "stop"


async def test_a_forged_stop_reason_of_a_cut_turn_is_asked_once():
    asked = []
    note = hooking("on_should_continue", lambda ctx, state: asked.append(state.finish_reason) or True)
    cut = Turn(calls=[("c1", "echo", '{"text": "a')], finish_reason="length")
    told = await through(note, turns=(cut, Turn("ok")), agent={"strategy": max_iterations(3)})
    assert asked == ["length"]
    assert told.told_reasons == ["tool_calls", "stop"]


@pytest.fixture(autouse=True)
def _quiet(caplog):
    caplog.set_level(logging.INFO)
