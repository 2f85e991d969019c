"""What a person is asked, what they may answer, and what is checked before anything runs. Pure."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from pydantic import BaseModel

from agent import (
    InvalidRequest,
    Resolution,
    Tool,
    ToolRegistry,
    check_resolutions,
    next_step,
    resolution_of,
    tool,
)
from agent import events as ev
from agent.approvals import BINDING, digest, interrupt_of, response_schema, with_answer
from agent.events import Interrupt
from agent.messages import Transcript, user_message
from agent.steps import Answer, RunTools, Wait
from agent.wire.agui import decode_event, encode_event
from tests.agent.agui_validation import assert_valid_event
from tests.agent.runs import answered, assistant, call, said

NOW = datetime(2030, 1, 2, 3, 4, 5, tzinfo=UTC)
LATER = NOW + timedelta(days=1)
MAIL = '{"to": "a@b.c", "subject": "Hi", "body": "Hello"}'


@tool(needs_approval=True)
def send_email(to: str, subject: str, body: str) -> str:
    """Sends an email."""
    return "sent"


@tool(needs_approval=True, parallel_safe=False)
def wipe() -> str:
    return "wiped"


@tool
def look(text: str = "") -> str:
    return text


PICK = Tool("pick", "At the client.", {"type": "object", "required": ["folder"], "properties": {}})
TOOLS = ToolRegistry([send_email, wipe, look, PICK])
U1 = user_message("u1", "hi")


def interrupt(id: str = "i1", call_id: str = "c1", **changes: Any) -> Interrupt:
    made = interrupt_of(call(call_id, "send_email", MAIL), send_email, id=id, run_id="r1", expires_at=LATER)
    return replace(made, **changes)


def yes(call_id: str = "c1", id: str = "i1", edited: Any = None) -> Resolution:
    return Resolution(call_id, id, "approved", edited)


def no(call_id: str = "c1", id: str = "i1", reason: str = "") -> Resolution:
    return Resolution(call_id, id, "denied", reason=reason)


def cancel(call_id: str = "c1", id: str = "i1") -> Resolution:
    return Resolution(call_id, id, "cancelled")


# -- the question


def test_the_question_is_ag_uis_with_what_tanstacks_client_binds_to():
    asked = interrupt()
    schema = response_schema(send_email.parameters)
    input = {"to": "a@b.c", "subject": "Hi", "body": "Hello"}
    assert asked == Interrupt(
        id="i1",
        reason="tool_call",
        message="The assistant wants to use send_email.",
        tool_call_id="c1",
        response_schema=schema,
        expires_at="2030-01-03T03:04:05Z",
        metadata={
            "kind": "approval",
            "toolName": "send_email",
            "input": input,
            BINDING: {
                "v": 1,
                "kind": "tool-approval",
                "interruptId": "i1",
                "interruptedRunId": "r1",
                "generation": 0,
                "toolName": "send_email",
                "toolCallId": "c1",
                "originalArgs": input,
                "inputSchemaHash": digest(send_email.parameters),
                "approvalSchemaHash": digest({"approve": None, "reject": None}),
                "responseSchemaHash": digest(schema),
            },
        },
    )


def test_an_answer_is_yes_with_or_without_edited_arguments_or_no():
    assert response_schema(send_email.parameters) == {
        "oneOf": [
            {
                "type": "object",
                "properties": {"approved": {"const": True}, "editedArgs": send_email.parameters},
                "required": ["approved"],
                "additionalProperties": False,
            },
            {
                "type": "object",
                "properties": {"approved": {"const": False}},
                "required": ["approved"],
                "additionalProperties": False,
            },
        ]
    }


class Address(BaseModel):
    street: str


def test_references_in_a_tools_schema_still_lead_somewhere():
    @tool(needs_approval=True)
    def ship(to: Address) -> str:
        return to.street

    assert ship.parameters["properties"]["to"]["$ref"] == "#/$defs/Address"
    schema = response_schema(ship.parameters)
    assert schema["$defs"] == ship.parameters["$defs"]
    assert "$defs" not in schema["oneOf"][0]["properties"]["editedArgs"]


def test_a_hash_is_the_same_whatever_the_order_and_the_alphabet():
    expected = hashlib.sha256('{"a":[1,2.5,"ü"],"b":null}'.encode()).hexdigest()
    assert (
        digest({"b": None, "a": (1.0, 2.5, "ü")})
        == digest({"a": [1, 2.5, "ü"], "b": None})
        == f"sha256:{expected}"
    )


def test_a_question_may_stay_open_for_ever():
    made = interrupt_of(call("c1", "look"), look, id="i1", run_id="r1", expires_at=None)
    assert made.expires_at is None
    assert made.metadata["input"] == {}


def test_a_question_goes_over_the_wire_and_back():
    end = ev.RunFinished(
        "t", "r", ev.Interrupted((interrupt(),)), stop_reason="interrupt", finish_reason="tool_calls"
    )
    wire = encode_event(end)
    assert_valid_event(wire)
    assert decode_event(wire) == end


# -- the answer, as it comes


@pytest.mark.parametrize(
    ("status", "payload", "expected"),
    [
        ("resolved", {"approved": True}, yes()),
        ("resolved", True, yes()),
        ("resolved", {"approved": True, "editedArgs": None}, yes()),
        ("resolved", {"approved": True, "editedArgs": {"to": "x"}}, yes(edited={"to": "x"})),
        ("resolved", {"approved": True, "editedArgs": {}}, yes(edited={})),
        ("resolved", {"approved": False}, no()),
        ("resolved", False, no()),
        ("resolved", {"approved": False, "reason": "Not now."}, no(reason="Not now.")),
        ("resolved", {"approved": False, "reason": 7}, no()),
        ("cancelled", None, cancel()),
        ("cancelled", {"approved": True}, cancel()),
    ],
)
def test_an_answer_is_read(status, payload, expected):
    assert resolution_of(interrupt(), status, payload) == expected


@pytest.mark.parametrize(
    "payload", [None, {}, "yes", 1, {"approved": "true"}, {"approved": True, "editedArgs": "x"}, [True]]
)
def test_an_answer_that_is_none_is_refused(payload):
    with pytest.raises(InvalidRequest) as refused:
        resolution_of(interrupt(), "resolved", payload)
    assert refused.value.code == "invalid_answer"


# -- the answer, checked


TWO = (interrupt(), interrupt("i2", "c2"))
GONE = interrupt(metadata={"toolName": "gone"})
LATE = interrupt(expires_at="2030-01-02T03:04:05Z")


@pytest.mark.parametrize(
    ("interrupts", "answers", "code"),
    [
        ((), (yes(),), "unknown_interrupt"),
        ((interrupt(),), (yes(id="other"),), "unknown_interrupt"),
        ((interrupt(),), (yes(call_id="c9"),), "unknown_interrupt"),
        ((interrupt(),), (yes(), yes()), "answered_twice"),
        ((interrupt(),), (yes(), cancel()), "answered_twice"),
        (TWO, (yes(),), "missing_answer"),
        (TWO, (), "missing_answer"),
        ((LATE,), (yes(),), "interrupt_expired"),
        ((LATE,), (no(),), "interrupt_expired"),
        ((GONE,), (yes(),), "unknown_tool"),
        ((interrupt(),), (yes(edited={"to": "x"}),), "invalid_arguments"),
        ((interrupt(),), (yes(edited={"to": "x", "subject": "s", "body": 7}),), "invalid_arguments"),
        (
            (interrupt(),),
            (yes(edited={"to": "x", "subject": "s", "body": "b", "cc": "y"}),),
            "invalid_arguments",
        ),
        (TWO, (cancel(), yes("c2", "i2", {"to": 1})), "invalid_arguments"),
    ],
)
def test_an_answer_that_cannot_be_carried_out_is_refused_as_a_whole(interrupts, answers, code):
    with pytest.raises(InvalidRequest) as refused:
        check_resolutions(interrupts, answers, TOOLS, NOW)
    assert refused.value.code == code


@pytest.mark.parametrize(
    ("interrupts", "answers"),
    [
        ((), ()),
        ((interrupt(),), (yes(),)),
        ((interrupt(),), (yes(edited={"to": "x", "subject": "s", "body": "b"}),)),
        ((interrupt(),), (no(reason="No."),)),
        (TWO, (yes("c2", "i2"), no())),
        ((LATE,), (cancel(),)),
        ((GONE,), (cancel(),)),
        ((GONE,), (no(),)),
        ((interrupt(expires_at=None),), (yes(),)),
    ],
)
def test_an_answer_that_can_be_carried_out_is_taken(interrupts, answers):
    check_resolutions(interrupts, answers, TOOLS, NOW)


def test_arguments_that_come_back_unchanged_were_not_edited():
    made = call("c1", "send_email", MAIL)
    same = {"body": "Hello", "subject": "Hi", "to": "a@b.c"}
    assert with_answer(made, yes(edited=same)) == made
    edited = with_answer(made, yes(edited=same | {"to": "x@y.z"}))
    assert edited.arguments == MAIL
    assert edited.used_arguments == edited.edited == '{"body":"Hello","subject":"Hi","to":"x@y.z"}'
    assert with_answer(made, replace(yes(edited=same | {"to": "x"}), status="denied")) == made


# -- what the loop does then


def step(*calls_: Any, more: Any = (), answers: Any = (), verdicts: Any = None):
    turn = assistant("m1", *calls_, reason="tool_calls")
    resolutions = {answer.tool_call_id: answer for answer in answers}
    return next_step(Transcript((U1, turn, *more)), TOOLS, resolutions, verdicts or {})


MAILS = call("c1", "send_email", MAIL)


def test_a_call_that_needs_approval_waits_for_a_person():
    assert step(MAILS) == Wait(approvals=(MAILS,))


def test_what_may_run_runs_first_and_only_the_rest_waits():
    looks, picks = call("c2", "look"), call("c3", "pick", '{"folder": "/"}')
    assert step(MAILS, looks, picks) == RunTools((looks,))
    assert step(MAILS, looks, picks, more=[answered("c2")]) == Wait(client_calls=(picks,), approvals=(MAILS,))


@pytest.mark.parametrize(
    "arguments", ["{", '{"to": "x"}', '{"to": 1, "subject": "s", "body": "b"}', "[]", ""]
)
def test_nobody_is_asked_about_a_call_that_could_not_run(arguments):
    made = step(call("c1", "send_email", arguments))
    assert isinstance(made, Answer)
    assert made.results[0].error == "invalid_arguments"


def test_an_approved_call_runs():
    assert step(MAILS, answers=[yes()]) == RunTools((MAILS,))


def test_an_approved_call_runs_with_the_edited_arguments_and_keeps_its_own():
    made = step(MAILS, answers=[yes(edited={"to": "x@y.z", "subject": "s", "body": "b"})])
    assert isinstance(made, RunTools)
    assert (made.calls[0].arguments, made.calls[0].used_arguments) == (
        MAIL,
        '{"to":"x@y.z","subject":"s","body":"b"}',
    )


@pytest.mark.parametrize(
    ("answer", "code", "text"),
    [
        (no(), "denied", "denied"),
        (no(reason="Wrong person."), "denied", "Wrong person."),
        (cancel(), "cancelled", "cancelled"),
    ],
)
def test_a_denied_or_cancelled_call_is_an_error_result(answer, code, text):
    made = step(MAILS, answers=[answer])
    assert isinstance(made, Answer)
    assert made.results[0].error == code
    assert text in said(made.results[0])["error"]


def test_a_call_of_a_tool_that_is_gone_can_be_cancelled_and_denied_and_not_run():
    gone = call("c1", "gone")
    assert step(gone, answers=[cancel()]).results[0].error == "cancelled"
    assert step(gone, answers=[no()]).results[0].error == "denied"
    assert step(gone, answers=[yes()]).results[0].error == "unknown_tool"


def test_who_was_not_answered_asks_again():
    other = call("c2", "send_email", MAIL)
    assert step(MAILS, other, answers=[yes()]) == RunTools((MAILS,))
    assert step(MAILS, other, answers=[yes()], more=[answered("c1")]) == Wait(approvals=(other,))


def test_an_answer_for_a_call_that_is_not_open_means_nothing():
    assert step(MAILS, answers=[yes("c7"), no("c8")]) == Wait(approvals=(MAILS,))


@pytest.mark.parametrize(
    ("name", "arguments", "verdict", "code"),
    [
        ("look", "{}", "deny", "denied"),
        ("send_email", MAIL, "deny", "denied"),
        ("pick", '{"folder": "/"}', "deny", "denied"),
        ("look", "{}", "failed", "policy_failed"),
        ("send_email", MAIL, "failed", "policy_failed"),
    ],
)
def test_a_verdict_against_a_call_is_an_error_result(name, arguments, verdict, code):
    made = step(call("c1", name, arguments), verdicts={"c1": verdict})
    assert isinstance(made, Answer)
    assert made.results[0].error == code


def test_a_verdict_overrides_what_the_tool_says_of_itself():
    looks = call("c2", "look")
    assert step(MAILS, verdicts={"c1": "allow"}) == RunTools((MAILS,))
    assert step(looks, verdicts={"c2": "ask"}) == Wait(approvals=(looks,))


def test_a_client_is_its_own_judge_of_whether_to_ask():
    picks = call("c1", "pick", '{"folder": "/"}')
    assert step(picks, verdicts={"c1": "ask"}) == Wait(client_calls=(picks,))


def test_what_was_approved_and_is_forbidden_meanwhile_does_not_run():
    assert step(MAILS, answers=[yes()], verdicts={"c1": "deny"}).results[0].error == "denied"
    assert step(MAILS, answers=[yes()], verdicts={"c1": "ask"}) == RunTools((MAILS,))


def test_a_condition_that_nobody_looked_at_asks():
    unsure = tool(needs_approval=lambda args: False, name="unsure")(look.function)
    made = assistant("m1", call("c1", "unsure"), reason="tool_calls")
    assert next_step(Transcript((U1, made)), ToolRegistry([unsure])) == Wait(approvals=made.tool_calls)


# -- a declared order


ALONE = ToolRegistry([send_email, wipe, look, PICK, tool(name="alone", parallel_safe=False)(look.function)])


def order(*calls_: Any, more: Any = (), answers: Any = ()):
    turn = assistant("m1", *calls_, reason="tool_calls")
    resolutions = {answer.tool_call_id: answer for answer in answers}
    return next_step(Transcript((U1, turn, *more)), ALONE, resolutions)


def test_a_call_that_runs_alone_waits_behind_an_earlier_one_that_waits():
    alone = call("c2", "alone")
    assert order(MAILS, alone) == Wait(approvals=(MAILS,), behind=(alone,))
    picks = call("c1", "pick", '{"folder": "/"}')
    assert order(picks, alone) == Wait(client_calls=(picks,), behind=(alone,))
    assert order(MAILS, alone, answers=[yes()]) == RunTools((MAILS, alone))


def test_a_call_that_runs_alone_does_not_wait_for_a_later_one():
    alone = call("c1", "alone")
    later = call("c2", "send_email", MAIL)
    assert order(alone, later) == RunTools((alone,))


def test_what_may_run_beside_others_does_not_wait_for_the_order_of_those_that_may_not():
    alone, looks = call("c2", "alone"), call("c3", "look")
    assert order(MAILS, alone, looks) == RunTools((looks,))


def test_an_approved_call_that_runs_alone_waits_too_and_its_answer_stays_good():
    picks, wipes = call("c1", "pick", '{"folder": "/"}'), call("c2", "wipe")
    assert order(picks, wipes) == Wait(client_calls=(picks,), approvals=(wipes,))
    assert order(picks, wipes, answers=[yes("c2")]) == Wait(client_calls=(picks,), behind=(wipes,))
    assert order(picks, wipes, more=[answered("c1")], answers=[yes("c2")]) == RunTools((wipes,))


@pytest.mark.parametrize("reason", ["length", "stop", "content_filter", None])
def test_no_call_of_a_turn_that_did_not_end_with_its_calls_asks_for_anything(reason):
    turn = assistant("m1", MAILS, call("c2", "pick", '{"folder": "/"}'), reason=reason)
    made = next_step(Transcript((U1, turn)), TOOLS, {"c1": yes()}, {"c1": "allow"})
    assert isinstance(made, Answer)
    assert len(made.results) == 2
