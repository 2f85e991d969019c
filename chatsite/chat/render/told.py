"""Why a run failed, in the reader's language.

A run keeps its own sentence, in English: it is made where nobody knows who will read it, and programs read it as it
is. Those that we make ourselves are known here, with a place for what differs in them; any other stays as it is.
"""

from __future__ import annotations

import re
from functools import cache

from django.utils import translation
from django.utils.translation import gettext_noop as known

SENTENCES = (
    known("Something went wrong on the server. What was said so far is kept."),
    known("The account at the model's endpoint has no credit left ({status})."),
    known("The address of the model's endpoint is not valid."),
    known("The connection to the model's endpoint broke."),
    known("The conversation is too long for this model ({status})."),
    known("The demo model was asked for an error, and this is it: nothing was said, and you can try again."),
    known("The model could not be reached."),
    known("The model's answer broke off before its end."),
    known("The model's answer broke off."),
    known("The model's answer stopped for more than {seconds} seconds."),
    known("The model's endpoint answered with a web page. Is its address right?"),
    known("The model's endpoint could not be reached within {seconds} seconds."),
    known("The model's endpoint could not be reached."),
    known("The model's endpoint did not begin to answer within {seconds} seconds."),
    known("The model's endpoint does not accept the API key ({status})."),
    known("The model's endpoint does not know this model, or its address is wrong ({status})."),
    known("The model's endpoint does not speak HTTP. Is its address right?"),
    known("The model's endpoint gave up waiting ({status})."),
    known("The model's endpoint has an error of its own ({status})."),
    known("The model's endpoint has too many requests at the moment (429)."),
    known(
        "The model's endpoint has too many requests at the moment (429). It asks to wait {seconds} seconds."
    ),
    known("The model's endpoint is overloaded ({status})."),
    known("The model's endpoint refused the request ({status})."),
    known("The model's endpoint reported an error in its answer."),
    known("The model's endpoint sends us to another address ({status}). Is its address right?"),
    known("The model's endpoint sent an answer without an end."),
    known("The model's endpoint sent an empty answer."),
    known("The model's endpoint sent JSON of another kind than expected."),
    known("The model's endpoint sent something that is no JSON."),
    known("The server failed while answering. What you wrote is kept; try again."),
)
"""Of the agent, its providers and the runner."""


def told(error: str) -> str:
    if not error or (translation.get_language() or "en").startswith("en"):
        return error
    for pattern, sentence in _patterns():
        if found := pattern.fullmatch(error):
            return translation.gettext(sentence).format(**found.groupdict())
    return error


@cache
def _patterns() -> tuple[tuple[re.Pattern[str], str], ...]:
    return tuple(
        (re.compile(re.sub(r"\\\{(\w+)\\\}", r"(?P<\1>.{1,80}?)", re.escape(sentence))), sentence)
        for sentence in SENTENCES
    )
