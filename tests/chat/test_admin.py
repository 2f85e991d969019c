"""Django admin: everything is seen, nothing is changed, and a page costs what it shows."""

from __future__ import annotations

import asyncio
import re
from datetime import UTC, datetime, timedelta

import pytest
from django.contrib.auth.models import Permission, User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from agent.messages import Message as MessageValue
from agent.messages import TextPart, ToolCallPart, ToolResultPart, user_message
from agent.providers.scripted import Turn
from chatsite.adminkit import base
from chatsite.adminkit.filters import distinct_values
from chatsite.chat import commands, db
from chatsite.chat.admin.subjects import short_id
from chatsite.chat.commands.values import Retry, Send
from chatsite.chat.models import ApprovalRule, Interrupt, Message, Run, RunEvent, Thread, ToolCall
from chatsite.chat.rows import values
from tests.chat.conftest import until

HOSTILE = "</pre><script>alert('x')</script><img src=x onerror=alert(1)>"
MODELS = ["thread", "run", "message", "toolcall"]


@pytest.fixture
def admin(db) -> Client:
    return logged_in(User.objects.create_superuser("root", password="a long enough secret"))


@pytest.fixture
def staff() -> User:
    return User.objects.create_user("clerk", password="a long enough secret", is_staff=True)


def logged_in(who: User) -> Client:
    client = Client()
    client.force_login(who)
    return client


def weather(
    owner: User, *, city: str = "San Francisco", title: str = "Weather", model: str = "fox-1"
) -> Thread:
    """A thread with one whole run: a call, its result, an answer that was cut off."""
    thread = Thread.objects.create(owner=owner, title=title, model=model)
    run = Run.objects.create(
        thread=thread, state="finished", stop_reason="length", finish_reason="length", model=model, turns=2,
        usage=[{"inputTokens": 1200, "outputTokens": 34}], finished_at=timezone.now() + timedelta(seconds=3),
    )  # fmt: skip
    call = ToolCallPart("c1", "get_weather", f'{{"city": "{city}"}}')
    facts = {"model": model, "usage": {"inputTokens": 1100, "outputTokens": 17}, "durationMs": 1400}
    say(thread, run, user_message("q", "What should I wear?"))
    say(thread, run, MessageValue("a1", "assistant", (call,), "tool_calls", facts))
    say(thread, run, MessageValue("t1", "tool", (ToolResultPart("c1", '{"temperature": 62}'),)))
    say(thread, run, MessageValue("a2", "assistant", (TextPart("Wear a light"),), "length", facts))
    ToolCall.objects.create(
        run=run, call_id="c1", name="get_weather", state="done", arguments=call.arguments, duration_ms=12
    )
    return thread


def say(thread: Thread, run: Run | None, message: MessageValue) -> Message:
    row = values.row_of(message, thread_id=thread.pk, run_id=run and run.pk, parent_id=thread.head_id)
    row.save(force_insert=True)
    thread.head = row
    thread.save()
    return row


def many_threads(owner: User, count: int) -> list[Thread]:
    """Threads with a run, a message and a call each, without the cost of making them one by one."""
    threads = Thread.objects.bulk_create(Thread(owner=owner, title=f"Thread {n}") for n in range(count))
    runs = Run.objects.bulk_create(
        Run(thread=thread, state="finished", stop_reason="stop", model=f"m{n % 3}")
        for n, thread in enumerate(threads)
    )
    Message.objects.bulk_create(
        Message(
            public_id="a", thread=run.thread, run=run, role="assistant", text="Hello", finish_reason="stop"
        )
        for run in runs
    )
    ToolCall.objects.bulk_create(ToolCall(run=run, call_id="c", name="get_weather") for run in runs)
    return threads


def listing(model: str, /, **query: object) -> str:
    return reverse(f"admin:chat_{model}_changelist", query=query or None)


def detail(row: object) -> str:
    return reverse(f"admin:chat_{row._meta.model_name}_change", args=[row.pk])


def transcript(thread: Thread, /, **query: object) -> str:
    return reverse("admin:chat_thread_transcript", args=[thread.pk], query=query or None)


def page(client: Client, url: str, status: int = 200) -> str:
    """The page of that address; where a reason is asked for, one is given."""
    answer = client.get(url)
    if 'class="loom-reason"' in answer.text:
        answer = client.post(url, {"reason": "a test"}, follow=True)
    assert answer.status_code == status, (url, answer.status_code)
    return answer.text


def rows_in(text: str) -> int:
    return text.split("<tbody>", 1)[1].count("<tr>") if "<tbody>" in text else 0


# -- everything is seen --------------------------------------------------------------------------------------


@pytest.mark.parametrize("model", MODELS)
def test_an_admin_sees_each_list_and_each_row(model, admin, person, key):
    thread = weather(person)
    rows = {
        "thread": thread, "run": thread.runs.get(), "message": thread.head,
        "toolcall": ToolCall.objects.get(),
    }  # fmt: skip
    assert rows_in(page(admin, listing(model))) >= 1
    text = page(admin, detail(rows[model]))
    assert "Threadloom administration" in text
    assert "Save" not in text


def test_every_finish_reason_is_in_the_list_of_messages_and_in_the_transcript(admin, person):
    thread = Thread.objects.create(owner=person, title="All ends")
    run = Run.objects.create(thread=thread, state="failed", stop_reason="bad_stream", error_code="bad_stream")
    reasons = ["stop", "length", "content_filter", "tool_calls", None]
    for number, reason in enumerate(reasons):
        say(thread, run, MessageValue(f"a{number}", "assistant", (TextPart("Hi"),), reason))
    for text in (page(admin, listing("message")), page(admin, transcript(thread))):
        for reason in reasons:
            assert re.search(rf"<(td[^>]*|code)>{reason or 'none: it broke off'}<", text), reason


def test_the_transcript_shows_what_was_said_done_and_counted(admin, person):
    thread = weather(person)
    text = page(admin, transcript(thread))
    for shown in (
        "What should I wear?", "get_weather", "San Francisco", "temperature", "Wear a light", "finished",
        "length", "tool_calls", "fox-1", "1,100 in, 17 out", "1,200 in, 34 out", "1.4 s", "3.0 s",
        person.username,
    ):  # fmt: skip
        assert shown in text, shown
    for row in (thread, thread.runs.get(), thread.head):
        assert detail(row) in text


def test_the_lists_say_what_became_of_each(admin, person):
    thread = weather(person)
    for model, cells in {
        "thread": ["ada", "fox-1", "finished", "cut off by the output limit", "4"],
        "run": [
            "ada",
            "Weather",
            "finished",
            "cut off by the output limit",
            "fox-1",
            "2",
            "1",
            "3.0 s",
            "page",
        ],
        "message": ["Wear a light", "Assistant", "tool_calls", "length", "fox-1", "Weather"],
        "toolcall": ["get_weather", "done", "12 ms", short_id(thread.runs.get().public_id)],
    }.items():
        page(admin, transcript(thread))  # what messages say is in their list once that is open
        shown = cells_in(page(admin, listing(model)))
        assert set(cells) <= shown, (model, shown)


def cells_in(text: str) -> set[str]:
    cells = re.findall(r"<t[dh] class=\"field-[^>]*>(.*?)</t[dh]>", text)
    return {re.sub(r"<[^>]*>", "", cell) for cell in cells}


def test_a_thread_its_runs_messages_and_calls_lead_to_each_other(admin, person):
    thread, other = weather(person), weather(person)
    run = thread.runs.get()
    text = page(admin, detail(thread))
    assert transcript(thread) in text
    for model, lookup, expected in (
        ("run", "thread__id__exact", 1), ("message", "thread__id__exact", 4),
        ("toolcall", "run__thread__id__exact", 1),
    ):  # fmt: skip
        url = listing(model, **{lookup: thread.pk})
        assert url in text
        assert rows_in(page(admin, url)) == expected
    text = page(admin, detail(run))
    assert transcript(thread, run=run.pk) in text
    assert reverse("admin:chat_run_events", args=[run.pk]) in text
    for model, expected in (("message", 4), ("toolcall", 1)):
        url = listing(model, run__id__exact=run.pk)
        assert url in text
        assert rows_in(page(admin, url)) == expected
    assert detail(other.runs.get()) not in page(admin, listing("run", thread__id__exact=thread.pk))


def test_json_is_set_out_in_lines(admin, person):
    thread = weather(person)
    assert "&quot;inputTokens&quot;: 1100,\n" in page(admin, detail(thread.head))
    assert "&quot;outputTokens&quot;: 34\n" in page(admin, detail(thread.runs.get()))
    assert "{\n  &quot;city&quot;: &quot;San Francisco&quot;\n}" in page(
        admin, detail(ToolCall.objects.get())
    )


def test_a_very_long_value_is_shown_in_part(admin, person):
    thread = Thread.objects.create(owner=person)
    row = say(thread, None, user_message("q", "x" * 2_000_000))
    text = page(admin, detail(row))
    assert "1,900,000 characters more" in text
    assert len(page(admin, listing("message"))) < 100_000


def test_a_transcript_has_fifty_runs_a_page_and_a_run_is_found_on_its_own(admin, person):
    thread = Thread.objects.create(owner=person, title="Long")
    for number in range(53):
        run = Run.objects.create(thread=thread, state="finished", stop_reason="stop")
        say(thread, run, user_message(f"q{number}", f"Question {number}."))
    first = page(admin, transcript(thread))
    assert first.count('class="loom-run"') == 50
    assert "Question 49." in first
    assert "Question 50." not in first
    for query in ({"page": 2}, {"run": run.pk}, {"page": 99}):
        last = page(admin, transcript(thread, **query))
        assert last.count('class="loom-run"') == 3
        assert f'id="run-{run.pk}"' in last
    assert "Question 0." in page(admin, transcript(thread, page="nonsense", run="nonsense"))


def test_answers_that_left_the_active_branch_are_counted_and_linked(admin, person):
    thread = weather(person)
    question = Message.objects.get(public_id="q")
    for number in range(2):
        run = Run.objects.create(thread=thread, state="finished", stop_reason="stop")
        thread.head = question
        question.run = run
        question.save()
        say(thread, run, MessageValue(f"again{number}", "assistant", (TextPart(f"Try {number}"),), "stop"))
    text = page(admin, transcript(thread))
    assert "Try 1" in text
    assert "Wear a light" not in text
    assert "2 other answers" in text
    assert "3 (2 off the active branch)" in text
    beside = listing("message", parent__id__exact=question.pk)
    assert beside in text
    assert rows_in(page(admin, beside)) == 3


def test_an_empty_thread_has_a_transcript_page(admin, person):
    thread = Thread.objects.create(owner=person)
    assert "Nothing has been said" in page(admin, transcript(thread))


def test_there_is_no_page_for_what_does_not_exist(admin):
    assert admin.get("/admin/chat/thread/999/transcript/").status_code == 404
    assert admin.get("/admin/chat/run/999/events/").status_code == 404
    assert admin.get(f"/admin/chat/thread/{10**30}/transcript/").status_code == 404


# -- real runs -----------------------------------------------------------------------------------------------


async def test_the_event_log_replays_a_run_in_order(admin, person, plays, settled):
    plays(Turn(calls=[("c1", "get_weather", {"city": "Oslo"})]), Turn("one two three four", delta_size=3))
    done = await commands.begin_thread(person, Send(text="Weather?"), door="page")
    await settled()
    text = await db.read(page, admin, reverse("admin:chat_run_events", args=[done.run.pk]))
    kept = await db.read(lambda: list(RunEvent.objects.filter(run=done.run).order_by("number")))
    shown = re.findall(r"<td><code>(\w+)</code></td>", text)
    assert shown == [row.type for row in kept]
    assert shown[0] == "RUN_STARTED"
    assert shown[-1] == "RUN_FINISHED"
    line = next(row for row in kept if row.first < row.number)
    assert f"<td>{line.first}–{line.number}</td>" in text
    assert "one two three four" in text

    text = await db.read(page, admin, transcript(done.thread))
    assert "<code>tool_calls</code>" in text
    assert "<code>stop</code>" in text


async def test_a_run_at_work_is_shown_as_far_as_it_is(admin, person, plays, settled):
    gate = asyncio.Event()
    provider = plays(Turn("The first half, the second half.", delta_size=4, gate=gate), Turn("Again."))
    done = await commands.begin_thread(person, Send(text="Go"), door="page")
    await until(lambda: provider.requests)
    text = ""
    while "The first half" not in text:
        text = await db.read(page, admin, transcript(done.thread))
    assert '<span class="loom-state running">at work</span>' in text
    assert "<code>still open</code>" in text
    gate.set()
    await settled()
    await commands.perform(person, done.thread.public_id, Retry(), door="page")
    await settled()
    text = await db.read(page, admin, transcript(done.thread))
    assert "Again." in text
    assert "1 other answer<" in text


def test_a_long_event_log_is_paged(admin, person):
    run = weather(person).runs.get()
    RunEvent.objects.bulk_create(
        RunEvent(run=run, first=n, number=n, type="CUSTOM", data={"type": "CUSTOM", "name": f"event-{n}"})
        for n in range(1, 251)
    )
    url = reverse("admin:chat_run_events", args=[run.pk])
    assert "event-200" in page(admin, url)
    assert "event-201" not in page(admin, url)
    assert "event-250" in page(admin, f"{url}?page=2")


# -- nothing is changed, and not everybody sees --------------------------------------------------------------


def test_not_even_a_superuser_can_change_add_or_delete(admin, person, key):
    thread = weather(person)
    for row in (thread, thread.runs.get(), thread.head, ToolCall.objects.get()):
        model = row._meta.model_name
        assert admin.post(detail(row), {"title": "Changed", "text": "Changed"}).status_code == 403
        assert admin.post(reverse(f"admin:chat_{model}_add"), {}).status_code == 403
        assert admin.get(reverse(f"admin:chat_{model}_add")).status_code == 403
        assert (
            admin.post(reverse(f"admin:chat_{model}_delete", args=[row.pk]), {"post": "yes"}).status_code
            == 403
        )
        admin.post(listing(model), {"action": "delete_selected", "_selected_action": [row.pk], "post": "yes"})
        assert type(row).objects.filter(pk=row.pk).exists()
        assert not re.search(r"<(input|textarea|select)[^>]* name=\"(?!csrf)", page(admin, detail(row)))
    thread.refresh_from_db()
    assert thread.title == "Weather"


def test_to_delete_a_user_with_threads_is_refused(admin, person):
    weather(person)
    url = reverse("admin:auth_user_delete", args=[person.pk])
    assert admin.post(url, {"post": "yes"}).status_code == 403
    assert User.objects.filter(pk=person.pk).exists()


def test_staff_without_the_permission_get_403(staff, person, key):
    thread = weather(person)
    run = thread.runs.get()
    client = logged_in(staff)
    urls = [*map(listing, MODELS), detail(thread), detail(run), transcript(thread)]
    for url in [*urls, reverse("admin:chat_run_events", args=[run.pk])]:
        page(client, url, 403)
    staff.user_permissions.add(Permission.objects.get(codename="view_thread"))
    assert page(client, listing("thread"))
    page(client, transcript(thread), 403)
    page(client, reverse("admin:chat_run_events", args=[run.pk]), 403)


@pytest.mark.parametrize("who", ["nobody", "a person who is not staff"])
def test_others_are_asked_to_log_in(who, person):
    thread = weather(person)
    client = Client() if who == "nobody" else logged_in(person)
    for url in (transcript(thread), reverse("admin:chat_run_events", args=[thread.runs.get().pk])):
        answer = client.get(url)
        assert answer.status_code == 302
        assert answer.url.startswith(reverse("admin:login"))


# -- found by filter and search ------------------------------------------------------------------------------


FOUND = {
    "thread": [
        ({"state": "failed"}, 1),
        ({"state": "finished"}, 1),
        ({"stop_reason": "length"}, 1),
        ({"owner": "mallory"}, 1),
        ({"owner": "nobody"}, 0),
        ({"q": "mallory"}, 1),
        ({"q": "ada"}, 1),
    ],
    "run": [
        ({"state": "failed"}, 1),
        ({"stop_reason": "provider_error"}, 1),
        ({"model": "owl-2"}, 2),
        ({"tool": "get_weather"}, 2),
        ({"owner": "ada"}, 1),
        ({"error_code": "provider_error"}, 1),
        ({"error_code": ""}, 2),
        ({"q": "mallory"}, 2),
    ],
    "message": [
        ({"role": "tool"}, 2),
        ({"role": "user"}, 2),
        ({"finish_reason": "length"}, 2),
        ({"finish_reason": ""}, 1),
        ({"q": "half a sentence"}, 0),
    ],
    "toolcall": [
        ({"state": "done"}, 2),
        ({"name": "get_weather"}, 2),
        ({"error_code": ""}, 2),
        ({"q": "get_weather"}, 2),
        ({"q": "Reykjavik"}, 0),
    ],
}


@pytest.mark.parametrize("model", MODELS)
def test_filters_and_search_find_what_they_should_and_nothing_else(model, admin, person, stranger, key):
    weather(person, city="Oslo")
    thread = weather(stranger, city="Reykjavik", title="Pangolin", model="owl-2")
    failed = Run.objects.create(
        thread=thread, state="failed", stop_reason="provider_error", error_code="provider_error",
        door="api", model="owl-2",
    )  # fmt: skip
    say(thread, failed, MessageValue("broken", "assistant", (TextPart("half a sentence"),)))
    for query, found in FOUND[model]:
        assert rows_in(page(admin, listing(model, **query))) == found, query


def test_ids_are_found(admin, person):
    thread = weather(person)
    weather(person)
    run = thread.runs.get()
    assert rows_in(page(admin, listing("thread", q=thread.public_id))) == 1
    assert rows_in(page(admin, listing("run", q=run.public_id))) == 1
    assert rows_in(page(admin, listing("run", q=thread.public_id))) == 1
    assert rows_in(page(admin, listing("message", q=thread.public_id))) == 4
    assert rows_in(page(admin, listing("message", q=run.public_id))) == 4
    assert rows_in(page(admin, listing("toolcall", q=thread.public_id))) == 1


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ({"since": "2024-05-02"}, 3),
        ({"until": "2024-05-02"}, 3),
        ({"since": "2024-05-02", "until": "2024-05-02"}, 2),
        ({"since": "2024-13-45", "until": "0001-01-01"}, 4),
        ({"since": "soon", "until": "9999-12-31"}, 4),
    ],
)
def test_days_are_typed_in_and_hold_at_both_ends(query, found, admin, person):
    for day, hour, minute in ((1, 23, 59), (2, 0, 0), (2, 23, 59), (3, 0, 0)):
        Thread.objects.create(owner=person, created_at=datetime(2024, 5, day, hour, minute, tzinfo=UTC))
    assert rows_in(page(admin, listing("thread", **query))) == found


def test_filters_offer_what_there_is(admin, person):
    weather(person)
    run = weather(person, model="owl-2").runs.get()
    ToolCall.objects.create(run=run, call_id="c2", name="own_tool", state="failed", error_code="own_code")
    cut, limited = "cut off by the output limit", "rate limit of the model&#x27;s service"
    assert {cut, "failed"} <= choices_in(page(admin, listing("thread")))
    assert {"fox-1", "owl-2", cut, "failed", "get_weather", limited} <= choices_in(
        page(admin, listing("run"))
    )
    assert {"get_weather", "own_tool", "own_code", "timed out"} <= choices_in(
        page(admin, listing("toolcall"))
    )


def choices_in(text: str) -> set[str]:
    return {
        text.strip().lower()
        for text in re.findall(r"<li[^>]*>\s*<a href=\"\?[^\"]*\">([^<]*)</a></li>", text)
    }


def test_a_typed_filter_keeps_the_others(admin, person):
    weather(person)
    text = page(admin, listing("thread", state="finished", owner="ada", q="ada"))
    form = text.split('class="loom-filter"', 1)[1].split("</form>", 1)[0]
    assert '<input type="hidden" name="state" value="finished">' in form
    assert '<input type="hidden" name="q" value="ada">' in form
    assert 'name="owner" value="ada"' in form
    assert form.count('name="owner"') == 1


def test_a_list_of_choices_has_an_end(admin, person):
    run = weather(person).runs.get()
    ToolCall.objects.bulk_create(ToolCall(run=run, call_id=f"x{n}", name=f"tool-{n:03}") for n in range(200))
    assert distinct_values(ToolCall, "name") == ["get_weather", *(f"tool-{n:03}" for n in range(49))]
    assert "tool-150" in choices_in(page(admin, listing("toolcall", name="tool-150")))


def test_nonsense_in_the_address_is_no_error(admin, person):
    weather(person)
    for model in MODELS:
        for query in (
            "?page=x",
            "?p=99999",
            "?state=%00",
            "?q=%00",
            "?model=%27%22%3E",
            "?since=%00",
            "?o=-9.x",
        ):
            assert admin.get(listing(model) + query, follow=True).status_code == 200, (model, query)


# -- a page costs what it shows ------------------------------------------------------------------------------


@pytest.mark.parametrize("model", ["thread", "run", "message", "toolcall"])
def test_the_queries_of_a_list_do_not_grow_with_its_rows(model, admin, person, django_assert_max_num_queries):
    many_threads(person, 200)
    with django_assert_max_num_queries(12):
        assert rows_in(page(admin, listing(model))) == 50


def test_the_queries_of_a_transcript_do_not_grow_with_its_runs(admin, person, django_assert_max_num_queries):
    thread = Thread.objects.create(owner=person)
    for number in range(60):
        run = Run.objects.create(thread=thread, state="finished", stop_reason="stop")
        say(thread, run, user_message(f"q{number}", "Hi"))
        say(thread, run, MessageValue(f"a{number}", "assistant", (TextPart("Hi"),), "stop"))
    page(admin, transcript(thread))  # gives its reason
    with django_assert_max_num_queries(24):  # twelve of them write the audit log
        page(admin, transcript(thread))


@pytest.mark.slow
def test_five_thousand_rows_are_a_page_of_fifty(admin, person, django_assert_max_num_queries):
    many_threads(person, 5_000)
    for model in ("thread", "run", "message", "toolcall"):
        for query in ({}, {"p": 50}, {"all": ""}, {"q": "ada"}):
            with django_assert_max_num_queries(12):
                text = page(admin, listing(model, **query))
            found = "q" not in query or model in ("thread", "run")
            assert rows_in(text) == (50 if found else 0)
            assert "5000 " in text or not found


def test_the_last_run_is_the_one_that_is_shown(admin, person):
    thread = weather(person)
    Run.objects.create(thread=thread, state="cancelled", stop_reason="cancelled")
    text = page(admin, listing("thread"))
    assert ">stopped</a>" in text
    assert rows_in(page(admin, listing("thread", state="finished"))) == 0
    assert rows_in(page(admin, listing("thread", state="cancelled", stop_reason="cancelled"))) == 1


# -- hostile text, strict pages ------------------------------------------------------------------------------


def test_hostile_text_is_inert_everywhere(admin, person):
    thread = Thread.objects.create(owner=person, title=HOSTILE, model=HOSTILE)
    run = Run.objects.create(
        thread=thread, state="failed", stop_reason=HOSTILE[:100], error=HOSTILE, error_code=HOSTILE,
        model=HOSTILE, door="page", usage=[{"model": HOSTILE}],
    )  # fmt: skip
    say(thread, run, user_message("q", HOSTILE))
    call = ToolCallPart("c", HOSTILE, HOSTILE)
    facts = {"model": HOSTILE, "providerReason": HOSTILE, "usage": HOSTILE, "durationMs": HOSTILE}
    say(thread, run, MessageValue("a", "assistant", (TextPart(HOSTILE), call), "stop", facts))
    say(thread, run, MessageValue("t", "tool", (ToolResultPart("c", HOSTILE, error=HOSTILE),)))
    kept = ToolCall.objects.create(run=run, call_id="c", name=HOSTILE, arguments=HOSTILE, error_code=HOSTILE)
    RunEvent.objects.create(
        run=run, first=1, number=1, type="CUSTOM", data={"type": "CUSTOM", "value": HOSTILE}
    )
    urls = [
        *map(listing, MODELS), transcript(thread), reverse("admin:chat_run_events", args=[run.pk]),
        *map(detail, [thread, run, thread.head, kept]),
        listing("thread", q=HOSTILE, owner=HOSTILE, state=HOSTILE), listing("toolcall", name=HOSTILE),
    ]  # fmt: skip
    for url in urls:
        text = page(admin, url)
        assert "<script>alert" not in text, url
        assert "<img src=x" not in text, url


def test_no_page_needs_anything_inline_or_from_elsewhere(admin, person, key):
    thread = weather(person)
    run = thread.runs.get()
    urls = [*map(listing, MODELS), transcript(thread), reverse("admin:chat_run_events", args=[run.pk])]
    for url in [
        *urls,
        *map(detail, [thread, run, thread.head, ToolCall.objects.get()]),
    ]:
        answer = admin.get(url)
        assert "script-src 'self'" in answer.headers["Content-Security-Policy"]
        text = answer.text
        assert "<style" not in text, url
        assert not re.search(r"<[^>]* (style|on\w+)=", text), url
        assert not re.search(r"<script(?![^>]* src=)", text), url
        assert not re.search(r"(src|href)=\"?(https?:)?//", text), url


def test_the_stylesheets_of_the_pages_are_there(admin, person):
    from django.contrib.staticfiles import finders

    text = page(admin, transcript(weather(person))) + page(admin, listing("thread"))
    for name in ("chat/chat.css", "chat/code.css", "chat/admin.css"):
        assert name in text
        assert finders.find(name)


# -- questions to people -------------------------------------------------------------------------------------


def test_who_answered_what_when_and_by_which_door_is_seen_and_cannot_be_changed(admin, person):
    thread = weather(person, title="Mail")
    run = thread.runs.get()
    question = Interrupt.objects.create(
        public_id="i1", run=run, thread=thread, tool_call_id="c1", tool_name="send_email", status="approved",
        data={"id": "i1", "message": HOSTILE}, edited_arguments={"to": HOSTILE}, answered_by=person,
        answered_at=timezone.now(), door="api", resumed_by=run,
    )  # fmt: skip
    rule = ApprovalRule.objects.create(thread=thread, tool_name="send_email", created_by=person)
    for row in (question, rule):
        listed = page(admin, reverse(f"admin:chat_{row._meta.model_name}_changelist"))
        assert "send_email" in listed
        assert "ada" in listed
        address = reverse(f"admin:chat_{row._meta.model_name}_change", args=[row.pk])
        shown = page(admin, address)
        assert "<script>alert" not in shown
        assert admin.post(address, {"status": "open"}).status_code == 403
    assert "approved" in page(admin, reverse("admin:chat_interrupt_changelist"))


# -- very many rows ------------------------------------------------------------------------------------------


def test_a_list_counts_no_further_than_it_pages_and_says_so(admin, person, monkeypatch):
    many_threads(person, 120)
    monkeypatch.setattr(base, "MOST_COUNTED", 100)
    text = page(admin, listing("run"))
    assert "The newest 100 of more runs" in text
    assert rows_in(page(admin, listing("run", p=2))) == 50
    assert "of more" not in page(admin, listing("run", model="m1"))


def test_no_address_sorts_a_list_by_what_no_index_sorts(admin, person):
    many_threads(person, 3)
    with CaptureQueriesContext(connection) as asked:
        for place in range(20):
            page(admin, listing("run", o=place))
    orders = {
        re.sub(r".* ORDER BY ", "", each["sql"]) for each in asked if '"chat_run"."public_id"' in each["sql"]
    }
    columns = {name for order in orders for name in re.findall(r'"chat_run"\."(\w+)" (?:ASC|DESC)', order)}
    assert columns == {"created_at", "turns", "calls", "errors", "tokens", "cost", "duration_ms", "id"}
