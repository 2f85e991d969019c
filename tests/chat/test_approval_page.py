"""The page's way to answer a question: plain forms, words for what cannot be taken, one answer that wins."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from datetime import datetime, timedelta
from html.parser import HTMLParser

import pytest
from django.utils import timezone

from agent import Agent, ToolRegistry, subagent_tool, tool
from agent.providers.scripted import ScriptedProvider, Turn
from chatsite.chat import db, eventlog, store
from chatsite.chat.models import ApprovalRule, Interrupt, Run, Thread, ToolCall
from chatsite.chat.readers import cursors, stream
from chatsite.chat.render import fields, links
from chatsite.chat.tools.examples import send_email
from tests.chat.conftest import until
from tests.chat.test_approvals import ASKS, MAIL, asked
from tests.chat.test_doors import HTMX, chunks_until, page, stranger_page

__all__ = ["page", "stranger_page"]  # fixtures

PAIR = Turn(calls=[("c1", "send_email", MAIL), ("c2", "send_email", {**MAIL, "subject": "Two"})])


class _Form(HTMLParser):
    """What a browser would send of `#answer-form`, without the buttons."""

    def __init__(self) -> None:
        super().__init__()
        self.posted: dict[str, list[str]] = {}
        self._box: str | None = None

    def handle_starttag(self, tag, attributes):
        given = dict(attributes)
        if given.get("form") != "answer-form" or tag == "button":
            return
        if tag == "textarea":
            self._box = given["name"]
            self.posted[self._box] = [""]
        elif given.get("type") not in ("checkbox", "radio") or "checked" in given:
            self.posted.setdefault(given["name"], []).append(given.get("value") or "")

    def handle_endtag(self, tag):
        if tag == "textarea":
            self._box = None

    def handle_data(self, data):
        if self._box is not None:
            text = self.posted[self._box][0] + data
            self.posted[self._box] = [text.removeprefix("\n")]


async def form_of(page, thread) -> dict[str, list[str]]:
    parser = _Form()
    parser.feed((await page.get(f"/threads/{thread.public_id}/")).content.decode())
    return {
        name: [text.replace("\n", "\r\n") for text in texts]
        for name, texts in parser.posted.items()
        if name != "csrfmiddlewaretoken"
    }


async def answer(page, thread, form, headers=HTMX, **said):
    """Post the form with these controls of its first question changed."""
    id = form["q"][0]
    changed = {f"{id}.{name.replace('__', '.')}": text for name, text in said.items()}
    return await page.post(f"/threads/{thread.public_id}/answer", {**form, **changed}, headers=headers)


async def first_row() -> Interrupt:
    return await db.read(lambda: Interrupt.objects.select_related("answered_by").order_by("pk").first())


async def first_call() -> ToolCall:
    return await db.read(lambda: ToolCall.objects.order_by("pk").first())


async def test_approve(page, person, plays, settled):
    plays(ASKS, Turn("Sent."))
    done, _ = await asked(person, settled)
    response = await answer(page, done.thread, await form_of(page, done.thread), do="approved")
    await settled()
    assert (response.status_code, response.headers["hx-trigger"]) == (204, "threadloom:answered")
    row = await first_row()
    assert (row.status, row.edited_arguments, row.door) == ("approved", None, "page")
    assert row.answered_by == person
    assert (await first_call()).state == "done"
    shown = (await page.get(f"/threads/{done.thread.public_id}/")).content.decode()
    assert "Approved by <b>ada</b>" in shown
    assert "data-q" not in shown


async def test_without_htmx_the_answer_leads_back_to_the_thread(page, person, plays, settled):
    plays(ASKS, Turn("Sent."))
    done, _ = await asked(person, settled)
    form = await form_of(page, done.thread)
    response = await answer(page, done.thread, form, headers={}, do="approved")
    await settled()
    assert response.status_code == 303
    assert response.headers["location"] == f"/threads/{done.thread.public_id}/"


async def test_an_edit_is_what_the_tool_gets(page, person, plays, settled):
    plays(ASKS, Turn("Sent."))
    done, _ = await asked(person, settled)
    form = await form_of(page, done.thread)
    await answer(page, done.thread, form, do="approved", arg__body="Line one\r\nLine two")
    await settled()
    row = await first_row()
    assert row.edited_arguments == {**MAIL, "body": "Line one\nLine two"}
    assert "Line two" in (await first_call()).edited_arguments
    shown = (await page.get(f"/threads/{done.thread.public_id}/")).content.decode()
    assert "Approved with changes to <b>body</b>" in shown


async def test_deny_with_a_reason(page, person, plays, settled):
    provider = plays(ASKS, Turn("I see."))
    done, _ = await asked(person, settled)
    form = await form_of(page, done.thread)
    await answer(page, done.thread, form, do="denied", reason=" Too \r\nlate ", arg__to="nobody")
    await settled()
    row = await first_row()
    assert (row.status, row.reason, row.edited_arguments) == ("denied", "Too \nlate", None)
    assert (await first_call()).state == "denied"
    assert "Too \\nlate" in provider.requests[-1].transcript[-1].tool_results[0].content


async def test_cancel(page, person, plays, settled):
    plays(ASKS, Turn("I see."))
    done, _ = await asked(person, settled)
    await answer(page, done.thread, await form_of(page, done.thread), do="cancelled")
    await settled()
    assert (await first_row()).status == "cancelled"
    assert (await first_call()).state == "cancelled"


async def test_several_are_answered_together(page, person, plays, settled):
    plays(PAIR, Turn("Done."))
    done, rows = await asked(person, settled)
    form = await form_of(page, done.thread)
    refused = await answer(page, done.thread, form, do="approved")
    assert refused.status_code == 422
    assert "Choose an answer for each question" in refused.content.decode()
    assert await db.read(lambda: Interrupt.objects.filter(status="open").count()) == 2
    form[f"{rows[1].public_id}.do"] = ["denied"]
    assert (await answer(page, done.thread, form, do="approved")).status_code == 204
    await settled()
    assert await db.read(lambda: list(Interrupt.objects.order_by("pk").values_list("status", flat=True))) == [
        "approved",
        "denied",
    ]


async def test_one_of_several_alone_is_not_taken(page, person, plays, settled):
    plays(PAIR)
    done, rows = await asked(person, settled)
    form = {"q": [rows[0].public_id], f"{rows[0].public_id}.do": ["approved"]}
    response = await answer(page, done.thread, form)
    assert response.status_code == 409
    assert "all are answered together" in response.content.decode()


@pytest.fixture
def orders(monkeypatch):
    """A tool that wants numbers, in place of the server's tools; the orders that were made."""
    made = []

    @tool(needs_approval=True)
    def order(count: int, price: float, gift: bool = False) -> str:
        """Order something."""
        made.append((count, price, gift))
        return "ordered"

    monkeypatch.setattr("chatsite.chat.agents.server_tools", lambda: ToolRegistry([order]))
    return made


ORDER = Turn(calls=[("c1", "order", {"count": 2, "price": 1.5})])


async def test_a_wrong_number_is_said_and_nothing_happens(page, person, plays, settled, orders):
    plays(ORDER)
    done, _ = await asked(person, settled)
    form = await form_of(page, done.thread)
    response = await answer(page, done.thread, form, do="approved", arg__count="two")
    assert response.status_code == 422
    assert "count: “two” is not a whole number." in response.content.decode()
    assert (await first_row()).status == "open"


async def test_without_javascript_a_wrong_number_stays_in_its_field(page, person, plays, settled, orders):
    plays(ORDER)
    done, _ = await asked(person, settled)
    form = await form_of(page, done.thread)
    response = await answer(
        page, done.thread, form, headers={}, do="approved", arg__count="two <b>", arg__price="9"
    )
    shown = response.content.decode()
    assert response.status_code == 422
    assert "is not a whole number." in shown
    assert "two &lt;b&gt;</textarea>" in shown
    assert 'value="9"' in shown


async def test_numbers_and_ticks_come_to_the_tool_as_such(page, person, plays, settled, orders):
    plays(ORDER, Turn("Ordered."))
    done, _ = await asked(person, settled)
    form = await form_of(page, done.thread)
    id = form["q"][0]
    form[f"{id}.arg.gift"] = ["off", "on"]
    assert (await answer(page, done.thread, form, do="approved", arg__count="3")).status_code == 204
    await settled()
    assert orders == [(3, 1.5, True)]


async def test_an_edit_that_the_tool_does_not_take_is_refused(page, person, plays, settled, monkeypatch):
    @tool(needs_approval=True)
    def paint(colour: str) -> str:
        """Paint."""
        return colour

    from chatsite.chat import agents

    monkeypatch.setattr("chatsite.chat.agents.server_tools", lambda: ToolRegistry([paint]))
    plays(Turn(calls=[("c1", "paint", {"colour": "red"})]))
    done, _ = await asked(person, settled)
    form = await form_of(page, done.thread)
    monkeypatch.setattr(agents.agents(), "_tools", ToolRegistry([tool(needs_approval=True)(_paint_number)]))
    response = await answer(page, done.thread, form, do="approved", arg__colour="blue")
    assert response.status_code == 409
    assert "do not fit" in response.content.decode()


def _paint_number(colour: int) -> str:
    """Paint by numbers."""
    return str(colour)


_paint_number.__name__ = "paint"


async def expire(row: Interrupt) -> None:
    past = timezone.now() - timedelta(minutes=1)

    def write() -> None:
        row.expires_at = past
        row.data = {**row.data, "expiresAt": past.isoformat()}
        row.save()

    await db.write(write)


async def test_out_of_time_only_cancelling_is_taken(page, person, plays, settled):
    plays(ASKS, Turn("I see."))
    done, rows = await asked(person, settled)
    form = await form_of(page, done.thread)
    await expire(rows[0])
    response = await answer(page, done.thread, form, do="approved")
    assert response.status_code == 409
    assert "The time to answer is over. The question can only be cancelled now." in response.content.decode()
    assert rows[0].public_id not in response.content.decode()
    assert (await answer(page, done.thread, form, do="cancelled")).status_code == 204
    await settled()
    assert (await first_call()).state == "cancelled"


async def test_another_ones_thread_is_not_there(page, stranger_page, person, plays, settled):
    plays(ASKS)
    done, _ = await asked(person, settled)
    form = await form_of(page, done.thread)
    url = f"/threads/{done.thread.public_id}"
    for headers in ({}, HTMX):
        assert (await answer(stranger_page, done.thread, form, headers, do="approved")).status_code == 404
        forgot = await stranger_page.post(f"{url}/forget", {"tool": "send_email"}, headers=headers)
        assert forgot.status_code == 404
    assert (await first_row()).status == "open"


async def test_a_question_of_another_thread_is_not_answered_here(page, person, plays, settled):
    plays(ASKS, Turn("Hello."))
    done, _ = await asked(person, settled)
    form = await form_of(page, done.thread)
    created = await page.post("/threads/", {"text": "Hi", "client_id": "m9"}, headers={})
    await settled()
    other = await db.read(lambda: Thread.objects.order_by("pk").last())
    assert created.headers["location"] == f"/threads/{other.public_id}/"
    response = await answer(page, other, form, do="approved")
    assert response.status_code == 409
    assert "not open any more" in response.content.decode()
    assert (await first_row()).status == "open"


async def test_the_same_answer_twice_is_one(page, person, plays, settled):
    plays(ASKS, Turn("Sent."))
    done, _ = await asked(person, settled)
    form = await form_of(page, done.thread)
    said = {"do": "approved", "arg__subject": "Mine"}
    assert (await answer(page, done.thread, form, **said)).status_code == 204
    await settled()
    assert (await answer(page, done.thread, form, **said)).status_code == 204
    await settled()
    assert await db.read(Run.objects.count) == 2
    late = await answer(page, done.thread, form, do="denied")
    assert late.status_code == 409
    assert "answered already" in late.content.decode()


async def test_of_two_tabs_one_wins(page, person, plays, settled):
    plays(ASKS, Turn("Done."))
    done, _ = await asked(person, settled)
    form = await form_of(page, done.thread)
    answers = await asyncio.gather(
        answer(page, done.thread, form, do="approved"), answer(page, done.thread, form, do="denied")
    )
    await settled()
    assert sorted(each.status_code for each in answers) == [204, 409]
    assert await db.read(Run.objects.count) == 2


@pytest.mark.parametrize(
    "form",
    [{}, {"q": ["x"]}, {"q": ["x"], "x.do": ["maybe"]}, {"q": [str(n) for n in range(200)]}, {"q": [""]}],
)
async def test_nonsense_is_refused_in_words(form, page, person, plays, settled):
    plays(ASKS)
    done, _ = await asked(person, settled)
    for headers in ({}, HTMX):
        response = await page.post(f"/threads/{done.thread.public_id}/answer", form, headers=headers)
        assert response.status_code == 422
        assert "Choose an answer for each question" in response.content.decode()


async def test_both_doors_take_posts_only(page, person, plays, settled):
    plays(ASKS)
    done, _ = await asked(person, settled)
    for door in ("answer", "forget"):
        assert (await page.get(f"/threads/{done.thread.public_id}/{door}")).status_code == 405


async def test_a_standing_rule_is_made_shown_and_taken_back(page, person, plays, settled):
    plays(ASKS, Turn("Sent."))
    done, _ = await asked(person, settled)
    url = f"/threads/{done.thread.public_id}/"
    await answer(page, done.thread, await form_of(page, done.thread), do="approved", always="on")
    await settled()
    assert "Take back" in (await page.get(url)).content.decode()
    follower = await page.get(f"{url}events?format=html")
    reads = asyncio.Event()

    def hears_again(text: str) -> bool:
        if "id=standing" in text:
            reads.set()
        return text.count("id=standing") > 1

    told = asyncio.create_task(chunks_until(follower, hears_again))
    await reads.wait()
    response = await page.post(f"{url}forget", {"tool": "send_email"}, headers=HTMX)
    assert (response.status_code, response.headers["hx-trigger"]) == (204, "threadloom:forgotten")
    assert "Take back" not in (await told).rpartition("id=standing")[2]
    assert not await db.read(ApprovalRule.objects.exists)
    assert "Take back" not in (await page.get(url)).content.decode()
    assert (await page.post(f"{url}forget", {"tool": "send_email"})).status_code == 303


async def test_a_denied_call_makes_no_rule(page, person, plays, settled):
    plays(ASKS, Turn("I see."))
    done, _ = await asked(person, settled)
    await answer(page, done.thread, await form_of(page, done.thread), do="denied", always="on")
    await settled()
    assert not await db.read(ApprovalRule.objects.exists)


async def test_every_open_tab_gets_the_form_and_loses_it(page, person, plays, settled):
    plays(ASKS, Turn("Sent."))
    done, _ = await asked(person, settled)
    url = f"/threads/{done.thread.public_id}/"
    shown = (await page.get(url)).content.decode()
    assert "data-q" in shown
    after = f"{done.run.public_id}:{shown.partition(done.run.public_id + '%3A')[2].partition(chr(34))[0]}"
    tab = await page.get(f"{url}events?format=html&after={after}")
    told = asyncio.create_task(chunks_until(tab, lambda text: "Sent." in text))
    await until(lambda: eventlog.channel_of(done.thread.pk).readers)
    await answer(page, done.thread, await form_of(page, done.thread), do="approved")
    news = await told
    assert "Approved by <b>ada</b>" in news
    assert "data-q" not in news
    # And a tab that was away all that time.
    await settled()
    late = await page.get(f"{url}events?format=html&after={after}")
    news = await chunks_until(late, lambda text: "Sent." in text)
    assert "Approved by <b>ada</b>" in news
    assert 'hx-target="#log"' not in news


async def test_the_questions_of_a_subagent_are_answered_in_its_card(
    page, person, plays, settled, monkeypatch
):
    inner = Agent(ScriptedProvider(PAIR, Turn("Both handled.")), "inner", [send_email])
    helper = subagent_tool(inner, name="helper", description="Does it.")
    monkeypatch.setattr("chatsite.chat.agents.server_tools", lambda: ToolRegistry([helper]))
    plays(Turn(calls=[("d1", "helper", {"task": "Write twice"})]), Turn("All done."))
    done, rows = await asked(person, settled)
    form = await form_of(page, done.thread)
    assert form["q"] == [row.public_id for row in rows]
    form[f"{rows[1].public_id}.do"] = ["denied"]
    response = await answer(page, done.thread, form, do="approved", arg__subject="Mine")
    assert response.status_code == 204
    await settled()
    shown = (await page.get(f"/threads/{done.thread.public_id}/")).content.decode()
    assert "<b>send_email</b>: Approved with changes to <b>subject</b> by <b>ada</b>" in shown
    assert "<b>send_email</b>: Denied by <b>ada</b>" in shown
    assert "All done." in shown


@pytest.mark.parametrize("comes", ["with what the page shows", "from the start"])
async def test_a_question_whose_time_runs_out_says_so_on_a_page_that_is_open(
    comes, person, plays, settled, monkeypatch
):
    plays(ASKS)
    done, _ = await asked(person, settled)
    thread = done.thread
    state = await db.read(store.load_state, thread)
    [question] = state.interrupts
    ahead = timedelta()

    class Clock(datetime):
        @classmethod
        def now(cls, tz=None):
            return datetime.now(tz) + ahead

    monkeypatch.setattr(links, "datetime", Clock)
    monkeypatch.setattr(eventlog, "LOOK_UP", 0.01)
    after = cursors.parse_cursor(state.cursor) if comes == "with what the page shows" else None
    async with asyncio.timeout(60), aclosing(stream.html_changes(thread, after)) as changes:
        if after is None:
            assert "You can answer until" in (await anext(changes)).html
        assert await anext(changes) is None  # nothing is new
        ahead = timedelta(days=400)
        while (change := await anext(changes)) is None:
            pass
        assert "The time to answer is over. The question can only be cancelled now." in change.html
        assert f'name="{fields.name_of(question, "do")}" value=approved' not in change.html
        assert await anext(changes) is None  # and once is enough
