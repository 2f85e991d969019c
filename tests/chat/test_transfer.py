"""A thread as a file: taken in again it is the same, and nothing that somebody wrote into one is trusted."""

from __future__ import annotations

import json

import pytest

from agent.providers.scripted import Turn
from chatsite.chat import commands, db, store
from chatsite.chat.commands.values import Retry, Send
from chatsite.chat.models import Interrupt, Run, Thread, ToolCall
from chatsite.chat.problems import Invalid
from chatsite.chat.transfer import markdown, moving, shape
from tests.chat.test_approvals import ASKS
from tests.chat.test_runs import begin, transcript_of

WEATHER = Turn("Let me look.", calls=[("c1", "get_weather", {"city": "Oslo"})])


@pytest.fixture
async def thread(person, plays, settled) -> Thread:
    plays(WEATHER, Turn("It is 62."), Turn("Another answer."), Turn("You are welcome.", thinking="Politely."))
    done = await begin(person, "How is Oslo?")
    await settled()
    for command in (Retry(), Send(text="Thanks `\N{SNOWMAN}`")):
        await commands.perform(person, done.thread.public_id, command, door="page")
        await settled()
    return await db.read(Thread.objects.get, pk=done.thread.pk)


async def test_what_is_taken_in_again_is_exported_equal(thread, stranger):
    file = await db.read(moving.file_of, thread)
    text = file.as_json()
    assert shape.read_file(text) == file
    assert [part for said in json.loads(text)["messages"] for part in said["parts"] if "durationMs" in part]
    taken = await db.write(moving.take_in, stranger, shape.read_file(text))
    assert taken.owner_id == stranger.pk
    assert taken.public_id != thread.public_id
    again = await db.read(moving.file_of, await db.read(Thread.objects.get, pk=taken.pk))
    assert again.as_json() == text
    assert len({message.parent for message in file.messages}) < len(file.messages), "no branch was in it"


async def test_a_thread_that_was_taken_in_reads_and_goes_on_as_before(thread, stranger, plays, settled):
    file = await db.read(moving.file_of, thread)
    taken = await db.write(moving.take_in, stranger, file)
    before, after = [await transcript_of(each) for each in (thread, taken)]
    assert list(before) == list(after)
    provider = plays(Turn("Still here."))
    await commands.perform(stranger, taken.public_id, Send(text="And now?"), door="page")
    await settled()
    assert [message.text for message in provider.requests[-1].transcript][-1] == "And now?"
    now = await transcript_of(taken)
    assert now[-1].text == "Still here."


async def test_no_call_of_a_file_ever_runs(person, plays, settled, stranger):
    plays(ASKS, Turn("Well."))
    done = await begin(person, "Send it")
    await settled()
    file = await db.read(moving.file_of, await db.read(Thread.objects.get, pk=done.thread.pk))
    assert [run.state for run in file.runs] == ["cancelled"]
    taken = await db.write(moving.take_in, stranger, file)
    assert await db.read(Interrupt.objects.filter(thread=taken).count) == 0
    assert await db.read(ToolCall.objects.filter(run__thread=taken).count) == 0
    await commands.perform(stranger, taken.public_id, Send(text="Go on"), door="page")
    await settled()
    transcript = await transcript_of(taken)
    results = [part for message in transcript for part in message.tool_results]
    assert [part.error is not None for part in results] == [True]
    assert await db.read(Run.objects.filter(thread=taken).count) == 2


def a_file(**changes: object) -> str:
    at = "2026-01-02T03:04:05Z"
    run = {"id": "r1", "state": "finished", "createdAt": at}
    said = {
        "id": "m1",
        "run": "r1",
        "role": "user",
        "parts": [{"type": "text", "text": "Hi"}],
        "createdAt": at,
    }
    whole = {"format": "threadloom-thread", "version": 1, "createdAt": at, "updatedAt": at, "head": "m1"}
    return json.dumps({**whole, "runs": [run], "messages": [said], **changes})


def entry(**changes: object) -> dict[str, object]:
    return {**json.loads(a_file())["messages"][0], **changes}


def run_entry(**changes: object) -> dict[str, object]:
    return {**json.loads(a_file())["runs"][0], **changes}


def behind(
    id: object = "i1", parts: object = (), metadata: object = None, **changes: object
) -> dict[str, object]:
    """What a file says of a subagent's work, one message of it."""
    exact = {"role": changes.get("role", "assistant"), "parts": parts, "metadata": metadata or {}}
    wire = {"id": id, "role": "assistant", "content": "", "metadata": {"exact": exact}, **changes}
    return {"runId": "r2", "messages": [wire]}


def test_the_smallest_file_can_be_read():
    assert shape.read_file(a_file()).messages[0].id == "m1"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "not a thread"),
        ("[]", "not a thread"),
        ("{" * 100_000, "not a thread"),
        ("[" * 100_000, "not a thread"),
        (a_file(format="other"), "format"),
        (a_file(version=2), "version"),
        (a_file(title="\ud800"), "not a thread"),
        (a_file(extra=1), "extra"),
        (a_file(title="x" * 201), "title"),
        (a_file(title=7), "title"),
        (a_file(head="m2"), "head"),
        (a_file(createdAt="yesterday"), "createdAt"),
        (a_file(createdAt="0001-01-01T00:00:00Z"), "createdAt"),
        (a_file(messages=[entry(run="r2")]), r"messages\[0\].run"),
        (a_file(messages=[entry(), entry()]), "twice"),
        (a_file(messages=[entry(parent="m1")]), "does not stand before"),
        (a_file(messages=[entry(id="a/b\x00")]), r"messages\[0\].id"),
        (a_file(messages=[entry(role="root")]), r"messages\[0\].role"),
        (a_file(messages=[entry(parts="Hi")]), r"messages\[0\].parts"),
        (a_file(messages=[entry(parts=[{"type": "text"}])]), r"messages\[0\].parts\[0\]"),
        (a_file(messages=[entry(parts=[{"type": "text", "text": 7}])]), r"messages\[0\].parts\[0\]"),
        (a_file(messages=[entry(parts=[{"type": "other"}])]), r"messages\[0\].parts\[0\]"),
        (a_file(messages=[entry(parts=[{"type": "file", "kind": "exe"}])]), r"messages\[0\].parts\[0\]"),
        (a_file(runs=[run_entry(state="running")]), r"runs\[0\].state"),
        (a_file(runs=[run_entry(turns=-1)]), r"runs\[0\].turns"),
        (a_file(runs=[run_entry(usage=[7])]), r"runs\[0\].usage"),
        (a_file(runs=[run_entry(usage=[{"inputTokens": "x"}])]), r"runs\[0\].usage\[0\]: inputTokens"),
        (a_file(runs=[run_entry(usage=[{"outputTokens": -1}])]), "outputTokens"),
        (a_file(runs=[run_entry(usage=[{"model": 7}])]), "model is a name"),
        (a_file(messages=[entry(metadata={"usage": "x"})]), r"messages\[0\].metadata: usage"),
        (a_file(messages=[entry(metadata={"usage": {"inputTokens": True}})]), "inputTokens"),
        (a_file(messages=[entry(metadata={"durationMs": 10**30})]), "durationMs"),
        (a_file(messages=[entry(metadata={"subagents": []})]), "subagents"),
        (a_file(messages=[entry(metadata={"subagents": {"c1": {"messages": "x"}}})]), "subagent"),
        (a_file(messages=[entry(metadata={"subagent": 7})]), "subagent"),
        (a_file(messages=[entry(metadata={"subagent": {"messages": [{"role": "user"}]}})]), "subagent"),
        (a_file(messages=[entry(metadata={"subagent": behind(id=7)})]), "subagent: its messages"),
        (a_file(messages=[entry(metadata={"subagent": behind(role=[])})]), "subagent"),
        (a_file(messages=[entry(metadata={"subagent": behind(parts=7)})]), "subagent"),
        (
            a_file(messages=[entry(metadata={"subagent": behind(parts=[{"type": "text", "text": 7}])})]),
            "subagent",
        ),
        (a_file(messages=[entry(metadata={"subagent": behind(metadata={"usage": 7})})]), "usage"),
    ],
)
def test_a_file_that_is_none_is_refused_with_the_place(text, words):
    with pytest.raises(Invalid, match=words):
        shape.read_file(text)


async def test_a_subagents_work_that_reads_is_taken_in(person):
    said = behind(parts=[{"type": "text", "text": "Done."}], metadata={"usage": {"inputTokens": 3}})
    file = shape.read_file(a_file(messages=[entry(metadata={"subagent": said, "subagents": {"c1": said}})]))
    taken = await db.write(moving.take_in, person, file)
    kept = await db.read(taken.messages.get)
    assert kept.metadata["subagent"] == said


async def test_text_that_no_database_takes_is_mended(person):
    file = shape.read_file(a_file(title="a\x00b", messages=[entry(metadata={"x": "\x00"})]))
    taken = await db.write(moving.take_in, person, file)
    assert taken.title == "a\ufffdb"


async def test_markdown_shows_what_was_said_and_done(thread):
    state = await db.read(store.load_state, thread)
    text = markdown.markdown_of(state)
    assert text.startswith("# How is Oslo?\n\n## You\n\nHow is Oslo?\n\n## Assistant\n\nAnother answer.\n")
    assert "Thanks `\N{SNOWMAN}`" in text
    assert "Politely" not in text


def test_a_result_cannot_leave_its_fence():
    assert markdown._fenced("a\n````\nb", "") == "`````\na\n````\nb\n`````"
