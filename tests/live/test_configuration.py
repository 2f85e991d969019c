"""What an operator sets: models, tools, keys; through the commands and a real start."""

from __future__ import annotations

import re

import pytest

from tests.live.api import Api
from tests.live.conftest import endpoints
from tests.server import PASSWORD, Server
from tests.site.processes import wait_until
from tests.standin import StandIn
from tests.words import A_KEY

WEATHER = "What should I wear in San Francisco today?"


def picker(page: str) -> list[str]:
    return re.findall(r'<option value="([^"]+)"', page)


@pytest.mark.slow
def test_models_that_are_not_listed_are_asked_of_the_endpoint(tmp_path, standin: StandIn):
    settings = {**endpoints(standin), "DEFAULT_MODEL": "stand-in-mini"}
    with Server(tmp_path, **settings) as server, server.client(server.people(1)[0]) as client:

        def asked() -> str:
            """The page, once the endpoint has answered in time: it has three seconds, and is asked again later."""
            page = client.get("/").text
            return page if "stand-in-mini" in picker(page) else ""

        page = str(wait_until(asked, "the endpoint's list"))
        assert picker(page) == ["stand-in", "stand-in-mini", "demo"]  # as the endpoint lists them
        assert re.search(r'value="stand-in-mini" selected', page)
        assert not A_KEY.search(page)


@pytest.mark.slow
def test_an_endpoint_that_is_away_is_said_and_the_demo_model_stays(tmp_path):
    with Server(tmp_path, OPENAI_BASE_URL="http://127.0.0.1:9/v1") as server:
        with server.client(server.people(1)[0]) as client:
            page = client.get("/").text
        assert "OpenAI could not be asked for its models" in page
        assert "Demo model" in page
        assert "Traceback" not in server.output


@pytest.mark.slow
def test_without_the_example_tools_the_model_is_offered_none(tmp_path, standin: StandIn):
    settings = {**endpoints(standin), "OPENAI_MODELS": "m", "EXAMPLE_TOOLS": "false"}
    with Server(tmp_path, **settings) as server, Api(server, server.people(1)[0]) as api:
        events = api.run(WEATHER)
        assert events[-1]["type"] == "RUN_FINISHED"
        assert not standin.exchanges[-1].json.get("tools")
        assert not [event for event in events if event["type"] == "TOOL_CALL_START"]


def test_a_default_model_that_nobody_has_stops_the_start_in_words(tmp_path):
    ended = Server(tmp_path).manage("serve", OPENAI_API_KEY="sk-x", OPENAI_MODELS="a,b", DEFAULT_MODEL="c")
    assert ended.returncode != 0
    said = ended.stdout + ended.stderr
    assert "DEFAULT_MODEL is 'c', and no endpoint has it." in said
    assert "a, b, demo" in said
    assert "Traceback" not in said
    assert "sk-x" not in said


@pytest.mark.slow
def test_keys_are_made_by_command_and_open_the_door(tmp_path):
    with Server(tmp_path) as server:
        made = server.manage(
            "createsuperuser",
            "--noinput",
            DJANGO_SUPERUSER_USERNAME="ada",
            DJANGO_SUPERUSER_EMAIL="",
            DJANGO_SUPERUSER_PASSWORD=PASSWORD,
        )
        assert made.returncode == 0, made.stderr
        first = server.manage("createapikey", "--user", "ada")
        second = server.manage("createapikey", "--user", "ada", "--name", "a script", "--key", "my own value")
        assert re.fullmatch(r"\S{20,}\n", first.stdout)
        assert first.stderr == ""
        assert second.stdout == "my own value\n"
        with server.client() as client:
            for key in (first.stdout.strip(), "my own value"):
                answer = client.get("/api/chat", params={"threadId": "none"}, headers={"x-api-key": key})
                assert answer.json()["error"]["code"] == "not_found"
        kept = b"".join(path.read_bytes() for path in server.data.glob("db.sqlite3*"))
        assert b"my own value" not in kept
        assert first.stdout.strip().encode() not in kept

        again = server.manage("createapikey", "--user", "ada", "--key", "my own value")
        nobody = server.manage("createapikey", "--user", "nobody")
        blank = server.manage("createapikey", "--user", "ada", "--key", " x ")
        for ended, words in (
            (again, "exists already"),
            (nobody, "There is no user 'nobody'"),
            (blank, "--key must"),
        ):
            assert ended.returncode != 0
            assert ended.stdout == ""
            assert words in ended.stderr
            assert "Traceback" not in ended.stderr


@pytest.mark.slow
@pytest.mark.parametrize("name", ["OPENAI_API_KEY", "ANTHROPIC_API_KEY"])
def test_a_key_that_is_no_key_stops_the_start_or_is_said_in_words(name: str, tmp_path):
    ended = Server(tmp_path).manage("check", **{name: "sk-secrét"})
    assert "Traceback" not in ended.stderr
    assert "sk-secrét" not in ended.stderr + ended.stdout
