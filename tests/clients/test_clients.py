"""`@ag-ui/client` and `@tanstack/ai-client` against a running server: at the end both have read the same thread."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.clients.clients import Client, Json, story
from tests.clients.conftest import Open
from tests.clients.reading import failed, problem, result_of, said, same_as_the_server
from tests.live.api import Api, new_id
from tests.standin import Broken, Say, StandIn

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]

MAIL = {"to": "ada@example.org", "subject": "Hello", "body": "See you at noon."}
OTHER = {"to": "bob@example.org", "subject": "Hello too", "body": "See you at one."}
SCHEMA = {
    "type": "object",
    "properties": {"to": {"type": "string"}, "subject": {"type": "string"}, "body": {"type": "string"}},
    "required": ["to", "subject", "body"],
    "additionalProperties": False,
}

SEND_EMAIL = {"name": "send_email", "parameters": SCHEMA, "approval": True}
"""What a TanStack application declares of the server's tool, so that its interrupts are bound to it."""

READ_PAGE = {
    "name": "read_page",
    "parameters": {"type": "object", "properties": {"part": {"type": "string"}}, "required": ["part"]},
    "returns": {"title": "Shoes, blue"},
}


def mail_call(id: str, arguments: Json = MAIL) -> tuple[str, str, Json]:
    return (id, "send_email", arguments)


# -- server tools --------------------------------------------------------------------------------------------


def test_server_tools(kind: str, opened: Open, api: Api):
    client = opened(kind)
    client.send("What should I wear in San Francisco today?")
    told = same_as_the_server(client, api)
    assert [each.get("name") or each["who"] for each in told] == [
        "user",
        "assistant",
        "get_weather",
        "get_clothing_advice",
        "assistant",
    ]
    assert said(told)[-1] == "Wear a light jacket: that is my advice for San Francisco."
    assert problem(client) is None


def test_thoughts_and_a_failing_tool(kind: str, opened: Open, api: Api, standin: StandIn):
    standin.play(
        Say(thinking="Where is that?", calls=[("c1", "get_weather", {"city": "Nowhere"})]),
        Say("I do not know.", thinking="There is no such place."),
    )
    client = opened(kind)
    client.send("How is Nowhere?")
    told = same_as_the_server(client, api)
    assert failed(told, "c1")
    assert "no such city" in result_of(told, "c1")["error"]


def test_two_questions_in_one_thread(kind: str, opened: Open, api: Api, standin: StandIn):
    client = opened(kind)
    for question in ("How is the weather in Oslo?", "And what do you say?"):
        client.send(question)
        same_as_the_server(client, api)
    # The client sends all of it each time, in a shape of its own; the model reads it as it happened, once.
    roles = [
        message["role"] for message in standin.exchanges[-1].json["messages"] if message["role"] != "system"
    ]
    assert roles == ["user", "assistant", "tool", "assistant", "tool", "assistant", "user"]


# -- approvals -----------------------------------------------------------------------------------------------


def asked_to_send(kind: str, opened: Open, api: Api, standin: StandIn, *calls: Any) -> Client:
    """A client whose run waits for a person, because of these calls."""
    standin.play(Say("I will write.", calls=calls), Say("Done."))
    client = opened(kind, tools=[SEND_EMAIL])
    client.send("Write to Ada")
    same_as_the_server(client, api)
    assert problem(client) is None
    expected = {"agui": "approval", "tanstack": "tool-approval"}[kind]
    assert [interrupt["kind"] for interrupt in client.held["interrupts"]] == [expected] * len(calls)
    return client


def test_a_person_approves(kind: str, opened: Open, api: Api, standin: StandIn):
    client = asked_to_send(kind, opened, api, standin, mail_call("c1"))
    [asked] = client.held["interrupts"]
    assert (asked["toolName"], asked["input"]) == ("send_email", MAIL)
    assert asked["message"] == "The assistant wants to use send_email."
    client.answer(c1={"approved": True})
    told = same_as_the_server(client, api)
    assert result_of(told, "c1")["to"] == MAIL["to"]
    assert not failed(told, "c1")
    assert said(told) == ["I will write.", "Done."]
    assert problem(client) is None


def test_the_demo_model_shows_it_without_any_key(kind: str, opened: Open, api: Api):
    client = opened(kind, tools=[SEND_EMAIL], model="demo")
    client.send("Send an email to ada@example.org")
    [asked] = client.held["interrupts"]
    assert (asked["toolName"], asked["input"]["to"]) == ("send_email", "ada@example.org")
    client.answer(**{asked["toolCallId"]: {"approved": True, "editedArgs": OTHER}})
    told = same_as_the_server(client, api)
    assert result_of(told, asked["toolCallId"])["to"] == OTHER["to"]
    assert said(told)


def test_a_person_edits_what_is_sent(kind: str, opened: Open, api: Api, standin: StandIn):
    client = asked_to_send(kind, opened, api, standin, mail_call("c1"))
    client.answer(c1={"approved": True, "editedArgs": OTHER})
    told = same_as_the_server(client, api)
    assert result_of(told, "c1")["to"] == OTHER["to"]
    read = [part for message in api.read(client.thread)["messages"] for part in message["parts"]]
    [call] = [part for part in read if part["type"] == "tool-call"]
    assert (json.loads(call["arguments"]), call["input"]) == (MAIL, OTHER)


def test_a_person_says_no(kind: str, opened: Open, api: Api, standin: StandIn):
    client = asked_to_send(kind, opened, api, standin, mail_call("c1"))
    client.answer(c1={"approved": False})
    told = same_as_the_server(client, api)
    assert failed(told, "c1")
    assert said(told)[-1] == "Done."
    assert problem(client) is None


def test_a_person_cancels(kind: str, opened: Open, api: Api, standin: StandIn):
    client = asked_to_send(kind, opened, api, standin, mail_call("c1"))
    client.answer(c1="cancel")
    told = same_as_the_server(client, api)
    assert failed(told, "c1")
    assert said(told)[-1] == "Done."
    assert problem(client) is None


def test_two_questions_are_answered_together(kind: str, opened: Open, api: Api, standin: StandIn):
    client = asked_to_send(kind, opened, api, standin, mail_call("c1"), mail_call("c2", OTHER))
    client.answer(c1={"approved": True}, c2={"approved": False})
    told = same_as_the_server(client, api)
    assert (failed(told, "c1"), failed(told, "c2")) == (False, True)
    assert said(told)[-1] == "Done."


def test_what_may_run_runs_before_a_person_is_asked(kind: str, opened: Open, api: Api, standin: StandIn):
    standin.play(Say(calls=[mail_call("c1"), ("c2", "get_weather", {"city": "Oslo"})]), Say("Done."))
    client = opened(kind, tools=[SEND_EMAIL])
    client.send("Write to Ada, and how is Oslo?")
    assert result_of(same_as_the_server(client, api), "c2")["city"] == "Oslo"
    client.answer(c1={"approved": True})
    told = same_as_the_server(client, api)
    assert result_of(told, "c1")["status"] == "sent"
    assert said(told) == ["Done."]


def test_a_second_question_in_the_run_that_answers_the_first(
    kind: str, opened: Open, api: Api, standin: StandIn
):
    standin.play(Say(calls=[mail_call("c1")]), Say(calls=[mail_call("c2", OTHER)]), Say("Both are sent."))
    client = opened(kind, tools=[SEND_EMAIL])
    client.send("Write to Ada, then to Bob")
    client.answer(c1={"approved": True})
    same_as_the_server(client, api)
    client.answer(c2={"approved": True})
    told = same_as_the_server(client, api)
    assert [result_of(told, call)["to"] for call in ("c1", "c2")] == [MAIL["to"], OTHER["to"]]
    assert said(told) == ["Both are sent."]


def test_tanstack_answers_all_at_once(opened: Open, api: Api, standin: StandIn):
    client = asked_to_send("tanstack", opened, api, standin, mail_call("c1"), mail_call("c2", OTHER))
    client.tell("all", approved=True)
    told = same_as_the_server(client, api)
    assert [result_of(told, call)["to"] for call in ("c1", "c2")] == [MAIL["to"], OTHER["to"]]
    assert client.held["interruptErrors"] == []


def test_tanstack_answers_for_a_tool_that_it_does_not_know(opened: Open, api: Api, standin: StandIn):
    standin.play(Say(calls=[mail_call("c1")]), Say("Done."))
    client = opened("tanstack")
    client.send("Write to Ada")
    assert [interrupt["kind"] for interrupt in client.held["interrupts"]] == ["generic"]
    client.answer(c1={"approved": True, "editedArgs": OTHER})
    assert result_of(same_as_the_server(client, api), "c1")["to"] == OTHER["to"]


def test_an_answer_that_comes_too_late(kind: str, opened: Open, api: Api, standin: StandIn):
    client = asked_to_send(kind, opened, api, standin, mail_call("c1"))
    resume = [{"interruptId": client.held["interrupts"][0]["id"], "status": "cancelled"}]
    body = api.body("Write to Ada", client.thread) | {"messages": [], "resume": resume}
    assert api.http.post("/api/chat", json=body).status_code == 200
    client.answer(c1={"approved": True})
    assert "answered already" in (problem(client) or {})["message"]
    assert failed(story(api.settled(client.thread)["messages"]), "c1")


# -- tools of the page ---------------------------------------------------------------------------------------


def test_a_tool_of_the_page(kind: str, opened: Open, api: Api, standin: StandIn):
    standin.play(Say("I look.", calls=[("c1", "read_page", {"part": "title"})]), Say("It sells shoes."))
    client = opened(kind, tools=[READ_PAGE])
    client.send("What does this page sell?")
    told = same_as_the_server(client, api)
    assert client.held["ran"] == [{"name": "read_page", "input": {"part": "title"}}]
    assert result_of(told, "c1") == READ_PAGE["returns"]
    assert said(told) == ["I look.", "It sells shoes."]
    given = standin.exchanges[-1].json["messages"][-1]
    assert (given["role"], json.loads(given["content"])) == ("tool", READ_PAGE["returns"])
    assert problem(client) is None


def test_a_tool_of_the_page_twice_in_a_row(kind: str, opened: Open, api: Api, standin: StandIn):
    standin.play(
        Say(calls=[("c1", "read_page", {"part": "title"})]),
        Say(calls=[("c2", "read_page", {"part": "price"})]),
        Say("It sells shoes."),
    )
    client = opened(kind, tools=[READ_PAGE])
    client.send("What does this page sell?")
    told = same_as_the_server(client, api)
    assert [each["input"] for each in client.held["ran"]] == [{"part": "title"}, {"part": "price"}]
    assert said(told) == ["It sells shoes."]


def test_a_tool_of_the_page_that_fails(kind: str, opened: Open, api: Api, standin: StandIn):
    standin.play(Say(calls=[("c1", "read_page", {"part": "title"})]), Say("I cannot see it."))
    client = opened(kind, tools=[{**READ_PAGE, "throws": "The page is gone."}])
    client.send("What does this page sell?")
    told = same_as_the_server(client, api)
    assert failed(told, "c1")
    assert result_of(told, "c1") == {"error": "The page is gone."}
    assert "The page is gone." in standin.exchanges[-1].json["messages"][-1]["content"]
    assert said(told) == ["I cannot see it."]


def test_tools_of_page_and_server_in_one_turn(kind: str, opened: Open, api: Api, standin: StandIn):
    calls = [("c1", "read_page", {"part": "title"}), ("c2", "get_weather", {"city": "Oslo"})]
    standin.play(Say(calls=calls), Say("Shoes for Oslo."))
    client = opened(kind, tools=[READ_PAGE])
    client.send("Does this fit the weather in Oslo?")
    told = same_as_the_server(client, api)
    assert result_of(told, "c1") == READ_PAGE["returns"]
    assert result_of(told, "c2")["city"] == "Oslo"
    assert len(client.held["ran"]) == 1
    assert said(told) == ["Shoes for Oslo."]


def test_a_tool_of_the_page_beside_a_question(kind: str, opened: Open, api: Api, standin: StandIn):
    standin.play(Say(calls=[("c1", "read_page", {"part": "title"}), mail_call("c2")]), Say("Done."))
    client = opened(kind, tools=[READ_PAGE, SEND_EMAIL])
    client.send("Write to Ada what this page sells")
    client.answer(c2={"approved": True})
    told = same_as_the_server(client, api)
    assert result_of(told, "c1") == READ_PAGE["returns"]
    assert result_of(told, "c2")["status"] == "sent"
    assert len(client.held["ran"]) == 1, "the page's tool ran again"
    assert said(told) == ["Done."]


def test_the_next_message_closes_what_the_page_never_answered(
    kind: str, opened: Open, api: Api, standin: StandIn
):
    standin.play(Say(calls=[("c1", "read_page", {"part": "title"})]), Say("Never mind."))
    thread = new_id()
    tools = [{"name": "read_page", "description": "", "parameters": READ_PAGE["parameters"]}]
    body = api.body("What does this page sell?", thread, model="of-openai") | {"tools": tools}
    assert api.http.post("/api/chat", json=body).status_code == 200
    client = opened(kind, thread, **({"persistence": True} if kind == "tanstack" else {}))
    client.send("Then tell me a joke")
    told = story(api.settled(thread)["messages"])
    assert failed(told, "c1")
    assert said(told) == ["Never mind."]
    if kind == "tanstack":
        same_as_the_server(client, api)


# -- what goes wrong ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("broken", ["401", "error", "cut"])
def test_a_model_that_fails(kind: str, broken: str, opened: Open, api: Api, standin: StandIn):
    standin.play(Broken(broken))
    client = opened(kind)
    client.send("Hello?")
    told = same_as_the_server(client, api)
    assert bool(said(told)) == (broken != "401")
    message = (problem(client) or {})["message"]
    assert message
    assert "sk-" not in message
    assert standin.url not in message
    if kind == "tanstack":
        assert client.held["status"] == "error"
    client.send("Hello")
    assert problem(client) is None
    assert said(same_as_the_server(client, api))[-1] == "You said: Hello"


def test_what_is_refused_before_the_stream(kind: str, opened: Open, api: Api):
    client = opened(kind, model="no such model")
    client.send("Hello")
    message = (problem(client) or {})["message"]
    assert "422" in message
    assert api.http.get("/api/chat", params={"threadId": client.thread}).status_code == 404


# -- a client that knows its thread, and nothing else --------------------------------------------------------


def test_a_new_client_goes_on_in_the_thread(kind: str, opened: Open, api: Api, standin: StandIn):
    thread = opened(kind).thread
    opened(kind, thread).send("How is the weather in Oslo?")
    fresh = opened(kind, thread)
    fresh.send("And what do you say?")
    assert said(fresh.story()) == ["You said: And what do you say?"]
    roles = [message["role"] for message in standin.exchanges[-1].json["messages"]]
    assert roles[-6:] == ["assistant", "tool", "assistant", "tool", "assistant", "user"]
    told = story(api.settled(thread)["messages"])
    assert told[-2:] == fresh.story()


def test_tanstack_restores_its_thread(opened: Open, api: Api):
    thread = new_id()
    opened("agui", thread).send("How is the weather in Oslo?")
    fresh = opened("tanstack", thread, persistence=True)
    assert len(same_as_the_server(fresh, api)) == 5
    fresh.send("And what do you say?")
    assert said(same_as_the_server(fresh, api))[-1] == "You said: And what do you say?"


def test_tanstack_restores_a_question_and_answers_it(opened: Open, api: Api, standin: StandIn):
    waiting = asked_to_send("tanstack", opened, api, standin, mail_call("c1"), mail_call("c2", OTHER))
    waiting.close()
    fresh = opened("tanstack", waiting.thread, persistence=True, tools=[SEND_EMAIL])
    same_as_the_server(fresh, api)
    assert [interrupt["kind"] for interrupt in fresh.held["interrupts"]] == ["tool-approval"] * 2
    fresh.answer(c1={"approved": True}, c2={"approved": False})
    told = same_as_the_server(fresh, api)
    assert (failed(told, "c1"), failed(told, "c2")) == (False, True)
    assert said(told)[-1] == "Done."


def test_tanstack_reads_a_long_thread_in_pages(opened: Open, api: Api):
    thread = new_id()
    for number in range(3):
        api.run(f"Number {number}", thread, model="of-openai")
    fresh = opened("tanstack", thread, persistence=True, pageSize=2)
    assert fresh.held["older"]
    assert len(fresh.held["messages"]) == 2
    while fresh.held["older"]:
        fresh.tell("older")
    assert len(same_as_the_server(fresh, api)) == 6


def test_the_last_question_is_answered_anew(opened: Open, api: Api, standin: StandIn):
    client = opened("tanstack")
    standin.play(Say("First."), Say("Second."))
    client.send("Say something")
    client.tell("again")
    assert said(same_as_the_server(client, api)) == ["Second."]
