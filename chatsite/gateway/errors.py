"""What goes wrong, in the caller's dialect.

    openai      {"error": {"message", "type", "param", "code"}}
    anthropic   {"type": "error", "error": {"type", "message"}, "request_id"}

A status that a model's endpoint gave is kept. The sentence is the endpoint's own where it says what is wrong with
the request, and ours where it speaks of the key or the machine behind it, which is the operator's business.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

from agent.errors import (
    AgentError,
    AuthenticationFailed,
    BadStream,
    ContextTooLong,
    InvalidRequest,
    ModelNotFound,
    ProviderError,
    ProviderTimeout,
    ProviderUnavailable,
    RequestRejected,
)
from agent.wire.jsontext import dump
from chatsite.gateway.dialects import Dialect

OPENAI_TYPES = {403: "permission_error", 429: "rate_limit_error"}
ANTHROPIC_TYPES = {
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    504: "timeout_error",
    529: "overloaded_error",
}
SAYS_WHAT_IS_WRONG = (RequestRejected, ContextTooLong, ModelNotFound, ProviderUnavailable)


class Refused(Exception):
    """An answer that is an error. `str()` is a sentence that says what to do."""

    def __init__(
        self,
        status: int,
        code: str,
        message: str,
        *,
        param: str | None = None,
        headers: Mapping[str, str] | None = None,
        body: bytes = b"",
    ) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.param = param
        self.headers = dict(headers or {})
        self.body = body
        """The endpoint's own words in the caller's dialect, if there are some to pass on."""


class EndpointRefused(Exception):
    """An endpoint said no: the error that stands for it, and what of its answer may be passed on as it is."""

    def __init__(
        self, error: ProviderError, body: bytes = b"", headers: Iterable[tuple[bytes, bytes]] = ()
    ) -> None:
        super().__init__(str(error))
        self.error = error
        self.body = body
        self.headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in headers}

    @property
    def refusal(self) -> Refused:
        refused = refusal_of(self.error)
        refused.body, refused.headers = self.body, self.headers | refused.headers
        return refused


def refusal_of(error: AgentError) -> Refused:
    """What a caller is told of this error."""
    if isinstance(error, InvalidRequest):
        param, colon, _ = str(error).partition(": ")
        return Refused(400, error.code, str(error), param=param if colon and " " not in param else None)
    if not isinstance(error, ProviderError):
        return Refused(500, error.code, str(error))
    headers = {}
    if isinstance(error, ProviderUnavailable) and error.retry_after is not None:
        headers["retry-after"] = str(math.ceil(error.retry_after))
    message = (error.detail if isinstance(error, SAYS_WHAT_IS_WRONG) else None) or str(error)
    return Refused(_status_of(error), error.code, message, headers=headers)


def _status_of(error: ProviderError) -> int:
    if error.status is not None and 400 <= error.status < 600:
        return error.status
    match error:
        case ProviderTimeout():
            return 504
        case AuthenticationFailed() | BadStream():
            return 502
        case ContextTooLong() | RequestRejected():
            return 400
        case ModelNotFound():
            return 404
    return 502


def error_type(dialect: Dialect, status: int) -> str:
    if dialect == "anthropic":
        return ANTHROPIC_TYPES.get(status, "invalid_request_error" if status < 500 else "api_error")
    return OPENAI_TYPES.get(status, "invalid_request_error" if status < 500 else "server_error")


def error_body(dialect: Dialect, refused: Refused, request_id: str = "") -> str:
    """The JSON text."""
    type = error_type(dialect, refused.status)
    if dialect == "anthropic":
        body = {"type": "error", "error": {"type": type, "message": str(refused)}, "request_id": request_id}
        return dump(body)
    error = {"message": str(refused), "type": type, "param": refused.param, "code": refused.code}
    return dump({"error": error})


def error_frame(dialect: Dialect, refused: Refused, request_id: str = "") -> bytes:
    """The same inside a stream that has begun. Nothing follows it: no end mark, so nobody takes it for whole."""
    head = "event: error\n" if dialect == "anthropic" else ""
    return f"{head}data: {error_body(dialect, refused, request_id)}\n\n".encode()
