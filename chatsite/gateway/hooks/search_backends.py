"""Services that search the web: what each is asked, and what it answers.

| service | asked | where its results are |
|---|---|---|
| SearXNG | `GET SEARXNG_URL/search?format=json` | `results[].title, url, content` |
| Brave | `GET BRAVE_URL/res/v1/web/search`, key in `X-Subscription-Token` | `web.results[].title, url, description` |
| Tavily | `POST TAVILY_URL/search`, key as Bearer | `results[].title, url, content` |

Rule 1: an address comes from the settings, never from a model or a caller, and redirects are not followed.
Rule 2: what goes wrong is a SearchFailed whose words are fit for the model; the log names the service and the
        status. Neither holds an address or a key.
Rule 3: everything is bounded: the time, the bytes read, the results and each of their texts.
"""

from __future__ import annotations

import asyncio
import html
import logging
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

import httpx

from agent.providers.answers import NETWORK_ERRORS
from agent.providers.clients import shared_client
from agent.text import storable
from agent.wire.jsonload import NotJson, load

log = logging.getLogger(__name__)

SECONDS = 10.0
MOST_BYTES = 2 * 1024 * 1024
MOST_HITS = 6
LONGEST_QUERY = 400
"""Characters; Brave takes no more."""
LONGEST = {"title": 200, "url": 1000, "text": 600}

SITE = re.compile(r"[a-z0-9][a-z0-9.-]{0,252}(/[\w.~%/-]{0,200})?")
TAG = re.compile(r"<[^<>]{0,200}>")


class SearchFailed(Exception):
    """`str(error)` is a sentence for the model."""


@dataclass(frozen=True, slots=True)
class Query:
    """`allowed` and `blocked` are sites as `site_of` has them, each with all below it; none allowed means all."""

    text: str
    allowed: tuple[str, ...] = ()
    blocked: tuple[str, ...] = ()

    @property
    def with_sites(self) -> str:
        """The words with the sites in them, as search engines take them."""
        sites = " OR ".join(f"site:{site}" for site in self.allowed)
        without = "".join(f" -site:{site}" for site in self.blocked)
        return f"{self.text[:LONGEST_QUERY]}{f' ({sites})' if sites else ''}{without}"

    def takes(self, url: str) -> bool:
        """Whether a result fits; services take the sites as a wish."""
        wanted = not self.allowed or any(_lies_below(url, site) for site in self.allowed)
        return wanted and not any(_lies_below(url, site) for site in self.blocked)


@dataclass(frozen=True, slots=True)
class Hit:
    title: str
    url: str
    text: str


@dataclass(frozen=True, slots=True)
class Asked:
    """One HTTP request to a service."""

    method: str
    path: str
    headers: Mapping[str, str] = field(default_factory=dict)
    params: Mapping[str, str] = field(default_factory=dict)
    json: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Backend:
    """A service with its address. `asks` makes its request, `finds` reads its answer."""

    name: str
    url: str = field(repr=False)
    asks: Callable[[Query], Asked] = field(repr=False)
    finds: Callable[[Any], Any]
    text_field: str

    async def search(self, query: Query) -> tuple[Hit, ...]:
        """The best results, at most MOST_HITS. Raises SearchFailed."""
        found = self.finds(await self._answer(self.asks(query)))
        hits = (self._hit(item) for item in found) if isinstance(found, list) else ()
        return tuple([hit for hit in hits if hit is not None and query.takes(hit.url)][:MOST_HITS])

    async def _answer(self, asked: Asked) -> Any:
        try:
            async with asyncio.timeout(SECONDS):
                status, body = await _fetch(self.url, asked)
        except TimeoutError as error:
            raise self._failed("it gave no answer in time", "no answer in time") from error
        except (*NETWORK_ERRORS, httpx.HTTPError, httpx.InvalidURL, httpx.StreamError) as error:
            # The text of such an error may hold the address, and an address may hold a password.
            raise self._failed("it could not be reached", type(error).__name__) from None
        if status != httpx.codes.OK:
            raise self._failed(WORDS.get(status, f"it answered with status {status}"), f"status {status}")
        try:
            return load(body)
        except NotJson:
            raise self._failed("its answer could not be read", "no JSON") from None

    def _failed(self, words: str, logged: str) -> SearchFailed:
        log.warning("web search: %s: %s%s", self.name, logged, HINTS.get((self.name, logged), ""))
        return SearchFailed(f"The search service failed: {words}.")

    def _hit(self, item: Any) -> Hit | None:
        if not isinstance(item, dict) or not isinstance(item.get("url"), str) or not _host(item["url"]):
            return None
        return Hit(
            title=_clean(item.get("title"), "title"),
            url=_clean(item["url"], "url"),
            text=_clean(item.get(self.text_field), "text"),
        )


WORDS = {
    401: "it does not take this server's key",
    403: "it refuses this server",
    429: "too many searches at the moment",
}
HINTS = {("SearXNG", "status 403"): " (is `json` among its `search.formats`?)"}


def searxng(url: str) -> Backend:
    def asks(query: Query) -> Asked:
        return Asked("GET", "/search", params={"q": query.with_sites, "format": "json"})

    return Backend("SearXNG", url, asks, lambda answer: _below(answer, "results"), "content")


def brave(url: str, key: str) -> Backend:
    def asks(query: Query) -> Asked:
        headers = {"x-subscription-token": key, "accept": "application/json"}
        params = {"q": query.with_sites, "count": "20", "text_decorations": "false"}
        return Asked("GET", "/res/v1/web/search", headers, params)

    return Backend("Brave", url, asks, lambda answer: _below(answer, "web", "results"), "description")


def tavily(url: str, key: str) -> Backend:
    def asks(query: Query) -> Asked:
        body = {
            "query": query.text[:LONGEST_QUERY],
            "max_results": 20,
            "include_domains": [site.partition("/")[0] for site in query.allowed],
            "exclude_domains": [site for site in query.blocked if "/" not in site],
        }
        return Asked("POST", "/search", {"authorization": f"Bearer {key}"}, json=body)

    return Backend("Tavily", url, asks, lambda answer: _below(answer, "results"), "content")


async def _fetch(base: str, asked: Asked) -> tuple[int, bytes]:
    url, auth = _without_password(base)
    stream = shared_client().stream(
        asked.method,
        f"{url}{asked.path}",
        auth=auth,
        headers=dict(asked.headers),
        params=dict(asked.params) or None,
        json=asked.json,
    )
    body = bytearray()
    async with stream as response:
        async for piece in response.aiter_bytes():
            body += piece
            if len(body) > MOST_BYTES:
                break
    return response.status_code, bytes(body)


def _without_password(base: str) -> tuple[str, tuple[str, str] | None]:
    """The address, and what stood in it before the `@`: the transport takes it only by itself."""
    url = httpx.URL(base)
    if not url.userinfo:
        return base, None
    return str(url.copy_with(userinfo=b"")).rstrip("/"), (url.username, url.password)


def _below(value: Any, *names: str) -> Any:
    for name in names:
        value = value.get(name) if isinstance(value, dict) else None
    return value


def _host(url: str) -> str | None:
    try:
        parts = urlsplit(url)
    except ValueError:
        return None
    return parts.hostname if parts.scheme in {"http", "https"} else None


def site_of(value: Any) -> str | None:
    """`example.org` or `example.org/docs` of what somebody wrote for it; None: it is no such thing."""
    site = (
        value.strip().lower().removeprefix("https://").removeprefix("http://")
        if isinstance(value, str)
        else ""
    )
    return site.rstrip("/") if SITE.fullmatch(site) else None


def _lies_below(url: str, site: str) -> bool:
    domain, _, path = site.partition("/")
    host = (_host(url) or "").lower()
    here = urlsplit(url).path.strip("/").lower()
    below = not path or here == path or here.startswith(f"{path}/")
    return (host == domain or host.endswith(f".{domain}")) and below


def _clean(value: Any, name: str) -> str:
    """Plain text on one line: services mark the found words with tags."""
    text = TAG.sub("", value) if isinstance(value, str) else ""
    text = " ".join(storable(html.unescape(text)).split())
    return text if len(text) <= LONGEST[name] else f"{text[: LONGEST[name]]}…"
