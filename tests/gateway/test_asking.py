"""What becomes of a turn when the hooks of a request are asked."""

import asyncio
import copy
import logging

import pytest

from agent.asking import Asking
from agent.decisions import KEEP
from agent.events import TurnEnd
from agent.messages import Message, TextPart, ToolCallPart
from agent.rerun import BaseHook, Patch, Plan, Refusal, RelayContext, turn_of
from agent.rerun_answers import rerun_with
from agent.rerun_guard import Guard, Limits

FIND = {"name": "find", "input_schema": {"type": "object"}}
MINE = {"name": "mine", "input_schema": {"type": "object"}}


def request(*tools, **fields):
    body = {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "tea?"}]}
    if tools:
        body["tools"] = list(tools)
    return RelayContext(dialect="anthropic", model="m", body=body, request_id="req_1", **fields)


def turn(*calls, text="Hm."):
    parts = [TextPart(text)] if text else []
    parts += [ToolCallPart(id, name, '{"q": "tea"}') for id, name in calls]
    end = TurnEnd("tool_calls" if calls else "stop")
    return turn_of(Message("a", "assistant", tuple(parts)), end, "m")


class Finder(BaseHook):
    serves = frozenset({"find"})
    timeout = 5.0

    def __init__(self, result="green"):
        self.result = result
        self.ran = []

    async def look(self, turn, call):
        calls = await self.claims(turn, call)
        self.ran += [each.id for each in calls]
        return rerun_with(turn, {each.id: self.result for each in calls}, call)


class Says(BaseHook):
    """Gives whatever it is told to."""

    timeout = 5.0

    def __init__(self, plan, serves=()):
        self.plan = plan
        self.serves = frozenset(serves)
        self.asked = 0

    async def look(self, turn, call):
        self.asked += 1
        if isinstance(self.plan, BaseException):
            raise self.plan
        return self.plan


# -- the first hook that answers decides ---------------------------------------------------------------------


async def test_a_tool_that_is_served_here_is_run_and_the_model_asked_again():
    asking = Asking([Finder()], request(FIND))
    decision = await asking.ask(turn(("c1", "find")))
    assert (decision.action, decision.hook, decision.calls) == ("rerun", "Finder", {"c1"})
    body = decision.call.body
    assert body["messages"][-1]["content"][0] == {
        "type": "tool_result",
        "tool_use_id": "c1",
        "content": "green",
    }
    assert (body["max_tokens"], body["tools"], decision.call.depth) == (9, [FIND], 1)


async def test_a_turn_without_calls_is_kept():
    assert await Asking([Finder()], request(FIND)).ask(turn()) == KEEP


async def test_the_first_that_answers_decides_and_no_means_the_next():
    no, plan = Says(None), Plan(response_override={"a": 1})
    first, second = Says(plan), Says(Plan(terminate=True))
    decision = await Asking([no, Says(Plan()), first, second], request()).ask(turn())
    assert (decision.action, decision.response) == ("answer", {"a": 1})
    assert (no.asked, first.asked, second.asked) == (1, 1, 0)


async def test_an_empty_object_is_an_answer_too():
    decision = await Asking([Says(Plan(response_override={}))], request()).ask(turn())
    assert (decision.action, decision.response) == ("answer", {})


async def test_an_answer_goes_before_an_end_and_an_end_before_a_rerun():
    everything = Plan(
        response_override={"a": 1}, terminate=True, run_agentic_loop=True, request_patch=Patch()
    )
    assert (await Asking([Says(everything)], request()).ask(turn())).action == "answer"
    end = everything.model_copy(update={"response_override": None})
    assert (await Asking([Says(end)], request()).ask(turn())).action == "keep"


async def test_an_end_sends_the_turn_without_the_calls_that_the_hook_claimed():
    asking = Asking([Says(Plan(terminate=True), {"find"})], request(FIND))
    decision = await asking.ask(turn(("c1", "find")))
    assert (decision.action, decision.calls) == ("strip", {"c1"})


async def test_model_and_limit_of_a_patch_are_those_of_the_next_round():
    plan = Plan(run_agentic_loop=True, request_patch=Patch(model="big", max_tokens=500))
    decision = await Asking([Says(plan)], request()).ask(turn())
    assert (decision.call.model, decision.call.body["model"], decision.call.body["max_tokens"]) == (
        "big",
        "big",
        500,
    )


async def test_a_hook_that_does_not_want_the_request_is_not_asked():
    asking = Asking([Finder()], request(MINE))
    assert asking.hooks == ()
    assert not asking.looks
    assert await asking.ask(turn(("c1", "find"))) == KEEP


async def test_kwargs_of_a_patch_reach_the_next_look_and_no_body():
    seen = []

    class Twice(BaseHook):
        async def look(self, turn, call):
            seen.append((call.depth, dict(call.kwargs), dict(call.notes)))
            call.notes["left"] = "here"
            return Plan(
                run_agentic_loop=True, request_patch=Patch(kwargs={"mine": 1, "_agentic_loop_depth": 7})
            )

    asking = Asking([Twice()], request())
    await asking.ask(turn())
    decision = await asking.ask(turn())
    assert "mine" not in decision.call.body
    assert [(depth, notes) for depth, _, notes in seen] == [(0, {}), (1, {"left": "here"})]
    assert seen[0][1]["_agentic_loop_depth"] == 0
    assert (seen[1][1]["mine"], seen[1][1]["_agentic_loop_depth"], seen[1][1]["max_agentic_loops"]) == (
        1,
        1,
        3,
    )


# -- whose calls ---------------------------------------------------------------------------------------------


async def test_a_mixed_turn_goes_to_the_caller_and_nothing_runs_here():
    finder = Finder()
    decision = await Asking([finder], request(FIND, MINE)).ask(turn(("c1", "find"), ("c2", "mine")))
    assert (decision.action, decision.calls, finder.ran) == ("strip", {"c1"}, [])


async def test_calls_of_two_hooks_in_one_turn_are_not_the_callers():
    class Reader(Finder):
        serves = frozenset({"mine"})

    finder, reader = Finder(), Reader()
    decision = await Asking([finder, reader], request(FIND, MINE)).ask(turn(("c1", "find"), ("c2", "mine")))
    assert (decision.action, finder.ran, reader.ran) == ("rerun", ["c1"], [])
    # The other's call is asked for again by the model; without a result it must not go back.
    ids = [
        block["id"] for block in decision.call.body["messages"][-2]["content"] if block["type"] == "tool_use"
    ]
    assert ids == ["c1"]


async def test_a_call_without_a_result_is_taken_out_of_what_a_hook_sends_back():
    messages = [
        {"role": "assistant", "content": [{"type": "tool_use", "id": "c1", "name": "find", "input": {}}]}
    ]
    plan = Plan(run_agentic_loop=True, request_patch=Patch(messages=[*request().messages, *messages]))
    decision = await Asking([Says(plan, {"find"})], request(FIND)).ask(turn(("c1", "find")))
    assert decision.call.body["messages"] == request().messages


# -- the rails -----------------------------------------------------------------------------------------------


async def test_a_model_that_calls_for_ever_is_asked_a_last_time_without_tools():
    class Curious(Finder):
        async def claims(self, turn, call):
            return turn.calls

    asking, actions = Asking([Curious()], request(FIND)), []
    for number in range(4):
        calls = turn_of(
            Message("a", "assistant", (ToolCallPart(f"c{number}", "find", f'{{"q": {number}}}'),)),
            TurnEnd("tool_calls"),
            "m",
        )
        decision = await asking.ask(calls)
        actions.append(decision.action)
    assert actions == ["rerun", "rerun", "rerun", "last"]
    assert decision.reason == "max_agentic_loops"
    assert decision.call.body["tool_choice"] == {"type": "none"}
    assert (await asking.ask(turn())).action == "keep"


async def test_the_same_call_again_is_not_run_again():
    finder = Finder()
    asking = Asking([finder], request(FIND))
    await asking.ask(turn(("c1", "find")))
    decision = await asking.ask(turn(("c2", "find")))
    assert (decision.action, decision.reason, finder.ran) == ("last", "repeated_calls", ["c1"])


async def test_a_model_that_calls_without_having_tools_is_not_asked_again_and_the_caller_gets_words():
    asking = Asking([Finder()], request(FIND), Guard(Limits(max_reruns=1)))
    await asking.ask(turn(("c1", "find")))
    await asking.ask(turn(("c2", "find")))
    decision = await asking.ask(turn(("c3", "find"), text=""))
    assert (decision.action, decision.calls) == ("strip", {"c3"})
    assert "limit of tool rounds" in decision.text


async def test_a_hook_that_reruns_without_any_call_ends_with_the_answer_that_is_there():
    again = Says(Plan(run_agentic_loop=True, request_patch=Patch(optional_params={"temperature": 1})))
    asking, actions = Asking([again], request()), []
    for _ in range(5):
        actions.append((await asking.ask(turn())).action)
    assert actions == ["rerun", "rerun", "rerun", "keep", "keep"]


# -- hooks that fail -----------------------------------------------------------------------------------------


class Hangs(BaseHook):
    serves = frozenset({"find"})
    timeout = 0.05

    async def look(self, turn, call):
        await asyncio.Event().wait()


class ClingsOn(Hangs):
    async def look(self, turn, call):
        while True:
            try:
                await asyncio.sleep(0.2)
                return
            except asyncio.CancelledError:
                continue


class Raises(BaseHook):
    serves = frozenset({"find"})

    async def look(self, turn, call):
        raise RuntimeError("the secret is 42")


class Leaves(Raises):
    async def look(self, turn, call):
        raise SystemExit(3)


class CancelsItself(Raises):
    async def look(self, turn, call):
        raise asyncio.CancelledError


class Nonsense(Raises):
    async def look(self, turn, call):
        return (True, {"tool_calls": []})


class UnknownModel(Raises):
    async def look(self, turn, call):
        return Plan(run_agentic_loop=True, request_patch=Patch(model="nowhere"))


class NoPatch(Raises):
    async def look(self, turn, call):
        return Plan(run_agentic_loop=True)


class BadMessages(Raises):
    async def look(self, turn, call):
        return Plan(run_agentic_loop=True, request_patch=Patch(messages=[{"role": "tool", "content": 5}]))


class NoAnswer(Raises):
    async def look(self, turn, call):
        return Plan(response_override="words")


class SyncLook(Raises):
    def look(self, turn, call):
        return None


class BadClaims(Raises):
    async def claims(self, turn, call):
        return 5


class Mutates(BaseHook):
    async def look(self, turn, call):
        call.body.clear()
        call.kwargs.clear()
        call.response.clear()
        turn.message.clear()
        turn.content[0].clear()
        return


FAILING = [
    Hangs,
    ClingsOn,
    Raises,
    Leaves,
    CancelsItself,
    Nonsense,
    UnknownModel,
    NoPatch,
    BadMessages,
    NoAnswer,
    SyncLook,
    BadClaims,
]


@pytest.mark.parametrize("kind", FAILING)
async def test_a_hook_that_fails_is_logged_by_name_and_the_next_is_asked(kind, caplog):
    class Next(Finder):
        pass

    asking = Asking([kind(), Next()], request(FIND), knows_model=lambda name: name == "m")
    with caplog.at_level(logging.ERROR, "threadloom.hooks"):
        decision = await asking.ask(turn(("c1", "find")))
    assert (decision.action, decision.hook) == ("rerun", "Next")
    line = caplog.records[0].getMessage()
    assert kind.__name__ in line
    assert "req_1" in line


@pytest.mark.parametrize("kind", FAILING)
async def test_a_call_that_nobody_answered_goes_to_a_caller_who_knows_the_tool(kind):
    asking = Asking([kind()], request(FIND), knows_model=lambda name: name == "m")
    assert await asking.ask(turn(("c1", "find"))) == KEEP


class Brings(Raises):
    async def pre_call(self, body, call):
        return body | {"tools": [FIND]}


async def test_a_call_of_a_tool_that_only_a_failing_hook_knows_never_reaches_the_caller():
    asking = Asking([Brings()], request())
    assert (await asking.before()).body["tools"] == [FIND]
    decision = await asking.ask(turn(("c1", "find")))
    assert (decision.action, decision.reason) == ("last", "hook_failed")
    assert "the secret" not in str(decision)


async def test_nor_where_the_hook_fails_already_when_it_is_asked_for_its_calls():
    class Broken(Brings):
        async def claims(self, turn, call):
            raise RuntimeError("the secret is 42")

    asking = Asking([Broken()], request())
    await asking.before()
    decision = await asking.ask(turn(("c1", "find")))
    assert (decision.action, decision.reason) == ("last", "hook_failed")


async def test_nor_beside_a_call_of_the_callers_own():
    asking = Asking([Brings()], request(MINE))
    await asking.before()
    decision = await asking.ask(turn(("c1", "find"), ("c2", "mine")))
    assert (decision.action, decision.calls) == ("strip", {"c1"})


async def test_a_hook_changes_nothing_but_its_own_copies():
    call, said, response = request(), turn(), {"content": [1]}
    before = copy.deepcopy((call, said, response))
    asking = Asking([Mutates()], call)
    assert await asking.ask(said, response) == KEEP
    assert (call, said, response) == before
    assert asking.call.body == before[0].body


async def test_a_hook_that_cannot_say_what_it_wants_is_left_out(caplog):
    class Odd(BaseHook):
        def wants(self, request):
            raise KeyError("x")

    assert Asking([Odd()], request()).hooks == ()
    assert "Odd" in caplog.text


async def test_when_the_caller_leaves_the_hook_stops():
    began, stopped = asyncio.Event(), asyncio.Event()

    class Slow(BaseHook):
        async def look(self, turn, call):
            began.set()
            try:
                await asyncio.Event().wait()
            finally:
                stopped.set()

    task = asyncio.create_task(Asking([Slow()], request()).ask(turn()))
    await asyncio.wait_for(began.wait(), 60)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await asyncio.wait_for(stopped.wait(), 60)


# -- before and after ----------------------------------------------------------------------------------------


class Rule(BaseHook):
    def __init__(self, made):
        self.made = made

    async def pre_call(self, body, call):
        return self.made(body) if callable(self.made) else self.made


async def test_rules_change_the_request_one_behind_the_other():
    one = Rule(lambda body: body | {"max_tokens": body["max_tokens"] + 1})
    call = await Asking([one, Rule(None), one], request()).before()
    assert call.body["max_tokens"] == 11


async def test_a_refusal_ends_the_request():
    refusal = Refusal("Not on Sundays.", 403)
    never = Rule(lambda body: pytest.fail("asked behind a refusal"))
    assert await Asking([Rule(refusal), never], request()).before() is refusal


async def test_a_rule_that_gives_nonsense_changes_nothing(caplog):
    call = await Asking([Rule("no"), Rule(lambda body: 1 / 0)], request()).before()
    assert call == request()
    assert "'no'" in caplog.text


async def test_a_rule_may_say_how_often_the_model_is_run_and_a_caller_may_not():
    asking = Asking([Rule(lambda body: body | {"max_agentic_loops": "5"})], request())
    call = await asking.before()
    assert asking.guard.max_reruns == 5
    assert "max_agentic_loops" not in call.body
    asking = Asking([Rule(lambda body: body | {"max_agentic_loops": 0})], request())
    await asking.before()
    assert asking.guard.max_reruns == 3
    spoofed = request()
    spoofed.body |= {"max_agentic_loops": 99, "_agentic_loop_depth": -9}
    asking = Asking([BaseHook()], spoofed)
    assert (asking.guard.max_reruns, asking.call.body) == (3, request().body)


class Shapes(Finder):
    def __init__(self, log):
        super().__init__()
        self.log = log

    async def after_rerun(self, turn, plan, call):
        self.log.append(("after", [each.id for each in turn.calls]))
        return call.response | {"shaped": True}

    async def post_call(self, body, call):
        self.log.append(("post", body))
        return body | {"posted": True}

    async def cleanup(self, plan, call):
        self.log.append(("cleanup", plan.run_agentic_loop))


async def test_behind_the_loop_each_hook_sees_the_last_answer_and_then_cleans_up():
    log = []
    asking = Asking([Shapes(log)], request(FIND))
    await asking.ask(turn(("c1", "find")))
    assert await asking.finish({"a": 1}) == {"a": 1, "shaped": True, "posted": True}
    await asking.close()
    await asking.close()
    assert log == [("after", ["c1"]), ("post", {"a": 1, "shaped": True}), ("cleanup", True)]


async def test_what_was_streamed_is_seen_and_not_changed():
    asking = Asking([Shapes([])], request(FIND, stream=True))
    await asking.ask(turn(("c1", "find")))
    assert await asking.finish({"a": 1}) == {"a": 1}


async def test_a_hook_that_cleans_up_is_called_when_the_round_failed_too():
    log = []
    asking = Asking([Shapes(log)], request(FIND))
    await asking.ask(turn(("c1", "find")))
    await asking.close()
    assert log == [("cleanup", True)]


async def test_serves_are_the_tools_of_the_hooks_that_want_the_request():
    asking = Asking([Finder(), Says(None, {"other"}), Rule(None)], request(FIND))
    assert asking.serves == {"find"}
