"""The provider behind HTTP, against a real server on loopback that plays well and badly."""

from __future__ import annotations

import asyncio
import gc
import itertools
import json
import logging
import select
import socket
import ssl
import threading
import zlib
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing
from pathlib import Path
from typing import Any

import aiohttp
import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.errors import (
    AuthenticationFailed,
    BadStream,
    ContextTooLong,
    InvalidRequest,
    ModelNotFound,
    ProviderError,
    ProviderTimeout,
    ProviderUnavailable,
    ProviderUnreachable,
    RateLimited,
    RequestRejected,
)
from agent.events import (
    ReasoningMessageContent,
    TextMessageContent,
    TextMessageEnd,
    TextMessageStart,
    ToolCallArgs,
    ToolCallEnd,
    ToolCallStart,
    TurnEnd,
)
from agent.messages import TextPart, ThinkingPart, ToolCallPart, Transcript, Usage, user_message
from agent.providers.answers import Direct
from agent.providers.clients import UNPACKED, shared_client
from agent.providers.endpoint import Codec, Endpoint, Timeouts
from agent.providers.http import HttpProvider, answer_of, close_shared_clients
from agent.providers.transport import checked_against, shared_session
from agent.reducer import apply_all
from agent.wire import anthropic, openai_chat
from agent.wire.turn import merge_deltas
from tests.agent.wire_values import WEATHER, ask, turn_of
from tests.standin import BROKEN, DONE, Broken, Raw, Say, StandIn, chunk, collect

KEY = "sk-the-secret-key-0123456789"
PATIENT = Timeouts(connect=30, first_byte=30, idle=30)
# Only who must run into a timeout has a short one, so that a busy machine changes no outcome.
SHORT = {
    "hang": Timeouts(connect=30, first_byte=0.5, idle=30),
    "hang_body": Timeouts(connect=30, first_byte=0.5, idle=30),
    "hang_stream": Timeouts(connect=30, first_byte=30, idle=0.8),
}
CODECS: dict[str, Codec] = {"openai": openai_chat, "anthropic": anthropic}


@pytest.fixture(autouse=True)
async def _clients_are_closed() -> AsyncIterator[None]:
    yield
    await close_shared_clients()


@pytest.fixture(params=CODECS)
def dialect(request: pytest.FixtureRequest) -> str:
    return str(request.param)


class Waits:
    """Stands where the provider sleeps, and remembers how long it would have."""

    def __init__(self) -> None:
        self.seconds: list[float] = []

    async def __call__(self, seconds: float) -> None:
        self.seconds.append(seconds)


def provider_of(server: StandIn, dialect: str = "openai", **options: Any) -> HttpProvider:
    url = server.openai_url if dialect == "openai" else server.anthropic_url
    options = {"timeouts": PATIENT, "sleep": Waits(), **options}
    return HttpProvider(CODECS[dialect], Endpoint("here", url, KEY), **options)


# -- good answers --------------------------------------------------------------------------------------------


async def test_a_turn_with_everything_arrives_whole(dialect: str):
    say = Say("It is 17 °C. 🌤️", [("c1", "get_weather", {"city": "Zürich"})], "Let me think.", usage=(9, 4))
    async with StandIn(say) as server:
        events, error = await collect(provider_of(server, dialect).stream(ask(tools=(WEATHER,))))
    message, end = turn_of(events)
    signature = "c2lnbmVk" if dialect == "anthropic" else None
    assert error is None
    assert message.parts == (
        ThinkingPart("Let me think.", signature),
        TextPart("It is 17 °C. 🌤️"),
        ToolCallPart("c1", "get_weather", '{"city":"Zürich"}'),
    )
    assert (message.id, end.finish_reason, end.usage, end.model) == (
        "t1",
        "tool_calls",
        Usage(9, 4),
        "stand-in",
    )


async def test_the_request_goes_to_the_right_place_with_the_key(dialect: str):
    async with StandIn(Say("Hi")) as server:
        await collect(provider_of(server, dialect).stream(ask()))
        (exchange,) = server.exchanges
    path, header = {
        "openai": ("/v1/chat/completions", ("authorization", f"Bearer {KEY}")),
        "anthropic": ("/v1/messages", ("x-api-key", KEY)),
    }[dialect]
    assert exchange.path == path
    assert exchange.headers[header[0]] == header[1]
    assert exchange.headers["content-type"] == "application/json"
    assert exchange.headers["accept-encoding"] == "identity"
    assert exchange.json["stream"] is True


@pytest.mark.parametrize("tail", ["", "/", "/v1", "/v1/"])
async def test_anthropics_address_may_hold_the_version_or_not(tail: str):
    async with StandIn(Say("Hi")) as server:
        provider = HttpProvider(anthropic, Endpoint("a", server.url + tail, KEY))
        assert (await collect(provider.stream(ask())))[1] is None
        assert server.exchanges[0].path == "/v1/messages"


async def test_models_are_asked_of_the_endpoint(dialect: str):
    async with StandIn() as server:
        assert await provider_of(server, dialect).models() == ["stand-in", "stand-in-mini"]
        assert server.exchanges[0].path.startswith("/v1/models")


async def test_models_behind_a_wrong_key_are_an_error(dialect: str):
    async with StandIn(api_key="another") as server:
        with pytest.raises(AuthenticationFailed):
            await provider_of(server, dialect).models()


def _content_of(it: object) -> bytes | None:
    """Of a request, by httpx or by aiohttp."""
    match it:
        case httpx.Request():
            return getattr(it, "_content", None)
        case aiohttp.payload.BytesPayload():
            return it._value
    return None


@pytest.mark.parametrize("given", [False, True], ids=["by us", "by a client"])
async def test_what_was_asked_is_not_held_while_the_answer_comes(given: bool):
    question = "A question that nobody else asks."
    async with StandIn(Say("It is 17 degrees.")) as server:
        provider = provider_of(server, client=shared_client() if given else None)
        stream = provider.stream(ask(user_message("u1", question)))
        async with aclosing(stream):
            await anext(stream)
            held = [each for each in gc.get_objects() if question.encode() in (_content_of(each) or b"")]
    assert not held


async def test_one_connection_serves_turn_after_turn(dialect: str):
    async with StandIn(Say("One"), Say("Two"), Say("Three")) as server:
        provider = provider_of(server, dialect)
        for _ in range(3):
            await collect(provider.stream(ask()))
        assert server.connections == 1


async def test_a_whole_answer_to_a_wish_for_a_stream_is_taken(dialect: str):
    async with StandIn(Broken("whole")) as server:
        events, error = await collect(provider_of(server, dialect).stream(ask()))
    message, end = turn_of(events)
    assert error is None
    assert message.text.startswith("This answer")
    assert end.finish_reason == "stop"


async def test_the_last_empty_line_may_be_missing():
    async with StandIn(Raw([chunk({"content": "x"}), chunk({}, "stop").rstrip()])) as server:
        events, error = await collect(provider_of(server).stream(ask()))
    assert error is None
    assert turn_of(events)[1].finish_reason == "stop"


async def test_the_end_mark_ends_the_turn_though_the_connection_stays_open(dialect: str):
    async with StandIn(Say("Hi"), Say("Hi again")) as server:
        good = provider_of(server, dialect)
        await collect(good.stream(ask()))
    frames = [chunk({"content": "Hi"}), chunk({}, "stop"), DONE]
    async with StandIn(Raw(frames, then="hang")) as server:
        events, error = await collect(provider_of(server).stream(ask()))
        assert error is None
        assert turn_of(events)[0].text == "Hi"
        assert await server.exchanges[0].gone()


async def test_an_endpoint_that_talks_on_behind_the_end_mark_is_left():
    frames = [chunk({"content": "Hi"}), chunk({}, "stop") + DONE]
    async with StandIn(Raw([*frames, *[b": still here\n\n"] * 2000], delay=0.02)) as server:
        _, error = await collect(provider_of(server).stream(ask()))
        assert error is None
        assert await server.exchanges[0].gone()


async def test_a_turn_that_said_its_reason_is_whole_though_the_connection_breaks():
    async with StandIn(Raw([chunk({"content": "Hi"}), chunk({}, "stop")], then="reset")) as server:
        events, error = await collect(provider_of(server).stream(ask()))
    assert error is None
    assert turn_of(events)[1].finish_reason == "stop"


async def test_what_comes_in_one_read_is_one_delta():
    pieces = b"".join(chunk({"content": piece}) for piece in "abcdefgh")
    async with StandIn(Raw([pieces + chunk({}, "stop") + DONE])) as server:
        events, _ = await collect(provider_of(server).stream(ask()))
    assert [type(event) for event in events] == [
        TextMessageStart,
        TextMessageContent,
        TextMessageEnd,
        TurnEnd,
    ]
    assert events[1].delta == "abcdefgh"


# -- broken answers ------------------------------------------------------------------------------------------

# kind -> error, how often it is asked, whether something was told before
OUTCOMES: dict[str, tuple[type[ProviderError], int, bool]] = {
    "garbage": (BadStream, 1, True),
    "deep": (BadStream, 1, True),
    "cut": (BadStream, 1, True),
    "cut_call": (BadStream, 1, True),
    "no_reason": (BadStream, 1, True),
    "half_character": (BadStream, 1, True),
    "error": (ProviderUnavailable, 1, True),
    "json_error": (ProviderUnavailable, 1, False),
    "html": (BadStream, 1, False),
    "html_502": (ProviderUnavailable, 3, False),
    "empty": (BadStream, 1, False),
    "redirect": (ProviderError, 1, False),
    "400": (RequestRejected, 1, False),
    "401": (AuthenticationFailed, 1, False),
    "403": (AuthenticationFailed, 1, False),
    "404": (ModelNotFound, 1, False),
    "too_long": (ContextTooLong, 1, False),
    "429": (RateLimited, 3, False),
    "429_long": (RateLimited, 1, False),
    "500": (ProviderUnavailable, 3, False),
    "503": (ProviderUnavailable, 3, False),
    "529": (ProviderUnavailable, 3, False),
    "hang": (ProviderTimeout, 1, False),
    "hang_body": (ProviderTimeout, 1, False),
    "hang_stream": (ProviderTimeout, 1, True),
    "refuse": (ProviderUnreachable, 3, False),
    "reset": (ProviderUnreachable, 1, True),
    "reset_before_body": (ProviderUnreachable, 3, False),
    "not_http": (BadStream, 1, False),
}


def test_every_broken_kind_has_its_outcome():
    assert set(OUTCOMES) | {"whole"} == set(BROKEN)


@pytest.mark.parametrize(
    ("dialect", "given"),
    [("openai", False), ("anthropic", False), ("openai", True)],
    ids=["openai", "anthropic", "by a client"],
)
@pytest.mark.parametrize("kind", OUTCOMES)
async def test_each_broken_answer_ends_in_its_error(
    kind: str, dialect: str, given: bool, caplog: pytest.LogCaptureFixture
):
    error_type, asked, told = OUTCOMES[kind]
    caplog.set_level(logging.DEBUG)
    async with StandIn(default=lambda _: Broken(kind)) as server:
        client = shared_client() if given else None
        provider = provider_of(server, dialect, timeouts=SHORT.get(kind, PATIENT), client=client)
        events, error = await collect(provider.stream(ask()))
        assert len(server.exchanges) == asked
    assert type(error) is error_type
    assert str(error).endswith((".", "?"))
    if told:
        message, end = turn_of(events)
        assert end.finish_reason is None
        assert message.parts
        opened = [type(event) for event in events if isinstance(event, TextMessageStart | ToolCallStart)]
        closed = [type(event) for event in events if isinstance(event, TextMessageEnd | ToolCallEnd)]
        assert len(opened) == len(closed) == 1
    else:
        assert events == []
    seen = f"{error} {error!r} {error.detail} {provider!r} {caplog.text}"  # type: ignore[union-attr]
    assert KEY not in seen
    assert "sk-" not in seen
    assert "<html" not in seen


@pytest.mark.parametrize("kind", ["hang", "hang_body", "hang_stream"])
async def test_a_timeout_closes_the_connection(kind: str, dialect: str):
    async with StandIn(Broken(kind)) as server:
        await collect(provider_of(server, dialect, timeouts=SHORT.get(kind, PATIENT)).stream(ask()))
        assert await server.exchanges[0].gone()


async def begun(server: StandIn, idle: float) -> Direct:
    response = await shared_session().post(
        server.openai_url + "/chat/completions", json={}, auto_decompress=False
    )
    answer = answer_of(response, idle)
    await answer.begin()
    assert isinstance(answer, Direct)
    return answer


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(20):
        while not condition():  # noqa: ASYNC110 (what is awaited is a timer, not an event)
            await asyncio.sleep(0.01)


async def left(answer: Direct) -> None:
    """By somebody who waited for its next piece."""
    waiting = asyncio.create_task(answer.read())
    await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.wait([waiting])


async def test_a_wait_may_be_shorter_than_the_one_before_it():
    async with StandIn(Raw([b"one"], then="hang")) as server:
        answer = await begun(server, 600)
        await left(answer)
        async with asyncio.timeout(20):
            with pytest.raises(ProviderTimeout, match=r"0\.05 seconds"):
                await answer.read(0.05)
        await answer.close()


async def test_the_time_in_which_nobody_waits_for_an_answer_is_not_counted():
    gate = threading.Event()
    async with StandIn(Raw([b"one", b"two"], gate=gate)) as server:
        answer = await begun(server, 0.05)
        await left(answer)
        await until(lambda: answer._timer is None)
        gate.set()
        assert await answer.read(30) == b"two"
        await answer.close()


def unanswering() -> tuple[socket.socket, list[socket.socket]]:
    """A place to which connections are neither made nor refused, for too many wait there already."""
    full = socket.create_server(("127.0.0.1", 0), backlog=0)
    waiting: list[socket.socket] = []
    for _ in range(300):
        waiting.append(each := socket.socket())
        each.setblocking(False)
        each.connect_ex(full.getsockname())
        _, is_made, _ = select.select([], [each], [], 0.3)
        if not is_made:
            return full, waiting
    raise AssertionError("it takes all that come")


@pytest.mark.parametrize("given", [False, True], ids=["by us", "by a client"])
async def test_who_does_not_take_connections_is_given_up_in_time(given: bool):
    full, waiting = unanswering()
    url = f"http://127.0.0.1:{full.getsockname()[1]}/v1"
    short = Timeouts(connect=0.2, first_byte=30, idle=30)
    client = shared_client() if given else None
    provider = HttpProvider(openai_chat, Endpoint("x", url), timeouts=short, retries=0, client=client)
    _, error = await collect(provider.stream(ask()))
    for each in (full, *waiting):
        each.close()
    assert type(error) is ProviderTimeout
    assert str(error) == "The model's endpoint could not be reached within 0.2 seconds."


@pytest.mark.parametrize("given", [False, True], ids=["by us", "by a client"])
async def test_an_address_that_turns_out_to_be_none_is_not_asked_again(given: bool):
    waits = Waits()
    client = shared_client() if given else None
    endpoint = Endpoint("x", "http://1.2.3/v1")  # short for an address, once
    provider = HttpProvider(openai_chat, endpoint, sleep=waits, client=client)
    _, error = await collect(provider.stream(ask()))
    assert str(error) == "The address of the model's endpoint is not valid."
    assert waits.seconds == []


async def test_nobody_there_is_a_sentence_and_not_a_trace(dialect: str):
    async with StandIn() as server:
        pass
    waits = Waits()
    events, error = await collect(provider_of(server, dialect, sleep=waits).stream(ask()))
    assert (events, type(error)) == ([], ProviderUnreachable)
    assert len(waits.seconds) == 2


@pytest.mark.parametrize(
    "url",
    [
        "",
        "not a url",
        "ftp://example.org",
        "http://",
        "http://[::1",
        "http://model..test/",
        f"http://{'m' * 64}.test/",
        "http://geheim@model.test/",
        "http://model.test:0/",
        "http://model.test:70000/",
        "http://model.test:port/",
        "http://model.test/#geheim",
        "http://:geheim@model.test/",
        "//model.test/v1",
        "model.test/v1",
        "http://a b/",
        "http://user:geheim@model.test",
        "http://model.test/?token=geheim",
    ],
)
def test_an_address_that_is_none_is_refused_without_being_said(url: str):
    with pytest.raises(InvalidRequest) as refused:
        Endpoint("x", url)
    assert "geheim" not in str(refused.value)


# -- trying again --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["429", "500", "503", "529", "html_502", "refuse", "reset_before_body"])
async def test_what_may_pass_is_tried_again(kind: str, dialect: str):
    async with StandIn(Broken(kind), Broken(kind), Say("At last.")) as server:
        events, error = await collect(provider_of(server, dialect).stream(ask()))
    assert error is None
    assert turn_of(events)[0].text == "At last."


async def test_waits_grow_and_differ():
    async with StandIn(default=lambda _: Broken("500")) as server:
        waits = Waits()
        await collect(provider_of(server, sleep=waits, retries=4).stream(ask()))
    for number, seconds in enumerate(waits.seconds):
        assert 0.25 * 2**number <= seconds <= 0.5 * 2**number
    assert len(waits.seconds) == 4


async def test_the_endpoint_says_when_to_try_again():
    later = Raw([b"{}"], 429, "application/json", [("retry-after", "7")])
    async with StandIn(later, Say("Hi")) as server:
        waits = Waits()
        _, error = await collect(provider_of(server, sleep=waits).stream(ask()))
    assert error is None
    assert 7 <= waits.seconds[0] < 8


async def test_who_asks_for_an_hour_is_not_waited_for():
    async with StandIn(Broken("429_long"), Say("Hi")) as server:
        waits = Waits()
        _, error = await collect(provider_of(server, sleep=waits).stream(ask()))
    assert isinstance(error, RateLimited)
    assert (error.retry_after, waits.seconds) == (3600, [])


@pytest.mark.parametrize("kind", ["cut", "reset", "error", "hang_stream", "garbage"])
async def test_nothing_is_tried_again_once_a_byte_has_come(kind: str, dialect: str):
    async with StandIn(Broken(kind), Say("Never asked.")) as server:
        events, error = await collect(
            provider_of(server, dialect, timeouts=SHORT.get(kind, PATIENT)).stream(ask())
        )
        assert len(server.exchanges) == 1
    assert error is not None
    assert "Never" not in turn_of(events)[0].text


async def test_no_retries_means_one_request():
    async with StandIn(default=lambda _: Broken("500")) as server:
        await collect(provider_of(server, retries=0).stream(ask()))
        assert len(server.exchanges) == 1


async def test_an_endpoint_that_refuses_a_field_is_asked_without_it_from_then_on():
    no = Raw([b'{"error": {"message": "Unrecognized field: stream_options"}}'], 400, "application/json")
    async with StandIn(no, Say("Hi"), Say("Hi")) as server:
        provider = provider_of(server)
        assert (await collect(provider.stream(ask())))[1] is None
        assert (await collect(provider.stream(ask())))[1] is None
        assert ["stream_options" in exchange.json for exchange in server.exchanges] == [True, False, False]


async def test_a_refusal_that_repeats_is_not_asked_for_ever():
    no = Raw([b'{"error": {"message": "max_completion_tokens? max_tokens?"}}'], 400, "application/json")
    async with StandIn(default=lambda _: no) as server:
        _, error = await collect(provider_of(server).stream(ask(parameters={"max_tokens": 5})))
        assert len(server.exchanges) == 3
    assert isinstance(error, RequestRejected)


async def test_a_redirect_is_not_followed(dialect: str):
    async with StandIn() as other, StandIn() as server:
        server.play(Raw([], 302, headers=[("location", other.url + "/v1/messages")]))
        _, error = await collect(provider_of(server, dialect).stream(ask()))
        assert type(error) is ProviderError
        assert other.exchanges == []


def packed(piece: bytes, megabytes: int) -> Raw:
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    body = b"".join([*(packer.compress(piece * 2**20) for _ in range(megabytes)), packer.flush()])
    return Raw([body], headers=[("content-encoding", "gzip")])


@pytest.mark.parametrize("piece", [b"x", b"{", b" "], ids=["a line", "an object", "white space"])
async def test_a_small_answer_that_unpacks_to_much_is_read_no_further(piece: bytes):
    async with StandIn(packed(piece, 100)) as server:
        _, error = await collect(provider_of(server).stream(ask()))
    assert isinstance(error, BadStream)
    assert "without an end" in str(error)


async def test_an_answer_that_unpacks_to_much_is_read_in_pieces_between_which_others_have_their_turn():
    """Of empty lines there may be as many as it likes: one read of the network is 16 MB of them."""
    turns, loop = [], asyncio.get_running_loop()
    async with StandIn(packed(b"\n", 8)) as server:
        url = f"{server.openai_url}/chat/completions"
        answer = answer_of(await shared_session().post(url, json={}, auto_decompress=False), 20)
        await answer.begin()
        sizes = [len(answer.first)]
        while piece := await answer.read():
            assert len(turns) == len(sizes) - 1
            sizes.append(len(piece))
            loop.call_soon(turns.append, len(sizes))
        await answer.close()
    assert sum(sizes) == 8 * 2**20
    assert max(sizes) <= UNPACKED


async def test_a_proxy_in_the_environment_is_not_used(monkeypatch: pytest.MonkeyPatch):
    async with StandIn(Say("Hi")) as server, StandIn() as proxy:
        for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
            monkeypatch.setenv(name, proxy.url)
        assert (await collect(provider_of(server).stream(ask())))[1] is None
        assert proxy.exchanges == []


# -- leaving -------------------------------------------------------------------------------------------------


async def test_closing_the_generator_closes_the_connection(dialect: str):
    async with StandIn(Broken("hang_stream")) as server:
        stream = provider_of(server, dialect).stream(ask())
        first = await anext(stream)
        assert isinstance(first, TextMessageStart)
        await stream.aclose()  # type: ignore[attr-defined]
        assert await server.exchanges[0].gone()


@pytest.mark.parametrize("kind", ["hang", "hang_body", "hang_stream"])
async def test_cancelling_the_task_closes_the_connection(kind: str, dialect: str):
    arrived = asyncio.Event()
    loop = asyncio.get_running_loop()

    def hang(_: object) -> Broken:
        loop.call_soon(arrived.set)
        return Broken(kind)

    async with StandIn(default=hang) as server:
        task = asyncio.create_task(collect(provider_of(server, dialect).stream(ask())))
        await asyncio.wait_for(arrived.wait(), 30)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert await server.exchanges[0].gone()


async def test_cancelling_a_wait_between_two_tries_ends_it():
    waiting = asyncio.Event()

    async def sleep(seconds: float) -> None:
        waiting.set()
        await asyncio.Event().wait()

    async with StandIn(default=lambda _: Broken("500")) as server:
        task = asyncio.create_task(collect(provider_of(server, sleep=sleep).stream(ask())))
        await asyncio.wait_for(waiting.wait(), 30)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert len(server.exchanges) == 1


async def test_many_turns_at_once_do_not_wait_for_each_other():
    async with StandIn(default=lambda _: Broken("hang_stream")) as server:
        provider = provider_of(server)
        streams = [provider.stream(ask()) for _ in range(150)]
        firsts = await asyncio.wait_for(asyncio.gather(*(anext(stream) for stream in streams)), 40)
        assert len(firsts) == len(server.exchanges) == 150
        await asyncio.gather(*(stream.aclose() for stream in streams))  # type: ignore[attr-defined]


# -- the client and the endpoint -----------------------------------------------------------------------------


async def test_the_client_is_shared_until_it_is_closed():
    first = shared_client()
    assert shared_client() is first
    await close_shared_clients()
    assert first.is_closed
    assert shared_client() is not first


def test_each_event_loop_has_a_client_of_its_own():
    async def ask_once() -> str:
        async with StandIn(Say("Hi")) as server:
            events, _ = await collect(provider_of(server).stream(ask()))
        await close_shared_clients()
        return turn_of(events)[0].text

    assert [asyncio.run(ask_once()) for _ in range(2)] == ["Hi", "Hi"]


@pytest.mark.parametrize("store", ["the system's", "none"])
async def test_certificates_are_checked_also_where_the_system_has_no_store(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, store: str
):
    if store == "none":
        monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "missing.pem"))
        monkeypatch.setenv("SSL_CERT_DIR", str(tmp_path))
    tls = checked_against()
    if store == "none":
        assert isinstance(tls, ssl.SSLContext)
        assert tls.verify_mode == ssl.CERT_REQUIRED
        assert tls.get_ca_certs()
    else:
        assert tls is True


async def test_another_client_may_be_given():
    def answer(request: httpx.Request) -> httpx.Response:
        assert request.headers["authorization"] == f"Bearer {KEY}"
        return httpx.Response(200, content=chunk({"content": "Hi"}) + chunk({}, "stop") + DONE)

    async with httpx.AsyncClient(transport=httpx.MockTransport(answer)) as client:
        provider = HttpProvider(openai_chat, Endpoint("x", "http://model.test/v1", KEY), client=client)
        events, error = await collect(provider.stream(ask()))
    assert error is None
    assert turn_of(events)[0].text == "Hi"


async def test_headers_of_the_endpoint_s_own_replace_the_dialect_s_and_are_in_no_error(dialect: str):
    theirs = "t-0123456789"
    refusal = Raw(
        [json.dumps({"error": {"message": f"{theirs} is not known"}}).encode()], 400, "application/json"
    )
    async with StandIn(refusal) as server:
        provider = provider_of(server, dialect, headers={"Authorization": theirs, "X-API-Key": theirs})
        _, error = await collect(provider.stream(ask()))
    sent = server.exchanges[0].headers
    assert (sent["authorization"], sent["x-api-key"]) == (theirs, theirs)
    assert KEY not in str(sent)
    assert error is not None
    assert theirs not in f"{error} {error.detail}"
    assert "is not known" in str(error.detail)


def test_the_key_is_in_no_repr():
    endpoint = Endpoint("x", "http://model.test", KEY)
    assert KEY not in repr(endpoint) + repr(HttpProvider(openai_chat, endpoint))


@pytest.mark.parametrize("key", ["geheim\nx-evil: 1", "schlüssel", "a\x00b"])
def test_a_key_that_cannot_be_one_is_refused_without_being_said(key: str):
    with pytest.raises(InvalidRequest) as refused:
        Endpoint("x", "http://model.test", key)
    assert key not in str(refused.value)


def test_space_around_a_key_is_dropped():
    assert Endpoint("x", "http://model.test", f" {KEY}\n").api_key == KEY
    assert Endpoint("x", "http://model.test", " ").api_key is None


# -- folding deltas ------------------------------------------------------------------------------------------

deltas = st.one_of(
    st.builds(TextMessageContent, st.just("t1"), st.text(max_size=3)),
    st.builds(ReasoningMessageContent, st.just("t1-reasoning-1"), st.text(max_size=3)),
    st.builds(ToolCallArgs, st.sampled_from(["a", "b"]), st.text(max_size=3)),
    st.just(TextMessageStart("t1")),
)


@given(st.lists(deltas, max_size=40))
def test_folded_deltas_make_the_same_transcript(events: list[Any]):
    before = Transcript([user_message("u", "x")])
    opened = [ToolCallStart("a", "f", "t1"), ToolCallStart("b", "f", "t1"), *events]
    merged = merge_deltas(opened)
    assert apply_all(before, opened) == apply_all(before, merged)  # type: ignore[arg-type]
    pairs = itertools.pairwise(merged)
    assert not any(
        type(one) is type(two)
        and not isinstance(one, TextMessageStart | ToolCallStart)
        and key(one) == key(two)
        for one, two in pairs
    )


def key(event: Any) -> str:
    return str(getattr(event, "tool_call_id", None) or event.message_id)
