"""Server-sent events: bytes in, events out, and back.

Rule 1: an event ends at an empty line, and only there. A chunk of bytes means nothing: it may end anywhere,
also inside a character or between CR and LF.
Rule 2: the work is linear in the bytes. Nothing is looked at twice, however small the chunks are.
Rule 3: what may be waiting is bounded (10 MiB).

As the WHATWG has it: lines end with LF, CR or CRLF; a leading BOM is dropped; lines that begin with a colon
are comments; `data` lines are joined by LF; what is behind the last empty line when the bytes end is no
event. A reader that wants to tell a cut stream from a whole one finds that rest in `leftover`.
"""

from __future__ import annotations

from dataclasses import dataclass

from agent.errors import BadStream

MAX_WAITING = 10 * 1024 * 1024
_BOM = b"\xef\xbb\xbf"


@dataclass(slots=True)
class ServerSentEvent:
    """One event. `event` is empty when the stream named none; `id` is the last one seen."""

    data: str
    event: str = ""
    id: str | None = None
    retry: int | None = None


class SSEParser:
    def __init__(self, *, max_waiting: int = MAX_WAITING) -> None:
        self._max = max_waiting
        self._pieces: list[bytes] = []  # the line that has not ended yet
        self._piece_size = 0
        self._data_size = 0
        self._started = False
        self._skip_lf = False  # the last chunk ended with CR: a LF in front of the next belongs to it
        self._data: list[str] = []
        self._event = ""
        self._id: str | None = None
        self._retry: int | None = None
        self.leftover: ServerSentEvent | None = None

    def feed(self, chunk: bytes) -> list[ServerSentEvent]:
        if self._skip_lf and chunk:
            self._skip_lf = False
            chunk = chunk[1:] if chunk[:1] == b"\n" else chunk
        end = max(chunk.rfind(b"\n"), chunk.rfind(b"\r")) + 1
        if not end:
            self._keep(chunk)
            return []
        self._pieces.append(chunk[:end])
        block = b"".join(self._pieces)
        self._pieces = []
        self._piece_size = 0
        self._skip_lf = block.endswith(b"\r")
        events = self._take_lines(self._lines(block))
        self._keep(chunk[end:])
        return events

    def finish(self) -> list[ServerSentEvent]:
        """The bytes have ended. An unfinished event goes to `leftover` and not to the reader."""
        if self._pieces:
            # A line that never ended may still be read: a reader of `leftover` decides whether it is whole.
            block = b"".join(self._pieces)
            self._pieces = []
            self._take_lines(self._lines(block + b"\n"))
        if self._data:
            self.leftover = ServerSentEvent("\n".join(self._data), self._event, self._id, self._retry)
        self._reset()
        return []

    def _keep(self, piece: bytes) -> None:
        if piece:
            self._pieces.append(piece)
            self._piece_size += len(piece)
        if self._piece_size + self._data_size > self._max:
            raise BadStream("The model's endpoint sent an event without an end.")

    def _lines(self, block: bytes) -> list[str]:
        if not self._started:
            self._started = True
            block = block.removeprefix(_BOM)
        # Whole lines only, so a character is never cut here; what is no UTF-8 becomes U+FFFD.
        text = block.decode("utf-8", "replace")
        if "\r" in text:
            text = text.replace("\r\n", "\n").replace("\r", "\n")
        lines = text.split("\n")
        lines.pop()
        return lines

    def _take_lines(self, lines: list[str]) -> list[ServerSentEvent]:
        events: list[ServerSentEvent] = []
        data = self._data
        for line in lines:
            if line.startswith("data: "):
                data.append(line[6:])
                self._data_size += len(line)
            elif not line:
                if data:
                    events.append(
                        ServerSentEvent(
                            data[0] if len(data) == 1 else "\n".join(data), self._event, self._id, self._retry
                        )
                    )
                data = self._reset()
            else:
                self._take_field(line)
        return events

    def _reset(self) -> list[str]:
        data: list[str] = []
        self._data = data
        self._data_size = 0
        self._event = ""
        self._retry = None
        return data

    def _take_field(self, line: str) -> None:
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if name == "data":
            self._data.append(value)
            self._data_size += len(line)
        elif name == "event":
            self._event = value
        elif name == "id" and "\0" not in value:
            self._id = value
        elif name == "retry" and value.isascii() and value.isdigit():
            self._retry = int(value)


def encode_sse(data: str, event: str | None = None, id: str | None = None, retry: int | None = None) -> bytes:
    """One event with LF only: some readers split at two LFs and nothing else.

    A CR in `data` ends a line for the reader, so it is written as one; `event` and `id` may hold no line end.
    """
    head = ""
    for name, value in (("event", event), ("id", id)):
        if value is not None:
            if any(sign in value for sign in "\r\n\0"):
                raise ValueError(f"an SSE {name} of one line, please")
            head += f"{name}: {value}\n"
    if retry is not None:
        head += f"retry: {retry}\n"
    if "\n" in data or "\r" in data:
        data = data.replace("\r\n", "\n").replace("\r", "\n").replace("\n", "\ndata: ")
    return f"{head}data: {data}\n\n".encode("utf-8", "replace")


COMMENT = b": \n\n"
"""Keeps a silent connection alive; a reader drops it."""
