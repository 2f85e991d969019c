"""The transcript as HTML, and what changes in it from one state to the next.

log > section.run #r..  > div #r..m > article.msg #m..  > part #m..-0, #m..-1
                        > footer #r..e                    > div (block)
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from django.utils.translation import gettext as _

from agent.messages import NOTICE, FilePart, ImagePart, Message, Part, TextPart, ThinkingPart, ToolCallPart
from chatsite.chat.render import words
from chatsite.chat.render.cards import attachment, call_pieces, card, kept_file, scrolls
from chatsite.chat.render.context import Context, Typed, contexts_of
from chatsite.chat.render.ends import end_html
from chatsite.chat.render.escaping import escape
from chatsite.chat.render.growing import Growing
from chatsite.chat.render.links import Links
from chatsite.chat.render.swaps import gone, replace_shown, short_id, up
from chatsite.chat.render.window import section_id
from chatsite.chat.render.within import Source, head_html, segment_of
from chatsite.chat.state import Segment, ThreadState


@dataclass(slots=True)
class _Shown:
    """A message on the page."""

    message: Message
    context: Context
    texts: dict[int, Growing] = field(default_factory=dict)
    pieces: dict[str, str] = field(default_factory=dict)
    """Small elements by id, as they are shown."""
    within: dict[int, tuple[Writer, Source]] = field(default_factory=dict)
    """Of the runs behind its calls, by the places of these; and where each was told."""


class Writer:
    """Knows what the page shows: each message, and the end of each run."""

    def __init__(self, typed: Typed | None = None, *, own: bool = True, inside: bool = False) -> None:
        """`own`: whoever reads may also steer, so there are the means for it. `inside` a tool card it is a subagent
        that speaks."""
        self._messages: dict[str, _Shown] = {}
        self._ends: dict[str, str] = {}
        self._behind: dict[str, str] = {}
        """The runs that the page need not show, by the ids of their elements; as they looked last, where known."""
        self._own, self._inside = own, inside
        self._links = Links(own=own)
        self._typed = typed

    def whole(self, state: ThreadState, first: int = 0, end: int | None = None) -> str:
        """The runs from the place `first` on, up to `end`; of the others it is known that the page may lack them."""
        unsettled = self._links.look(state, state.segments)
        for segment in state.segments[:first]:
            look = self.segment(segment) if segment.run.id in unsettled else ""
            self._behind[section_id(segment)] = look
        return "".join(self.segment(segment) for segment in state.segments[first:end])

    def look(self, state: ThreadState, changed: Sequence[Segment], *, anew: bool = False) -> set[str]:
        """Get ready for the changes to a state: the ids of the runs that may look different by what others hold."""
        if anew:
            self._links = Links(own=self._own, picks=self._links.picks)
        return self._links.look(state, state.segments if anew else changed)

    def segment(self, segment: Segment) -> str:
        id = section_id(segment)
        articles = self._articles(segment)
        end = self._ends[id] = end_html(id, segment, self._links)
        look = "run" if any(message.role == "user" for message in segment.messages) else '"run goes-on"'
        mark = f"<p class=resumed>{words.RESUMED}</p>" if segment.run.resumes else ""
        return f"<section id={id} class={look}>{mark}<div id={id}m>{articles}</div>{end}</section>"

    def _articles(self, segment: Segment) -> str:
        contexts = contexts_of(segment, self._links, self._typed)
        return "".join(map(self._article, segment.messages, contexts))

    def without(self, segment: Segment) -> str:
        """The fragment that takes a run off the page."""
        for message in segment.messages:
            self._messages.pop(message.id, None)
        self._behind.pop(section_id(segment), None)
        return gone(section_id(segment))

    def segment_changes(self, old: Segment, segment: Segment) -> Iterable[str]:
        id = section_id(segment)
        if id in self._behind:
            look = self.segment(segment)
            if look != self._behind[id]:
                self._behind[id] = look
                yield replace_shown(look)  # whole, for a page that had it come; nothing happens on the others
            return
        if [message.id for message in old.messages] != [
            message.id for message in segment.messages[: len(old.messages)]
        ]:
            for message in old.messages:
                self._messages.pop(message.id, None)
            yield replace_shown(self.segment(segment))
            return
        yield from self._article_changes(f"{id}m", segment)
        end = end_html(id, segment, self._links)
        if end != self._ends.get(id):
            self._ends[id] = end
            yield up(id, end)

    def _article_changes(self, parent: str, segment: Segment) -> Iterable[str]:
        for message, context in zip(
            segment.messages, contexts_of(segment, self._links, self._typed), strict=True
        ):
            shown = self._messages.get(message.id)
            if shown is None:
                if article := self._article(message, context):
                    yield up(parent, article)
            elif shown.message is not message or shown.context != context:
                yield self._message_changes(parent, shown, message, context)

    def _article(self, message: Message, context: Context) -> str:
        """A message as an element of its own; "" for those that show as part of others (tool results)."""
        shown = self._messages[message.id] = _Shown(message, context)
        if message.role == "tool":
            return ""
        id = short_id("m", message.id)
        if message.role == "user":
            said = f"{_user_parts(message)}{context.acts}"
            return f'<article id={id} class="msg user" aria-label="{_("You")}">{said}</article>'
        if message.role != "assistant":
            text = f"<div class=md dir=auto hx-ignore><p class=raw>{escape(message.text)}</p></div>"
            head = _("What the assistant was told") if NOTICE in message.metadata else _("Instructions")
            return f'<details id={id} class="msg fold"><summary>{head}</summary>{text}</details>'
        parts = "".join(
            self._part(shown, id, place, part, context) for place, part in enumerate(message.parts)
        )
        note = shown.pieces["note"] = _turn_note(context, message)
        look = ("inner", _("Subagent")) if self._inside else ('"msg bot"', _("Assistant"))
        return f'<article id={id} class={look[0]} aria-label="{look[1]}">{parts}{note}</article>'

    def _part(self, shown: _Shown, id: str, place: int, part: Part, context: Context) -> str:
        part_id = f"{id}-{place}"
        match part:
            case TextPart():
                growing = shown.texts[place] = Growing(part_id)
                return growing.html(part.text, is_open=context.is_open)
            case ThinkingPart() if part.redacted and not part.text:
                return f"<p id={part_id} class=note>{_('A thought the provider does not show.')}</p>"
            case ThinkingPart():
                growing = shown.texts[place] = Growing(f"{part_id}t")
                text = growing.html(part.text, is_open=context.is_open)
                head = shown.pieces[f"{part_id}s"] = _thinking_head(
                    part_id, part, _is_last(shown, place, context)
                )
                return f"<details id={part_id} class=fold><summary>{head}</summary>{text}</details>"
            case ToolCallPart():
                number = _call_number(shown.message, place)
                pieces = call_pieces(part_id, part, context, number)
                shown.pieces.update(pieces)
                within = self._within(shown, place, part_id, context, number)
                return card(part_id, part, pieces, context.questions[number], within)
            case ImagePart() | FilePart():
                return f"<p id={part_id} class=note hx-ignore>{attachment(part)}</p>"
        return ""

    def _message_changes(self, parent: str, shown: _Shown, message: Message, context: Context) -> str:
        if message.role != "assistant" or len(message.parts) < len(shown.message.parts):
            return up(parent, article) if (article := self._article(message, context)) else ""
        id = short_id("m", message.id)
        before = len(shown.message.parts)
        shown.message, shown.context = message, context
        changes: list[str] = []
        for place, part in enumerate(message.parts):
            if place >= before:
                changes.append(up(id, self._part(shown, id, place, part, context)))
            else:
                changes.append(self._part_changes(shown, id, place, part, context))
        note = _turn_note(context, message)
        if note != shown.pieces["note"]:
            shown.pieces["note"] = note
            changes.append(up(id, note))
        return "".join(changes)

    def _part_changes(self, shown: _Shown, id: str, place: int, part: Part, context: Context) -> str:
        part_id = f"{id}-{place}"
        match part:
            case TextPart() | ThinkingPart() if place in shown.texts:
                try:
                    changes = shown.texts[place].changes(part.text, is_open=context.is_open)
                except ValueError:  # a restart lost the last words: show what is kept
                    return up(id, self._part(shown, id, place, part, context))
                if isinstance(part, ThinkingPart):
                    head = _thinking_head(part_id, part, _is_last(shown, place, context))
                    changes += _piece_changes(shown, {f"{part_id}s": head})
                return changes
            case ToolCallPart():
                number = _call_number(shown.message, place)
                changes = _piece_changes(shown, call_pieces(part_id, part, context, number))
                return changes + self._within_changes(shown, place, part_id, context, number)
        return ""

    def _within(self, shown: _Shown, place: int, id: str, context: Context, number: int) -> str:
        """The run behind a call, folded; "" where there is none."""
        source = context.within[number] if context.within else None
        if source is None:
            return ""
        segment = segment_of(source, context.results[number])
        inner = Writer(own=False, inside=True)
        shown.within[place] = inner, source
        inner._links.underway = self._links.underway
        head = shown.pieces[f"{id}ns"] = head_html(f"{id}ns", segment)
        said = f"<div id={id}nm>{inner._articles(segment)}</div>"
        return f'<details id={id}n class="fold behind"><summary>{head}</summary>{said}</details>'

    def _within_changes(self, shown: _Shown, place: int, id: str, context: Context, number: int) -> str:
        source, known = context.within[number] if context.within else None, shown.within.get(place)
        if source is None and known is not None:
            del shown.within[place]  # its server died before that was kept
            return gone(f"{id}n")
        if source is None or known is None:
            return up(id, html) if (html := self._within(shown, place, id, context, number)) else ""
        inner, before = known
        if source is before:
            return ""
        shown.within[place] = inner, source
        segment = segment_of(source, context.results[number])
        inner._links.underway = self._links.underway
        changes = "".join(inner._article_changes(f"{id}nm", segment))
        return changes + _piece_changes(shown, {f"{id}ns": head_html(f"{id}ns", segment)})


def _is_last(shown: _Shown, place: int, context: Context) -> bool:
    return context.is_open and place == len(shown.message.parts) - 1


def _call_number(message: Message, place: int) -> int:
    return sum(isinstance(part, ToolCallPart) for part in message.parts[:place])


def _piece_changes(shown: _Shown, pieces: Mapping[str, str]) -> str:
    changed = {id: html for id, html in pieces.items() if html != shown.pieces.get(id)}
    shown.pieces.update(changed)
    return replace_shown("".join(changed.values())) if changed else ""


def _user_parts(message: Message) -> str:
    kept = "".join(kept_file(part) for part in message.parts if isinstance(part, ImagePart | FilePart))
    html = [f"<div class=given hx-ignore>{kept}</div>"] if kept else []
    for part in message.parts:
        if isinstance(part, TextPart):
            look = f'class="bubble text" dir=auto hx-ignore{scrolls(part.text)}'
            html.append(f"<div {look}>{escape(part.text)}</div>")
        elif isinstance(part, ImagePart | FilePart) and not kept_file(part):
            html.append(f"<div class=bubble hx-ignore>{attachment(part)}</div>")
    return "".join(html)


def _thinking_head(id: str, part: ThinkingPart, going_on: bool) -> str:
    return f"<span id={id}s>{words.thought(part.duration_ms, going_on=going_on)}</span>"


def _turn_note(context: Context, message: Message) -> str:
    """The end of a turn inside a run that went on behind it; empty for the others."""
    text = words.TURN_WORDS.get(message.finish_reason or "") if context.goes_on else None
    return f"<p id={short_id('m', message.id)}n class=note>{text}</p>" if text else ""
