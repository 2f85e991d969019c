"""Where models come from: the endpoints of the settings, and those that administrators added (`chatsite.catalog`)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from types import ModuleType

from agent import Provider
from agent.providers.endpoint import Endpoint, Timeouts
from agent.providers.http import HttpProvider
from agent.providers.listing import ModelList
from agent.providers.routed import Routed
from agent.wire import anthropic, openai_chat
from chatsite.catalog import entries
from chatsite.catalog.entries import EndpointEntry, Entries, ModelEntry
from chatsite.chat.conf import setting

OPENAI_URL = "https://api.openai.com/v1"
ANTHROPIC_URL = "https://api.anthropic.com/v1"
CODECS: dict[str, ModuleType] = {"openai": openai_chat, "anthropic": anthropic}


class Source(ModelList):
    """An endpoint, and the models it has."""

    def __init__(self, provider: HttpProvider, listed: Sequence[str] = ()) -> None:
        super().__init__(provider, listed)
        self.provider = provider


@dataclass(frozen=True, slots=True)
class Found:
    """Model -> where it is had, at this moment. What an administrator routes comes before what endpoints list."""

    entries: Entries
    added: dict[str, Source]
    listing: tuple[Source, ...]

    async def names(self) -> dict[str, str]:
        """The models there are, and the endpoint of each."""
        lists = await asyncio.gather(*(source.models() for source in self.listing))
        found = {entry.name: entry.routes[0][0] for entry in self.entries.routed}
        for source, models in zip(self.listing, lists, strict=True):
            for model in models:
                found.setdefault(model, source.provider.name)
        return {model: name for model, name in found.items() if model not in self.entries.withdrawn}

    def problems(self) -> tuple[str, ...]:
        return tuple(source.problem for source in self.listing if source.problem)

    async def provider_of(self, model: str) -> Provider | None:
        if model in self.entries.withdrawn:
            return None
        for entry in self.entries.routed:
            if entry.name == model:
                return Routed(list(self._steps(entry)))
        for source in self.listing:
            if source.is_due:
                return await self._asked_for(model)
            if model in source.found:
                return source.provider
        return None

    async def _asked_for(self, model: str) -> Provider | None:
        """The first endpoint that has it; all are asked at once, so that of several that hang one is waited for."""
        asking = [asyncio.ensure_future(source.models()) for source in self.listing]
        try:
            for source, asked in zip(self.listing, asking, strict=True):
                if model in await asked:
                    return source.provider
            return None
        finally:
            for asked in asking:
                asked.cancel()
            await asyncio.gather(*asking, return_exceptions=True)

    def _steps(self, entry: ModelEntry) -> Iterator[tuple[Provider, str]]:
        for endpoint, there in entry.routes:
            yield self.added[endpoint].provider, there


class Sources:
    """`configured` are the settings'. The others are made of the rows, and made anew when a row changes."""

    def __init__(self, configured: Sequence[Source]) -> None:
        self._configured = tuple(configured)
        self._added: dict[EndpointEntry, Source] = {}

    async def find(self) -> Found:
        now = await entries.fresh()
        self._added = {entry: self._added.get(entry) or _source_of(entry) for entry in now.endpoints}
        lists = tuple(source for entry, source in self._added.items() if entry.lists)
        return Found(
            entries=now,
            added={entry.name: source for entry, source in self._added.items()},
            listing=(*self._configured, *lists),
        )


def _source_of(entry: EndpointEntry) -> Source:
    address = Endpoint(name=entry.name, base_url=entry.base_url, api_key=entry.api_key, reach=entry.reach)
    return Source(
        HttpProvider(
            CODECS[entry.dialect], address, timeouts=entry.timeouts(Timeouts()), headers=dict(entry.headers)
        )
    )


def sources_from_settings() -> list[Source]:
    found = []
    for name, dialect, standard in (
        ("OpenAI", "openai", OPENAI_URL),
        ("Anthropic", "anthropic", ANTHROPIC_URL),
    ):
        prefix = dialect.upper()
        url, key = setting(f"{prefix}_BASE_URL"), setting(f"{prefix}_API_KEY")
        if url or key:
            address = Endpoint(name=name, base_url=url or standard, api_key=key)
            found.append(Source(HttpProvider(CODECS[dialect], address), setting(f"{prefix}_MODELS")))
    return found
