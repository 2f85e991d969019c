"""The page of a run's requests: turn by turn what was new, the whole of it, and what came back."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from django.http import Http404
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _

from chatsite.adminkit.base import NOTHING, as_json, as_text, pretty_json
from chatsite.adminkit.masking import masked
from chatsite.chat.admin.requests import Difference, Rebuilt, Requests, difference, turns_of, without_secrets
from chatsite.chat.models import Message, Run, Turn
from chatsite.chat.render import words
from chatsite.chat.runs.responses import known_keys, unpacked

TURNS_ON_A_PAGE = 10


@dataclass(frozen=True, slots=True)
class TurnView:
    turn: Turn
    verdict: str
    look: str
    facts: tuple[tuple[str, str], ...]
    difference: Difference
    headers: tuple[tuple[str, str], ...]
    body: SafeString | str
    response: SafeString | str
    about_response: str
    answer: SafeString | str


def page_of(run: Run, first: str | None) -> dict[str, Any]:
    turns = turns_of(run)
    begin = next((place for place, turn in enumerate(turns) if str(turn.number) == first), 0)
    shown = turns[begin : begin + TURNS_ON_A_PAGE]
    behind = turns[begin + TURNS_ON_A_PAGE :]
    return {
        "run": run,
        "turns": list(_views(run, shown)) if shown else [],
        "more": behind[0].number if behind else None,
    }


def text_of(run: Run, number: int) -> str:
    """One request as text, as it was but for its secrets."""
    turn = run.turn_rows.filter(number=number).first()
    if turn is None:
        raise Http404
    return pretty_json(Requests(run.thread).rebuilt(turn).body)


def response_of(run: Run, number: int) -> str:
    """What came back in that turn, as text."""
    turn = run.turn_rows.filter(number=number).exclude(response=None).first()
    if turn is None:
        raise Http404
    return _came_back(turn.response)


def _views(run: Run, turns: list[Turn]) -> Iterator[TurnView]:
    requests = Requests(run.thread)
    earlier = requests.before(turns[0])
    before = requests.rebuilt(earlier) if earlier else None
    responses = dict(Turn.objects.filter(pk__in=[turn.pk for turn in turns]).values_list("pk", "response"))
    for turn in turns:
        rebuilt = requests.rebuilt(turn)
        answer = requests.answer(turn)
        verdict, look = _verdict(rebuilt)
        yield TurnView(
            turn=turn,
            verdict=verdict,
            look=look,
            facts=tuple(_facts(turn, answer)),
            difference=difference(before, rebuilt),
            headers=rebuilt.headers,
            body=as_json(rebuilt.body),
            response=as_text(_came_back(responses[turn.pk])) if responses[turn.pk] else "",
            about_response=_about_response(turn, kept=bool(responses[turn.pk])),
            answer=_answer(answer),
        )
        before = rebuilt


def _verdict(rebuilt: Rebuilt) -> tuple[str, str]:
    if rebuilt.lost:
        return _("%(n)s of its messages are deleted") % {"n": rebuilt.lost}, "lost"
    if rebuilt.exact is None:
        return _("asked in this process"), ""
    if rebuilt.exact:
        return _("exactly as it was sent"), "finished"
    if not rebuilt.turn.sent:
        return _("never sent"), "cancelled"
    return _("not as it was sent: something of it was changed since"), "cancelled"


def _facts(turn: Turn, answer: Message | None) -> Iterator[tuple[str, str]]:
    metadata = answer.metadata if answer else {}
    yield _("Asked"), f"{turn.began_at:%Y-%m-%d %H:%M:%S} UTC"
    if turn.size:
        yield _("Size"), _("%(n)s bytes") % {"n": f"{turn.size:,}"}
    if turn.sent > 1:
        yield _("Sent"), _("%(n)s times, with what the endpoint asked for") % {"n": turn.sent}
    yield _("Answered by"), words.plain(str(metadata.get("provider") or "")) or NOTHING
    yield _("Finish reason"), (answer.finish_reason if answer else None) or NOTHING
    usage = metadata.get("usage") or {}
    yield _("Tokens"), f"{usage.get('inputTokens', 0):,} / {usage.get('outputTokens', 0):,}"
    if isinstance(took := metadata.get("durationMs"), int):
        yield _("Took"), words.duration(took)


def _answer(row: Message | None) -> SafeString | str:
    if row is None:
        return _("There is none: the turn failed, or its message is deleted.")
    told = {"parts": row.parts, "finishReason": row.finish_reason, "metadata": row.metadata}
    return as_json(without_secrets(told))


def _came_back(response: bytes) -> str:
    return masked(unpacked(response), known_keys())


def _about_response(turn: Turn, *, kept: bool) -> str:
    if not turn.path:
        return _("The model was asked in this process: nothing came over a wire.")
    said = _("Status %(status)s, %(n)s bytes.") % {"status": turn.status, "n": f"{turn.received:,}"}
    if not kept and not turn.received:
        return _("Nothing of it was kept: nothing came back, or KEEP_RESPONSES was off.")
    if not kept:
        return f"{said} " + _("It went with the log of the run (EVENTS_KEEP_DAYS).")
    cut = _("It was too long to be kept whole: here is how it began.") if turn.response_cut else ""
    return f"{said} {cut}".strip()
