"""Messages that speak either dialect, in one list."""

import pytest

from agent.errors import InvalidRequest
from agent.wire.entries import entries_in

PNG = {"type": "base64", "media_type": "image/png", "data": "aGk="}


def one(dialect, entry):
    found, system = entries_in(dialect, [entry])
    assert system == ""
    assert len(found) == 1
    return found[0]


@pytest.mark.parametrize(
    "entry",
    [
        {"role": "user", "content": "x", "name": "kept"},
        {"role": "user", "content": [{"type": "text", "text": "x", "kept": 1}]},
        {"role": "user", "content": [{"type": "video_url", "video_url": {"url": "u"}}]},
        {"role": "assistant", "content": None, "tool_calls": [{"id": "c", "odd": True}]},
        {"role": "tool", "tool_call_id": "c", "content": "x"},
        {"role": "developer", "content": "x"},
    ],
)
def test_what_speaks_chat_already_stays_to_the_last_field(entry):
    assert one("openai", entry) is entry


@pytest.mark.parametrize(
    "entry",
    [
        {"role": "user", "content": "x"},
        {"role": "user", "content": [{"type": "text", "text": "x", "cache_control": {"type": "ephemeral"}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c", "content": [], "odd": 1}]},
        {"role": "assistant", "content": [{"type": "thinking", "thinking": "t", "signature": "s"}]},
        {"role": "assistant", "content": [{"type": "container_upload", "file_id": "f"}]},
    ],
)
def test_what_speaks_messages_already_stays_to_the_last_field(entry):
    assert one("anthropic", entry) is entry


def test_blocks_become_a_chat_message_with_calls():
    entry = {
        "role": "assistant",
        "content": [
            {"type": "thinking", "thinking": "t", "signature": "s"},
            {"type": "text", "text": "One moment."},
            {"type": "tool_use", "id": "c1", "name": "find", "input": {"q": "tea"}},
            {"type": "tool_use", "id": "c2", "name": "now", "input": {}},
        ],
    }
    made = one("openai", entry)
    assert made["content"] == "One moment."
    assert [(c["id"], c["function"]) for c in made["tool_calls"]] == [
        ("c1", {"name": "find", "arguments": '{"q":"tea"}'}),
        ("c2", {"name": "now", "arguments": "{}"}),
    ]


def test_results_and_words_in_one_message_become_several():
    entry = {
        "role": "user",
        "content": [
            {"type": "tool_result", "tool_use_id": "c1", "content": "green"},
            {"type": "tool_result", "tool_use_id": "c2", "content": [{"type": "text", "text": "black"}]},
            {"type": "text", "text": "and now?"},
        ],
    }
    found, _ = entries_in("openai", [entry])
    assert found == [
        {"role": "tool", "tool_call_id": "c1", "content": "green"},
        {"role": "tool", "tool_call_id": "c2", "content": "black"},
        {"role": "user", "content": "and now?"},
    ]


def test_results_that_stand_together_become_one_message():
    chat = [{"role": "tool", "tool_call_id": id, "content": id} for id in ("c1", "c2")]
    found, _ = entries_in("anthropic", chat)
    assert [block["tool_use_id"] for block in found[0]["content"]] == ["c1", "c2"]
    assert len(found) == 1


def test_a_result_does_not_join_a_message_of_words():
    found, _ = entries_in(
        "anthropic", [{"role": "user", "content": "x"}, {"role": "tool", "tool_call_id": "c", "content": ""}]
    )
    assert [type(entry["content"]) for entry in found] == [str, list]


def test_pictures_go_both_ways():
    url = {"type": "image_url", "image_url": {"url": "data:image/png;base64,aGk="}}
    assert one("openai", {"role": "user", "content": [{"type": "image", "source": PNG}]})["content"] == [url]
    assert one("anthropic", {"role": "user", "content": [url]})["content"] == [
        {"type": "image", "source": PNG}
    ]


def test_texts_for_the_top_level_are_given_back_beside_the_messages():
    found, system = entries_in(
        "anthropic", [{"role": "system", "content": "a"}, {"role": "developer", "content": "b"}]
    )
    assert (found, system) == ([], "a\n\nb")


def test_what_is_neither_is_refused_with_its_path():
    with pytest.raises(InvalidRequest, match=r"messages\[1\]"):
        entries_in("anthropic", [{"role": "user", "content": "x"}, {"role": "tool", "content": "no id"}])
