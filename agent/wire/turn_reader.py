"""The bytes of one answer, whatever form they came in, as the events of a turn.

Asked for a stream, an endpoint may answer with one, with a whole completion (it ignores `stream`), with an
error object under a 200, or with a web page. The first byte that is no white space tells which: `{` begins
JSON and `<` a page, and no line of an SSE stream begins with either. So the content type, which is often
wrong, is not asked.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from agent.errors import BadStream, ProviderError
from agent.events import TurnEnd
from agent.wire.jsonload import is_json
from agent.wire.problems import read_json
from agent.wire.sse import MAX_WAITING, ServerSentEvent, SSEParser
from agent.wire.turn import Out, merge_deltas

MOST_BLANK = 4096


class Decoder(Protocol):
    @property
    def has_reason(self) -> bool: ...

    def feed(self, event: ServerSentEvent) -> Out: ...

    def finish(self) -> Out: ...


class TurnReader:
    """`feed` the bytes, then `finish` once. When `over`, the turn has been told; `error` says what went
    wrong."""

    def __init__(self, decoder: Decoder, decode_whole: Callable[[dict[str, Any]], Out]) -> None:
        self.over = False
        self.error: ProviderError | None = None
        self._decoder = decoder
        self._decode_whole = decode_whole
        self._parser = SSEParser()
        self._form = ""
        self._body = bytearray()

    @property
    def has_reason(self) -> bool:
        return self._decoder.has_reason

    def feed(self, chunk: bytes) -> Out:
        if not self._form:
            self._body += chunk
            self._form = _form_of(self._body)
            chunk, self._body = bytes(self._body), bytearray()
            if not self._form:
                self._body += chunk
                return []
        if self._form == "sse":
            return merge_deltas(self._guarded(lambda: self._parser.feed(chunk)))
        self._body += chunk
        if len(self._body) > MAX_WAITING:
            self.error, self.over = BadStream("The model's endpoint sent an answer without an end."), True
        return []

    def finish(self) -> Out:
        """The bytes have ended. Closes what is open; a turn that did not say how it ends is an error."""
        if self.over:
            return []
        if self._form == "html":
            return self._fail(
                BadStream("The model's endpoint answered with a web page. Is its address right?")
            )
        if self._form == "json":
            return self._read_whole()
        out = self._guarded(self._last_event)
        if not self.over:
            out += self._decoder.finish()
            self._look_for_end(out)
        if self.error is None and any(isinstance(e, TurnEnd) and e.finish_reason is None for e in out[-1:]):
            self.error = BadStream("The model's answer broke off before its end.")
        return merge_deltas(out)

    def break_off(self, error: ProviderError) -> Out:
        """The connection is gone. A turn that had said how it ends is whole all the same."""
        if self.over:
            return []
        out = self._decoder.finish()
        self._look_for_end(out)
        if not self.has_reason:
            self.error = error
        return out

    def _guarded(self, read: Callable[[], list[ServerSentEvent]]) -> Out:
        """Events of what `read` gives; the error that stops it is kept, and what was open is closed."""
        out: Out = []
        feed = self._decoder.feed
        try:
            for event in read():
                out += feed(event)
        except ProviderError as exc:
            self.error = exc
            out += self._decoder.finish()
        self._look_for_end(out)
        return out

    def _look_for_end(self, out: Out) -> None:
        if out and isinstance(out[-1], TurnEnd):
            self.over = True

    def _last_event(self) -> list[ServerSentEvent]:
        """Some servers leave the last empty line out; what is whole JSON cannot have been cut."""
        events = self._parser.finish()
        rest = self._parser.leftover
        if rest is not None and (rest.data.strip() == "[DONE]" or is_json(rest.data)):
            events.append(rest)
        return events

    def _read_whole(self) -> Out:
        try:
            out = self._decode_whole(read_json(bytes(self._body)))
        except ProviderError as exc:
            return self._fail(exc)
        self.over = True
        return merge_deltas(out)

    def _fail(self, error: ProviderError) -> Out:
        self.error, self.over = error, True
        return []


def _form_of(body: bytes | bytearray) -> str:
    """Empty as long as nothing but white space came. So much of it is no answer in one piece: SSE's reader drops it."""
    start = bytes(body[:MOST_BLANK]).removeprefix(b"\xef\xbb\xbf").lstrip()
    if not start:
        return "" if len(body) < MOST_BLANK else "sse"
    return {b"{": "json", b"<": "html"}.get(start[:1], "sse")
