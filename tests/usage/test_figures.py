"""What was used is counted once, day by day, whoever counts beside; and the page of it can be read by everybody."""

from __future__ import annotations

import re
import threading
import xml.etree.ElementTree as ET
from datetime import UTC, date, datetime, timedelta

import pytest
from django.contrib.auth.models import Permission, User
from django.db import connection
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from agent.messages import Usage
from chatsite.adminkit.sheets import safe
from chatsite.chat.counting import booking as chat_booking
from chatsite.chat.models import Run, Thread, ToolCall
from chatsite.gateway.recorder import recorder
from chatsite.gateway.records import ExchangeRecord, RoundRecord
from chatsite.usage.booking import book
from chatsite.usage.figures import figures_of
from chatsite.usage.models import Day
from chatsite.usage.tally import Tally, Use, percentile

PAGE = reverse("admin:usage_day_changelist")
HOSTILE = "</svg><script>alert(1)</script>"


def today() -> date:
    """Of this test, which may not be the day on which this file was read."""
    return datetime.now(UTC).date()


@pytest.fixture
def person(db) -> User:
    return User.objects.create_user("ada", password="a long enough secret")


@pytest.fixture
def admin(db) -> Client:
    client = Client()
    client.force_login(User.objects.create_superuser("root", password="a long enough secret"))
    return client


def tally(count: int = 1, *, ms: int = 100, **about: object) -> Tally:
    made = Tally()
    for _ in range(count):
        made.add(Use(today(), "chat", input_tokens=10, output_tokens=2, cost=0.5, ms=ms), **about)
    return made


def run(
    person: User, *, state: str = "finished", reason: str = "stop", ms: int = 1000, model: str = "fox-1"
) -> Run:
    ended = datetime.now(UTC)
    return Run.objects.create(
        thread=Thread.objects.create(owner=person), state=state, stop_reason=reason, model=model, duration_ms=ms,
        usage=[{"inputTokens": 100, "outputTokens": 20}], tokens=120, cost=0.25, created_at=ended, finished_at=ended,
    )  # fmt: skip


def totals() -> tuple[int, int, int, float]:
    amount = figures_of(today(), today()).total.sum
    return amount.count, amount.errors, amount.tokens, amount.cost


# -- counting ------------------------------------------------------------------------------------------------


def test_each_run_that_has_ended_is_counted_once(person):
    run(person)
    run(person, state="failed", reason="provider_error")
    going = run(person)
    Run.objects.filter(pk=going.pk).update(state="running", finished_at=None)
    assert chat_booking.step()
    assert not chat_booking.step()
    assert totals() == (2, 1, 240, 0.5)
    Run.objects.filter(pk=going.pk).update(state="finished", finished_at=timezone.now())
    assert chat_booking.step()
    assert totals() == (3, 1, 360, 0.75)
    figures = figures_of(today(), today())
    assert [(line.name, line.sum.count) for line in figures.models.lines] == [("fox-1", 3)]
    assert [(line.name, line.sum.count) for line in figures.users.lines] == [("ada", 3)]
    assert [(line.name, line.sum.count) for line in figures.ends.lines] == [
        ("stop", 2),
        ("provider_error", 1),
    ]


def test_a_call_counts_when_it_is_settled_also_by_a_later_run(person):
    first = run(person)
    call = ToolCall.objects.create(run=first, call_id="c1", name="send_email", state="waiting")
    ToolCall.objects.create(run=first, call_id="c2", name="look", state="failed", duration_ms=40)
    while chat_booking.step():
        pass
    assert [line.name for line in figures_of(today(), today()).tools.lines] == ["look"]
    ToolCall.objects.filter(pk=call.pk).update(state="done", finished_at=timezone.now(), duration_ms=60)
    second = run(person)
    Run.objects.filter(pk=second.pk).update(thread=first.thread)
    while chat_booking.step():
        pass
    tools = {
        line.name: (line.sum.count, line.sum.errors, line.mean)
        for line in figures_of(today(), today()).tools.lines
    }
    assert tools == {"look": (1, 1, 40), "send_email": (1, 0, 60)}


@pytest.mark.django_db(transaction=True)
def test_exchanges_of_the_gateway_are_counted_whatever_their_key_keeps(person):
    for status, keep in ((200, "off"), (200, "full"), (502, "metadata"), (499, "off")):
        recorder.note(
            ExchangeRecord(
                request_id="r",
                user_id=person.pk,
                model="fox",
                status=status,
                keep=keep,
                ms=90,
                usage=Usage(5, 1),
            )
        )
    assert recorder.flush()
    amount = figures_of(today(), today(), "gateway").total.sum
    assert (amount.count, amount.errors, amount.tokens) == (4, 1, 24)
    assert figures_of(today(), today(), "chat").total.sum.count == 0
    assert {line.name: line.sum.count for line in figures_of(today(), today()).ends.lines} == {
        "answered": 3,
        "left": 1,
    }


@pytest.mark.django_db(transaction=True)
def test_two_who_count_at_once_lose_nothing():
    def count() -> None:
        for _ in range(10):
            book(tally(model="fox-1"))
        connection.close()

    threads = [threading.Thread(target=count) for _ in range(3)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert totals() == (30, 0, 360, 15.0)
    assert sum(Day.objects.get(about="model").spread.values()) == 30


def test_times_are_known_to_a_tenth(db):
    made = Tally()
    for ms in range(1, 1001):
        made.add(Use(today(), "chat", ms=ms))
    spread = made.sums[today(), "chat", "all", ""].spread
    assert len(spread) < 50
    assert percentile(spread, 0.5) == pytest.approx(500, rel=0.12)
    assert percentile(spread, 0.95) == pytest.approx(950, rel=0.12)
    assert percentile({}, 0.5) is None


def test_the_key_of_somebody_who_is_erased_goes_and_the_sums_stay(person):
    from chatsite.care import lines

    book(tally(user=person.pk))
    (line,) = [line for line in lines.lines() if line.model == "usage.Day"]
    assert line.count(person.pk) == 1
    line.erase_some(person.pk)
    assert not figures_of(today(), today()).users.lines
    assert totals()[0] == 1


# -- the page ------------------------------------------------------------------------------------------------


def test_the_page_shows_the_figures_of_its_period(admin, person):
    book(tally(3, ms=800, model="fox-1", user=person.pk, end="stop"))
    text = admin.get(PAGE).text
    for shown in ("fox-1", "ada", "answered", "36", "$1.50", ">3<"):
        assert shown in text, shown
    past = today() - timedelta(days=100)
    text = admin.get(f"{PAGE}?since={past}&until={past}").text
    assert "fox-1" not in text
    assert text.count("Nothing in this period.") >= 4
    assert "fox-1" not in admin.get(f"{PAGE}?source=gateway").text


@pytest.mark.parametrize("query", ["days=x", "since=2024-13-45&until=soon", "since=2024-05-02&until=2024-05-01",
                                   "since=0001-01-01&until=9999-12-31", "source=nowhere", "days=99999999"])  # fmt: skip
def test_what_is_no_period_is_the_last_thirty_days(query, admin):
    answer = admin.get(f"{PAGE}?{query}")
    assert answer.status_code == 200
    assert f'value="{today() - timedelta(days=29)}"' in answer.text


def test_each_picture_says_what_it_shows_and_needs_nothing_from_elsewhere(admin, person):
    book(tally(3, model=HOSTILE, user=person.pk, end=HOSTILE))
    made = Tally()
    made.add_tool(Use(today(), "chat", ms=3), HOSTILE)
    book(made)
    answer = admin.get(PAGE)
    pictures = re.findall(r"<svg class=\"loom-chart\".*?</svg>", answer.text, re.S)
    assert len(pictures) == 8
    ids = set()
    for picture in pictures:
        drawn = ET.fromstring(picture)
        assert drawn.attrib["role"] == "img"
        title, said = drawn.attrib["aria-labelledby"].split()
        ids |= {title, said}
        texts = {each.attrib["id"]: each.text for each in drawn if "id" in each.attrib}
        assert texts[title]
        assert texts[said]
        assert not any(
            name in each.attrib for each in drawn.iter() for name in ("style", "fill", "href", "onclick")
        )
    assert len(ids) == 16
    assert "<script>alert" not in answer.text
    assert not re.search(r"<[^>]* (style|on\w+)=", answer.text)


def test_every_table_is_had_as_csv_and_no_cell_is_a_formula(admin, person):
    person.username = '=HYPERLINK("http://evil")'
    person.save()
    book(tally(2, model="@SUM(1)", user=person.pk, end="+1"))
    said = {}
    for name in ("days", "models", "users", "tools", "ends"):
        answer = admin.get(f"{PAGE}?csv={name}")
        assert answer.headers["Content-Type"].startswith("text/csv")
        assert re.fullmatch(
            rf'attachment; filename="usage-{name}-[\d-]+\.csv"', answer.headers["Content-Disposition"]
        )
        said[name] = answer.text
    assert "'@SUM(1),2,0,20,4,1.0,100," in said["models"]
    assert "\"'=HYPERLINK" in said["users"]
    assert "\n'+1," in said["ends"]
    assert len(said["days"].splitlines()) == 31
    assert admin.get(f"{PAGE}?csv=nonsense").status_code == 404


@pytest.mark.parametrize("text", ["=1", "+1", "-1", "@x", "\t=1", "\r=1", " =1", "\n=1"])
def test_what_a_spreadsheet_would_run_is_text(text):
    assert safe(text).startswith("'")


def test_numbers_and_plain_text_stay_as_they_are():
    assert [safe(value) for value in (-1, 0.5, "a=1", None, date(2024, 5, 2))] == [
        -1,
        0.5,
        "a=1",
        "",
        "2024-05-02",
    ]


def test_whoever_may_not_see_it_does_not(db):
    clerk = User.objects.create_user("clerk", password="a long enough secret", is_staff=True)
    client = Client()
    client.force_login(clerk)
    assert client.get(PAGE).status_code == 403
    assert client.get(f"{PAGE}?csv=days").status_code == 403
    clerk.user_permissions.add(Permission.objects.get(codename="view_day"))
    assert client.get(PAGE).status_code == 200
    assert client.post(PAGE).status_code == 403
    day = Day.objects.create(day=today(), source="chat", about="all")
    assert client.get(reverse("admin:usage_day_change", args=[day.pk])).status_code == 404


def test_the_page_costs_the_same_for_a_year(admin, person, django_assert_max_num_queries):
    for back in range(0, 360, 7):
        made = Tally()
        made.add(Use(today() - timedelta(days=back), "chat", ms=5), model="fox-1", user=person.pk, end="stop")
        book(made)
    with django_assert_max_num_queries(14):
        assert "52" in admin.get(f"{PAGE}?days=365").text


def test_a_page_lists_the_most_frequent_and_sums_up_the_others_and_the_csv_has_all(
    admin, person, django_assert_max_num_queries
):
    people = User.objects.bulk_create(User(username=f"user-{place:03}") for place in range(300))
    made = Tally()
    for place, each in enumerate(people):
        for _ in range(2 if place >= 290 else 1):
            use = Use(today(), "chat", error=place == 7, input_tokens=10, cost=0.5, ms=100)
            made.add(use, user=each.pk, model="fox-1")
    book(made)
    with django_assert_max_num_queries(16):
        text = admin.get(PAGE).text
    rows = re.findall(r'<th scope="row">([^<]*)</th><td>([^<]*)</td>', text)
    named = [name for name, _count in rows if name.startswith("user-")]
    by_key = [sorted(some, key=lambda each: str(each.pk)) for some in (people[290:], people[:290])]
    assert named == [each.username for each in (*by_key[0], *by_key[1][:40])]
    assert ("and 250 others", "250") in rows
    assert "2,500" in text.partition("and 250 others")[2][:120]
    said = admin.get(f"{PAGE}?csv=users").text.splitlines()
    assert len(said) == 301
    assert sum(int(line.split(",")[1]) for line in said[1:]) == 310


@pytest.mark.django_db(transaction=True)
def test_what_each_endpoint_had_of_an_exchange_is_counted_and_one_that_failed_is_an_error_of_its_own(person):
    for rounds in (
        [RoundRecord(endpoint="one", status=503), RoundRecord(endpoint="two", status=200, usage=Usage(5, 1))],
        [RoundRecord(endpoint="two", status=200, usage=Usage(3, 2))],
    ):
        recorder.note(
            ExchangeRecord(request_id="r", user_id=person.pk, model="fox", status=200, rounds=rounds)
        )
    assert recorder.flush()
    lines = figures_of(today(), today()).endpoints.lines
    assert {line.name: (line.sum.count, line.sum.errors, line.sum.tokens) for line in lines} == {
        "one": (1, 1, 0), "two": (2, 0, 11)
    }  # fmt: skip
