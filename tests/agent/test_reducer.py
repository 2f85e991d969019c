"""The one fold: what each event does to a transcript."""

from __future__ import annotations

import pytest

from agent import apply, user_message
from agent import events as ev
from agent.messages import (
    FINISH_REASONS,
    Message,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolResultPart,
    Transcript,
)
from agent.reducer import apply_all
from tests.agent.runs import answered, assistant, call

U1 = user_message("u1", "hi")
EMPTY = Transcript()


def fold(*events: ev.Event, onto: Transcript | tuple[Message, ...] = ()) -> Transcript:
    return apply_all(onto if isinstance(onto, Transcript) else Transcript(onto), events)


def parts(*events: ev.Event, onto: tuple[Message, ...] = ()) -> tuple[object, ...]:
    return fold(*events, onto=onto)[-1].parts


# -- the run and its turns


def test_the_input_of_a_run_joins_the_transcript():
    started = ev.RunStarted("t", "r", input=(U1, user_message("u2", "there")))
    assert [message.id for message in fold(started)] == ["u1", "u2"]


def test_input_that_is_there_already_stays_as_it_is():
    started = ev.RunStarted("t", "r", input=(user_message("u1", "other words"),))
    assert fold(started, onto=(U1,)) == Transcript((U1,))


def test_the_same_input_twice_is_there_once():
    assert fold(ev.RunStarted("t", "r", input=(U1, U1))) == Transcript((U1,))


def test_a_new_turn_settles_what_was_live():
    before = fold(ev.TextMessageStart("m1"), ev.TextMessageContent("m1", "a"))
    after = apply(before, ev.StepStarted("turn-2"))
    assert before.live
    assert after.live == ()
    assert after == before


@pytest.mark.parametrize("reason", sorted(FINISH_REASONS))
def test_a_turns_end_tells_its_message_why_it_ended(reason):
    ended = ev.StepFinished("turn-1", metadata={"messageId": "m1", "finishReason": reason})
    assert fold(ev.TextMessageStart("m1"), ended)[0].finish_reason == reason


def test_a_message_keeps_the_true_reason_and_not_the_one_that_was_told():
    facts = {"messageId": "m1", "finishReason": "tool_calls", "storedFinishReason": "length"}
    assert (
        fold(ev.TextMessageStart("m1"), ev.StepFinished("turn-1", metadata=facts))[0].finish_reason
        == "length"
    )


def test_a_broken_turns_message_has_no_reason():
    facts = {"messageId": "m1", "finishReason": None}
    assert fold(ev.TextMessageStart("m1"), ev.StepFinished("turn-1", metadata=facts))[0].finish_reason is None


def test_a_made_up_reason_is_none():
    facts = {"messageId": "m1", "finishReason": "tired"}
    assert fold(ev.TextMessageStart("m1"), ev.StepFinished("turn-1", metadata=facts))[0].finish_reason is None


def test_a_message_keeps_model_usage_and_duration_of_its_turn():
    facts = {
        "messageId": "m1",
        "finishReason": "stop",
        "model": "m",
        "usage": {"inputTokens": 1},
        "durationMs": 5,
        "providerReason": "end_turn",
        "paused": True,
    }
    message = fold(ev.TextMessageStart("m1"), ev.StepFinished("turn-1", metadata=facts))[0]
    assert message.metadata == {k: v for k, v in facts.items() if k not in ("messageId", "finishReason")}
    assert message.paused


@pytest.mark.parametrize("metadata", [None, {}, {"messageId": "m1", "finishReason": "stop"}])
def test_a_turn_that_said_nothing_leaves_no_message(metadata):
    assert fold(
        ev.StepStarted("turn-1"), ev.StepFinished("turn-1", metadata=metadata), onto=(U1,)
    ) == Transcript((U1,))


def test_a_snapshot_replaces_everything():
    snapshot = ev.MessagesSnapshot((user_message("u9", "new"),))
    assert fold(snapshot, onto=(U1, assistant("m1", TextPart("a")))) == Transcript(
        (user_message("u9", "new"),)
    )


# -- text


def test_text_grows_delta_by_delta():
    events = [
        ev.TextMessageStart("m1"),
        *(ev.TextMessageContent("m1", d) for d in "Hello"),
        ev.TextMessageEnd("m1"),
    ]
    assert fold(*events) == Transcript((Message("m1", "assistant", (TextPart("Hello"),)),))


def test_an_empty_delta_is_no_part():
    assert parts(ev.TextMessageStart("m1"), ev.TextMessageContent("m1", "")) == ()


def test_a_message_of_another_role_keeps_it():
    assert fold(ev.TextMessageStart("m1", role="user"))[0].role == "user"


def test_text_behind_a_call_is_a_part_of_its_own():
    events = (
        ev.TextMessageStart("m1"),
        ev.TextMessageContent("m1", "a"),
        ev.ToolCallStart("c1", "f", "m1"),
        ev.TextMessageContent("m1", "b"),
        ev.TextMessageContent("m1", "c"),
    )
    assert parts(*events) == (TextPart("a"), ToolCallPart("c1", "f"), TextPart("bc"))


def test_a_message_that_is_opened_again_goes_on():
    events = (
        ev.TextMessageStart("m1"),
        ev.TextMessageContent("m1", "a"),
        ev.TextMessageEnd("m1"),
        ev.TextMessageStart("m1"),
        ev.TextMessageContent("m1", "b"),
    )
    assert parts(*events) == (TextPart("ab"),)


def test_a_settled_message_may_go_on():
    onto = (U1, assistant("m1", TextPart("a"), reason=None), user_message("u2", "x"))
    after = fold(ev.TextMessageContent("m1", "b"), onto=onto)
    assert [message.text for message in after] == ["hi", "ab", "x"]


def test_two_messages_may_grow_in_turns():
    events = [ev.TextMessageStart("m1"), ev.TextMessageStart("m2")]
    events += [ev.TextMessageContent(id, d) for id, d in (("m1", "a"), ("m2", "x"), ("m1", "b"), ("m2", "y"))]
    assert [message.text for message in fold(*events)] == ["ab", "xy"]


def test_no_holder_of_an_earlier_transcript_sees_it_change():
    seen = [EMPTY]
    for event in (ev.TextMessageStart("m1"), *(ev.TextMessageContent("m1", d) for d in "abc")):
        seen.append(apply(seen[-1], event))
    # Twice from the same place: the second must not grow what the first one holds.
    fork = apply(seen[2], ev.TextMessageContent("m1", "Z"))
    assert [transcript[0].text if transcript else None for transcript in seen] == [None, "", "a", "ab", "abc"]
    assert fork[0].text == "aZ"


# -- thoughts


def test_a_thought_is_a_part_of_its_turns_message():
    id = ev.reasoning_id("m1", 1)
    events = (
        ev.ReasoningStart(id),
        ev.ReasoningMessageStart(id),
        ev.ReasoningMessageContent(id, "so "),
        ev.ReasoningMessageContent(id, "then"),
        ev.ReasoningMessageEnd(id),
        ev.ReasoningEncryptedValue("message", id, "sig"),
        ev.ReasoningEnd(id),
        ev.TextMessageStart("m1"),
        ev.TextMessageContent("m1", "Yes."),
    )
    assert fold(*events) == Transcript(
        (Message("m1", "assistant", (ThinkingPart("so then", "sig"), TextPart("Yes."))),)
    )


def test_the_second_thought_stands_where_it_was_thought():
    first, second = ev.reasoning_id("m1", 1), ev.reasoning_id("m1", 2)
    events = (
        ev.ReasoningMessageStart(first),
        ev.ReasoningMessageContent(first, "a"),
        ev.ToolCallStart("c1", "f", "m1"),
        ev.ReasoningMessageStart(second),
        ev.ReasoningMessageContent(second, "b"),
        ev.ReasoningMessageContent(first, "A"),
    )
    assert parts(*events) == (ThinkingPart("aA"), ToolCallPart("c1", "f"), ThinkingPart("b"))


def test_a_hidden_thought_is_its_encrypted_value():
    id = ev.reasoning_id("m1", 1)
    hidden = ev.ReasoningEncryptedValue("message", id, "opaque", metadata={"redacted": True})
    assert parts(ev.ReasoningStart(id), hidden, ev.ReasoningEnd(id)) == (ThinkingPart("", None, "opaque"),)


def test_a_signature_without_a_shown_thought_is_kept():
    id = ev.reasoning_id("m1", 1)
    assert parts(ev.ReasoningEncryptedValue("message", id, "sig")) == (ThinkingPart("", "sig"),)


def test_a_signature_of_a_call_changes_nothing():
    before = fold(ev.ToolCallStart("c1", "f", "m1"))
    assert apply(before, ev.ReasoningEncryptedValue("tool-call", "c1", "sig")) == before


def test_a_thought_with_an_id_of_another_making_has_a_message_of_its_own():
    events = (ev.ReasoningMessageStart("r7"), ev.ReasoningMessageContent("r7", "hm"))
    assert fold(*events) == Transcript((Message("r7", "assistant", (ThinkingPart("hm"),)),))


def test_a_thought_that_is_not_numbered_from_one_still_grows():
    id = ev.reasoning_id("m1", 7)
    assert parts(ev.ReasoningMessageStart(id), ev.ReasoningMessageContent(id, "hm")) == (ThinkingPart("hm"),)


# -- calls and results


def test_a_call_joins_its_parent_message():
    events = (ev.TextMessageStart("m1"), ev.TextMessageContent("m1", "a"), ev.ToolCallStart("c1", "f", "m1"))
    assert parts(*events) == (TextPart("a"), ToolCallPart("c1", "f"))


def test_a_call_opens_its_parent_message_when_that_is_new():
    assert fold(ev.ToolCallStart("c1", "f", "m1")) == Transcript(
        (Message("m1", "assistant", (ToolCallPart("c1", "f"),)),)
    )


def test_a_call_without_a_parent_has_a_message_of_its_own():
    assert fold(ev.ToolCallStart("c1", "f"))[0].id == "c1"


def test_a_call_that_starts_twice_is_there_once():
    assert len(parts(ev.ToolCallStart("c1", "f", "m1"), ev.ToolCallStart("c1", "f", "m1"))) == 1


def test_a_providers_own_call_is_marked():
    (part,) = parts(ev.ToolCallStart("c1", "f", "m1", provider_executed=True))
    assert part.provider_executed


def test_arguments_grow_by_id_also_interleaved():
    events = [ev.ToolCallStart("c1", "f", "m1"), ev.ToolCallStart("c2", "g", "m1")]
    events += [
        ev.ToolCallArgs(id, d) for id, d in (("c2", '{"b"'), ("c1", '{"a"'), ("c2", ":2}"), ("c1", ":1}"))
    ]
    assert parts(*events) == (ToolCallPart("c1", "f", '{"a":1}'), ToolCallPart("c2", "g", '{"b":2}'))


def test_the_arguments_of_a_settled_call_may_go_on():
    after = fold(ev.ToolCallArgs("c1", "1}"), onto=(U1, assistant("m1", call("c1", arguments='{"a":')), U1))
    assert after[1].tool_calls[0].arguments == '{"a":1}'


def test_a_result_is_a_tool_message_behind_its_call():
    result = ev.ToolCallResult("t1", "c1", "62", error=None, duration_ms=7)
    after = fold(result, onto=(U1, assistant("m1", call("c1"))))
    assert after[-1] == Message("t1", "tool", (ToolResultPart("c1", "62", None, 7),))


def test_results_stand_in_the_order_they_were_told():
    events = (ev.ToolCallResult("t2", "c2", "b"), ev.ToolCallResult("t1", "c1", "a", error="timeout"))
    after = fold(*events, onto=(assistant("m1", call("c1"), call("c2")),))
    assert [message.id for message in after] == ["m1", "t2", "t1"]
    assert after[-1].tool_results[0].error == "timeout"


def test_a_calls_first_result_is_the_only_one():
    events = (ev.ToolCallResult("t1", "c1", "first"), ev.ToolCallResult("t2", "c1", "second"))
    after = fold(*events, onto=(assistant("m1", call("c1")),))
    assert [message.id for message in after] == ["m1", "t1"]


def test_a_late_result_still_stands_behind_its_call():
    onto = (U1, assistant("m1", call("c1"), call("c2")), answered("c1"), user_message("u2", "well?"))
    after = fold(ev.ToolCallResult("t2", "c2", "late"), onto=onto)
    assert [message.id for message in after] == ["u1", "m1", "tool-c1", "t2", "u2"]
    assert after.live[0].id == "t2"


def test_the_whole_text_of_a_cut_result_is_kept_for_people():
    result = ev.ToolCallResult("t1", "c1", "ab", metadata={"full": "abcd"})
    assert fold(result, onto=(assistant("m1", call("c1")),))[-1].metadata == {"full": "abcd"}


# -- chunks


def test_chunks_of_text_are_starts_and_deltas():
    events = (
        ev.TextMessageChunk("m1", "assistant", "a"),
        ev.TextMessageChunk(delta="b"),
        ev.TextMessageChunk("m1", delta="c"),
    )
    assert fold(*events) == Transcript((Message("m1", "assistant", (TextPart("abc"),)),))


def test_chunks_of_calls_are_starts_and_deltas():
    events = (
        ev.ToolCallChunk("c1", "f", "m1", '{"a"'),
        ev.ToolCallChunk(delta=":1"),
        ev.ToolCallChunk("c1", delta="}"),
        ev.ToolCallChunk("c2", "g", "m1"),
    )
    assert parts(*events) == (ToolCallPart("c1", "f", '{"a":1}'), ToolCallPart("c2", "g"))


def test_chunks_of_thoughts_are_starts_and_deltas():
    id = ev.reasoning_id("m1", 1)
    events = (
        ev.ReasoningMessageChunk(id, "a"),
        ev.ReasoningMessageChunk(delta="b"),
        ev.ReasoningMessageChunk(id, "c"),
    )
    assert parts(*events) == (ThinkingPart("abc"),)


@pytest.mark.parametrize("chunk", [ev.TextMessageChunk, ev.ToolCallChunk, ev.ReasoningMessageChunk])
def test_a_chunk_of_nothing_changes_nothing(chunk):
    assert fold(chunk(delta="lost")) == EMPTY


# -- everything else


@pytest.mark.parametrize(
    "event",
    [
        ev.TextMessageContent("nobody", "x"),
        ev.TextMessageEnd("nobody"),
        ev.ToolCallArgs("nothing", "x"),
        ev.ReasoningMessageContent("nobody-reasoning-1", "x"),
        ev.ReasoningMessageContent("u1-reasoning-1", "x"),
        ev.ToolCallResult("t1", "nothing", "x"),
        ev.StepFinished("turn-1", metadata={"messageId": "nobody", "finishReason": "stop"}),
    ],
)
def test_what_is_said_of_the_unknown_changes_nothing(event):
    assert fold(event, onto=(U1,)) == Transcript((U1,))


@pytest.mark.parametrize(
    "event",
    [
        ev.RunFinished("t", "r"),
        ev.RunError("broke"),
        ev.TextMessageEnd("u1"),
        ev.ToolCallEnd("c1"),
        ev.ReasoningStart("m1-reasoning-1"),
        ev.ReasoningEnd("m1-reasoning-1"),
        ev.ReasoningMessageEnd("m1-reasoning-1"),
        ev.StateSnapshot({}),
        ev.StateDelta(()),
        ev.ActivitySnapshot("a", "x", {}),
        ev.ActivityDelta("a", "x", ()),
        ev.SubagentStarted("s", "n"),
        ev.SubagentFinished("s"),
        ev.SubagentError("s", "x"),
        ev.Raw({}),
        ev.Custom("n", 1),
    ],
)
def test_all_other_events_leave_the_transcript_alone(event):
    before = Transcript((U1,))
    assert apply(before, event) is before


def test_a_delta_leaves_the_settled_messages_as_they_are():
    settled = tuple(user_message(f"u{n}", "x") for n in range(100))
    before = fold(ev.TextMessageStart("m1"), onto=settled)
    after = apply(before, ev.TextMessageContent("m1", "a"))
    assert after.settled is before.settled


def test_what_a_providers_own_tool_gave_is_kept_with_its_message():
    block = {"type": "web_search_tool_result", "content": [1]}
    told = [
        ev.ToolCallStart("s1", "web_search", "m1", provider_executed=True),
        ev.Custom("provider_result", {"messageId": "m1", "toolCallId": "s1", "block": block}),
    ]
    kept = apply_all(Transcript(), told)
    assert kept[0].metadata["providerResults"] == {"s1": block}
    for foreign in (
        {"messageId": "x", "toolCallId": "s1", "block": 1},
        {"toolCallId": "s1", "value": 1},
        None,
    ):
        assert apply(kept, ev.Custom("provider_result", foreign)) == kept


def test_what_a_person_made_of_a_calls_arguments_stands_beside_the_models():
    base = Transcript(
        (assistant("m1", call("c1", arguments='{"a": 1}'), call("c2")), user_message("u1", "and?"))
    )
    result = ev.ToolCallResult("t1", "c1", "ok", metadata={"editedArguments": '{"a":2}'})
    folded = apply(base, result)
    edited, other = folded[0].tool_calls
    assert (edited.arguments, edited.edited, edited.used_arguments) == ('{"a": 1}', '{"a":2}', '{"a":2}')
    assert (other.edited, other.used_arguments) == (None, "{}")
    assert [message.role for message in folded] == ["assistant", "tool", "user"]
    assert base[0].tool_calls[0].edited is None
    again = apply(folded, ev.ToolCallResult("t2", "c1", "no", metadata={"editedArguments": "{}"}))
    assert again == folded
