"""Answers as LiteLLM's hooks read them."""

import copy
import json

import pytest

from chatsite.gateway.hooks.responses import chat_view, view

MESSAGE = {
    "id": "msg_1",
    "content": [
        {"type": "text", "text": "hi"},
        {"type": "tool_use", "id": "c1", "name": "find", "input": {"q": 1}},
    ],
    "stop_reason": "tool_use",
    "usage": {"input_tokens": 1},
}
CHAT = {
    "id": "chatcmpl-1",
    "choices": [
        {
            "index": 0,
            "message": {
                "role": "assistant",
                "content": "hi",
                "tool_calls": [
                    {"id": "c1", "type": "function", "function": {"name": "find", "arguments": '{"q": 1}'}}
                ],
            },
            "finish_reason": "tool_calls",
        }
    ],
    "usage": {"prompt_tokens": 1},
}


def test_an_answer_of_messages_reads_by_item_and_by_attribute():
    response = view(MESSAGE)
    assert response["content"] is response.content
    assert getattr(response, "content", None)[1].get("name") == response.content[1].name == "find"
    assert all(isinstance(block, dict) for block in response.content)
    assert response.usage.input_tokens == response["usage"]["input_tokens"] == 1
    assert not hasattr(response, "choices")


def test_an_answer_of_chat_reads_by_item_and_by_attribute():
    response = chat_view(CHAT, MESSAGE["content"])
    call = response.choices[0].message.tool_calls[0]
    assert (
        call.function.name == response["choices"][0]["message"]["tool_calls"][0]["function"]["name"] == "find"
    )
    assert json.loads(call.function.arguments) == {"q": 1}
    assert (response.choices[0].finish_reason, response.usage.prompt_tokens) == ("tool_calls", 1)


def test_an_answer_of_chat_has_anthropics_blocks_to_read_and_not_to_send():
    response = chat_view(CHAT, MESSAGE["content"])
    assert response.content == response["content"] == response.get("content") == MESSAGE["content"]
    assert "content" in response
    assert response.model_dump() == dict(response) == CHAT


def test_what_a_text_answer_lacks_is_none_and_what_nothing_has_is_an_error():
    text = view({"choices": [{"message": {"role": "assistant", "content": "hi"}}]})
    assert text.choices[0].message.tool_calls is None
    with pytest.raises(AttributeError, match="nonsense"):
        _ = text.nonsense
    with pytest.raises(KeyError):
        _ = chat_view(CHAT, [])["nonsense"]


@pytest.mark.parametrize("response", [view(MESSAGE), chat_view(CHAT, [])], ids=["messages", "chat"])
def test_it_can_be_copied_dumped_and_read_as_json(response):
    assert copy.deepcopy(response) == response
    assert json.loads(json.dumps(response)) == json.loads(response.model_dump_json()) == response.dict()
    assert type(response.model_dump()) is dict
    assert "stop_sequence" not in view({"stop_sequence": None}).model_dump(exclude_none=True)


def test_what_is_set_on_it_is_in_it():
    response = view(MESSAGE)
    response.content[0].text = "changed"
    response.stop_reason = "end_turn"
    dumped = response.model_dump()
    assert (dumped["content"][0]["text"], dumped["stop_reason"]) == ("changed", "end_turn")
    assert MESSAGE["content"][0]["text"] == "hi"
