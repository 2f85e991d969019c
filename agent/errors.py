"""What can go wrong, as one tree, with a code on each.

AgentError                      `code`; the message is fit for people and holds no secret
├── InvalidRequest              the caller asked for something that cannot be done     invalid_request
├── InvalidOutput               the model gave no value of the form asked for          invalid_output
├── MiddlewareFailed            a middleware raised                                    middleware_error
├── ProviderError               the model could not be reached, or spoke nonsense      provider_error
│   ├── ProviderUnreachable     no connection, or it broke                             provider_unreachable
│   ├── ProviderTimeout         no first byte, or silence in the stream                provider_timeout
│   ├── ProviderUnavailable     the endpoint answered 5xx                              provider_error
│   │   └── RateLimited         `retry_after` (seconds) says when                      rate_limited
│   ├── AuthenticationFailed    the endpoint does not take the key                     provider_auth
│   ├── ModelNotFound           the endpoint does not know the model                   model_not_found
│   ├── RequestRejected         the endpoint refuses the request as it is              provider_rejected
│   │   └── ContextTooLong      the transcript does not fit the model                  context_too_long
│   └── BadStream               the answer was no stream of the protocol               bad_stream
└── ToolError                   a tool says why it failed; the model reads it          tool_error (or its own)

The border (`wire`, the chat's views, the gateway) turns codes into shapes; nothing else does.
"""

from __future__ import annotations


class AgentError(Exception):
    """Base. `str(error)` is a sentence for people; details that are not for people stay in `__cause__`."""

    code = "agent_error"

    def __init__(self, message: str, *, code: str | None = None) -> None:
        super().__init__(message)
        if code is not None:
            self.code = code


class InvalidRequest(AgentError):
    code = "invalid_request"


class InvalidOutput(AgentError):
    """The model gave no value of the form that was asked for."""

    code = "invalid_output"


class MiddlewareFailed(AgentError):
    """A middleware raised. Which one, and why, is in the log."""

    code = "middleware_error"


class ProviderError(AgentError):
    """`status` is the HTTP status when there was one; `detail` the provider's own message, safe for people.

    `retryable`: the same request may go well a moment later (asked only before the first byte).
    """

    code = "provider_error"
    retryable = False

    def __init__(
        self, message: str, *, status: int | None = None, detail: str | None = None, code: str | None = None
    ) -> None:
        super().__init__(message, code=code)
        self.status = status
        self.detail = detail


class ProviderUnreachable(ProviderError):
    code = "provider_unreachable"
    retryable = True


class ProviderTimeout(ProviderError):
    code = "provider_timeout"
    retryable = True


class ProviderUnavailable(ProviderError):
    """The endpoint answered 5xx."""

    code = "provider_error"
    retryable = True

    def __init__(
        self,
        message: str,
        *,
        status: int | None = None,
        detail: str | None = None,
        retry_after: float | None = None,
    ) -> None:
        super().__init__(message, status=status, detail=detail)
        self.retry_after = retry_after


class RateLimited(ProviderUnavailable):
    code = "rate_limited"


class AuthenticationFailed(ProviderError):
    code = "provider_auth"


class ModelNotFound(ProviderError):
    code = "model_not_found"


class RequestRejected(ProviderError):
    code = "provider_rejected"


class ContextTooLong(RequestRejected):
    code = "context_too_long"


class BadStream(ProviderError):
    code = "bad_stream"


class ToolError(AgentError):
    """Raise it in a tool: its message and code go to the model as they are."""

    code = "tool_error"
