"""Fragments: the HTML of a thread, whole or as the difference between two states of it.

Rule 1: one path. A page is what the fragments of its history would have made of an empty page.
Rule 2: text of users, models and tools is escaped or cleaned, and stands inside `hx-ignore`.
Rule 3: applying a fragment twice changes nothing the second time. Elements are replaced by their id; text
grows only from the very version a fragment was made for.

The page's own elements for htmx (`static/chat/chat.js` swaps them, the rest is htmx itself):

    <hx-up to=ID>elements</hx-up>         each element replaces the one of its id, or goes to the end of ID
    <hx-set to=ID k=3 f=40 v=52>..        block 3 of the text ID becomes this; `c` is how many blocks stay
    <hx-add to=ID k=3 d=2 f=40 v=52>..    goes to the end of block 3, inside its last element, two deep

`f` is the version of the text this is made for, `v` the one it makes (`x`: final). A version is the length of
the text's source, so a page that was loaded in the middle continues from there.

    log > section.run #r..  > div #r..m > article.msg #m..  > part #m..-0, #m..-1
                            > footer #r..e                    > div (block)
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import blake2b

from django.utils.safestring import SafeString, mark_safe

from agent.messages import (
    FilePart,
    ImagePart,
    Message,
    Part,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolResultPart,
)
from chatsite.chat.render import words
from chatsite.chat.render.blocks import Blocks, tidy
from chatsite.chat.render.markdown import clean, code_html, escape
from chatsite.chat.state import RunView, Segment, ThreadState

MAX_SHOWN = 40_000
"""Characters shown of one call's arguments or result; what is behind is counted, not shown."""


def render_transcript(state: ThreadState) -> SafeString:
    """The whole transcript as the page shows it."""
    return mark_safe(_Writer().whole(state))  # noqa: S308 - every text in it is escaped or cleaned


def render_full(state: ThreadState) -> str:
    """A fragment that puts the whole transcript in the place of whatever the page shows."""
    writer = _Writer()
    return f'<hx-partial hx-target="#log" hx-swap="innerHTML">{writer.whole(state)}</hx-partial>' + "".join(
        [_live(state), _status(_spoken(state)), _title(state)]
    )


class FragmentWriter:
    """Brings a page that shows one state to the next one. One for each follower."""

    def __init__(self, state: ThreadState) -> None:
        self._state = state
        self._writer = _Writer()
        self._writer.whole(state)

    def update(self, state: ThreadState) -> str:
        """The fragments from the last state to this one; "" when nothing changed."""
        before, self._state = self._state, state
        common = _common_runs(before, state)
        if before.segments and not common:
            self._writer = _Writer()
            self._writer.whole(state)
            return render_full(state)
        return "".join(self._changes(before, state, common))

    def _changes(self, before: ThreadState, state: ThreadState, common: int) -> Iterable[str]:
        for gone in before.segments[common:]:  # a retry takes the place of a run
            yield self._writer.without(gone)
        for old, segment in zip(before.segments[:common], state.segments, strict=False):
            if old is not segment:
                yield from self._writer.segment_changes(old, segment)
        for segment in state.segments[common:]:
            yield _up("log", self._writer.segment(segment))
        if (before.active_run is None) != (state.active_run is None):
            yield _live(state)
        if (said := _spoken(state)) != _spoken(before) and said:
            yield _status(said)
        if before.title != state.title:
            yield _title(state)


def _common_runs(before: ThreadState, state: ThreadState) -> int:
    """How many runs the two have in common, from the first on."""
    common = 0
    for old, new in zip(before.segments, state.segments, strict=False):
        if old is not new and old.run.id != new.run.id:
            break
        common += 1
    return common


# -- ids and small elements ----------------------------------------------------------------------------------


@lru_cache(maxsize=8192)
def short_id(kind: str, id: str) -> str:
    """An element's id for a row's: short, since it stands in every fragment, and good as a CSS name."""
    return kind + base64.urlsafe_b64encode(blake2b(id.encode(), digest_size=6).digest()).decode()


def _up(target: str, html: str) -> str:
    return f"<hx-up to={target}>{html}</hx-up>"


def _replace(html: str) -> str:
    """Elements that the page has already."""
    return f"<hx-up>{html}</hx-up>"


def _live(state: ThreadState) -> str:
    """What Send and Stop look at: whether a run is active."""
    return _replace(live_html(state))


def live_html(state: ThreadState) -> str:
    return f"<i id=live hidden{'' if state.active_run is None else ' class=on'}></i>"


def _status(text: str) -> str:
    return f'<hx-partial hx-target="#status" hx-swap="textContent">{escape(text)}</hx-partial>'


def _title(state: ThreadState) -> str:
    title = escape(words.plain(state.title) or "New thread")
    places = f"#title,#t-{escape(state.thread_id)}"
    return (
        f'<title>{title}</title><hx-partial hx-target="{places}" hx-swap="textContent">{title}</hx-partial>'
    )


def _spoken(state: ThreadState) -> str:
    """The boundary a screen reader hears: what runs, or how the last run ended."""
    if not state.segments:
        return ""
    segment = state.segments[-1]
    run = segment.run
    if not run.active:
        end = words.end_of(run, _turns(segment))
        return end.text or "Answer finished."
    calls = _open_call_names(segment)
    return f"Running {', '.join(calls)}." if calls else "Answering."


def _turns(segment: Segment) -> int:
    """The turns a limit counted: those that called tools, without the last words behind the limit."""
    return sum(bool(message.tool_calls) for message in segment.messages)


def _open_call_names(segment: Segment) -> list[str]:
    """The names of the calls that run now."""
    answered: set[str] = set()
    for message in reversed(segment.messages):
        if message.role == "tool":
            answered.update(result.tool_call_id for result in message.tool_results)
        elif message.role == "assistant" and message.finish_reason is not None:
            return [words.plain(call.name) for call in message.tool_calls if call.id not in answered]
        else:
            break
    return []


# -- text that grows -----------------------------------------------------------------------------------------

_CLOSER = re.compile(r"</[a-z0-9]+>$")
_TAG = re.compile(r"<(/?)([a-z0-9]+)[^>]*>")
_VOID = {"br", "hr", "img", "input"}


def appended(old: str, new: str) -> tuple[int, str] | None:
    """How `new` comes from `old` by adding inside elements that end where `old` ends.

    (depth, HTML): add the HTML to the end of the element so deep; None when that is not the difference.
    """
    if len(new) <= len(old):
        return None
    for depth, border in reversed(list(enumerate(_endings(old)))):
        ending = old[border:]
        if new.startswith(old[:border]) and new.endswith(ending):
            added = new[border : len(new) - len(ending)]
            if _balanced(added):
                return depth, added
    return None


def _endings(html: str) -> list[int]:
    """Where the elements end that end with the HTML, itself first, then outermost to innermost."""
    borders = [len(html)]
    while True:
        rest = html[: borders[-1]].rstrip()
        tag = rest.rfind("<")
        if tag < 0 or not _CLOSER.match(rest[tag:]):
            return borders
        borders.append(tag)


def _balanced(html: str) -> bool:
    depth = 0
    for match in _TAG.finditer(html):
        if match[2] not in _VOID:
            depth += -1 if match[1] else 1
        if depth < 0:
            return False
    return depth == 0


@dataclass(slots=True)
class _Growing:
    """A text on the page: what is shown of it, and the fragments to the next version."""

    id: str
    blocks: Blocks = field(default_factory=Blocks)
    shown: int = 0
    tail: list[str] = field(default_factory=list)
    version: str = "x"

    def html(self, text: str, *, is_open: bool) -> str:
        self._feed(text, is_open=is_open)
        version = "" if self.version == "x" else f" data-v={self.version}"
        blocks = "".join(f"<div>{html}</div>" for html in self.blocks.html)
        return f"<div id={self.id} class=md hx-ignore{version}>{blocks}</div>"

    def changes(self, text: str, *, is_open: bool) -> str:
        """Raises ValueError when the text is not the earlier one and more."""
        first, old, version = self.shown, self.tail, self.version
        if version == "x":
            if is_open or tidy(text) != self.blocks.text:
                raise ValueError("the text was final")
            return ""
        self._feed(text, is_open=is_open)
        if self.version == version:
            return ""
        new = self.blocks.settled[first:] + self.tail
        ops: list[tuple[str, str]] = []
        for place, html in enumerate(new):
            if place >= len(old):
                ops.append((f"set to={self.id} k={first + place}", html))
            elif html != old[place]:
                added = appended(old[place], html)
                if added is None:
                    ops.append((f"set to={self.id} k={first + place}", html))
                else:
                    ops.append((f"add to={self.id} k={first + place} d={added[0]}", added[1]))
        if not ops or len(new) < len(old):
            ops.append((f"set to={self.id} c={first + len(new)}", ""))
        ops[-1] = (f"{ops[-1][0]} v={self.version}", ops[-1][1])
        return "".join(f"<hx-{head} f={version}>{html}</hx-{head[:3]}>" for head, html in ops)

    def _feed(self, text: str, *, is_open: bool) -> None:
        self.blocks.feed(text, is_open=is_open)
        self.shown = len(self.blocks.settled)
        self.tail = self.blocks.tail
        self.version = str(len(self.blocks.text)) if is_open else "x"


# -- the transcript ------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Context:
    """What a message's look depends on besides itself."""

    run_state: str
    is_open: bool
    """More may come into this message."""
    goes_on: bool
    """There are assistant messages behind it in its run."""
    results: tuple[ToolResultPart | None, ...]


@dataclass(slots=True)
class _Shown:
    """A message on the page."""

    message: Message
    context: _Context
    texts: dict[int, _Growing] = field(default_factory=dict)
    pieces: dict[str, str] = field(default_factory=dict)
    """Small elements by id, as they are shown."""


class _Writer:
    """Knows what the page shows: each message, and the end of each run."""

    def __init__(self) -> None:
        self._messages: dict[str, _Shown] = {}
        self._ends: dict[str, str] = {}

    def whole(self, state: ThreadState) -> str:
        return "".join(self.segment(segment) for segment in state.segments)

    def segment(self, segment: Segment) -> str:
        id = short_id("r", segment.run.id)
        contexts = _contexts(segment)
        articles = "".join(
            self._article(message, context)
            for message, context in zip(segment.messages, contexts, strict=True)
        )
        end = self._ends[id] = _end(id, segment)
        return f"<section id={id} class=run><div id={id}m>{articles}</div>{end}</section>"

    def without(self, segment: Segment) -> str:
        """The fragment that takes a run off the page."""
        for message in segment.messages:
            self._messages.pop(message.id, None)
        return f'<hx-partial hx-target="#{short_id("r", segment.run.id)}" hx-swap="delete"></hx-partial>'

    def segment_changes(self, old: Segment, segment: Segment) -> Iterable[str]:
        if old.run == segment.run and _same(old.messages, segment.messages):
            return
        id = short_id("r", segment.run.id)
        if [message.id for message in old.messages] != [
            message.id for message in segment.messages[: len(old.messages)]
        ]:
            for message in old.messages:
                self._messages.pop(message.id, None)
            yield _up("log", self.segment(segment))
            return
        for message, context in zip(segment.messages, _contexts(segment), strict=True):
            shown = self._messages.get(message.id)
            if shown is None:
                if article := self._article(message, context):
                    yield _up(f"{id}m", article)
            elif shown.message is not message or shown.context != context:
                yield self._message_changes(f"{id}m", shown, message, context)
        end = _end(id, segment)
        if end != self._ends.get(id):
            self._ends[id] = end
            yield _up(id, end)

    def _article(self, message: Message, context: _Context) -> str:
        """A message as an element of its own; "" for those that show as part of others (tool results)."""
        shown = self._messages[message.id] = _Shown(message, context)
        if message.role == "tool":
            return ""
        id = short_id("m", message.id)
        if message.role == "user":
            return f'<article id={id} class="msg user" aria-label=You>{_user_parts(message)}</article>'
        if message.role != "assistant":
            text = f"<div class=md hx-ignore><p class=raw>{escape(message.text)}</p></div>"
            return f'<details id={id} class="msg fold"><summary>Instructions</summary>{text}</details>'
        parts = "".join(
            self._part(shown, id, place, part, context) for place, part in enumerate(message.parts)
        )
        note = shown.pieces["note"] = _turn_note(context, message)
        return f'<article id={id} class="msg bot" aria-label=Assistant>{parts}{note}</article>'

    def _part(self, shown: _Shown, id: str, place: int, part: Part, context: _Context) -> str:
        part_id = f"{id}-{place}"
        match part:
            case TextPart():
                growing = shown.texts[place] = _Growing(part_id)
                return growing.html(part.text, is_open=context.is_open)
            case ThinkingPart() if part.redacted and not part.text:
                return f"<p id={part_id} class=note>A thought the provider does not show.</p>"
            case ThinkingPart():
                growing = shown.texts[place] = _Growing(f"{part_id}t")
                text = growing.html(part.text, is_open=context.is_open)
                head = shown.pieces[f"{part_id}s"] = _thinking_head(part_id, _is_last(shown, place, context))
                return f"<details id={part_id} class=fold><summary>{head}</summary>{text}</details>"
            case ToolCallPart():
                pieces = _call_pieces(part_id, part, context, _call_number(shown.message, place))
                shown.pieces.update(pieces)
                brief, head, arguments, result = pieces.values()
                name = f"<b hx-ignore>{escape(words.plain(part.name))}</b>"
                return (
                    f"<details id={part_id} class=call><summary>{name}{brief}{head}</summary>"
                    f"{arguments}{result}</details>"
                )
            case ImagePart() | FilePart():
                return f"<p id={part_id} class=note hx-ignore>{_attachment(part)}</p>"
        return ""

    def _message_changes(self, parent: str, shown: _Shown, message: Message, context: _Context) -> str:
        if message.role != "assistant" or len(message.parts) < len(shown.message.parts):
            return _up(parent, article) if (article := self._article(message, context)) else ""
        id = short_id("m", message.id)
        before = len(shown.message.parts)
        shown.message, shown.context = message, context
        changes: list[str] = []
        for place, part in enumerate(message.parts):
            if place >= before:
                changes.append(_up(id, self._part(shown, id, place, part, context)))
            else:
                changes.append(self._part_changes(shown, id, place, part, context))
        note = _turn_note(context, message)
        if note != shown.pieces["note"]:
            shown.pieces["note"] = note
            changes.append(_up(id, note))
        return "".join(changes)

    def _part_changes(self, shown: _Shown, id: str, place: int, part: Part, context: _Context) -> str:
        part_id = f"{id}-{place}"
        match part:
            case TextPart() | ThinkingPart() if place in shown.texts:
                try:
                    changes = shown.texts[place].changes(part.text, is_open=context.is_open)
                except ValueError:  # a restart lost the last words: show what is kept
                    return _up(id, self._part(shown, id, place, part, context))
                if isinstance(part, ThinkingPart):
                    head = _thinking_head(part_id, _is_last(shown, place, context))
                    changes += _piece_changes(shown, {f"{part_id}s": head})
                return changes
            case ToolCallPart():
                pieces = _call_pieces(part_id, part, context, _call_number(shown.message, place))
                return _piece_changes(shown, pieces)
        return ""


def _same(old: Sequence[Message], new: Sequence[Message]) -> bool:
    return len(old) == len(new) and all(a is b for a, b in zip(old, new, strict=True))


def _contexts(segment: Segment) -> list[_Context]:
    """The context of each message of a run."""
    results: dict[str, ToolResultPart] = {
        result.tool_call_id: result for message in segment.messages for result in message.tool_results
    }
    last = max((i for i, m in enumerate(segment.messages) if m.role == "assistant"), default=-1)
    state = "active" if segment.run.active else segment.run.state
    return [
        _Context(
            run_state=state,
            is_open=state == "active" and index == last and message.finish_reason is None,
            goes_on=index < last,
            results=tuple(results.get(call.id) for call in message.tool_calls),
        )
        for index, message in enumerate(segment.messages)
    ]


def _is_last(shown: _Shown, place: int, context: _Context) -> bool:
    return context.is_open and place == len(shown.message.parts) - 1


def _call_number(message: Message, place: int) -> int:
    return sum(isinstance(part, ToolCallPart) for part in message.parts[:place])


def _piece_changes(shown: _Shown, pieces: Mapping[str, str]) -> str:
    changed = {id: html for id, html in pieces.items() if html != shown.pieces.get(id)}
    shown.pieces.update(changed)
    return _replace("".join(changed.values())) if changed else ""


def _user_parts(message: Message) -> str:
    html = []
    for part in message.parts:
        if isinstance(part, TextPart):
            scrolls = _scrolls(part.text)
            html.append(f"<div class=bubble hx-ignore{scrolls}>{escape(part.text)}</div>")
        elif isinstance(part, ImagePart | FilePart):
            html.append(f"<div class=bubble hx-ignore>{_attachment(part)}</div>")
    return "".join(html)


def _scrolls(text: str) -> str:
    """The attribute that lets the keyboard reach a text that is likely to scroll in its box."""
    return " tabindex=0" if len(text) > 800 or text.count("\n") > 14 else ""


_IMAGE_TYPES = {"image/png", "image/jpeg", "image/gif", "image/webp"}
_BASE64 = re.compile(r"[A-Za-z0-9+/]+={0,2}")


def _attachment(part: ImagePart | FilePart) -> str:
    if isinstance(part, ImagePart) and part.data and part.mime_type in _IMAGE_TYPES:
        if _BASE64.fullmatch(part.data):
            return f'<img alt="attached image" src="data:{part.mime_type};base64,{part.data}">'
        return "an image that cannot be read"
    kind = "image" if isinstance(part, ImagePart) else part.kind
    name = words.plain(getattr(part, "name", None) or "") or f"attached {kind}"
    return clean(f'<a href="{escape(part.url)}">{escape(name)}</a>') if part.url else escape(name)


def _thinking_head(id: str, going_on: bool) -> str:
    return f"<span id={id}s>{'Thinking…' if going_on else 'Thoughts'}</span>"


def _turn_note(context: _Context, message: Message) -> str:
    """The end of a turn inside a run that went on behind it; empty for the others."""
    text = words.TURN_WORDS.get(message.finish_reason or "") if context.goes_on else None
    return f"<p id={short_id('m', message.id)}n class=note>{text}</p>" if text else ""


# -- tool calls ----------------------------------------------------------------------------------------------


def _call_pieces(id: str, call: ToolCallPart, context: _Context, number: int) -> dict[str, str]:
    """The parts of a card that change: state, arguments, result."""
    result = context.results[number]
    state = _state_of(call, context, result)
    if context.is_open:
        # Arguments are shown when they are whole: half of them say little, and sending them again at each
        # step would cost the square of their length.
        arguments, more = "", words.count(len(call.arguments), "character")
    else:
        arguments, more = pretty(call.arguments), words.duration(result.duration_ms if result else None)
    shown = f"<p class=lab>Arguments</p>{_code(arguments)}" if arguments.strip() else ""
    return {
        f"{id}b": f"<span id={id}b class=brief hx-ignore>{escape(_brief(arguments))}</span>",
        f"{id}s": f'<span id={id}s class="st {state.look}">{state.word}<small>{escape(more)}</small></span>',
        f"{id}a": f"<div id={id}a hx-ignore>{shown}</div>",
        f"{id}r": f"<div id={id}r hx-ignore>{_result(result)}</div>",
    }


def _state_of(call: ToolCallPart, context: _Context, result: ToolResultPart | None) -> words.CallState:
    if result is not None:
        return words.call_state(result.error)
    if call.provider_executed:
        return words.PREPARING if context.is_open else words.BY_PROVIDER
    if context.run_state == "active":
        return words.PREPARING if context.is_open else words.RUNNING
    return words.NO_RESULT.get(context.run_state, words.CallState("no result", "failed"))


def _result(result: ToolResultPart | None) -> str:
    if result is None:
        return ""
    if isinstance(result.content, str):
        texts, others = [result.content], []
    else:
        texts = [part.text for part in result.content if isinstance(part, TextPart)]
        others = [part for part in result.content if not isinstance(part, TextPart)]
    if result.error is not None:
        said, code = _error_message(texts[0] if texts else ""), words.plain(result.error)
        return f"<p class=lab>Error</p><p class=err>{escape(said)}</p><p class=note>{escape(code)}</p>"
    shown = "".join(_code(pretty(text)) for text in texts)
    return f"<p class=lab>Result</p>{shown}" + "".join(
        f"<p class=note>{_attachment(part)}</p>" for part in others
    )


def _error_message(content: str) -> str:
    """The sentence of `{"error": "..."}`, or the content as it is."""
    try:
        value = json.loads(content)
    except (ValueError, RecursionError):
        return content[:MAX_SHOWN]
    message = value.get("error") if isinstance(value, dict) else None
    return message[:MAX_SHOWN] if isinstance(message, str) else content[:MAX_SHOWN]


def _brief(arguments: str) -> str:
    """The arguments in half a line, for the folded card: the plain values of an object."""
    try:
        value = json.loads(arguments) if 0 < len(arguments) < 4_000 else None
    except (ValueError, RecursionError):
        return ""
    if not isinstance(value, dict):
        return ""
    return words.plain(", ".join(str(each) for each in value.values() if isinstance(each, str | int | float)))


@lru_cache(maxsize=1024)
def pretty(text: str) -> str:
    """JSON set out in lines; anything else as it is."""
    if len(text) > MAX_SHOWN:
        return text
    try:
        return json.dumps(json.loads(text), indent=2, ensure_ascii=False)
    except (ValueError, RecursionError):
        return text


def _code(text: str) -> str:
    text = tidy(text)
    rest = len(text) - MAX_SHOWN
    looks_json = text[:1] in "{[" and len(text) < 4_000
    more = f"<p class=note>and {words.count(rest, 'character')} more</p>" if rest > 0 else ""
    scrolls = _scrolls(text)
    return f"<pre{scrolls}>{code_html(text[:MAX_SHOWN], 'json' if looks_json else '')}</pre>{more}"


# -- the end of a run ----------------------------------------------------------------------------------------

_BUTTONS = {
    "": "",
    "retry": "<button class=act form=retry-form>Retry</button>",
    "continue": "<button class=act form=continue-form>Continue</button>",
}


def _end(id: str, segment: Segment) -> str:
    """The line behind a run: that it works, or how it ended, what to do next, and what it took."""
    run = segment.run
    if run.active:
        dots = "<span class=dots><i></i><i></i><i></i></span>"
        return f'<footer id={id}e class="end busy" aria-hidden=true>{dots}</footer>'
    end = words.end_of(run, _turns(segment))
    said = f'<p class="said {end.tone}">{escape(end.text)}</p>' if end.text else ""
    copy = '<button type=button class="copy all">Copy</button>' if _has_answer(segment) else ""
    return f"<footer id={id}e class=end>{said}{_BUTTONS[end.action]}{copy}{_facts(run)}</footer>"


def _has_answer(segment: Segment) -> bool:
    return any(message.role == "assistant" and message.text.strip() for message in segment.messages)


def _facts(run: RunView) -> str:
    """Model, time and tokens, as far as they are known."""
    tokens = run.usage.total_tokens
    facts = [
        escape(words.plain(run.model)),
        words.duration(run.duration_ms),
        words.count(tokens, "token") if tokens else "",
    ]
    text = " · ".join(fact for fact in facts if fact)
    return f"<small class=facts>{text}</small>" if text else ""
