"""What goes in and out of `/api/chat`, whichever skin it came through."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any

from chatsite.chat.access import Credential
from chatsite.chat.problems import Problem

DOOR = "api"
MAX_BODY = 20 * 1024 * 1024
"""Bytes. A client sends its whole history each time, images included."""


@dataclass(frozen=True, slots=True)
class Asked:
    """A request, whichever skin it came through. Header names are lower case."""

    method: str
    headers: Mapping[str, str]
    query: Mapping[str, str]
    body: bytes
    credential: Credential


@dataclass(frozen=True, slots=True)
class Reply:
    status: int
    body: bytes | AsyncIterator[bytes]
    headers: Mapping[str, str] = field(default_factory=dict)


class Refused(Exception):
    """An answer that is no stream: status, code, words."""

    def __init__(self, status: int, code: str, words: str, **headers: str) -> None:
        super().__init__(words)
        self.status, self.code, self.headers = status, code, headers


def refusal(problem: Problem) -> Reply:
    return json_reply(problem.status, error_body(problem.code, str(problem)), problem.headers)


def json_reply(status: int, body: Any, headers: Mapping[str, str] | None = None) -> Reply:
    text = json.dumps(body, ensure_ascii=True, separators=(",", ":"))
    return Reply(
        int(status),
        text.encode(),
        {"Content-Type": "application/json", "X-Content-Type-Options": "nosniff", **(headers or {})},
    )


def error_body(code: str, message: str) -> dict[str, Any]:
    return {"error": {"code": code, "message": message}}


def too_large() -> Reply:
    words = f"The body is larger than {MAX_BODY // 1024 // 1024} MB, which is the most taken here."
    return json_reply(
        HTTPStatus.REQUEST_ENTITY_TOO_LARGE, error_body("too_large", words), {"Connection": "close"}
    )
