"""Where a model is served, how long it may take, and what a wire protocol has to offer for `http` to speak it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from yarl import URL

from agent.errors import InvalidRequest, ProviderError
from agent.providers.addresses import Reach
from agent.providers.base import TurnRequest
from agent.wire.turn import NewId, Out
from agent.wire.turn_reader import Decoder


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where a model is served. The key is never shown."""

    name: str
    base_url: str
    api_key: str | None = field(default=None, repr=False)
    reach: Reach = Reach.ANYWHERE
    """How far its name may lead: less where somebody else than the operator wrote it."""

    def __post_init__(self) -> None:
        key = (self.api_key or "").strip()
        if not (key.isascii() and key.isprintable()):
            raise InvalidRequest(f"The API key of {self.name} holds characters that no key has.")
        object.__setattr__(self, "api_key", key or None)
        if not _is_address(self.base_url):
            raise InvalidRequest(
                f"The address of {self.name} is not valid: it is https://host/path, without user or query."
            )

    def url(self, path: str) -> str:
        base = self.base_url.rstrip("/")
        # Some people write the version into the address, some do not; both work where the path has it too.
        if base.endswith("/v1") and path.startswith("/v1/"):
            base = base.removesuffix("/v1")
        return base + path


def _is_address(text: str) -> bool:
    """An HTTP address. A user or a query in it would be a secret in places where nobody expects one."""
    try:
        url = URL(text)
        host = url.host or ""
        host.encode(
            "idna"
        )  # a name with a part that is empty or too long ends in here, not at the first question
    except ValueError:
        return False
    plain = not (url.raw_user or url.raw_password or url.raw_query_string or url.raw_fragment)
    is_one = plain and url.explicit_port != 0 and not any(sign.isspace() for sign in text)
    return is_one and url.scheme in ("http", "https") and bool(host)


@dataclass(frozen=True, slots=True)
class Timeouts:
    """Seconds: to connect, from the request to the first byte of the body, between two reads."""

    connect: float = 10
    first_byte: float = 120
    idle: float = 60


class Codec(Protocol):
    """One wire protocol, as `wire/openai_chat` and `wire/anthropic` are."""

    @property
    def PATH(self) -> str: ...
    @property
    def MODELS_PATH(self) -> str: ...

    def headers(self, api_key: str | None) -> dict[str, str]: ...
    def encode_request(self, request: TurnRequest, *, stream: bool = True) -> dict[str, Any]: ...
    def amend_request(self, body: dict[str, Any], error: ProviderError) -> dict[str, Any] | None: ...
    def StreamDecoder(self, message_id: str, new_id: NewId) -> Decoder: ...
    def decode_response(self, body: dict[str, Any], message_id: str, new_id: NewId) -> Out: ...
    def decode_error(
        self, status: int, headers: Mapping[str, str], body: bytes, *, secrets: Iterable[str] = ()
    ) -> ProviderError: ...
    def decode_models(self, body: Any) -> list[str]: ...
