"""Who may, at every door that needs a key."""

from __future__ import annotations

import asyncio
import time
from functools import partial

import httpx
import pytest
from django.utils import timezone

from chatsite.accounts.keys import new_api_key
from chatsite.accounts.models import ApiKey
from chatsite.asgi import application
from chatsite.gateway import auth
from chatsite.gateway.recorder import recorder
from chatsite.gateway.translating import TranslatedRound
from tests.gateway.conftest import off_loop
from tests.gateway.served import CHAT, MESSAGES, MODEL, anthropic_at, asking, openai_at, serve, until
from tests.gateway.test_pass_on import recorded
from tests.standin import Broken, Raw, Say

PATHS = [("POST", CHAT), ("POST", MESSAGES), ("POST", f"{MESSAGES}/count_tokens"), ("GET", "/v1/models")]
PATHS += [("GET", f"/v1/models/{MODEL}")]
each_path = pytest.mark.parametrize(("method", "path"), PATHS)


@pytest.fixture
async def anybody():
    transport = httpx.ASGITransport(app=application)
    async with httpx.AsyncClient(transport=transport, base_url="http://gateway.test", timeout=60) as client:
        yield client


async def call(client, method, path, headers, **more):
    body = {"json": asking(**more)} if method == "POST" else {}
    return await client.request(method, path, headers=headers, **body)


WRONG = ["tl-no-such-key", "", " ", "Bearer", "a b", "x" * 5000, "\u00e9", "tl-\u200b"]


@each_path
@pytest.mark.parametrize("wrong", [None, *WRONG])
async def test_without_a_good_key_it_is_401(anybody, key, standin, method, path, wrong):
    serve(openai_at(standin))
    for headers in (
        {b"authorization": f"Bearer {wrong}".encode()},
        {b"x-api-key": (wrong or "").encode(), b"anthropic-version": b"2023-06-01"},
    ):
        answer = await call(anybody, method, path, {} if wrong is None else headers)
        assert answer.status_code == 401
        assert answer.json()["error"]["message"]
        assert answer.headers["www-authenticate"] == "Bearer"
    assert standin.exchanges == []


@each_path
async def test_a_key_for_the_list_of_models_opens_that_and_nothing_else(
    anybody, person, standin, method, path
):
    serve(openai_at(standin))
    key = await off_loop(partial(new_api_key, person, scopes=["models"]))
    answer = await call(anybody, method, path, {"authorization": f"Bearer {key}"})
    assert answer.status_code == (200 if method == "GET" else 403)
    assert standin.exchanges == [] or method == "GET"


@each_path
async def test_the_key_may_come_in_either_header_and_with_blanks_around_it(
    anybody, key, standin, method, path
):
    serve(openai_at(standin))
    for headers in (
        {"authorization": f"Bearer {key}"},
        {"authorization": f"bearer   {key}  "},
        {"x-api-key": key},
        {"x-api-key": f"  {key} "},
    ):
        assert (await call(anybody, method, path, headers)).status_code == 200


async def test_a_newline_in_a_key_is_no_way_in(key):
    """Servers let none through; an embedding project's may."""
    sent = []

    async def send(message):
        sent.append(message)

    async def receive():
        return {"type": "http.request", "body": b"{}", "more_body": False}

    scope = {"type": "http", "method": "POST", "path": CHAT, "query_string": b""}
    for value in (f"Bearer {key}\nx", f"Bearer {key}\r\nx-admin: 1", f"Bearer a\n{key}"):
        sent.clear()
        await application({**scope, "headers": [(b"authorization", value.encode())]}, receive, send)
        assert sent[0]["status"] == 401


async def test_a_key_for_the_chat_alone_is_403(anybody, person, key, standin):
    serve(openai_at(standin))
    other = await off_loop(lambda: new_api_key(person, scopes=["chat"]))
    answer = await call(anybody, "POST", CHAT, {"x-api-key": other})
    assert answer.status_code == 403


async def test_a_key_sees_and_uses_its_models_alone(anybody, person, key, standin):
    serve(openai_at(standin, listed=("a", "b")))
    other = await off_loop(lambda: new_api_key(person, allowed_models=["b"]))
    headers = {"authorization": f"Bearer {other}"}
    assert [m["id"] for m in (await anybody.get("/v1/models", headers=headers)).json()["data"]] == ["b"]
    assert (await call(anybody, "POST", CHAT, headers, model="b")).status_code == 200
    for path in (CHAT, MESSAGES, f"{MESSAGES}/count_tokens"):
        refused = await call(anybody, "POST", path, headers, model="a")
        assert refused.status_code == 404
        assert "'a'" in refused.json()["error"]["message"]
    assert (await anybody.get("/v1/models/a", headers=headers)).status_code == 404


async def test_what_ends_a_key_ends_it_here_within_seconds(http, person, key, standin, monkeypatch):
    monkeypatch.setattr(auth, "FRESH", 0.1)
    monkeypatch.setattr(auth, "STALE", 0.2)
    serve(openai_at(standin))
    assert (await http.post(CHAT, json=asking())).status_code == 200
    await off_loop(lambda: ApiKey.objects.update(revoked_at=timezone.now()))
    async with asyncio.timeout(20):
        while (await http.post(CHAT, json=asking())).status_code != 401:
            pass


@pytest.mark.parametrize("path", [CHAT, MESSAGES])
@pytest.mark.parametrize("ends", ["revoked_at", "expires_at", "user"])
async def test_a_key_that_ends_cuts_its_open_streams(url, key, person, standin, monkeypatch, path, ends):
    monkeypatch.setattr(auth, "FRESH", 0.2)
    serve(openai_at(standin), anthropic_at(standin))
    standin.play(Broken("hang_stream"))

    def end_it():
        if ends == "user":
            person.is_active = False
            person.save()
        else:
            ApiKey.objects.update(**{ends: timezone.now()})

    async with (
        httpx.AsyncClient(timeout=20) as client,
        client.stream(
            "POST", url + path, json=asking(stream=True), headers={"authorization": f"Bearer {key}"}
        ) as answer,
    ):
        pieces = answer.aiter_bytes()
        said = await anext(pieces)
        await off_loop(end_it)
        async for piece in pieces:
            said += piece
    assert b"API key" in said.rpartition(b"data: ")[2]
    assert b"[DONE]" not in said
    assert await standin.exchanges[-1].gone()


async def test_a_key_over_its_rate_is_429_with_retry_after(anybody, person, key, standin):
    serve(openai_at(standin))
    other = await off_loop(lambda: new_api_key(person, requests_per_minute=1))
    for path, headers in ((CHAT, {"x-api-key": other}),):
        assert (await call(anybody, "POST", path, headers)).status_code == 200
        refused = await call(anybody, "POST", path, headers)
        assert refused.status_code == 429
        assert int(refused.headers["retry-after"]) > 0
    assert len(standin.exchanges) == 1


async def test_what_a_key_uses_is_booked_also_when_the_caller_leaves(url, key, standin):
    serve(openai_at(standin))
    standin.play(Say("word " * 50, pieces=5, delay=0.05))
    async with (
        httpx.AsyncClient(timeout=20) as client,
        client.stream(
            "POST", url + CHAT, json=asking(stream=True), headers={"authorization": f"Bearer {key}"}
        ) as answer,
    ):
        count = 0
        async for _ in answer.aiter_lines():
            count += 1
            if count > 10:
                break
    assert await standin.exchanges[-1].gone()

    def used():
        recorder.flush(30)
        return ApiKey.objects.get().output_tokens

    async with asyncio.timeout(20):
        while not (tokens := await off_loop(used)):
            pass
    assert 3 <= tokens <= 60


CROSSWISE = pytest.mark.parametrize(
    ("path", "at"), [(CHAT, anthropic_at), (MESSAGES, openai_at)], ids=["chat", "messages"]
)


def _booked():
    recorder.flush(30)
    row = ApiKey.objects.get()
    return row.input_tokens, row.output_tokens


@CROSSWISE
async def test_an_answer_in_one_piece_that_breaks_off_is_booked_as_far_as_it_came(http, standin, path, at):
    serve(at(standin))
    standin.play(*[Broken("cut")] * 3)
    assert (await http.post(path, json=asking())).status_code == 502
    asked, answered = await off_loop(_booked)
    assert asked > 0
    assert answered > 0


@CROSSWISE
async def test_a_caller_that_does_not_wait_for_its_one_piece_pays_what_came_of_it(
    url, key, standin, monkeypatch, path, at
):
    gathering = []
    gather = TranslatedRound.gather

    async def seen(round):
        gathering.append(round)
        await gather(round)

    monkeypatch.setattr(TranslatedRound, "gather", seen)
    serve(at(standin))
    standin.play(Broken("hang_stream"))
    async with httpx.AsyncClient(timeout=20) as client:
        waiting = asyncio.create_task(
            client.post(url + path, json=asking(), headers={"authorization": f"Bearer {key}"})
        )
        await until(lambda: gathering and gathering[0].events > 1)
        left_at = time.monotonic()
        waiting.cancel()
        assert await standin.exchanges[-1].gone_within(10.0, left_at)
    async with asyncio.timeout(20):
        while not all(await off_loop(_booked)):
            pass


@pytest.mark.parametrize(
    ("path", "at"),
    [(CHAT, openai_at), (CHAT, anthropic_at), (MESSAGES, openai_at), (MESSAGES, anthropic_at)],
    ids=["chat", "chat-anthropic", "messages-openai", "messages"],
)
async def test_a_stream_that_breaks_off_is_booked_by_what_came_of_it(http, standin, path, at):
    """Also where the endpoint said at its beginning that it had used one token so far, as Anthropic does."""
    serve(at(standin))
    text = recorded(standin, "openai" if at is openai_at else "anthropic", Say("word " * 40, pieces=5))
    standin.play(Raw([text[: len(text) // 2]], then="cut"))
    answer = await http.post(path, json=asking(stream=True))
    assert answer.text.count("word ") > 10
    asked, answered = await off_loop(_booked)
    assert asked > 0
    assert answered >= answer.text.count("word ")


async def test_a_caller_that_does_not_wait_for_its_count_is_seen_at_the_endpoint(url, key, standin):
    serve(anthropic_at(standin))
    standin.play(Broken("hang"))
    async with httpx.AsyncClient(timeout=20) as client:
        waiting = asyncio.create_task(
            client.post(
                f"{url}{MESSAGES}/count_tokens", json=asking(), headers={"authorization": f"Bearer {key}"}
            )
        )
        await until(lambda: standin.exchanges)
        left_at = time.monotonic()
        waiting.cancel()
        assert await standin.exchanges[-1].gone_within(10.0, left_at)
