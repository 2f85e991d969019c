"""A call that waits for a person: asked, changed, approved, denied, cancelled, from any tab, and without JavaScript."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.browser.chat import Chat, eventually, reload_until, turn_page
from tests.browser.conftest import OpenChat
from tests.browser.test_look import CONTRAST, NARROW, overflow, serious
from tests.server import Person, Server
from tests.site.processes import manage
from tests.standin import Say, StandIn

READER = "document.getElementById('stream')._htmx?.sse?.reader"
"""Of the page's stream."""

MAIL = "Send an email to ada@example.org"

_EXPIRE = """
from datetime import timedelta
from django.utils import timezone
from chatsite.chat.models import Interrupt
for row in Interrupt.objects.filter(thread__public_id={thread!r}):
    row.expires_at = timezone.now() - timedelta(minutes=1)
    row.data = row.data | {{"expiresAt": row.expires_at.isoformat()}}
    row.save()
"""


class Question:
    """The form in a card."""

    def __init__(self, chat: Chat) -> None:
        self.form = chat.page.locator(".ask")
        self.card = chat.page.locator("details.call", has_text="send_email")
        self.state = self.card.locator(".st")
        self.receipt = self.card.locator(".answered")

    def field(self, label: str) -> Locator:
        return self.form.get_by_label(label)

    def press(self, name: str) -> None:
        self.form.get_by_role("button", name=name).click()


def ask(chat: Chat) -> Question:
    chat.ask(MAIL).done()
    question = Question(chat)
    expect(question.form).to_be_visible()
    return question


def expire(server: Server, thread: str) -> None:
    done = manage("shell", "-c", _EXPIRE.format(thread=thread), **server.settings)
    assert done.returncode == 0, done.stderr


def resumed(chat: Chat) -> None:
    expect(chat.runs).to_have_count(2)
    chat.expect_settled()


def test_approve_with_an_edit(chat: Chat):
    question = ask(chat)
    expect(question.state).to_have_text("waiting for you")
    expect(chat.said).to_have_text("Waiting for your answer.")
    expect(chat.page.locator("#status")).to_have_text("Your approval is needed: send_email.")
    expect(question.field("to")).to_have_value("ada@example.org")
    question.field("subject").fill("Mine <b>")
    question.press("Approve")
    resumed(chat)
    expect(question.form).to_have_count(0)
    expect(question.state).to_contain_text("done")
    expect(question.receipt).to_contain_text("Approved with changes to subject by person-")
    expect(question.card.locator(".two pre").first).to_contain_text("Hello from Threadloom")
    expect(question.card.locator(".two pre").last).to_contain_text("Mine <b>")
    expect(chat.answer).to_contain_text("with the subject “Mine <b>” is sent. I read what you made of it")
    shown = chat.transcript()
    chat.page.reload()
    chat.page.locator("details.call summary").click()
    eventually(chat.page, chat.transcript, shown)


@pytest.mark.slow
def test_deny_with_a_reason(chat: Chat):
    question = ask(chat)
    question.field("Reason for denying").fill("Not today")
    question.press("Deny")
    resumed(chat)
    expect(question.state).to_contain_text("denied")
    expect(question.receipt).to_contain_text("Denied by person-")
    expect(question.receipt.locator("blockquote")).to_have_text("Not today")
    expect(chat.answer).to_contain_text("Not today")
    # What is written behind an answered question looks like any answer, also while it is being written.
    chat.page.evaluate("document.getElementById('live').classList.add('on')")
    expect(chat.answer).to_be_visible()
    looks = "all => new Set(all.map(one => ['fontSize', 'color'].map(name => getComputedStyle(one)[name]).join())).size"
    eventually(chat.page, lambda: chat.page.locator("#log .bot > .md").evaluate_all(looks), 1)
    expect(chat.last).to_have_css("display", "block")


@pytest.mark.slow
def test_cancel(chat: Chat):
    question = ask(chat)
    question.press("Cancel")
    resumed(chat)
    expect(question.state).to_contain_text("cancelled")
    expect(question.receipt).to_contain_text("Cancelled by person-")
    expect(chat.answer).to_contain_text("The email was not sent")


@pytest.mark.slow
def test_a_message_instead_cancels_the_question(chat: Chat):
    question = ask(chat)
    expect(chat.page.locator("#asking")).to_have_text("Sending a message cancels the question above.")
    chat.ask("help").done()
    expect(question.form).to_have_count(0)
    expect(question.state).to_contain_text("cancelled")
    expect(question.receipt).to_have_text(re.compile("^Not answered: the thread went on without it"))
    expect(chat.page.locator("#asking")).to_have_count(0)


@pytest.mark.slow
def test_a_reload_before_the_answer_shows_the_same_question(chat: Chat):
    question = ask(chat)
    shown = chat.transcript()
    chat.page.reload()
    eventually(chat.page, chat.transcript, shown)
    question.press("Approve")
    resumed(chat)
    expect(chat.answer).to_contain_text("is sent")


@pytest.mark.slow
def test_an_answer_in_one_tab_clears_the_other(chat: Chat, open_chat: OpenChat, watch):
    question = ask(chat)
    other = open_chat(chat.path)
    theirs = Question(other)
    theirs.field("subject").fill("Half typed")
    # A connection that breaks and is made again leaves alone what is typed.
    other.page.wait_for_function(f"() => {READER}")
    with other.page.expect_request("**/events*"):
        other.page.evaluate(f"{READER}.cancel()")
    expect(theirs.field("subject")).to_have_value("Half typed")
    question.press("Approve")
    resumed(chat)
    expect(theirs.form).to_have_count(0)
    expect(theirs.receipt).to_contain_text("Approved by person-")
    expect(other.runs).to_have_count(2)
    # The field that had the focus is gone; the next key goes to the composer.
    expect(other.text).to_be_focused()
    other.done()
    eventually(other.page, other.transcript, chat.transcript())


@pytest.mark.slow
def test_a_tab_that_was_away_finds_its_question_answered(chat: Chat, open_chat: OpenChat, watch):
    ask(chat)
    other = open_chat(chat.path)
    watch.allow("ERR_INTERNET_DISCONNECTED|Failed to fetch|network error")
    other.page.wait_for_function(f"() => {READER}")
    other.offline(True)
    other.page.evaluate(f"{READER}?.cancel()")
    Question(chat).press("Approve")
    resumed(chat)
    expect(Question(other).form).to_be_visible()
    other.offline(False)
    expect(Question(other).form).to_have_count(0)
    expect(Question(other).receipt).to_contain_text("Approved by person-")


@pytest.mark.slow
def test_of_two_answers_the_second_is_told_why_not(open_chat: OpenChat, watch):
    chat = open_chat()
    ask(chat)
    other = open_chat(chat.path)
    watch.allow("409")
    # The second tab hears nothing of the first one's answer.
    other.page.route("**/events*", lambda route: route.abort())
    watch.allow("ERR_FAILED|Failed to fetch|network error")
    other.page.reload()
    Question(chat).press("Approve")
    resumed(chat)
    theirs = Question(other)
    theirs.field("Reason for denying").fill("Typed and kept")
    theirs.press("Deny")
    expect(other.notice).to_contain_text("answered already")
    expect(theirs.field("Reason for denying")).to_have_value("Typed and kept")


@pytest.mark.slow
def test_out_of_time_it_can_only_be_cancelled(chat: Chat, server: Server, watch):
    question = ask(chat)
    expire(server, chat.path.split("/")[2])
    watch.allow("409")
    question.press("Approve")
    expect(chat.notice).to_contain_text("The time to answer is over.")
    question.press("Cancel")
    resumed(chat)
    expect(question.state).to_contain_text("cancelled")


def mails(*subjects: str) -> Say:
    return Say(
        "Two of them.",
        calls=[
            (f"c{n}", "send_email", {"to": "ada@example.org", "subject": subject, "body": "Hello"})
            for n, subject in enumerate(subjects)
        ],
    )


@pytest.mark.slow
def test_several_questions_are_answered_together(chat: Chat, standin: StandIn):
    standin.play(mails("One", "Two"))
    chat.ask("Two mails", model="stand-in").done()
    question = Question(chat)
    expect(question.form).to_have_count(2)
    send = chat.page.get_by_role("button", name="Send answers")
    question.form.nth(0).get_by_role("radio", name="Approve").check()
    send.click()
    # The browser itself says that the other one has no answer yet.
    expect(question.form).to_have_count(2)
    question.form.nth(1).get_by_role("radio", name="Deny").check()
    question.form.nth(1).get_by_label("Reason for denying").fill("One is enough")
    send.click()
    resumed(chat)
    expect(question.state).to_have_text([re.compile("done"), re.compile("denied")])
    expect(question.card.nth(1)).to_contain_text("One is enough")


@pytest.mark.slow
def test_always_means_until_it_is_taken_back(chat: Chat):
    question = ask(chat)
    question.field("Always allow").check()
    question.press("Approve")
    resumed(chat)
    rules = chat.page.locator("#standing li")
    expect(rules).to_contain_text("Always allowed here: send_email")
    chat.ask(MAIL).done()
    expect(chat.runs).to_have_count(3)
    expect(chat.card("send_email").locator(".st")).to_contain_text("done")
    chat.page.get_by_role("button", name="Take back").click()
    expect(rules).to_have_count(0)
    chat.page.reload()
    expect(rules).to_have_count(0)
    chat.ask(MAIL).done()
    expect(question.form).to_be_visible()


@pytest.mark.slow
def test_with_the_keyboard_alone(chat: Chat):
    question = ask(chat)
    keys = chat.page.keyboard
    question.field("to").focus()
    for expected in ("subject", "body"):
        keys.press("Tab")
        expect(question.field(expected)).to_be_focused()
    keys.press("Tab")
    expect(question.form.get_by_role("button", name="Approve")).to_be_focused()
    keys.press("Enter")
    resumed(chat)
    expect(question.receipt).to_contain_text("Approved by")
    expect(chat.text).to_be_focused()


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_form_reads_well_and_axe_finds_nothing(scheme: str, open_chat: OpenChat):
    chat = open_chat(color_scheme=scheme)
    question = ask(chat)
    assert serious(chat.page) == []
    weak = []
    for one in chat.page.locator(
        ".ask p, .ask label, .ask small, .ask button:visible, .ask textarea, .st.asks, #asking"
    ).all():
        if one.is_visible() and (ratio := one.evaluate(CONTRAST)) < 4.5:
            weak.append((one.inner_text(), ratio))
    assert weak == []
    question.field("Always allow").check()
    question.field("subject").fill("Another")
    question.press("Approve")
    resumed(chat)
    assert serious(chat.page) == []


@pytest.mark.slow
def test_320_pixels_are_enough(open_chat: OpenChat):
    chat = open_chat(viewport=NARROW)
    question = ask(chat)
    assert overflow(chat.page) == 0
    for one in question.form.locator("button:visible, textarea, label").all():
        box = one.bounding_box()
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= 320
    question.field("subject").fill("A subject from a phone")
    question.press("Approve")
    resumed(chat)
    assert overflow(chat.page) == 0


# -- without JavaScript --------------------------------------------------------------------------------------


@pytest.fixture
def plain(context_of, person: Person) -> Page:
    page = context_of(person, java_script_enabled=False).new_page()
    page.goto("/")
    page.get_by_label("Message", exact=True).fill(MAIL)
    turn_page(page.get_by_role("button", name="Send"))
    reload_until(page, "waiting for you")
    return page


@pytest.mark.slow
def test_without_javascript_the_form_is_a_form(plain: Page):
    expect(plain.locator(".ask textarea").first).to_have_value("ada@example.org")
    plain.get_by_label("subject").fill("By hand")
    plain.get_by_label("Always allow").check()
    turn_page(plain.get_by_role("button", name="Approve"))
    reload_until(plain, "“By hand” is sent")
    plain.locator("details.call summary").click()
    expect(plain.locator(".answered")).to_contain_text("Approved with changes to subject")
    plain.get_by_role("button", name="Take back").click()
    expect(plain.get_by_role("button", name="Take back")).to_have_count(0)


@pytest.mark.slow
def test_without_javascript_a_refused_answer_keeps_what_was_typed(plain: Page, server: Server, watch):
    thread = plain.url.split("/")[4]
    plain.get_by_label("subject").fill("Too late <i>")
    expire(server, thread)
    watch.allow("409")
    plain.get_by_role("button", name="Approve").click()
    expect(plain.get_by_role("alert")).to_contain_text("The time to answer is over.")
    turn_page(plain.get_by_role("button", name="Cancel"))
    reload_until(plain, "The email was not sent")
