"""The two forms of a line in the log.

    plain   for people: time, level, logger, what happened, and the ids it is about
    json    for machines: one object a line

Nobody outside can write a line of their own into either: control characters are escaped, and what follows a line (a
trace) is indented under it.
"""

from __future__ import annotations

import json
import logging
import re
from datetime import UTC, datetime

from chatsite.watch import ids

CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")


class WithIds(logging.Filter):
    """Puts the ids of this piece of work on a record, here, where its context is."""

    def filter(self, record: logging.LogRecord) -> bool:
        record.ids = ids.known()
        return True


class Plain(logging.Formatter):
    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s: %(message)s")

    def formatMessage(self, record: logging.LogRecord) -> str:
        record.message = _one_line(record.message)
        about = " ".join(f"{name}={_one_line(value)}" for name, value in getattr(record, "ids", {}).items())
        return super().formatMessage(record) + (f" [{about}]" if about else "")

    def formatException(self, ei) -> str:
        return _indented(super().formatException(ei))

    def formatStack(self, stack_info: str) -> str:
        return _indented(super().formatStack(stack_info))


class Json(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        line = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
            **getattr(record, "ids", {}),
        }
        if record.exc_info:
            line["trace"] = self.formatException(record.exc_info)
        if record.stack_info:
            line["stack"] = self.formatStack(record.stack_info)
        # ASCII: whatever is in a message, the line stays one line, and valid in any encoding.
        return json.dumps(line)


def _one_line(text: str) -> str:
    return CONTROL.sub(lambda found: found.group().encode("unicode_escape").decode(), text)


def _indented(text: str) -> str:
    return "\n".join(f"    {_one_line(line)}" for line in text.splitlines())
