"""The rows as values, and prices and facts of both origins.

Rule 1: nobody waits for the database on a request's way: `current` gives what this process knows. What is older than
        `FRESH` seconds is read again beside it. Only what `is_outdated` is waited for.
Rule 2: what is changed here is heard at once, in another process within `FRESH` seconds.
Rule 3: where a row and the environment speak of one model, the row is right: who wrote it saw the other.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from django.conf import settings
from django.db import DatabaseError, connection, transaction
from django.db.models.signals import post_delete, post_save

from agent.providers.addresses import Reach
from chatsite.catalog import models, sealing
from chatsite.catalog.headers import is_secret

log = logging.getLogger(__name__)

FRESH = 3.0
SHORTEST_KEY = 4
"""Characters. What is shorter hides nothing, and would be found everywhere."""
NEVER, REPLACED = float("-inf"), float("inf")

Prices = Mapping[str, tuple[float, ...]]
Facts = Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class EndpointEntry:
    """`timeouts` in seconds, None: the default. `lists` says that it is asked for its models."""

    name: str
    dialect: str
    base_url: str
    api_key: str = field(default="", repr=False)
    headers: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    lists: bool = True
    connect: float | None = None
    first_byte: float | None = None
    idle: float | None = None

    @property
    def reach(self) -> Reach:
        """Less than the operator's own endpoints have: this address was typed into a form."""
        return Reach.NEAR if getattr(settings, "PRIVATE_ENDPOINTS", False) else Reach.PUBLIC

    def timeouts(self, default: Any) -> Any:
        """`default` is an `agent.providers.endpoint.Timeouts`."""
        return type(default)(
            connect=self.connect or default.connect,
            first_byte=self.first_byte or default.first_byte,
            idle=self.idle or default.idle,
        )


@dataclass(frozen=True, slots=True)
class ModelEntry:
    """`routes`: (endpoint, name there), in order."""

    name: str
    label: str = ""
    enabled: bool = True
    price: tuple[float, ...] | None = None
    facts: tuple[tuple[str, Any], ...] = ()
    routes: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Entries:
    endpoints: tuple[EndpointEntry, ...] = ()
    models: tuple[ModelEntry, ...] = ()

    @cached_property
    def prices(self) -> Prices:
        """Of each model under all its names: an endpoint says what was used under the one it knows."""
        found: dict[str, tuple[float, ...]] = {}
        for model in self.models:
            if model.price is not None:
                found[model.name] = model.price
                for _, there in model.routes:
                    found.setdefault(there, model.price)
        return found

    @cached_property
    def secrets(self) -> tuple[str, ...]:
        """What nobody may see in what is shown or kept of requests: the keys, and headers that hold one."""
        keys = [endpoint.api_key for endpoint in self.endpoints]
        keys += [text for each in self.endpoints for name, text in each.headers if is_secret(name)]
        return tuple(key for key in keys if len(key) >= SHORTEST_KEY)

    @cached_property
    def facts(self) -> Facts:
        return {model.name: dict(model.facts) for model in self.models if model.facts}

    @cached_property
    def labels(self) -> Mapping[str, str]:
        return {model.name: model.label for model in self.models if model.label}

    @cached_property
    def withdrawn(self) -> frozenset[str]:
        return frozenset(model.name for model in self.models if not model.enabled)

    @cached_property
    def routed(self) -> tuple[ModelEntry, ...]:
        return tuple(model for model in self.models if model.routes and model.enabled)


NONE = Entries()


class _Memory:
    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.entries = NONE
        self.at = NEVER
        self.generation = 0
        self.reading: asyncio.Task[Entries] | None = None


_memory = _Memory()
_thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="catalog")


def current() -> Entries:
    """What is known, without waiting. It is looked up again beside this, when it is old and there is a loop."""
    if time.monotonic() - _memory.at > FRESH:
        _look_beside()
    return _memory.entries


def is_outdated() -> bool:
    """Nothing was read yet, or a row was changed here since. Who decides by the rows waits for `fresh` then."""
    return _memory.at == NEVER


async def fresh() -> Entries:
    """Not older than `FRESH` seconds, unless the database does not answer."""
    if time.monotonic() - _memory.at > FRESH:
        return await asyncio.get_running_loop().run_in_executor(_thread, _read_and_close)
    return _memory.entries


def forget() -> None:
    """The next who asks looks into the rows."""
    with _memory.lock:
        _memory.generation += 1
        if _memory.at != REPLACED:
            _memory.at = NEVER


def prices() -> Prices:
    """Model -> (input, output[, cached input]) a million tokens, of rows and MODEL_PRICES."""
    given, own = getattr(settings, "MODEL_PRICES", {}), current().prices
    return _merged(given, own) if own else given


_last_merged: tuple[Prices, Prices, Prices] = ({}, {}, {})


def _merged(given: Prices, own: Prices) -> Prices:
    """The same mapping again while both are the same, for who keeps what they made of it."""
    global _last_merged
    last = _last_merged
    if last[0] is not given or last[1] is not own:
        last = _last_merged = given, own, {**given, **own}
    return last[2]


def facts() -> Facts:
    """Model -> context, images, tools, of rows and MODEL_FACTS."""
    given, own = getattr(settings, "MODEL_FACTS", {}), current().facts
    return {name: {**given.get(name, {}), **own.get(name, {})} for name in {**given, **own}} if own else given


def _look_beside() -> None:
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:
        _read()  # a command, or a request's thread: it may wait
        return
    if _memory.reading is None or _memory.reading.done():
        _memory.reading = loop.create_task(fresh(), name="catalog")


def _read_and_close() -> Entries:
    try:
        return _read()
    finally:
        connection.close()


def _read() -> Entries:
    began, generation = time.monotonic(), _memory.generation
    try:
        found = read_rows()
    except DatabaseError as error:
        log.warning("endpoints and models could not be read: %s", error)
        found = _memory.entries
    with _memory.lock:
        if generation == _memory.generation:
            _memory.at = began
            if found != _memory.entries:
                _memory.entries = found
        return _memory.entries


def read_rows() -> Entries:
    endpoints = {row.pk: row for row in models.Endpoint.objects.filter(enabled=True)}
    routes: dict[int, list[tuple[str, str]]] = {}
    for route in models.Route.objects.filter(endpoint__in=endpoints).select_related("model"):
        there = route.name_there or route.model.name
        routes.setdefault(route.model_id, []).append((endpoints[route.endpoint_id].name, there))
    return Entries(
        tuple(map(entry_of, endpoints.values())),
        tuple(_model(row, tuple(routes.get(row.pk, ()))) for row in models.Model.objects.all()),
    )


def entry_of(row: models.Endpoint) -> EndpointEntry:
    return EndpointEntry(
        name=row.name,
        dialect=row.dialect,
        base_url=row.base_url,
        api_key=_opened(row, "the key", row.sealed_key),
        headers=tuple(sorted(_headers_of(row).items())),
        lists=row.lists_models,
        connect=row.connect_timeout,
        first_byte=row.first_byte_timeout,
        idle=row.idle_timeout,
    )


def _headers_of(row: models.Endpoint) -> dict[str, str]:
    opened = {name: _opened(row, name, sealed) for name, sealed in row.sealed_headers.items()}
    return row.headers | {name: text for name, text in opened.items() if text}


def _opened(row: models.Endpoint, what: str, sealed: str) -> str:
    try:
        return sealing.unseal(sealed)
    except sealing.CannotOpen:
        log.error("%s of the endpoint %s was sealed under another SECRET_KEY; enter it again", what, row.name)
        return ""


def _model(row: models.Model, routes: tuple[tuple[str, str], ...]) -> ModelEntry:
    price = None
    if row.price_input is not None and row.price_output is not None:
        price = tuple(
            float(each) for each in (row.price_input, row.price_output, row.price_cached) if each is not None
        )
    known = {"context": row.context, "images": row.images, "tools": row.tools}
    return ModelEntry(
        name=row.name,
        label=row.label,
        enabled=row.enabled,
        price=price,
        facts=tuple((name, value) for name, value in known.items() if value is not None),
        routes=routes,
    )


def use_entries(replacement: Entries | None) -> None:
    """Put these in the rows' place, for good (tests, an embedding project); None: the rows again."""
    with _memory.lock:
        _memory.generation += 1
        _memory.entries = replacement or NONE
        _memory.at = REPLACED if replacement is not None else NEVER


def listen() -> None:
    for sender in (models.Endpoint, models.Model, models.Route):
        for signal in (post_save, post_delete):
            signal.connect(_changed, sender=sender, dispatch_uid=f"catalog.{sender.__name__}")


def _changed(**_: Any) -> None:
    transaction.on_commit(forget)
