"""A request's body: the bytes as they came, and the little that has to be read of them.

Rule 1: only `model`, `stream` and the limit of the answer are read. The rest becomes objects when somebody asks for
`json`: a hook, or a translation. Reading a few fields of 6 MB takes 2 ms, all of it 7.
Rule 2: the bytes go on as they are. Only the model's name is another one where the endpoint has another name for it,
and fields that steer hooks are taken out: they never come from a caller. A body with more than `MOST_TOKENS` in which
the word stands in several places is written anew, with the same values.
Rule 3: a model that is named twice is refused. Of two readers of such a body one may take the first and one the last,
and the key's permission would be for the wrong one.
"""

from __future__ import annotations

import asyncio
import re
from dataclasses import dataclass
from typing import Any

from pydantic_core import SchemaValidator, ValidationError, core_schema

from agent.wire.jsonload import NotJson, load
from agent.wire.jsontext import dump, quote
from chatsite.gateway.errors import Refused

Json = dict[str, Any]

MAX_NAME = 200
MOST_TOKENS = 100_000
"""Of JSON that are looked at one by one; that takes a tenth of a second. Beyond, the body is read and written anew."""
MOST_PIECES = 1_000_000
"""Commas and opening brackets of a big body. Nobody's request has so many, and to read more would hold others up."""
BIG = 256 * 1024
"""Bytes from which on a body is read in a thread: others wait for nobody's 30 MB."""
LIMITS = ("max_completion_tokens", "max_tokens")
_HEAD = SchemaValidator(
    core_schema.typed_dict_schema(
        {
            name: core_schema.typed_dict_field(core_schema.any_schema(), required=False)
            for name in ("model", "stream", *LIMITS)
        },
        extra_behavior="ignore",
    )
)
_TOKEN = re.compile(rb'"(?:[^"\\]+|\\.)*"|[{}\[\],:]', re.DOTALL)
_NAME = re.compile(rb'"model"\s*:\s*("(?:[^"\\]|\\.)*")', re.DOTALL)


@dataclass(slots=True)
class Body:
    raw: bytes
    model: str
    stream: bool
    _whole: Json | None = None
    limit: int | None = None
    """Tokens of the answer at most, where the body says so in a number."""

    @property
    def json(self) -> Json:
        """All of it. Whoever changes it takes a copy."""
        if self._whole is None:
            self._whole = load(self.raw)
        return self._whole

    def named(self, model: str) -> bytes:
        """The bytes with this model's name in the place of the caller's."""
        return self.raw if model == self.model else with_model(self.raw, model)


def with_model(raw: bytes, model: str) -> bytes:
    """The same JSON object under another model's name; as it is, when it names none."""
    found = _name_spans(raw) if not _is_plain(raw) else [match.span(1) for match in _NAME.finditer(raw)]
    if found is None:
        return dump({**load(raw), "model": model}).encode()
    return raw[: found[0][0]] + quote(model).encode() + raw[found[0][1] :] if found else raw


async def read_soon(raw: bytes) -> Body:
    """As `read_body`, without holding others up."""
    return await asyncio.to_thread(read_body, raw) if len(raw) >= BIG else read_body(raw)


def read_body(raw: bytes) -> Body:
    """Raises Refused: no JSON, no object, or no model that could be one."""
    if len(raw) >= BIG and sum(map(raw.count, (b",", b"[", b"{"))) > MOST_PIECES:
        message = f"The body has more than {MOST_PIECES:,} values. Send less in one request."
        raise Refused(413, "too_large", message)
    head, whole = _head_of(raw)
    if b"agentic" in raw or b"\\u00" in raw:
        whole = whole or _object(raw)
        if steering := [name for name in whole if is_control(name)]:
            whole = {name: value for name, value in whole.items() if name not in steering}
            raw = dump(whole).encode()
    if not _is_plain(raw):
        spans = _name_spans(raw)
        if spans is None:
            whole = whole or _object(raw)
            raw = dump(whole).encode()
        elif len(spans) > 1:
            raise Refused(400, "invalid_request", "model: is there twice.", param="model")
    return Body(raw, _model(head.get("model")), _flag(head.get("stream")), whole, _limit(head))


def is_control(field: str) -> bool:
    return field.startswith("_agentic_") or field == "max_agentic_loops"


def _head_of(raw: bytes) -> tuple[Json, Json | None]:
    """The fields we look at, and the whole when it had to be read."""
    try:
        return _HEAD.validate_json(raw), None
    except ValidationError:
        # Either no JSON, or such as only the patient reader takes: half a surrogate pair.
        pass
    whole = _object(raw)
    return whole, whole


def _object(raw: bytes) -> Json:
    try:
        whole = load(raw)
    except NotJson as error:
        raise Refused(400, "invalid_json", f"The body is no JSON: {error}") from None
    if not isinstance(whole, dict):
        raise Refused(400, "invalid_request", "The body must be a JSON object.")
    return whole


def _model(value: Any) -> str:
    if value is None:
        raise Refused(400, "invalid_request", "model: is required.", param="model")
    if not is_model_name(value):
        raise Refused(400, "invalid_request", "model: must be a model's name.", param="model")
    name: str = value
    return name


def is_model_name(value: Any) -> bool:
    return isinstance(value, str) and 0 < len(value) <= MAX_NAME and value.isprintable()


def _flag(value: Any) -> bool:
    if value is not None and not isinstance(value, bool):
        raise Refused(400, "invalid_request", "stream: must be true or false.", param="stream")
    return bool(value)


def _limit(head: Json) -> int | None:
    """What it is worth is for the endpoint to say; here it is only reckoned with."""
    for name in LIMITS:
        given = head.get(name)
        if isinstance(given, int) and 0 < given < 10**9:
            return int(given)
    return None


def _is_plain(raw: bytes) -> bool:
    """The word stands there once, and no letter of a name is written as an escape: then it is the one."""
    return raw.count(b'"model"') == 1 and b"\\u006" not in raw


def _name_spans(raw: bytes) -> list[tuple[int, int]] | None:
    """Where the values of top-level `model` fields are; None when there is too much to look at."""
    spans: list[tuple[int, int]] = []
    depth = 0
    key = b""
    is_value = False
    for place, token in enumerate(_TOKEN.finditer(raw)):
        if place == MOST_TOKENS:
            return None
        sign = token[0]
        if sign in b"{[":
            depth += 1
        elif sign in b"}]":
            depth -= 1
        elif depth == 1:
            if sign == b":":
                is_value = True
            elif sign == b",":
                is_value = False
            elif is_value:
                if load(key) == "model":
                    spans.append(token.span())
            else:
                key = sign
    return spans
