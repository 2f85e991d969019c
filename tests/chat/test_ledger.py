"""Which calls changed, and how, between one batch and the next."""

from agent.events import RunFinished, StepStarted, ToolCallArgs, ToolCallEnd, ToolCallResult, ToolCallStart
from agent.messages import Transcript
from agent.reducer import apply
from chatsite.chat.runs.ledger import Ledger


def told(ledger, transcript, *events):
    for event in events:
        transcript = apply(transcript, event)
        ledger.note(event, transcript)
    return transcript


def asks(id, within=None):
    return (
        ToolCallStart(tool_call_id=id, tool_call_name="look", parent_message_id="m1", subagent_run_id=within),
        ToolCallArgs(tool_call_id=id, delta='{"at":1}', subagent_run_id=within),
        ToolCallEnd(tool_call_id=id, subagent_run_id=within),
    )


def states(ledger):
    return {id: change.state for id, change in ledger.changes().items()}


def test_a_call_goes_from_proposed_over_claimed_to_done():
    ledger, seen = Ledger({}), []
    transcript = told(ledger, Transcript(), StepStarted(step_name="turn-1"), *asks("c1"))
    seen.append(states(ledger))
    ledger.claim(transcript.live[0].tool_calls[0])
    seen.append(states(ledger))
    told(ledger, transcript, ToolCallResult(message_id="t1", tool_call_id="c1", content="ok"))
    seen.append(states(ledger))
    assert seen == [{"c1": "proposed"}, {"c1": "claimed"}, {"c1": "done"}]
    change = ledger.changes()["c1"]
    assert (change.arguments, change.result) == ('{"at":1}', "ok")


def test_what_changes_while_it_is_written_is_written_once_more():
    ledger = Ledger({})
    transcript = told(ledger, Transcript(), *asks("c1"), *asks("c2"))
    written = ledger.changes()
    ledger.claim(transcript.live[0].tool_calls[0])
    ledger.kept(written)
    assert states(ledger) == {"c1": "claimed"}
    ledger.kept(ledger.changes())
    assert states(ledger) == {}


def test_a_call_that_its_run_leaves_open_waits():
    ledger = Ledger({})
    transcript = told(ledger, Transcript(), *asks("c1"))
    told(ledger, transcript, RunFinished(thread_id="t", run_id="r", stop_reason="client_tools"))
    assert states(ledger) == {"c1": "waiting"}


def test_a_call_within_a_subagent_has_its_row_though_the_transcript_leaves_it_out():
    ledger = Ledger({})
    transcript = told(ledger, Transcript(), *asks("i1", within="inner"))
    assert len(transcript) == 0
    assert (ledger.changes()["i1"].state, ledger.changes()["i1"].arguments) == ("proposed", '{"at":1}')
