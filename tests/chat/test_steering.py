"""Branches: edit, regenerate, switch, delete and take back, fork; by every door, and by a thread's owner alone."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from functools import reduce
from html import unescape

import pytest
from django.test import AsyncClient
from django.utils import timezone

from agent.providers.scripted import Turn
from agent.reducer import apply
from chatsite.chat import commands, db, eventlog, store
from chatsite.chat.actions import organizing, steering
from chatsite.chat.care import upkeep
from chatsite.chat.commands.values import Answer, Branch, Edit, Fork, OneAnswer, Remove, Restore, Retry, Send
from chatsite.chat.models import Message, Run, RunEvent, Thread
from chatsite.chat.problems import Busy, Conflict, Invalid, Missing, Unanswerable
from chatsite.chat.readers import cursors, following
from chatsite.chat.readers.cursors import parse_cursor
from chatsite.chat.readers.stream import html_changes
from chatsite.chat.render.fragments import FragmentWriter, render_full
from chatsite.chat.rows import kept_log, search
from chatsite.chat.transfer import moving
from tests.chat.test_runs import begin, transcript_of

HOSTILE = "\"><script>alert(1)</script>' onclick=x"


@pytest.fixture
async def thread(person, plays, settled) -> Thread:
    """Two questions with their answers; what comes next is `third`, `fourth` and so on."""
    plays(*(Turn(f"{word} answer.") for word in ("first", "second", "third", "fourth", "fifth")))
    done = await begin(person, "First question?", client_id="q1")
    await settled()
    await say(person, done.thread, Send(text="Second question?", client_id="q2"))
    await settled()
    return done.thread


@pytest.fixture
def client(person, client_of) -> AsyncClient:
    return client_of(person)


async def say(person, thread, command, **more):
    return await commands.perform(person, thread.public_id, command, door="page", **more)


async def texts(thread) -> list[str]:
    return [message.text for message in await transcript_of(thread)]


async def state_of(thread):
    return await db.read(lambda: store.load_state(Thread.objects.get(pk=thread.pk)))


async def ids(thread) -> list[str]:
    return [message.id for message in await transcript_of(thread)]


async def test_an_edit_is_a_sibling_with_an_answer_of_its_own(person, thread, settled):
    done = await say(person, thread, Edit(message_id="q2", text="Another question?", client_id="q2b"))
    await settled()
    assert await texts(thread) == ["First question?", "first answer.", "Another question?", "third answer."]
    rows = await db.read(lambda: {row.public_id: row for row in Message.objects.filter(thread=thread)})
    assert rows["q2"].text == "Second question?"
    assert rows["q2"].parent_id == rows["q2b"].parent_id
    assert rows["q2b"].run_id == done.run.pk
    state = await state_of(thread)
    assert list(state.forks.values()) == [("q2", "q2b")]


async def test_the_first_message_is_edited_too(person, thread, settled):
    await say(person, thread, Edit(message_id="q1", text="Quite another?", client_id="q1b"))
    await settled()
    assert await texts(thread) == ["Quite another?", "third answer."]
    assert (await state_of(thread)).forks == {"": ("q1", "q1b")}


async def test_an_edit_that_is_sent_twice_is_one(person, thread, settled):
    edit = Edit(message_id="q2", text="Another question?", client_id="q2b")
    first = await say(person, thread, edit)
    again = await say(person, thread, edit)
    await settled()
    assert first.run.pk == again.run.pk
    assert not again.fresh
    with pytest.raises(Conflict, match="another text"):
        await say(person, thread, Edit(message_id="q2", text="A third?", client_id="q2b"))


async def test_of_two_edits_at_once_each_is_a_version_or_is_told_that_the_other_is_answered(
    person, thread, settled
):
    edits = [Edit(message_id="q2", text=text, client_id=text) for text in ("One?", "Two?")]
    done = await asyncio.gather(*(say(person, thread, edit) for edit in edits), return_exceptions=True)
    await settled()
    refused = [each for each in done if isinstance(each, BaseException)]
    assert {type(each) for each in refused} <= {Busy}
    rows = await db.read(lambda: list(thread.messages.filter(text__in=["One?", "Two?"])))
    original = await db.read(lambda: thread.messages.get(public_id="q2"))
    assert [row.parent_id for row in rows] == [original.parent_id] * (2 - len(refused))


@pytest.mark.parametrize(("text", "problem"), [("   ", Invalid), ("a\x00b", Invalid)])
async def test_an_edit_is_checked_like_any_message(text, problem, person, thread):
    with pytest.raises(problem):
        await say(person, thread, Edit(message_id="q2", text=text))
    assert len(await texts(thread)) == 4


async def test_what_is_not_there_or_not_ones_own_cannot_be_edited(person, thread):
    with pytest.raises(Conflict, match="not here any more"):
        await say(person, thread, Edit(message_id="nothing", text="x"))
    with pytest.raises(Conflict, match="of your own"):
        await say(person, thread, Edit(message_id=(await ids(thread))[1], text="x"))


async def test_an_edit_keeps_the_files_of_what_it_replaces(person, thread, settled):
    picture = {"type": "image", "mimeType": "image/png", "data": "aGVsbG8="}
    parts = [picture, {"type": "text", "text": "What is this?"}]
    await db.write(lambda: Message.objects.filter(thread=thread, public_id="q2").update(parts=parts))
    await say(person, thread, Edit(message_id="q2", text="And now?", client_id="q2b"))
    await settled()
    row = await db.read(Message.objects.get, thread=thread, public_id="q2b")
    assert row.parts == [picture, {"type": "text", "text": "And now?"}]


async def test_switching_shows_the_newest_branch_of_a_sibling_and_nothing_is_lost(person, thread, settled):
    before = await transcript_of(thread)
    await say(person, thread, Edit(message_id="q1", text="Quite another?", client_id="q1b"))
    await settled()
    await say(person, thread, Branch(message_id="q1"))
    assert await transcript_of(thread) == before
    await say(person, thread, Branch(message_id="q1b"))
    assert await texts(thread) == ["Quite another?", "third answer."]
    await say(person, thread, Send(text="And then?"))
    await settled()
    assert (await texts(thread))[-2:] == ["And then?", "fourth answer."]


async def test_a_regenerated_answer_is_a_sibling_and_each_belongs_to_its_own_run(person, thread, settled):
    first_answer = (await ids(thread))[-1]
    old = (await state_of(thread)).segments[-1]
    again = await say(person, thread, Retry(message_id=first_answer))
    await settled()
    assert await texts(thread) == ["First question?", "first answer.", "Second question?", "third answer."]
    await say(person, thread, Branch(message_id=first_answer))
    state = await state_of(thread)
    assert state.segments[-1] == old
    await say(person, thread, Branch(message_id=state.forks["q2"][1]))
    assert (await state_of(thread)).segments[-1].run.id == again.run.public_id


async def test_an_answer_further_up_is_regenerated_where_it_stands(person, thread, settled):
    first_answer = (await ids(thread))[1]
    await say(person, thread, Retry(message_id=first_answer))
    await settled()
    assert await texts(thread) == ["First question?", "third answer."]
    await say(person, thread, Branch(message_id=first_answer))
    assert len(await texts(thread)) == 4


@pytest.mark.parametrize(
    "command",
    [Branch(message_id="q1"), Remove(message_id="q1"), Restore(message_id="q1")],
    ids=lambda command: command.type,
)
async def test_no_branch_is_changed_under_a_run(command, person, plays, settled):
    plays(Turn("Slow.", gate=(gate := asyncio.Event())))
    done = await begin(person, "First?", client_id="q1")
    with pytest.raises(Busy, match="still being written"):
        await say(person, done.thread, command)
    gate.set()
    await settled()
    assert await texts(done.thread) == ["First?", "Slow."]


async def test_a_deleted_message_is_gone_with_what_followed_and_comes_back(person, thread, settled):
    before = await transcript_of(thread)
    await say(person, thread, Remove(message_id="q2"))
    assert await texts(thread) == ["First question?", "first answer."]
    assert "Second" not in (await db.read(moving.file_of, thread)).as_json()
    assert not await db.read(search.find, person.pk, "second")
    await say(person, thread, Restore(message_id="q2"))
    assert await transcript_of(thread) == before
    assert await db.read(search.find, person.pk, "second")
    await say(person, thread, Restore(message_id="q2"))
    assert await transcript_of(thread) == before


async def test_a_thread_may_lose_all_its_messages_and_go_on(person, thread, settled):
    await say(person, thread, Remove(message_id="q1"))
    assert await texts(thread) == []
    assert (await state_of(thread)).segments == ()
    await say(person, thread, Send(text="Anew?"))
    await settled()
    assert await texts(thread) == ["Anew?", "third answer."]


async def test_when_a_branch_is_deleted_the_one_beside_it_is_shown(person, thread, settled):
    await say(person, thread, Edit(message_id="q2", text="Another question?", client_id="q2b"))
    await settled()
    await say(person, thread, Remove(message_id="q2b"))
    assert await texts(thread) == ["First question?", "first answer.", "Second question?", "second answer."]
    assert (await state_of(thread)).forks == {}


async def test_an_answer_alone_is_deleted_and_its_question_can_be_asked_again(person, thread, settled):
    await say(person, thread, Remove(message_id=(await ids(thread))[-1]))
    state = await state_of(thread)
    assert [message.text for message in state.segments[-1].messages] == ["Second question?"]
    assert "form=retry-form" in render_full(state)
    await say(person, thread, Retry())
    await settled()
    assert (await texts(thread))[-1] == "third answer."


async def test_what_stands_behind_something_deleted_is_not_taken_back_alone(person, thread):
    answer = (await ids(thread))[-1]
    await say(person, thread, Remove(message_id=answer))
    await say(person, thread, Remove(message_id="q2"))
    with pytest.raises(Conflict, match="deleted too"):
        await say(person, thread, Restore(message_id=answer))
    await say(person, thread, Restore(message_id="q2"))
    assert (await texts(thread))[-1] == "Second question?"
    await say(person, thread, Restore(message_id=answer))
    assert (await texts(thread))[-1] == "second answer."


async def test_what_was_deleted_long_ago_is_removed_for_good(person, thread):
    await say(person, thread, Remove(message_id="q2"))
    while await db.write(upkeep.step):
        pass
    assert await db.read(Message.objects.filter(thread=thread).count) == 4
    long_ago = timezone.now() - steering.KEPT_DELETED - timedelta(days=1)
    await db.write(lambda: Message.objects.filter(public_id="q2").update(deleted_at=long_ago))
    last = await db.read(lambda: Message.objects.get(text="second answer."))
    await db.write(lambda: Message.objects.filter(pk=last.pk).update(deleted_at=long_ago))
    while await db.write(upkeep.step):
        pass
    assert await db.read(Message.objects.filter(thread=thread).count) == 2
    assert not await db.read(RunEvent.objects.filter(run=last.run_id).exists)
    assert await db.read(Run.objects.filter(pk=last.run_id).exists)  # what it took stays in the count
    assert await texts(thread) == ["First question?", "first answer."]
    with pytest.raises(Conflict, match="not here any more"):
        await say(person, thread, Restore(message_id="q2"))


async def test_a_snapshot_link_to_something_deleted_leads_nowhere(person, thread):
    link = await db.write(lambda: organizing.share(thread=Thread.objects.get(pk=thread.pk), by=person))
    assert await db.read(organizing.shared, link.token)
    await say(person, thread, Remove(message_id="q2"))
    assert await db.read(organizing.shared, link.token) is None
    await say(person, thread, Restore(message_id="q2"))
    assert await db.read(organizing.shared, link.token)


async def test_a_fork_is_a_thread_of_its_own_up_to_that_message(person, thread, settled):
    answer = (await ids(thread))[1]
    done = await say(person, thread, Fork(message_id=answer))
    assert done.thread.pk != thread.pk
    assert await texts(done.thread) == ["First question?", "first answer."]
    await say(person, done.thread, Send(text="Elsewhere?"))
    await settled()
    assert await texts(done.thread) == ["First question?", "first answer.", "Elsewhere?", "third answer."]
    assert len(await texts(thread)) == 4


async def test_a_fork_at_a_question_offers_to_answer_it(person, thread, settled):
    done = await say(person, thread, Fork(message_id="q2"))
    assert (await texts(done.thread))[-1] == "Second question?"
    assert "form=retry-form" in render_full(await state_of(done.thread))
    await say(person, done.thread, Retry())
    await settled()
    assert (await texts(done.thread))[-1] == "third answer."


async def test_a_question_to_a_person_is_answered_only_where_it_was_asked(person, plays, settled):
    plays(
        Turn("Plain."),
        Turn(calls=[("c1", "send_email", {"to": "a@example.org", "subject": "Hi", "body": "Hello"})]),
        Turn("Sent."),
    )
    done = await begin(person, "Write a mail", client_id="q1")
    await settled()
    plain = (await ids(done.thread))[-1]
    await say(person, done.thread, Retry())
    await settled()
    asked = (await state_of(done.thread)).open_interrupts[0]
    answers = Answer(answers=[OneAnswer(interrupt_id=asked.id, status="approved")])
    await say(person, done.thread, Branch(message_id=plain))
    assert (await state_of(done.thread)).open_interrupts == ()
    with pytest.raises(Unanswerable, match="another branch"):
        await say(person, done.thread, answers)
    call = (await state_of(done.thread)).forks["q1"][1]
    await say(person, done.thread, Branch(message_id=call))
    await say(person, done.thread, answers)
    await settled()
    assert (await texts(done.thread))[-1] == "Sent."


async def test_another_users_branches_do_not_exist(stranger, thread):
    for command in (
        Edit(message_id="q1", text="x"),
        Branch(message_id="q1"),
        Remove(message_id="q1"),
        Restore(message_id="q1"),
        Fork(message_id="q1"),
    ):
        with pytest.raises(Missing):
            await say(stranger, thread, command)


# -- readers -------------------------------------------------------------------------------------------------


async def test_a_page_that_is_open_follows_a_switch(person, thread, settled):
    await say(person, thread, Edit(message_id="q2", text="Another question?", client_id="q2b"))
    await settled()
    shown = await state_of(thread)
    after = parse_cursor(shown.cursor)
    async with asyncio.timeout(20):
        changes = html_changes(thread, after)
        following = asyncio.ensure_future(anext(changes))
        await asyncio.sleep(0)
        await say(person, thread, Branch(message_id="q2"))
        change = await following
        while change is None or "Second question?" not in change.html:
            change = await anext(changes)
        await changes.aclose()
    assert "2</span>" in change.html or "1 / 2" in change.html


async def test_a_page_that_was_away_meanwhile_gets_the_branch_that_is_shown(person, thread, settled):
    await say(person, thread, Edit(message_id="q2", text="Another question?", client_id="q2b"))
    await settled()
    after = (await state_of(thread)).cursor
    await say(person, thread, Branch(message_id="q2"))
    assert (await state_of(thread)).cursor != after
    async with asyncio.timeout(20):
        changes = html_changes(thread, parse_cursor(after))
        change = await anext(changes)
        await changes.aclose()
    assert change is not None
    assert "Second question?" in change.html
    assert change.cursor == (await state_of(thread)).cursor


async def test_a_switch_in_the_moment_in_which_a_run_ends_is_seen(person, thread, settled):
    channel = eventlog.channel_of(thread.pk)
    await say(person, thread, Edit(message_id="q2", text="Another question?", client_id="q2b"))
    run = await db.read(lambda: thread.runs.order_by("-pk").first())
    async with asyncio.timeout(20):
        while (await db.read(Run.objects.get, pk=run.pk)).state in Run.ACTIVE:  # noqa: ASYNC110
            await asyncio.sleep(0)
    await say(person, thread, Branch(message_id="q2"))
    await settled()
    state = await following.state_now(channel, thread)
    assert state.segments[-1].messages[0].text == "Second question?"


async def test_the_fragments_of_a_switch_make_the_page_of_the_other_branch(person, thread, settled):
    before = await state_of(thread)
    await say(person, thread, Edit(message_id="q2", text="Another question?", client_id="q2b"))
    await settled()
    html = FragmentWriter(before).update(await state_of(thread))
    assert "Another question?" in html
    assert "2 / 2" in html


async def test_a_cursor_says_which_branch_was_shown_and_programs_are_not_disturbed():
    cursor = parse_cursor("run:12.3")
    assert cursor == cursors.Cursor("run", 12, 3)
    assert str(cursor) == "run:12.3"
    for bad in ("run:12.", "run:12.x", "run:.3", "run:12.3.4", "run:1." + "9" * 40):
        assert parse_cursor(bad) is None


async def test_the_log_of_an_edit_folds_to_what_is_kept(person, thread, settled):
    base = await transcript_of(thread)
    done = await say(person, thread, Edit(message_id="q2", text="Another question?", client_id="q2b"))
    await settled()
    events = [event for _, event in await db.read(kept_log.events_after, done.run.pk, 0)]
    kept = await transcript_of(thread)
    folded = reduce(apply, events, type(base)(base.messages[:2]))
    assert folded == kept


# -- the page ------------------------------------------------------------------------------------------------


async def page(client, thread, query: str = "") -> str:
    response = await client.get(f"/threads/{thread.public_id}/{query}")
    assert response.status_code == 200
    return response.content.decode()


async def test_the_picker_and_the_edit_work_by_plain_forms(client, person, thread, settled):
    at = f"/threads/{thread.public_id}/"
    html = await page(client, thread, "?edit=q2")
    assert 'name="edits" value="q2"' in html
    assert ">Second question?</textarea>" in html
    form = {"text": "By a form?", "client_id": "q2b", "edits": "q2"}
    assert (await client.post(f"{at}send", form)).status_code == 303
    await settled()
    html = await page(client, thread)
    assert "2 / 2" in html
    assert "By a form?" in html
    assert (await client.post(f"{at}branch", {"message": "q2"})).status_code == 303
    html = await page(client, thread)
    assert "1 / 2" in html
    assert "By a form?" not in html


async def test_a_refused_edit_keeps_what_was_typed_and_what_it_replaces(client, thread):
    response = await client.post(f"/threads/{thread.public_id}/send", {"text": "  ", "edits": "q2"})
    assert response.status_code == 422
    assert 'name="edits" value="q2"' in response.content.decode()


async def test_a_quote_fills_the_box(client, thread):
    answer = (await ids(thread))[1]
    assert "&gt; first answer.\n\n</textarea>" in await page(client, thread, f"?quote={answer}")


async def test_a_deletion_offers_the_way_back(client, thread):
    at = f"/threads/{thread.public_id}/"
    response = await client.post(f"{at}remove", {"message": "q2"}, headers={"HX-Request": "true"})
    assert response.status_code == 200
    assert 'form="take-back-form" name="message" value="q2"' in response.content.decode()
    assert (await client.post(f"{at}take-back", {"message": "q2"})).status_code == 303
    response = await client.post(f"{at}remove", {"message": "q2"})
    assert response.headers["Location"] == f"{at}?removed=q2"
    assert 'form="take-back-form" name="message" value="q2"' in await page(client, thread, "?removed=q2")


async def test_a_fork_leads_to_the_new_thread(client, thread):
    response = await client.post(f"/threads/{thread.public_id}/fork", {"message": "q1"})
    assert response.status_code == 303
    assert response.headers["Location"] != f"/threads/{thread.public_id}/"
    assert "First question?" in (await client.get(response.headers["Location"])).content.decode()


@pytest.mark.parametrize("door", ["branch", "remove", "take-back", "fork"])
async def test_a_message_that_is_not_there_is_said_in_words(door, client, thread):
    for meant in ("", "nothing", HOSTILE, "\x00", "x" * 5000):
        response = await client.post(f"/threads/{thread.public_id}/{door}", {"message": meant})
        assert response.status_code == 409
        assert "not here any more" in response.content.decode()


async def test_a_hostile_id_stays_text(person, plays, settled, client):
    plays(Turn("One."), Turn("Two."))
    done = await begin(person, "Hello?", client_id=HOSTILE)
    await settled()
    await say(person, done.thread, Edit(message_id=HOSTILE, text="Again?", client_id=HOSTILE + "2"))
    await settled()
    html = await page(client, done.thread)
    assert "<script>alert" not in html
    assert f'value="{HOSTILE}"'.replace('"', "") in unescape(html).replace('"', "")


async def test_who_only_reads_gets_no_means_to_steer(client, person, thread):
    link = await db.write(lambda: organizing.share(thread=Thread.objects.get(pk=thread.pk), by=person))
    html = (await AsyncClient().get(f"/s/{link.token}/")).content.decode()
    assert "First question?" in html
    for means in ("branch-form", "remove-form", "fork-form", "?edit=", "?quote="):
        assert means not in html
