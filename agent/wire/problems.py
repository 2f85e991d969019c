"""What an endpoint says when it says no: its status and its words, as one of our errors.

Both protocols, and the servers that imitate them, are read the same way: they differ less from each other
than one of them does from itself in a bad moment. The sentence of the error is ours and is for people; the
provider's own words are its `detail`, cut short, with anything that looks like a key masked, and never a web
page.
"""

from __future__ import annotations

import email.utils
import re
import time
from collections.abc import Iterable, Mapping
from typing import Any

from agent.errors import (
    AuthenticationFailed,
    BadStream,
    ContextTooLong,
    ModelNotFound,
    ProviderError,
    ProviderTimeout,
    ProviderUnavailable,
    RateLimited,
    RequestRejected,
)
from agent.wire.jsonload import NotJson, load

MAX_DETAIL = 500
MASK = "[hidden]"

_KEY_LIKE = re.compile(
    r"(?:\bbearer\s+|\bx-api-key[\"':=\s]+|\bapi[_-]?key=)[^\s\"',;}]+"
    r"|\b(?:sk|pk|rk|gsk|xai|hf|key|ghp|api|pplx|nvapi|fw|r8)[-_][\w.*-]{6,}"
    r"|\bAIza[\w*-]{10,}"
    r"|\beyJ[\w-]{8,}\.[\w.-]+",
    re.IGNORECASE,
)
_TOO_LONG = re.compile(
    r"context[ _](?:length|window|size)|maximum (?:context|input|prompt)|prompt is too long|too many tokens"
    r"|exceeds? the (?:available |maximum )?(?:context|number of tokens)|input (?:length|is too long)",
    re.IGNORECASE,
)

# An error inside a stream has no status but often a word; both dialects' words, and the status they stand
# for.
_STATUS_OF_WORD = {
    "authentication_error": 401,
    "invalid_api_key": 401,
    "permission_error": 403,
    "billing_error": 402,
    "insufficient_quota": 429,
    "rate_limit_error": 429,
    "rate_limit_exceeded": 429,
    "tokens": 429,
    "requests": 429,
    "not_found_error": 404,
    "model_not_found": 404,
    "invalid_request_error": 400,
    "context_length_exceeded": 400,
    "exceed_context_size_error": 400,
    "request_too_large": 413,
    "timeout_error": 504,
    "overloaded_error": 529,
    "api_error": 500,
    "server_error": 500,
    "internal_server_error": 500,
}


def mask(text: str, secrets: Iterable[str] = ()) -> str:
    for secret in secrets:
        if len(secret) >= 4:
            text = text.replace(secret, MASK)
    return _KEY_LIKE.sub(MASK, text)


def provider_error(
    status: int, headers: Mapping[str, str], body: bytes, *, secrets: Iterable[str] = ()
) -> ProviderError:
    """The error behind an answer that is not 2xx."""
    message, words = _read_body(body)
    return _classify(status, message, words, retry_after(headers), secrets)


def stream_error(error: Any) -> ProviderError:
    """The error behind an error object inside a stream (or inside a 200)."""
    message, words = _read_error(error)
    status = next((_STATUS_OF_WORD[word] for word in words if word in _STATUS_OF_WORD), 0)
    if not status:
        status = next((int(word) for word in words if word.isdigit() and 400 <= int(word) < 600), 0)
    if not status:
        detail = _detail(message, ())
        return ProviderError("The model's endpoint reported an error in its answer.", detail=detail)
    return _classify(status, message, words, None, ())


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds to wait, from a number of seconds or a date."""
    raw = (headers.get("retry-after") or "").strip()
    if not raw:
        return None
    try:
        seconds = float(raw)
    except ValueError:
        try:
            when = email.utils.parsedate_to_datetime(raw)
        except (TypeError, ValueError):
            return None
        seconds = when.timestamp() - time.time()
    # `nan` and the infinities parse as floats.
    return max(0.0, seconds) if seconds == seconds and seconds < 1e9 else None


def _classify(
    status: int, message: str, words: frozenset[str], wait: float | None, secrets: Iterable[str]
) -> ProviderError:
    detail = _detail(message, secrets)
    if 300 <= status < 400:
        return ProviderError(
            f"The model's endpoint sends us to another address ({status}). Is its address right?",
            status=status,
            detail=detail,
        )
    if "insufficient_quota" in words or status == 402:
        # Trying again is no use here, so this is not a RateLimited.
        return RequestRejected(
            f"The account at the model's endpoint has no credit left ({status}).",
            status=status,
            detail=detail,
            code="provider_quota",
        )
    if status in (401, 403) or words & {"invalid_api_key", "authentication_error"}:
        return AuthenticationFailed(
            f"The model's endpoint does not accept the API key ({status}).", status=status, detail=detail
        )
    if _is_too_long(status, message, words):
        return ContextTooLong(
            f"The conversation is too long for this model ({status}).", status=status, detail=detail
        )
    if status == 404 or "model_not_found" in words:
        return ModelNotFound(
            f"The model's endpoint does not know this model, or its address is wrong ({status}).",
            status=status,
            detail=detail,
        )
    if status == 429:
        return RateLimited(_too_many(wait), status=status, detail=detail, retry_after=wait)
    if status in (408, 504):
        return ProviderTimeout(
            f"The model's endpoint gave up waiting ({status}).", status=status, detail=detail
        )
    if status >= 500:
        trouble = "is overloaded" if status in (503, 529) else "has an error of its own"
        return ProviderUnavailable(
            f"The model's endpoint {trouble} ({status}).", status=status, detail=detail, retry_after=wait
        )
    return RequestRejected(
        f"The model's endpoint refused the request ({status}).", status=status, detail=detail
    )


def _is_too_long(status: int, message: str, words: frozenset[str]) -> bool:
    if words & {"context_length_exceeded", "exceed_context_size_error", "request_too_large"}:
        return True
    return status == 413 or (status in (400, 422) and bool(_TOO_LONG.search(message)))


def _too_many(wait: float | None) -> str:
    when = f" It asks to wait {wait:.0f} seconds." if wait and wait >= 1 else ""
    return f"The model's endpoint has too many requests at the moment (429).{when}"


def _read_body(body: bytes) -> tuple[str, frozenset[str]]:
    try:
        return _read_error(load(body))
    except NotJson:
        text = body[: 4 * MAX_DETAIL].decode("utf-8", "replace").strip()
        return ("" if text.startswith("<") else text), frozenset()


def _read_error(value: Any) -> tuple[str, frozenset[str]]:
    """The message, and the words (type, code) that class it, wherever this server puts them."""
    words: set[str] = set()
    while isinstance(value, list) and value:
        value = value[0]  # some endpoints wrap the object in a list
    while isinstance(value, dict):
        for key in ("type", "code", "status"):
            word = value.get(key)
            if isinstance(word, str | int) and not isinstance(word, bool):
                words.add(str(word).lower())
        inner = next((value[key] for key in ("error", "message", "detail", "msg") if value.get(key)), "")
        if isinstance(inner, list) and inner:
            inner = inner[0]
        value = inner
    message = value if isinstance(value, str) else ""
    return ("" if message.lstrip().startswith("<") else message.strip()), frozenset(words)


def _detail(message: str, secrets: Iterable[str]) -> str | None:
    text = " ".join(mask(message, secrets).split())
    if len(text) > MAX_DETAIL:
        text = text[: MAX_DETAIL - 1] + "…"
    return text.replace("\0", "") or None


def read_json(text: str | bytes) -> dict[str, Any]:
    """A chunk or an answer of the protocol: a JSON object, or BadStream."""
    try:
        value = load(text)
    except NotJson as exc:
        raise BadStream("The model's endpoint sent something that is no JSON.") from exc
    if not isinstance(value, dict):
        raise BadStream("The model's endpoint sent JSON of another kind than expected.")
    return value


def token_count(usage: Mapping[str, Any], key: str) -> int:
    number = usage.get(key)
    return int(number) if isinstance(number, int | float) and 0 < number < 1e15 else 0


def model_names(body: Any) -> list[str]:
    """The ids in a model list: `data` with `id`, or `models` with `name` as older servers have it."""
    rows = (body.get("data") or body.get("models") or []) if isinstance(body, dict) else body
    if not isinstance(rows, list):
        raise BadStream("The model's endpoint sent no list of models.")
    names = [_model_name(row) for row in rows]
    return list(dict.fromkeys(name for name in names if name))


def _model_name(row: Any) -> str:
    if isinstance(row, dict):
        row = row.get("id") or row.get("model") or row.get("name")
    return row if isinstance(row, str) else ""
