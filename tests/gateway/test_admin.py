"""The gateway in Django admin: what went through is seen, with every round, and nothing is changed."""

from __future__ import annotations

import json
import re
from decimal import Decimal

import pytest
from django.contrib.auth.models import Permission, User
from django.test import Client
from django.urls import reverse

from agent import ToolRegistry
from agent.messages import Usage
from agent.rerun import BaseHook
from chatsite.accounts import keys
from chatsite.accounts.models import ApiKey
from chatsite.audit.models import Entry
from chatsite.gateway import rows
from chatsite.gateway.hooks import loading
from chatsite.gateway.hooks.server_tools import ServerTools
from chatsite.gateway.models import Exchange, ExchangeCall
from chatsite.gateway.records import ExchangeRecord, RoundRecord

HOSTILE = "</pre><script>alert('x')</script><img src=x onerror=alert(1)>"
LIST = "admin:gateway_exchange_changelist"
HOOKS = "admin:gateway_loadedhook_changelist"

CALL = {"id": "c1", "type": "function", "function": {"name": "get_weather", "arguments": '{"city": "Oslo"}'}}
QUESTION = {"role": "user", "content": "What should I wear in **Oslo**?"}
ASKED = {"model": "fox", "messages": [{"role": "system", "content": "Be brief."}, QUESTION]}
RERUN = {
    "model": "fox-1",
    "messages": [
        *ASKED["messages"],
        {"role": "assistant", "content": None, "tool_calls": [CALL]},
        {"role": "tool", "tool_call_id": "c1", "content": "It is 62 there."},
    ],
}


def openai_answer(message: dict, reason: str = "stop") -> bytes:
    choice = {"index": 0, "message": {"role": "assistant", **message}, "finish_reason": reason}
    return json.dumps({"id": "x", "object": "chat.completion", "model": "fox", "choices": [choice]}).encode()


def anthropic_stream(text: str) -> bytes:
    events = [
        {"type": "message_start", "message": {"id": "m", "role": "assistant", "model": "fox", "content": [],
         "usage": {"input_tokens": 9, "output_tokens": 1}}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": text}},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 5}},
        {"type": "message_stop"},
    ]  # fmt: skip
    return "".join(f"event: {each['type']}\ndata: {json.dumps(each)}\n\n" for each in events).encode()


@pytest.fixture
def person(db) -> User:
    return User.objects.create_user("ada", password="a long enough secret")


@pytest.fixture
def key_row(person) -> ApiKey:
    keys.new_api_key(person, label="laptop")
    return ApiKey.objects.get()


@pytest.fixture
def admin(db) -> Client:
    return logged_in(User.objects.create_superuser("root", password="a long enough secret"))


@pytest.fixture
def staff(db) -> User:
    return User.objects.create_user("clerk", password="a long enough secret", is_staff=True)


def logged_in(who: User) -> Client:
    client = Client()
    client.force_login(who)
    return client


def weather(key: ApiKey | None, **changes: object) -> Exchange:
    """An exchange with one rerun: a call, its result, an answer."""
    first = RoundRecord(
        endpoint="main", model="fox-1", dialect="openai", status=200, ms=90, stop_reason="tool_calls",
        usage=Usage(1000, 30), cost=Decimal("0.25"), request={**ASKED, "model": "fox-1"},
        response=openai_answer({"content": None, "tool_calls": [CALL]}, "tool_calls"),
    )  # fmt: skip
    second = RoundRecord(
        endpoint="spare", model="fox-1", dialect="openai", depth=1, asked_by="WeatherHook", status=200, ms=1400,
        stop_reason="stop", usage=Usage(1200, 20), cost=Decimal("0.5"), request=RERUN,
        response=openai_answer({"content": "Wear a *light* jacket."}),
    )  # fmt: skip
    facts = {
        "request_id": "req-1", "key_pk": key and key.pk, "user_id": key and key.user_id, "keep": "full",
        "dialect": "openai", "model": "fox", "status": 200, "ms": 1500, "rounds": [first, second],
        "request": ASKED, "response": openai_answer({"content": "Wear a *light* jacket."}),
    }  # fmt: skip
    record = ExchangeRecord(**facts | changes)
    record.complete()
    if record.keep != "full":
        record.forget_content()
    rows.insert([record])
    return Exchange.objects.get(public_id=record.id)


def listing(**query: object) -> str:
    return reverse(LIST, query=query or None)


def detail(exchange: Exchange) -> str:
    return reverse("admin:gateway_exchange_change", args=[exchange.pk])


def page(client: Client, url: str, status: int = 200) -> str:
    """The page of that address; where a reason is asked for, one is given."""
    answer = client.get(url)
    if 'class="loom-reason"' in answer.text:
        answer = client.post(url, {"reason": "a test"}, follow=True)
    assert answer.status_code == status, (url, answer.status_code)
    return answer.text


def rows_in(text: str) -> int:
    return text.split("<tbody>", 1)[1].count("<tr>") if "<tbody>" in text else 0


# -- one exchange --------------------------------------------------------------------------------------------


def test_an_exchange_reads_like_the_chat_with_its_sums(admin, key_row):
    text = page(admin, detail(weather(key_row)))
    assert "What should I wear in **Oslo**?" in text
    assert "<em>light</em>" in text
    assert "Be brief." in text
    for fact in ("2,200 in, 50 out", "0.75", "1.5 s", "2 rounds", "laptop", "ada", "openai"):
        assert f"<dd>{fact}</dd>" in text, fact


def test_a_rerun_is_shown_with_who_asked_for_it_and_its_own_request_and_answer(admin, key_row):
    text = page(admin, detail(weather(key_row)))
    first, second = text.split('id="round-1"')[1].split('id="round-2"')
    assert "Round 2: rerun 1, asked for by WeatherHook" in second
    assert "<dd>spare</dd>" in second
    assert "<dd>0.50</dd>" in second
    assert "It is 62 there." in second
    assert "**Oslo**" not in second.split("as it was kept")[0]  # what the round before had is not told again
    assert "get_weather" in first
    assert "<dd>tool_calls</dd>" in first


def test_what_was_kept_is_there_as_plain_text(admin, key_row):
    exchange = weather(key_row)
    text = page(admin, detail(exchange))
    for url, expected in (
        (reverse("admin:gateway_exchange_kept", args=[exchange.pk, "request"]), ASKED),
        (reverse("admin:gateway_round_kept", args=[exchange.pk, 2, "request"]), RERUN),
    ):
        assert url in text
        answer = admin.get(url)
        assert answer.headers["Content-Type"] == "text/plain; charset=utf-8"
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
        assert json.loads(answer.text) == expected
    for piece in ("requests", "id", "key"):
        page(admin, reverse("admin:gateway_exchange_kept", args=[exchange.pk, piece]), 404)
    page(admin, reverse("admin:gateway_round_kept", args=[exchange.pk, 9, "request"]), 404)


def test_a_streamed_answer_in_the_other_dialect_is_read_too(admin, key_row):
    body = {"model": "fox", "max_tokens": 9, "system": "Be brief.", "messages": [QUESTION]}
    exchange = weather(
        key_row, dialect="anthropic", stream=True, request=body, response=anthropic_stream("A *coat*.")
    )
    text = page(admin, detail(exchange))
    assert "<em>coat</em>" in text
    assert "anthropic, streamed" in text


@pytest.mark.parametrize(
    ("request_body", "response"),
    [
        (b"not JSON at all", b"<html>a page</html>"),
        (b'{"messages": 7}', b'{"error": {"message": "no such model"}}'),
        ({"model": "fox", "messages": [{"role": "wizard", "content": {}}]}, b'data: {"half'),
        ("[" * 5000, "{" * 5000),
        (ASKED, b""),
        (b"", anthropic_stream("Hi")[:200]),
    ],
    ids=str,
)
@pytest.mark.parametrize("dialect", ["openai", "anthropic", "", "other"])
def test_what_cannot_be_read_as_messages_is_shown_as_it_was_kept(
    admin, key_row, request_body, response, dialect
):
    text = page(admin, detail(weather(key_row, dialect=dialect, request=request_body, response=response)))
    assert "as it was kept" in text


def test_an_exchange_without_content_says_so(admin, key_row):
    text = page(admin, detail(weather(key_row, keep="metadata")))
    assert "no content was kept" in text
    assert "Oslo" not in text
    assert "asked for by WeatherHook" in text


def test_a_long_request_shows_its_end_and_says_how_much_came_before(admin, key_row):
    messages = [{"role": "user", "content": f"Question {n}."} for n in range(450)]
    text = page(admin, detail(weather(key_row, request={"model": "fox", "messages": messages}, rounds=[])))
    assert "Question 449." in text
    assert "Question 349." not in text.split("as it was kept")[0]
    assert "350 earlier messages" in text


def test_the_calls_that_ran_here_are_on_the_page(admin, key_row):
    exchange = weather(key_row)
    call = ExchangeCall.objects.create(
        exchange_id=exchange.public_id, call_id="c1", name="send_email", state="failed", error_code="timeout",
        arguments='{"to": "ada"}', key=key_row,
    )  # fmt: skip
    text = page(admin, detail(exchange))
    assert "send_email" in text
    assert "failed (timeout)" in text
    address = reverse("admin:gateway_exchangecall_change", args=[call.pk])
    assert address in text
    shown = page(admin, address)
    assert "&quot;to&quot;: &quot;ada&quot;" in shown
    assert detail(exchange) in shown
    assert "send_email" in page(admin, reverse("admin:gateway_exchangecall_changelist"))


def test_without_a_renderer_it_is_plain_text(admin, key_row, settings):
    settings.GATEWAY_RENDERER = ""
    text = page(admin, detail(weather(key_row)))
    assert "What should I wear in **Oslo**?" in text
    assert "→ get_weather({&quot;city&quot;: &quot;Oslo&quot;})" in text
    assert "<strong>Oslo" not in text


@pytest.mark.parametrize(
    "path", ["nowhere.at_all", "chatsite.gateway.nothing", "chatsite.gateway.conf.DEFAULTS"]
)
def test_a_renderer_that_is_none_stops_the_start(settings, path):
    from chatsite.gateway.checks import renderer_is_there

    settings.GATEWAY_RENDERER = path
    [error] = renderer_is_there()
    assert path in error.msg


# -- the list ------------------------------------------------------------------------------------------------


def test_the_list_shows_what_each_request_came_to(admin, key_row):
    weather(key_row)
    weather(None, request_id="req-2", status=502, error_code="provider_unavailable", rounds=[])
    text = page(admin, listing())
    cells = {
        re.sub(r"<[^>]*>", "", cell) for cell in re.findall(r"<t[dh] class=\"field-[^>]*>(.*?)</t[dh]>", text)
    }
    assert {"req-1", "req-2", "200", "502", "provider_unavailable", "fox", "laptop", "ada", "2"} <= cells
    assert {"2,200 in, 50 out", "0.75", "1.5 s"} <= cells


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ({"status": "502"}, ["req-2"]),
        ({"status": "404"}, []),
        ({"status": "9" * 30}, []),
        ({"status": "x"}, []),
        ({"model": "owl"}, ["req-2"]),
        ({"key": "laptop"}, ["req-1"]),
        ({"key": "tl-"}, []),
        ({"user": "ada"}, ["req-1"]),
        ({"q": "req-2"}, ["req-2"]),
        ({"q": "req"}, []),
        ({"since": "2999-01-01"}, []),
        ({"since": "today"}, ["req-2", "req-1"]),
    ],
    ids=str,
)
def test_exchanges_are_found_by_filter_and_request_id(admin, key_row, query, found):
    weather(key_row)
    weather(None, request_id="req-2", status=502, model="owl", rounds=[])
    if query.get("since") == "today":
        query = {"since": f"{Exchange.objects.earliest('created_at').created_at:%Y-%m-%d}"}
    text = page(admin, listing(**query))
    assert re.findall(r"field-short_id\"><a [^>]*>([^<]*)</a>", text) == found


def test_a_key_leads_to_its_exchanges(admin, key_row):
    weather(key_row)
    weather(None)
    assert rows_in(page(admin, listing(key__id__exact=key_row.pk))) == 1


def test_the_queries_of_list_and_page_do_not_grow(admin, person, key_row, django_assert_max_num_queries):
    for _ in range(30):
        weather(key_row)
    with django_assert_max_num_queries(9):
        page(admin, listing())
    many = weather(key_row, rounds=[RoundRecord(endpoint="main", dialect="openai") for _ in range(40)])
    page(admin, detail(many))  # gives its reason
    with django_assert_max_num_queries(20):  # eleven of them write the audit log
        page(admin, detail(many))


@pytest.mark.slow
def test_ten_thousand_exchanges_are_a_page_of_fifty(admin, key_row, django_assert_max_num_queries):
    rows.insert(
        [
            ExchangeRecord(
                request_id=f"r{n}", key_pk=key_row.pk, user_id=key_row.user_id, model=f"m{n % 5}",
                status=200 + n % 3, response="x" * 2000,
            )
            for n in range(10_000)
        ]
    )  # fmt: skip
    for query in ({}, {"model": "m1"}, {"status": "201"}, {"key": "laptop"}, {"p": "100"}):
        with django_assert_max_num_queries(9):
            text = page(admin, listing(**query))
        assert rows_in(text) == 50
        assert len(text) < 150_000


# -- who may, and what stays text ----------------------------------------------------------------------------


def test_what_was_said_takes_a_permission_and_a_reason_and_is_on_record(staff, key_row):
    exchange = weather(key_row)
    kept = reverse("admin:gateway_exchange_kept", args=[exchange.pk, "request"])
    staff.user_permissions.add(Permission.objects.get(codename="view_exchange"))
    client = logged_in(staff)
    text = page(client, detail(exchange))
    assert "2,200 in, 50 out" in text
    assert "Oslo" not in text
    assert "<em>light</em>" not in text
    assert client.get(kept).status_code == 403
    staff.user_permissions.add(Permission.objects.get(codename="view_transcript"))
    for url in (detail(exchange), kept):
        assert 'name="reason"' in client.get(url).text
    assert "Oslo" in client.post(detail(exchange), {"reason": "A complaint."}, follow=True).text
    assert "Oslo" in client.get(kept).text
    said = [
        (row.subject, row.reason, row.facts["page"])
        for row in Entry.objects.filter(action="exchange.opened").order_by("number")
    ]
    name = f"exchange {exchange.public_id}"
    assert said == [(name, "A complaint.", "exchange"), (name, "A complaint.", "kept request")]


def test_an_exchange_without_content_needs_no_reason(staff, key_row):
    exchange = weather(key_row, keep="metadata")
    staff.user_permissions.add(Permission.objects.get(codename="view_exchange"))
    text = logged_in(staff).get(detail(exchange)).text
    assert "no content was kept" in text
    assert "Round 2" in text


def test_a_calls_arguments_are_as_closed_as_their_exchange(staff, key_row):
    row = ExchangeCall.objects.create(
        exchange_id="x1", call_id="c1", name="look", arguments='{"city": "Oslo"}'
    )
    staff.user_permissions.add(Permission.objects.get(codename="view_exchangecall"))
    client = logged_in(staff)
    url = reverse("admin:gateway_exchangecall_change", args=[row.pk])
    assert client.get(url).status_code == 403
    staff.user_permissions.add(Permission.objects.get(codename="view_transcript"))
    assert "Oslo" not in client.get(url).text
    assert "Oslo" in client.post(url, {"reason": "A complaint."}, follow=True).text


def addresses(exchange: Exchange) -> list[str]:
    return [
        listing(),
        detail(exchange),
        reverse("admin:gateway_exchange_kept", args=[exchange.pk, "request"]),
        reverse("admin:gateway_round_kept", args=[exchange.pk, 1, "response"]),
        reverse("admin:gateway_exchangecall_changelist"),
        reverse(HOOKS),
    ]


def test_staff_without_the_permission_see_none_of_it(staff, key_row):
    client = logged_in(staff)
    for url in addresses(weather(key_row)):
        page(client, url, 403)
    staff.user_permissions.add(Permission.objects.get(codename="view_exchange"))
    exchange = Exchange.objects.get()
    page(client, detail(exchange))
    page(client, reverse(HOOKS), 403)


def test_others_are_asked_to_log_in(person, key_row):
    for client in (Client(), logged_in(person)):
        for url in addresses(weather(key_row)):
            answer = client.get(url)
            assert answer.status_code == 302
            assert answer.url.startswith(reverse("admin:login"))


def test_not_even_a_superuser_can_change_add_or_delete(admin, key_row):
    exchange = weather(key_row)
    assert admin.post(detail(exchange), {"status": 500}).status_code == 403
    assert admin.post(reverse("admin:gateway_exchange_add"), {}).status_code == 403
    assert (
        admin.post(reverse("admin:gateway_exchange_delete", args=[exchange.pk]), {"post": "yes"}).status_code
        == 403
    )
    assert admin.post(reverse(HOOKS), {}).status_code == 403
    assert admin.get(reverse("admin:gateway_loadedhook_add")).status_code == 403
    for url in (
        reverse("admin:gateway_loadedhook_change", args=["1"]),
        reverse("admin:gateway_exchange_change", args=["x"]),
    ):
        assert admin.get(url).status_code in {302, 404}
    assert Exchange.objects.get().status == 200


def test_what_came_from_outside_stays_text_everywhere(admin, person, monkeypatch, settings):
    keys.new_api_key(person, label=HOSTILE)
    body = {"model": HOSTILE, "messages": [{"role": "user", "content": HOSTILE}]}
    call = {"id": HOSTILE, "type": "function", "function": {"name": HOSTILE, "arguments": HOSTILE}}
    bad = RoundRecord(
        endpoint=HOSTILE, model=HOSTILE, dialect="openai", depth=1, asked_by=HOSTILE, error_code=HOSTILE,
        stop_reason=HOSTILE, request=body, response=openai_answer({"content": HOSTILE, "tool_calls": [call]}),
    )  # fmt: skip
    exchange = weather(
        ApiKey.objects.get(), request_id=HOSTILE, model=HOSTILE, error_code=HOSTILE, request=body,
        response=openai_answer({"content": HOSTILE}), rounds=[bad],
    )  # fmt: skip
    ExchangeCall.objects.create(
        exchange_id=exchange.public_id, call_id=HOSTILE, name=HOSTILE, error_code=HOSTILE
    )
    with_hook(monkeypatch, settings, HOSTILE)
    for renderer in ("chatsite.chat.render.fragments.render_messages", ""):
        settings.GATEWAY_RENDERER = renderer
        page(admin, detail(exchange))  # gives its reason
        for url in (*addresses(exchange), listing(model=HOSTILE, key=HOSTILE, q=HOSTILE)):
            answer = admin.get(url)
            if answer.headers["Content-Type"].startswith("text/html"):
                assert "<script>alert" not in answer.text, url
                assert "<img src=x" not in answer.text, url


def test_no_page_needs_anything_inline_or_from_elsewhere(admin, key_row, monkeypatch, settings):
    with_hook(monkeypatch, settings, "a tool")
    for url in (listing(), detail(weather(key_row)), reverse(HOOKS)):
        text = page(admin, url)
        assert "<style" not in text, url
        assert not re.search(r"<[^>]* (style|on\w+)=", text), url
        assert not re.search(r"<script(?![^>]* src=)", text), url
        assert not re.search(r"(src|href)=\"?(https?:)?//", text), url


# -- hooks ---------------------------------------------------------------------------------------------------


def with_hook(monkeypatch, settings, tool: str) -> None:
    class Weather(BaseHook):
        serves = frozenset({tool})
        timeout = 12.5

    settings.GATEWAY_HOOKS = ["my_module.my_hook"]
    monkeypatch.setattr("chatsite.gateway.admin.hooks.loaded_hooks", lambda: (Weather(),))


def test_the_loaded_hooks_are_shown_in_their_order_with_what_they_serve(admin, monkeypatch, settings):
    with_hook(monkeypatch, settings, "get_weather")
    text = page(admin, reverse(HOOKS))
    assert text.index("GATEWAY_TOOLS</code></td>") < text.index("my_module.my_hook")
    for cell in (
        "<td>1</td>",
        "<td>2</td>",
        "Weather",
        "get_weather",
        "12.5 s",
        "my_module.my_hook",
        "test_admin.py",
    ):
        assert cell in text
    assert reverse(HOOKS) in page(admin, reverse("admin:index"))


def test_without_hooks_the_page_says_so(admin, settings, monkeypatch):
    settings.GATEWAY_HOOKS = []
    monkeypatch.setattr("chatsite.gateway.admin.hooks.server_tools", lambda: ServerTools(ToolRegistry()))
    loading.loaded_hooks.cache_clear()
    assert "None is loaded." in page(admin, reverse(HOOKS))


def test_hooks_that_cannot_be_loaded_are_said_and_no_500(admin, settings):
    settings.GATEWAY_HOOKS = ["no_such_module.hook"]
    loading.loaded_hooks.cache_clear()
    try:
        assert "no_such_module" in page(admin, reverse(HOOKS))
    finally:
        loading.loaded_hooks.cache_clear()
