"""The web search hook: what it takes over, what it asks the services, and what the model reads."""

from __future__ import annotations

import asyncio
import json
import logging
from urllib.parse import parse_qs, urlsplit

import pytest

from agent.providers.transport import close_shared_clients
from agent.rerun import Refusal
from chatsite.gateway.hooks import search_backends, web_search
from chatsite.gateway.hooks.search_backends import (
    MOST_HITS,
    Query,
    SearchFailed,
    brave,
    searxng,
    site_of,
    tavily,
)
from chatsite.gateway.hooks.web_search import MOST_AT_ONCE, NOT_SET_UP, hook
from chatsite.gateway.hooks.web_search_tool import SCHEMA, asks_for_search, with_our_tool
from tests.gateway.hook_values import context, results_in, turn
from tests.standin import Broken, Raw, StandIn

MARK = {"type": "ephemeral"}
OWN = {"type": "object", "properties": {"query": {"type": "string"}, "lang": {"type": "string"}}}


def found(*hits, under="results", text="content"):
    """A service's answer with these results: title, address, text."""
    listed = [{"title": title, "url": url, text: words} for title, url, words in hits]
    value = {"results": listed} if under == "results" else {"web": {"results": listed}}
    return Raw([json.dumps(value).encode()], content_type="application/json")


def asked(exchange):
    return {name: values[0] for name, values in parse_qs(urlsplit(exchange.path).query).items()}


TEA = ("Tea", "https://tea.example/green", "All about tea.")


@pytest.fixture(autouse=True)
async def _clients():
    yield
    await close_shared_clients()


@pytest.fixture
async def service(settings):
    """A search service on loopback, set up as SearXNG."""
    async with StandIn(default=lambda exchange: found(TEA)) as server:
        settings.SEARXNG_URL, settings.BRAVE_API_KEY, settings.TAVILY_API_KEY = server.url, "", ""
        yield server


@pytest.fixture
def no_service(settings):
    settings.SEARXNG_URL = settings.BRAVE_API_KEY = settings.TAVILY_API_KEY = ""


# -- the shapes ----------------------------------------------------------------------------------------------

SHAPES = [
    {"tools": [{"type": "web_search_20250305", "name": "web_search", "max_uses": 5}]},
    {"tools": [{"type": "web_search_20260209", "name": "web_search"}]},
    {"tools": [{"type": "web_search"}]},
    {"tools": [{"type": "web_search_preview"}]},
    {"tools": [{"type": "web_search_preview_2025_03_11", "search_context_size": "low"}]},
    {"tools": [{"type": "function", "function": {"name": "web_search"}}]},
    {"tools": [{"type": "function", "function": {"name": "web_search", "parameters": {}}}]},
    {"tools": [{"type": "function", "function": {"name": "web_search", "parameters": SCHEMA}}]},
    {"tools": [{"name": "web_search"}]},
    {
        "tools": [
            {"type": "custom", "name": "web_search", "input_schema": {"type": "object", "properties": {}}}
        ]
    },
    {"web_search_options": {}},
    {"web_search_options": {"search_context_size": "high"}, "tools": [{"type": "web_search"}]},
]


@pytest.mark.parametrize("dialect", ["openai", "anthropic"])
@pytest.mark.parametrize("shape", SHAPES)
async def test_every_shape_becomes_one_function_tool(dialect, shape):
    call = context(dialect, **shape)
    assert hook.wants(call)
    body = await hook.pre_call(call.body, call)
    [tool] = body["tools"]
    function = tool["function"] if dialect == "openai" else tool
    assert function["name"] == "web_search"
    assert function["parameters" if dialect == "openai" else "input_schema"] == SCHEMA
    assert "web_search_options" not in body


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"tools": "nonsense"},
        {"tools": [None, 3, {}]},
        {"tools": [{"type": ["function"], "name": "web_search"}, {"type": {}, "name": "web_search"}]},
        {"tools": [{"type": "function", "function": {"name": "find"}}]},
        {"tools": [{"name": "find", "input_schema": {}}]},
        {"tools": [{"type": "web_fetch_20250910", "name": "web_fetch"}]},
        {"tools": [{"type": "function", "function": {"name": "web_search", "parameters": OWN}}]},
        {"tools": [{"name": "web_search", "input_schema": OWN}]},
        {"tools": [{"name": "web_search", "input_schema": {"$ref": "#/x"}}]},
        # The name is the caller's own then, whatever else it asks for.
        {"tools": [{"name": "web_search", "input_schema": OWN}, {"type": "web_search_20250305"}]},
    ],
)
def test_a_tool_of_the_callers_own_is_left_alone(body):
    assert not hook.wants(context("anthropic", **body))


def test_native_types_are_left_to_the_endpoint_when_the_settings_say_so(settings):
    settings.WEB_SEARCH_NATIVE = True
    assert not hook.wants(context("anthropic", tools=[{"type": "web_search_20250305", "name": "web_search"}]))
    assert not hook.wants(context("openai", web_search_options={}))
    assert hook.wants(context("anthropic", tools=[{"name": "web_search"}]))


def test_the_other_tools_keep_their_places_and_the_mark_of_the_prompt_cache_stays():
    native = {"type": "web_search_20250305", "name": "web_search", "cache_control": MARK}
    before, behind = {"name": "a", "input_schema": {}}, {"name": "b", "input_schema": {}}
    body, _ = with_our_tool({"tools": [before, native, behind, native]}, "anthropic")
    assert [tool["name"] for tool in body["tools"]] == ["a", "web_search", "b"]
    assert body["tools"][1]["cache_control"] == MARK


@pytest.mark.parametrize(
    ("dialect", "choice", "then"),
    [
        ("openai", {"type": "web_search_preview"}, {"type": "function", "function": {"name": "web_search"}}),
        ("anthropic", {"type": "tool", "name": "web_search"}, {"type": "tool", "name": "web_search"}),
        ("openai", "required", "required"),
    ],
)
def test_a_choice_of_the_native_tool_is_a_choice_of_ours(dialect, choice, then):
    body, _ = with_our_tool({"tools": [{"type": "web_search"}], "tool_choice": choice}, dialect)
    assert body["tool_choice"] == then


@pytest.mark.parametrize(
    ("field", "value", "named"),
    [
        ("max_uses", 0, "tools[0].max_uses"),
        ("max_uses", "3", "tools[0].max_uses"),
        ("allowed_domains", "example.org", "tools[0].allowed_domains"),
        ("blocked_domains", ["example.org", "a b"], "tools[0].blocked_domains[1]"),
        ("blocked_domains", [7], "tools[0].blocked_domains[0]"),
    ],
)
async def test_a_wrong_wish_is_refused_by_the_name_of_its_field(field, value, named):
    call = context("anthropic", tools=[{"type": "web_search_20250305", "name": "web_search", field: value}])
    refusal = await hook.pre_call(call.body, call)
    assert isinstance(refusal, Refusal)
    assert (refusal.status, refusal.reason.partition(": ")[0]) == (400, named)


@pytest.mark.parametrize("tools", [7, True, "nonsense", {"web_search": {}}])
async def test_tools_that_are_no_list_are_refused_beside_search_options(tools):
    call = context("openai", tools=tools, web_search_options={})
    assert hook.wants(call)
    refusal = await hook.pre_call(call.body, call)
    assert (refusal.status, refusal.reason) == (400, "tools: must be a list")


# -- what the model reads ------------------------------------------------------------------------------------


async def look(call, *calls):
    await hook.pre_call(call.body, call)
    return await hook.look(turn(*calls), call)


async def test_the_results_go_back_with_title_address_and_text(service):
    call = context("anthropic", tools=[{"type": "web_search_20250305", "name": "web_search"}])
    plan = await look(call, ("c1", "web_search", {"query": "green tea"}))
    assert plan.run_agentic_loop
    said = results_in(plan)["c1"]
    assert "1. Tea\nhttps://tea.example/green\nAll about tea." in said
    assert asked(service.exchanges[0]) == {"q": "green tea", "format": "json"}
    assert plan.request_patch.messages[0] == call.messages[0]


async def test_a_turn_that_searches_nothing_is_not_its_affair(service):
    call = context("openai", tools=[{"type": "web_search"}])
    assert await look(call, ("c1", "mine", {})) is None
    assert service.exchanges == []


async def test_the_searches_of_a_turn_are_made_side_by_side(service):
    """No answer is given before all have asked."""
    call = context("openai", tools=[{"type": "web_search"}])
    calls = [(f"c{number}", "web_search", {"query": f"q{number}"}) for number in range(4)]
    all_asked = asyncio.Event()

    class Holding(StandIn):
        async def _serve(self, exchange, reader, writer):
            if len(self.exchanges) == len(calls):
                all_asked.set()
            await all_asked.wait()
            return await super()._serve(exchange, reader, writer)

    service.__class__ = Holding
    async with asyncio.timeout(30):
        plan = await look(call, *calls)
    assert sorted(results_in(plan)) == ["c0", "c1", "c2", "c3"]
    assert all("tea.example" in text for text in results_in(plan).values())


async def test_a_search_that_fails_is_text_and_the_others_go_well(service):
    service._default = lambda exchange: Broken("500") if "bad" in exchange.path else found(TEA)
    call = context("openai", tools=[{"type": "web_search"}])
    plan = await look(call, ("c1", "web_search", {"query": "bad"}), ("c2", "web_search", {"query": "good"}))
    said = results_in(plan)
    assert "The search service failed: it answered with status 500." in said["c1"]
    assert "tea.example" in said["c2"]


async def test_without_a_service_the_model_is_told(no_service):
    call = context("anthropic", tools=[{"name": "web_search"}])
    plan = await look(call, ("c1", "web_search", {"query": "tea"}))
    assert NOT_SET_UP in results_in(plan)["c1"]


@pytest.mark.parametrize("arguments", [{}, {"query": ""}, {"query": 7}, {"queries": []}, {"_unparsed": "{"}])
async def test_a_call_without_a_query_is_told_what_to_give(service, arguments):
    plan = await look(context("openai", tools=[{"type": "web_search"}]), ("c1", "web_search", arguments))
    assert "give `query`" in results_in(plan)["c1"]
    assert service.exchanges == []


async def test_one_call_may_hold_several_queries(service):
    call = context("openai", tools=[{"type": "web_search"}])
    plan = await look(call, ("c1", "web_search", {"queries": ["green", "black"]}))
    assert sorted(asked(exchange)["q"] for exchange in service.exchanges) == ["black", "green"]
    assert results_in(plan)["c1"].count("https://tea.example/green") == 2


async def test_the_searches_of_a_turn_are_bounded(service):
    call = context("openai", tools=[{"type": "web_search"}])
    plan = await look(call, ("c1", "web_search", {"queries": [f"q{n}" for n in range(30)]}))
    assert len(service.exchanges) == MOST_AT_ONCE
    assert "at most 8 searches" in results_in(plan)["c1"]


async def test_the_callers_limit_holds_over_all_rounds(service):
    call = context("anthropic", tools=[{"type": "web_search_20250305", "name": "web_search", "max_uses": 2}])
    await look(call, ("c1", "web_search", {"query": "a"}), ("c2", "web_search", {"query": "b"}))
    plan = await hook.look(turn(("c3", "web_search", {"query": "c"})), call)
    assert "used up" in results_in(plan)["c3"]
    assert len(service.exchanges) == 2


async def test_the_callers_domains_are_asked_for_and_checked(service):
    hits = [
        (host, f"https://{host}/x", "")
        for host in ("a.example", "sub.a.example", "b.example", "nota.example")
    ]
    service._default = lambda exchange: found(*hits)
    native = {"type": "web_search_20250305", "name": "web_search", "allowed_domains": ["a.example"]}
    plan = await look(context("anthropic", tools=[native]), ("c1", "web_search", {"query": "q"}))
    said = results_in(plan)["c1"]
    assert "https://a.example/x" in said
    assert "https://sub.a.example/x" in said
    assert "b.example" not in said
    assert "nota.example" not in said
    assert asked(service.exchanges[0])["q"] == "q (site:a.example)"


async def test_the_next_service_is_asked_when_one_fails(service, settings):
    async with StandIn(Broken("429")) as first:
        settings.SEARXNG_URL, settings.BRAVE_URL, settings.BRAVE_API_KEY = (
            first.url,
            service.url,
            "secret-key",
        )
        service._default = lambda exchange: found(TEA, under="web", text="description")
        call = context("openai", tools=[{"type": "web_search"}])
        plan = await look(call, ("c1", "web_search", {"query": "tea"}))
    assert "https://tea.example/green" in results_in(plan)["c1"]
    assert len(first.exchanges) == 1


# -- the services --------------------------------------------------------------------------------------------

MAKE = {
    "searxng": (searxng, (), {"under": "results"}),
    "brave": (brave, ("secret-key",), {"under": "web", "text": "description"}),
    "tavily": (tavily, ("secret-key",), {"under": "results"}),
}


@pytest.mark.parametrize("name", MAKE)
async def test_each_service_is_asked_in_its_own_way(name):
    make, key, shape = MAKE[name]
    async with StandIn(found(TEA, **shape)) as server:
        hits = await make(server.url, *key).search(Query("green tea", ("tea.example",), ("no.example",)))
        [exchange] = server.exchanges
    assert [(hit.title, hit.url, hit.text) for hit in hits] == [TEA]
    words = "green tea (site:tea.example) -site:no.example"
    if name == "searxng":
        assert (exchange.method, asked(exchange)["q"]) == ("GET", words)
    if name == "brave":
        assert asked(exchange)["q"] == words
        assert exchange.path.startswith("/res/v1/web/search?")
        assert exchange.headers["x-subscription-token"] == "secret-key"
    if name == "tavily":
        assert (exchange.method, exchange.path) == ("POST", "/search")
        assert exchange.headers["authorization"] == "Bearer secret-key"
        assert exchange.json["query"] == "green tea"
        assert exchange.json["include_domains"] == ["tea.example"]
        assert exchange.json["exclude_domains"] == ["no.example"]


async def test_a_name_and_password_in_the_address_are_sent_as_such():
    async with StandIn(found(TEA)) as server:
        url = server.url.replace("http://", "http://ada:pass%20word@")
        assert await searxng(url).search(Query("tea"))
    assert server.exchanges[0].headers["authorization"] == "Basic YWRhOnBhc3Mgd29yZA=="


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (Broken("401"), "does not take this server's key"),
        (Broken("403"), "refuses this server"),
        (Broken("429"), "too many searches"),
        (Broken("503"), "status 503"),
        (Broken("redirect"), "status 302"),
        (Broken("html"), "could not be read"),
        (Broken("empty"), "could not be read"),
        (Broken("refuse"), "could not be reached"),
        (Broken("reset_before_body"), "could not be reached"),
        (Broken("not_http"), "could not be reached"),
        (Raw([b"x" * 100_000] * 40, content_type="application/json"), "could not be read"),
        (Raw([b"[" * 100_000], content_type="application/json"), "could not be read"),
    ],
)
@pytest.mark.parametrize(
    "service_at", [searxng, lambda url: brave(url, "secret-key")], ids=["SearXNG", "Brave"]
)
async def test_what_goes_wrong_is_said_without_address_or_key(service_at, answer, words, caplog):
    async with StandIn(answer) as server:
        url = server.url.replace("http://", "http://ada:secret-password@")
        with caplog.at_level(logging.INFO, "chatsite"), pytest.raises(SearchFailed) as failed:
            await service_at(url).search(Query("tea"))
    assert words in str(failed.value)
    for text in (str(failed.value), caplog.text):
        assert "secret" not in text
        assert str(server.port) not in text
    assert service_at("").name in caplog.text


async def test_a_service_that_hangs_costs_a_bounded_time(monkeypatch):
    monkeypatch.setattr(search_backends, "SECONDS", 1.0)
    async with StandIn(Broken("hang")) as server:
        with pytest.raises(SearchFailed, match="no answer in time"):
            await searxng(server.url).search(Query("tea"))
        assert await server.exchanges[0].gone()


@pytest.mark.parametrize(
    "body", [b"7", b"[]", b"null", b'{"results": 3}', b'{"results": [1, {}, {"url": 5}]}']
)
async def test_an_answer_of_another_form_is_no_result(body):
    async with StandIn(Raw([body], content_type="application/json")) as server:
        assert await searxng(server.url).search(Query("tea")) == ()


async def test_what_is_found_is_plain_text_of_bounded_length():
    odd = ("<strong>Tea</strong>  &amp;\n milk\x00", "https://tea.example/" + "x" * 5_000, "word " * 5_000)
    script = ("Bad", "javascript:alert(1)", "no")
    async with StandIn(found(script, *[odd] * 30)) as server:
        hits = await searxng(server.url).search(Query("tea"))
    assert len(hits) == MOST_HITS
    assert hits[0].title == "Tea & milk\ufffd"
    assert len(hits[0].url) < 1_100
    assert len(hits[0].text) < 700


def test_no_key_is_in_the_representation_of_a_service():
    assert "secret" not in repr(brave("http://ada:secret@x", "secret-key"))


@pytest.mark.parametrize(
    ("given", "site"),
    [
        ("Example.org", "example.org"),
        ("https://example.org/docs/", "example.org/docs"),
        ("a b", None),
        ("example.org) OR (site:evil", None),
        ("", None),
        (None, None),
    ],
)
def test_a_site_is_a_domain_and_maybe_a_path(given, site):
    assert site_of(given) == site


def test_a_path_of_a_site_counts():
    query = Query("q", allowed=("a.example/docs",))
    assert query.takes("https://a.example/docs/x")
    assert not query.takes("https://a.example/docs2")
    assert not query.takes("https://a.example/")


def test_our_own_schema_is_taken_over_and_a_stranger_is_not():
    assert asks_for_search(
        {"tools": [{"name": "web_search", "input_schema": json.loads(json.dumps(SCHEMA))}]}
    )
    natural = {"type": "object", "properties": {"query": {"type": "string"}}, "required": ["query"]}
    assert not asks_for_search({"tools": [{"name": "web_search", "input_schema": natural}]})


def test_the_hook_leaves_time_for_every_service():
    assert web_search.hook.timeout > 3 * search_backends.SECONDS
