"""To read in the admin what somebody else wrote takes a permission and a reason, and is on record."""

from __future__ import annotations

import re

import pytest
from django.contrib.auth.models import Permission, User
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from agent.messages import FilePart, Message, TextPart
from chatsite.adminkit import reading
from chatsite.audit.models import Entry
from chatsite.chat.models import Attachment, Interrupt, Thread, ToolCall
from tests.chat.test_admin import MODELS, detail, listing, logged_in, say, transcript, weather

WHY = "Ada asked why her answer broke off."
VIEWS = [f"view_{model}" for model in (*MODELS, "interrupt", "runevent", "approvalrule")]
SECRETS = ("What should I wear", "San Francisco", "temperature", "Wear a light", "Weather in private")


@pytest.fixture
def thread(person: User) -> Thread:
    thread = weather(person, title="Weather in private")
    run = thread.runs.get()
    Interrupt.objects.create(
        public_id="i1", run=run, thread=thread, tool_call_id="c1", tool_name="get_weather",
        data={"city": "San Francisco"}, answered_at=timezone.now(),
    )  # fmt: skip
    return thread


@pytest.fixture
def clerk() -> User:
    clerk = User.objects.create_user("clerk", password="a long enough secret", is_staff=True)
    clerk.user_permissions.set(Permission.objects.filter(codename__in=VIEWS))
    return clerk


@pytest.fixture
def reader(clerk: User) -> Client:
    clerk.user_permissions.add(Permission.objects.get(codename="view_transcript"))
    return logged_in(clerk)


def pages_of(thread: Thread) -> list[str]:
    run = thread.runs.get()
    return [
        transcript(thread),
        reverse("admin:chat_run_events", args=[run.pk]),
        *(detail(row) for row in (thread.head, ToolCall.objects.get(), Interrupt.objects.get())),
    ]


def open_it(client: Client, url: str, reason: str = WHY) -> str:
    answer = client.post(url, {"reason": reason})
    assert answer.status_code == 302, answer.status_code
    return client.get(answer.url).text


def opened() -> list[tuple[str, str, str, str]]:
    rows = Entry.objects.filter(action="transcript.opened").order_by("number")
    return [(row.actor_name, row.subject, row.reason, row.facts["page"]) for row in rows]


def test_staff_who_may_view_all_rows_read_nothing_of_what_others_wrote(thread, clerk):
    client = logged_in(clerk)
    for url in pages_of(thread):
        assert client.get(url).status_code == 403, url
        assert client.post(url, {"reason": WHY}).status_code == 403, url
    rows = [*map(listing, MODELS), listing("interrupt"), detail(thread), detail(thread.runs.get())]
    for url in rows:
        answer = client.get(url)
        assert answer.status_code == 200, url
        for secret in SECRETS:
            assert secret not in answer.text, (url, secret)
    assert not opened()


def test_a_reason_is_asked_for_before_the_first_look_and_nothing_is_shown_before(thread, reader):
    for url in pages_of(thread):
        text = reader.get(url).text
        assert 'name="reason"' in text
        assert not any(secret in text for secret in SECRETS), url
        answer = reader.post(url, {"reason": "   "})
        assert answer.status_code == 400
        assert "Write in a few words" in answer.text
    assert not opened()


def test_each_opening_is_in_the_audit_log_with_who_whose_and_why(thread, reader):
    urls = pages_of(thread)
    assert "Wear a light" in open_it(reader, urls[0])
    for url in [*urls[1:], urls[0], f"{urls[0]}?q=wear", f"{urls[0]}?page=1"]:
        assert reader.get(url).status_code == 200
    pages = ["transcript", "events", "message", "toolcall", "interrupt", "transcript"]
    assert opened() == [("clerk", f"thread {thread.public_id}", WHY, page) for page in pages]
    assert all(row.door == "admin" for row in Entry.objects.filter(action="transcript.opened"))


def test_a_reason_holds_for_one_thread_and_for_half_an_hour(thread, reader, person, monkeypatch):
    other = weather(person, title="Another")
    assert "Wear a light" in open_it(reader, transcript(thread))
    assert 'name="reason"' in reader.get(transcript(other)).text
    now = reading.time.time()
    monkeypatch.setattr(reading.time, "time", lambda: now + reading.HOLDS - 5)
    assert "Wear a light" in reader.get(transcript(thread)).text
    monkeypatch.setattr(reading.time, "time", lambda: now + reading.HOLDS + 5)
    assert 'name="reason"' in reader.get(transcript(thread)).text


def test_a_reason_is_gone_with_the_permission(thread, reader, clerk):
    open_it(reader, transcript(thread))
    clerk.user_permissions.remove(Permission.objects.get(codename="view_transcript"))
    assert reader.get(transcript(thread)).status_code == 403
    assert "Wear a light" not in reader.get(listing("message")).text


def test_what_messages_say_is_in_their_list_once_their_thread_is_open(thread, reader, person):
    other = weather(person)
    say(other, None, Message("z", "user", (TextPart("Of another thread"),)))
    assert "Wear a light" not in reader.get(listing("message")).text
    open_it(reader, transcript(thread))
    text = reader.get(listing("message")).text
    assert "Wear a light" in text
    assert "Of another thread" not in text


def test_titles_are_shown_to_whoever_may_read_transcripts(thread, reader):
    for url in (listing("thread"), listing("run"), detail(thread)):
        assert "Weather in private" in reader.get(url).text, url


def test_nobody_needs_a_reason_for_what_is_their_own(clerk):
    own = weather(clerk, title="My own")
    client = logged_in(clerk)
    assert "Wear a light" in client.get(transcript(own)).text
    assert "My own" in client.get(listing("thread")).text
    assert not opened()


def test_a_file_of_the_thread_is_as_closed_as_the_thread(thread, reader, clerk, settings, tmp_path):
    settings.ATTACHMENTS_DIR = tmp_path
    row = Attachment.objects.create(
        public_id="f1", owner=thread.owner, name="a.txt", mime_type="text/plain", size=1, digest="0" * 64
    )
    row.threads.add(thread)
    say(thread, None, Message("f", "user", (FilePart("text/plain", url="attachment:f1"),)))
    url = reverse("admin:chat_thread_attachment", args=[thread.pk, "f1"])
    assert 'name="reason"' in reader.get(url).text
    open_it(reader, transcript(thread))
    assert reader.get(url).status_code == 404  # its content is not there, but the door is open
    assert opened()[-1][-1] == "attachment f1"
    assert reader.get(reverse("admin:chat_thread_attachment", args=[2**70, "f1"])).status_code == 404
    clerk.user_permissions.remove(Permission.objects.get(codename="view_transcript"))
    assert reader.get(url).status_code == 403


def test_the_form_comes_back_to_the_address_it_was_asked_at_and_needs_its_token(thread, clerk):
    clerk.user_permissions.add(Permission.objects.get(codename="view_transcript"))
    client = Client(enforce_csrf_checks=True)
    client.force_login(clerk)
    url = f"{transcript(thread)}?run={thread.runs.get().pk}"
    assert client.post(url, {"reason": WHY}).status_code == 403
    token = re.search(r'name="csrfmiddlewaretoken" value="([^"]+)"', client.get(url).text)
    assert token
    answer = client.post(url, {"reason": WHY, "csrfmiddlewaretoken": token[1]})
    assert (answer.status_code, answer.url) == (302, url)


def test_a_search_within_a_thread_finds_words_calls_and_results(thread, reader):
    open_it(reader, transcript(thread))
    run = thread.runs.get()
    for query, role in (("WEAR A", "assistant"), ("san franc", "assistant"), ("temperature", "tool")):
        text = reader.get(transcript(thread, q=query)).text
        assert f'<li><a href="?run={run.pk}#run-{run.pk}">{role}</a>' in text, query
    assert "Nothing found" in reader.get(transcript(thread, q="<b>pangolin")).text
