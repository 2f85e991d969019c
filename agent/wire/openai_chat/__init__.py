"""The chat completions protocol, both ways round: OpenAI's, and what its imitators make of it.

    encode_request   decode_request      a turn to be made    values <-> body
    StreamDecoder    StreamEncoder       a turn as it streams chunks <-> events
    decode_response  encode_response     a turn in one piece  body <-> events / message
    decode_error     decode_models       the rest of what an endpoint says

No I/O here. What each server does differently is written where it is read, in `stream.py`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from agent.errors import ProviderError
from agent.wire.openai_chat.answer import StreamEncoder, encode_response
from agent.wire.openai_chat.decode import decode_request
from agent.wire.openai_chat.encode import amend_request, encode_request
from agent.wire.openai_chat.stream import StreamDecoder, decode_response
from agent.wire.problems import model_names, provider_error

__all__ = [
    "MODELS_PATH",
    "NATIVE_OUTPUT",
    "PATH",
    "StreamDecoder",
    "StreamEncoder",
    "amend_request",
    "decode_error",
    "decode_models",
    "decode_request",
    "decode_response",
    "encode_request",
    "encode_response",
    "headers",
]

PATH = "/chat/completions"
MODELS_PATH = "/models"
NATIVE_OUTPUT = True  # an endpoint that does not know `response_format` is asked again without it


def headers(api_key: str | None) -> dict[str, str]:
    return {"authorization": f"Bearer {api_key}"} if api_key else {}


def decode_error(
    status: int, headers: Mapping[str, str], body: bytes, *, secrets: Iterable[str] = ()
) -> ProviderError:
    return provider_error(status, headers, body, secrets=secrets)


def decode_models(body: Any) -> list[str]:
    return model_names(body)
