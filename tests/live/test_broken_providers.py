"""A model's endpoint that breaks in every way it can: a sentence, the person's message kept, the thread usable.

A real server and a real endpoint, both protocols. What hangs for ever is tried in this process, where its
timeouts can be short (`test_hanging_providers.py`).
"""

from __future__ import annotations

import pytest

from tests.agent.agui_validation import assert_valid_run
from tests.live.api import Api, new_id, said_by, text_of
from tests.server import Server
from tests.standin import BROKEN, Broken, StandIn
from tests.words import A_KEY

# Tried again twice before the first byte, with pauses between: the run takes some seconds.
TRIED_AGAIN = {"429", "500", "503", "529", "html_502", "refuse", "reset_before_body", "not_http", "empty"}
HANGING = {kind for kind in BROKEN if kind.startswith("hang")}
GOOD = {"whole"}
KINDS = sorted(set(BROKEN) - HANGING - GOOD)

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module", params=["daphne"])
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, standin: StandIn):
    """One of the two servers is enough: what is tested here lies behind them."""
    from tests.live.conftest import BOTH, endpoints

    with Server(tmp_path_factory.mktemp("site"), **endpoints(standin), **BOTH) as server:
        yield server


@pytest.mark.parametrize(
    "kind", [pytest.param(kind, marks=pytest.mark.slow if kind in TRIED_AGAIN else ()) for kind in KINDS]
)
def test_a_broken_answer_is_a_sentence_and_the_thread_goes_on(
    kind: str, api: Api, server: Server, standin: StandIn, model: str
):
    standin.play(*[Broken(kind)] * (3 if kind in TRIED_AGAIN else 1))
    thread = new_id()
    events = api.run("Are you well?", thread, model=model)
    standin._answers.clear()
    assert_valid_run(events, cut_calls=kind == "cut_call")
    end = events[-1]
    assert end["type"] == "RUN_ERROR", end
    assert end["code"]
    sentence = end["message"]
    assert len(sentence.split()) >= 4, sentence
    assert sentence[-1] in ".!?", sentence
    for secret in ("sk-", "Traceback", "<html", "<!DOCTYPE", "Error(", "127.0.0.1"):
        assert secret not in sentence

    read = api.settled(thread)
    assert said_by(read, "user") == ["Are you well?"]
    if kept := text_of(events):
        assert said_by(read, "assistant") == [kept]
    page = api.page(thread)
    assert 'form="retry-form"' in page.replace("form=retry-form", 'form="retry-form"')
    assert not A_KEY.search(page)

    again = api.run("And now?", thread, model=model)
    assert again[-1]["type"] == "RUN_FINISHED"
    # Anthropic takes no two user messages in a row, so the unanswered one comes along in one with the next.
    assert text_of(again).endswith("And now?")


def test_a_whole_answer_will_do_though_a_stream_was_asked_for(api: Api, standin: StandIn, model: str):
    standin.play(Broken("whole"))
    events = api.run("Hello", model=model)
    assert_valid_run(events)
    assert events[-1]["type"] == "RUN_FINISHED"
    assert text_of(events) == "This answer will not be whole, and somebody should say so."


def test_a_pause_the_provider_asks_for_is_kept_and_nobody_sees_it(api: Api, standin: StandIn, model: str):
    standin.play(Broken("429"))
    asked = len(standin.exchanges)
    events = api.run("Hello", model=model)
    assert events[-1]["type"] == "RUN_FINISHED"
    assert len(standin.exchanges) == asked + 2
