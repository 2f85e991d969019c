"""The messages protocol, both ways round: Anthropic's, and what its imitators make of it.

The same names as `openai_chat`, so that a provider or the gateway takes either module as its codec. No I/O
here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from agent.errors import ProviderError
from agent.wire.anthropic.answer import StreamEncoder, encode_response
from agent.wire.anthropic.decode import decode_request
from agent.wire.anthropic.encode import amend_request, encode_request
from agent.wire.anthropic.stream import StreamDecoder, decode_response
from agent.wire.problems import model_names, provider_error

__all__ = [
    "MODELS_PATH",
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

PATH = "/v1/messages"
MODELS_PATH = "/v1/models?limit=1000"
VERSION = "2023-06-01"


def headers(api_key: str | None) -> dict[str, str]:
    return {"anthropic-version": VERSION} | ({"x-api-key": api_key} if api_key else {})


def decode_error(
    status: int, headers: Mapping[str, str], body: bytes, *, secrets: Iterable[str] = ()
) -> ProviderError:
    return provider_error(status, headers, body, secrets=secrets)


def decode_models(body: Any) -> list[str]:
    return model_names(body)
