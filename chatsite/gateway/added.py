"""The endpoints and models that administrators added, beside those of the settings, as the gateway asks them."""

from __future__ import annotations

import logging
from dataclasses import replace

from agent.errors import InvalidRequest
from chatsite.catalog.entries import EndpointEntry, Entries
from chatsite.gateway.endpoints import (
    Config,
    Endpoint,
    Target,
    config_from_settings,
    default_timeouts,
    make_endpoint,
)

log = logging.getLogger(__name__)

_made: dict[EndpointEntry, Endpoint | None] = {}
"""A row that did not change keeps its endpoint, and so the connections to it."""


def config_with(entries: Entries) -> Config:
    """Raises ConfigError for what the settings say. A row is checked when it is saved, and left out if it is wrong."""
    configured = config_from_settings()
    taken = {endpoint.name for endpoint in configured.endpoints}
    global _made
    _made = {entry: _made[entry] if entry in _made else _endpoint(entry) for entry in entries.endpoints}
    added = {made.name: made for made in _made.values() if made is not None and made.name not in taken}
    routed = {
        model.name: targets
        for model in entries.routed
        if (targets := tuple(Target(added[name], there) for name, there in model.routes if name in added))
    }
    return replace(
        configured,
        endpoints=(*configured.endpoints, *added.values()),
        named={**routed, **configured.named},
        entries=entries,
    )


def _endpoint(entry: EndpointEntry) -> Endpoint | None:
    try:
        return make_endpoint(
            entry.name,
            "anthropic" if entry.dialect == "anthropic" else "openai",
            entry.base_url,
            api_key=entry.api_key,
            headers=dict(entry.headers),
            listed=() if entry.lists else None,
            timeouts=entry.timeouts(default_timeouts()),
            reach=entry.reach,
        )
    except InvalidRequest as error:
        log.error("the endpoint %s is left out: %s", entry.name, error)
        return None
