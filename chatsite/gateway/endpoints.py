"""Where models are served, out of the settings.

    OPENAI_*, ANTHROPIC_*    the endpoints `openai` and `anthropic`, as for the chat
    GATEWAY_MODELS           further endpoints, and public names:

        {"endpoints": {"local": {"dialect": "openai", "base_url": "http://10.0.0.5:8000/v1", "api_key": "..."}},
         "models": {"fast": ["local/qwen3", "openai/gpt-5-mini"], "smart": "anthropic/claude-opus-4-5"}}

    an endpoint has          dialect (openai or anthropic), base_url; and where they are wanted: api_key, or api_key_env
                             (the variable that holds it); headers; models (names that are served as they are, or "*":
                             those it lists itself); connect_timeout, first_byte_timeout, idle_timeout (seconds)
    a model is               "ENDPOINT/NAME THERE", or a list of them: in this order they are tried

What is wrong is a ConfigError: a sentence that names the entry and says what to write.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import aiohttp
from yarl import URL

from agent.errors import InvalidRequest
from agent.providers.addresses import Reach
from agent.providers.base import Provider
from agent.providers.endpoint import Endpoint as Address
from agent.providers.endpoint import Timeouts
from agent.providers.http import HttpProvider
from chatsite.catalog.entries import NONE, Entries
from chatsite.catalog.headers import is_framing, is_name, is_value
from chatsite.gateway.bodies import MAX_NAME, is_model_name
from chatsite.gateway.conf import setting
from chatsite.gateway.dialects import CODECS, Dialect

OPENAI_URL = "https://api.openai.com/v1"
ANTHROPIC_URL = "https://api.anthropic.com/v1"
ENDPOINT_FIELDS = frozenset({"dialect", "base_url", "api_key", "api_key_env", "headers", "models"})
TIMEOUT_FIELDS = {"connect_timeout": "connect", "first_byte_timeout": "first_byte", "idle_timeout": "idle"}
A_MODEL_NAME = f"a model's name has 1 to {MAX_NAME} characters, all of them printable"

NOWHERE = URL()
NO_TIMEOUTS = Timeouts()
NO_CLIENT_TIMEOUT = aiohttp.ClientTimeout()


class ConfigError(ValueError):
    """A sentence for the operator. It shows no key."""


@dataclass(frozen=True, slots=True, eq=False)
class Endpoint:
    """An endpoint as the gateway asks it.

    `dialect` is None for a provider of this process (the demo model), which has no address. `provider` is asked
    where a request has to be translated; else bytes go to `url`.
    """

    name: str
    provider: Provider
    dialect: Dialect | None = None
    url: URL = NOWHERE
    count_url: URL = NOWHERE
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    secrets: tuple[str, ...] = field(default=(), repr=False)
    timeouts: Timeouts = NO_TIMEOUTS
    client_timeout: aiohttp.ClientTimeout = NO_CLIENT_TIMEOUT
    reach: Reach = Reach.ANYWHERE
    listed: tuple[str, ...] | None = None
    """Models that it serves under their own names; empty: it is asked; None: only those that have a public name."""


@dataclass(frozen=True, slots=True, eq=False)
class Target:
    """A model at an endpoint, under the name that it has there."""

    endpoint: Endpoint
    model: str

    @property
    def name(self) -> str:
        return f"{self.endpoint.name}/{self.model}"


@dataclass(frozen=True, slots=True)
class Config:
    endpoints: tuple[Endpoint, ...]
    named: Mapping[str, tuple[Target, ...]]
    entries: Entries = NONE
    """What administrators added, of which the rest may be made (`added`)."""


def config_from_settings() -> Config:
    """Raises ConfigError."""
    endpoints = {endpoint.name: endpoint for endpoint in (_openai(), _anthropic()) if endpoint is not None}
    given = _object(setting("GATEWAY_MODELS"), "GATEWAY_MODELS")
    for field_name in given:
        if field_name not in {"endpoints", "models"}:
            raise ConfigError(f'GATEWAY_MODELS has {field_name!r}; it holds "endpoints" and "models".')
    for name, entry in _object(given.get("endpoints", {}), "GATEWAY_MODELS.endpoints").items():
        if "/" in name or not name:
            raise ConfigError(f"GATEWAY_MODELS.endpoints has the name {name!r}; write one without a slash.")
        endpoints[name] = _endpoint(name, _object(entry, f"GATEWAY_MODELS.endpoints.{name}"))
    models = _object(given.get("models", {}), "GATEWAY_MODELS.models")
    named = {name: _targets(name, entry, endpoints) for name, entry in models.items()}
    return Config(tuple(endpoints.values()), named)


def _openai() -> Endpoint | None:
    if not (setting("OPENAI_API_KEY") or setting("OPENAI_BASE_URL")):
        return None
    url = setting("OPENAI_BASE_URL") or OPENAI_URL
    return make_endpoint(
        "openai", "openai", url, api_key=setting("OPENAI_API_KEY"), listed=tuple(setting("OPENAI_MODELS"))
    )


def _anthropic() -> Endpoint | None:
    if not (setting("ANTHROPIC_API_KEY") or setting("ANTHROPIC_BASE_URL")):
        return None
    url = setting("ANTHROPIC_BASE_URL") or ANTHROPIC_URL
    return make_endpoint(
        "anthropic",
        "anthropic",
        url,
        api_key=setting("ANTHROPIC_API_KEY"),
        listed=tuple(setting("ANTHROPIC_MODELS")),
    )


def make_endpoint(
    name: str,
    dialect: Dialect,
    base_url: str,
    *,
    api_key: str = "",
    headers: Mapping[str, str] | None = None,
    listed: tuple[str, ...] | None = None,
    timeouts: Timeouts | None = None,
    reach: Reach = Reach.ANYWHERE,
) -> Endpoint:
    """Raises InvalidRequest when the address or the key cannot be one."""
    codec = CODECS[dialect]
    timeouts = timeouts or default_timeouts()
    address = Address(name=name, base_url=base_url, api_key=api_key or None, reach=reach)
    own = {**codec.headers(address.api_key), **{key.lower(): value for key, value in (headers or {}).items()}}
    return Endpoint(
        name=name,
        # Who routes decides about another try, so this one does not.
        provider=HttpProvider(codec, address, timeouts=timeouts, retries=0, headers=headers or {}),
        dialect=dialect,
        url=URL(address.url(codec.PATH)),
        count_url=URL(address.url(codec.PATH) + "/count_tokens"),
        headers={"user-agent": "threadloom", "accept-encoding": "identity", **own},
        secrets=(*([address.api_key] if address.api_key else []), *(headers or {}).values()),
        timeouts=timeouts,
        client_timeout=aiohttp.ClientTimeout(total=None, sock_connect=timeouts.connect),
        reach=reach,
        listed=listed,
    )


def default_timeouts() -> Timeouts:
    return Timeouts(
        connect=setting("GATEWAY_CONNECT_TIMEOUT"),
        first_byte=setting("GATEWAY_FIRST_BYTE_TIMEOUT"),
        idle=setting("GATEWAY_IDLE_TIMEOUT"),
    )


# -- GATEWAY_MODELS ------------------------------------------------------------------------------------------


def _endpoint(name: str, entry: Mapping[str, Any]) -> Endpoint:
    where = f"GATEWAY_MODELS.endpoints.{name}"
    for field_name in entry:
        if field_name not in ENDPOINT_FIELDS and field_name not in TIMEOUT_FIELDS:
            known = ", ".join(sorted(ENDPOINT_FIELDS | TIMEOUT_FIELDS.keys()))
            raise ConfigError(f"{where} has {field_name!r}; it may hold {known}.")
    dialect = entry.get("dialect")
    if not isinstance(dialect, str) or dialect not in CODECS:
        raise ConfigError(f'{where}.dialect is {dialect!r}; write "openai" or "anthropic".')
    try:
        return make_endpoint(
            name,
            dialect,
            _text(entry, "base_url", where),
            api_key=_key(entry, where),
            headers=_headers(entry, where),
            listed=_listed(entry, where),
            timeouts=_timeouts(entry, where),
        )
    except InvalidRequest as error:
        raise ConfigError(f"{where}: {error}") from None


def _targets(name: str, entry: Any, endpoints: Mapping[str, Endpoint]) -> tuple[Target, ...]:
    if not is_model_name(name):
        raise ConfigError(f"GATEWAY_MODELS.models has the name {name[:50]!r}; {A_MODEL_NAME}.")
    where = f"GATEWAY_MODELS.models.{name}"
    steps = [entry] if isinstance(entry, str) else entry
    if not isinstance(steps, list) or not steps or not all(isinstance(step, str) for step in steps):
        raise ConfigError(f'{where} must be "ENDPOINT/MODEL", or a list of them.')
    return tuple(_target(step, where, endpoints) for step in steps)


def _target(step: str, where: str, endpoints: Mapping[str, Endpoint]) -> Target:
    endpoint, slash, model = step.partition("/")
    if not slash or not model:
        raise ConfigError(f'{where} has {step!r}; write "ENDPOINT/MODEL".')
    if endpoint not in endpoints:
        known = ", ".join(endpoints) or "none is configured"
        raise ConfigError(f"{where} names the endpoint {endpoint!r}, which is not there; there are: {known}.")
    return Target(endpoints[endpoint], model)


def _key(entry: Mapping[str, Any], where: str) -> str:
    variable = _text(entry, "api_key_env", where, default="")
    if not variable:
        return _text(entry, "api_key", where, default="")
    if "api_key" in entry:
        raise ConfigError(f"{where} has api_key and api_key_env; keep one of them.")
    if not os.environ.get(variable):
        raise ConfigError(f"{where}.api_key_env is {variable!r}, and that variable is not set.")
    return os.environ[variable].strip()


def _headers(entry: Mapping[str, Any], where: str) -> dict[str, str]:
    headers = _object(entry.get("headers", {}), f"{where}.headers")
    for name, value in headers.items():
        if not is_name(name):
            raise ConfigError(f"{where}.headers has the name {name!r}; write a header's, such as x-team.")
        if is_framing(name):
            raise ConfigError(
                f"{where}.headers has {name!r}: how a request is sent is decided here. Leave it out."
            )
        if not is_value(value):
            raise ConfigError(f"{where}.headers.{name} must be ASCII text of one line.")
    return dict(headers)


def _listed(entry: Mapping[str, Any], where: str) -> tuple[str, ...] | None:
    models = entry.get("models")
    if models is None or models == "*":
        return None if models is None else ()
    if not isinstance(models, list) or not models or not all(map(is_model_name, models)):
        raise ConfigError(f'{where}.models must be a list of names, or "*" for those that it lists itself.')
    return tuple(models)


def _timeouts(entry: Mapping[str, Any], where: str) -> Timeouts:
    given = {}
    for field_name, timeout in TIMEOUT_FIELDS.items():
        if field_name in entry:
            seconds = entry[field_name]
            is_number = isinstance(seconds, int | float) and not isinstance(seconds, bool)
            if not is_number or not 0 < seconds < math.inf:
                raise ConfigError(f"{where}.{field_name} is {seconds!r}; write seconds, a number above 0.")
            given[timeout] = float(seconds)
    make = partial(Timeouts, **given)
    default = default_timeouts()
    return make(**{name: getattr(default, name) for name in TIMEOUT_FIELDS.values() if name not in given})


def _object(value: Any, where: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise ConfigError(f"{where} must be a JSON object.")
    return value


def _text(entry: Mapping[str, Any], name: str, where: str, default: str | None = None) -> str:
    value = entry.get(name, default)
    if not isinstance(value, str) or (not value and default is None):
        raise ConfigError(f"{where}.{name} must be text.")
    return value
