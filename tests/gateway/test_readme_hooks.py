"""The README's hook, from an empty file to running: its very text, in a server of its own; and what `docs/gateway.md`
shows of ready hooks and the server's tools."""

from __future__ import annotations

import json
import re
from pathlib import Path

import anthropic
import httpx
import openai
import pytest

from tests.server import Server
from tests.standin import Exchange, Say, StandIn, play_the_model

ROOT = Path(__file__).parents[2]
README, GATEWAY = ROOT / "README.md", ROOT / "docs" / "gateway.md"


def section(title: str, file: Path = README) -> str:
    text = file.read_text(encoding="utf-8")
    return re.split(r"\n#{2,3} ", text.split(f"\n### {title}\n", 1)[1], maxsplit=1)[0]


def asked_in(text: str) -> dict:
    """The body of its curl command."""
    return json.loads(re.search(r"-d '(\{.*?\})'\n```", text, flags=re.S)[1])


WRITE = section("Write a hook")
[SOURCE] = re.findall(r"```python\n(.*?)```", WRITE, flags=re.S)
FILE = re.search(r"`DATA_DIR/(hooks/\w+\.py)`", WRITE)[1]
HOOKS = re.search(r"GATEWAY_HOOKS=(\S+)", WRITE)[1]
BODY = asked_in(WRITE)
QUESTION = BODY["messages"]
TOOL = BODY["tools"][0]["function"]


def counting_model(exchange: Exchange) -> Say:
    """Asks for the tool, and says what it gave; without it, the stand-in's rules."""
    body = exchange.json
    if TOOL["name"] not in json.dumps(body.get("tools", [])):
        return play_the_model(exchange)
    last = body["messages"][-1]
    if last["role"] == "tool":
        return Say(f"There are {last['content']}.")
    if isinstance(last["content"], list) and last["content"][0].get("type") == "tool_result":
        result = last["content"][0]["content"]
        return Say(f"There are {result if isinstance(result, str) else result[0]['text']}.")
    return Say("I count. ", [("call_1", TOOL["name"], {"word": "strawberry", "letter": "r"})])


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """(server, key): the hook's file is in place before the start, and the model plays along."""
    folder = tmp_path_factory.mktemp("readme")
    (folder / "data" / "hooks").mkdir(parents=True)
    (folder / "data" / FILE).write_text(SOURCE, encoding="utf-8")
    with StandIn(default=counting_model).in_thread() as model:
        settings = {
            "OPENAI_BASE_URL": model.openai_url,
            "OPENAI_MODELS": BODY["model"],
            "ANTHROPIC_BASE_URL": model.anthropic_url,
            "ANTHROPIC_MODELS": "claude-stand-in",
        }
        with Server(folder, GATEWAY_HOOKS=HOOKS, **settings) as server:
            yield server, server.people(1)[0].key


def test_the_command_gets_the_answer_without_a_trace_of_the_call(site):
    server, key = site
    headers = {"Authorization": f"Bearer {key}"}
    answer = httpx.post(f"{server.url}/v1/chat/completions", headers=headers, json=BODY, timeout=30)
    assert answer.status_code == 200, answer.text
    [choice] = answer.json()["choices"]
    assert choice["message"]["content"] == "There are 3."
    assert not choice["message"].get("tool_calls")
    assert choice["finish_reason"] == "stop"
    assert answer.headers["x-threadloom-rounds"] == "2"


@pytest.mark.parametrize("model", [BODY["model"], "claude-stand-in"])
def test_openais_sdk_reads_one_stream(site, model):
    server, key = site
    with (
        openai.OpenAI(base_url=f"{server.url}/v1", api_key=key, max_retries=0) as client,
        client.chat.completions.stream(model=model, messages=QUESTION, tools=BODY["tools"]) as stream,
    ):
        answer = stream.get_final_completion()
    assert answer.choices[0].message.content == "I count. There are 3."
    assert not answer.choices[0].message.tool_calls


@pytest.mark.parametrize("model", [BODY["model"], "claude-stand-in"])
def test_anthropics_sdk_reads_one_message(site, model):
    server, key = site
    tool = {"name": TOOL["name"], "description": "", "input_schema": TOOL["parameters"]}
    with (
        anthropic.Anthropic(base_url=server.url, api_key=key, max_retries=0) as client,
        client.messages.stream(model=model, max_tokens=100, messages=QUESTION, tools=[tool]) as stream,
    ):
        answer = stream.get_final_message()
    assert "".join(block.text for block in answer.content) == "I count. There are 3."
    assert answer.stop_reason == "end_turn"


def test_the_servers_own_tools_run_for_who_asks_for_them(site):
    server, key = site
    headers = {"Authorization": f"Bearer {key}"}
    body = asked_in(section("The server's tools, for programs", GATEWAY))
    answer = httpx.post(f"{server.url}/v1/chat/completions", headers=headers, json=body, timeout=30)
    assert answer.status_code == 200, answer.text
    message = answer.json()["choices"][0]["message"]
    assert message["content"] == "Wear a light jacket: that is my advice for San Francisco."
    assert not message.get("tool_calls")
    assert answer.headers["x-threadloom-rounds"] == "3"


def test_every_ready_hook_that_the_documents_name_can_be_loaded(site):
    server, _ = site
    named = ",".join(re.findall(r"^\| `(chatsite\.[\w.]+)`", section("Ready hooks", GATEWAY), flags=re.M))
    assert named.count(",") == 2
    assert server.manage("check", GATEWAY_HOOKS=named).returncode == 0
