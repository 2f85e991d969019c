"""Through the address that people use, with whatever stands in between: `--url`.

What a proxy does to a site shows nowhere else: it may hold streams back, refuse sockets, lose the scheme, or speak to
several processes that cannot hear each other.
"""

from __future__ import annotations

import socket
import ssl
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from urllib.parse import urlsplit

import httpx
from django.conf import settings
from django.contrib.staticfiles.storage import staticfiles_storage

from chatsite.operator import probe
from chatsite.operator.doctor.database import CLOCK_APART
from chatsite.operator.doctor.findings import Check, Finding, look, ok, wrong

ASKED = 12
"""How often the address is asked who answers: enough to meet each of a few processes."""
CERTIFICATE_DAYS = 14
A_FILE = "chat/chat.css"
NOT_OURS = (
    "Is this the address of this installation? Doctor and server must have the same SECRET_KEY, "
    "and the proxy must hand on every path."
)


@dataclass(frozen=True)
class Site:
    """`url` as a person types it, without a path; `verify` is False where nobody can know the certificate."""

    url: str
    verify: bool = True

    def checks(self) -> dict[str, Check]:
        return {
            "address": self.address,
            "origin": self.origin,
            "stream": self.stream,
            "socket": self.socket,
            "static file": self.static_file,
            "processes": self.processes,
            "certificate": self.certificate,
        }

    def _get(self, path: str, **params: str) -> httpx.Response:
        return httpx.get(self.url + path, params=params or None, verify=self.verify, timeout=15)

    def _seen(self) -> dict[str, object] | None:
        answer = self._get("/healthz/seen", token=probe.new_token())
        try:
            return answer.json() if answer.status_code == 200 else None
        except ValueError:
            return None

    def address(self) -> Iterator[Finding]:
        began = time.monotonic()
        try:
            answer = self._get("/healthz")
        except httpx.HTTPError as error:
            yield wrong(
                "address",
                f"{self.url} does not answer: {error}",
                "Is the server running? Does the name lead here?",
            )
            return
        took = (time.monotonic() - began) * 1000
        if answer.is_redirect:
            yield wrong(
                "address",
                f"{self.url} leads to {answer.headers.get('location')}",
                "Give doctor the address people end up at.",
            )
        elif answer.status_code == 400:
            yield wrong(
                "address",
                f"the server does not know the name {urlsplit(self.url).hostname}",
                "Add it to ALLOWED_HOSTS.",
            )
        elif answer.status_code != 200:
            yield wrong(
                "address", f"{self.url}/healthz says {answer.status_code}", "Look into the server's log."
            )
        else:
            yield ok("address", f"{self.url} answers in {took:.0f} ms")
        yield from _time_of(answer)

    def origin(self) -> Iterator[Finding]:
        """Whether the server sees what the browser sees: else it refuses every form and socket."""
        seen = self._seen()
        if seen is None:
            yield wrong("origin", f"{self.url}/healthz/seen is not this installation's", NOT_OURS)
            return
        headers = seen["headers"]
        asked = urlsplit(self.url)
        if headers.get("host") != asked.netloc:
            yield wrong(
                "origin",
                f"the server is told the host {headers.get('host')!r}, the browser says {asked.netloc!r}",
                "Have the proxy pass on the Host header.",
            )
            return
        scheme = headers.get("x-forwarded-proto", "") if settings.HTTPS else seen["scheme"]
        if asked.scheme == "https" and not settings.HTTPS:
            yield wrong("origin", "people come over https, and HTTPS is not set", "Set HTTPS=true.")
        elif scheme != asked.scheme:
            yield wrong(
                "origin",
                f"people come over {asked.scheme}, the server is told {scheme or 'nothing'!r}",
                "Have the proxy set X-Forwarded-Proto to the scheme people use.",
            )
        else:
            yield ok("origin", f"host and scheme arrive as they are ({asked.scheme}://{asked.netloc})")

    def stream(self) -> Iterator[Finding]:
        came: list[float] = []
        with httpx.stream(
            "GET",
            f"{self.url}/healthz/stream",
            params={"token": probe.new_token()},
            headers={"Accept": "text/event-stream", "Accept-Encoding": "gzip"},
            verify=self.verify,
            timeout=15,
        ) as answer:
            if answer.status_code != 200:
                yield wrong("stream", f"says {answer.status_code}", NOT_OURS)
                return
            came += [time.monotonic() for line in answer.iter_lines() if line.startswith("data:")]
            encoding = answer.headers.get("content-encoding", "")
        yield _paced(
            "stream (SSE)",
            came,
            "Switch the proxy's buffering off for this site (nginx: `proxy_buffering off`; deploy/ has examples). "
            "Until then pages ask again and again (long-poll), which works and is slower.",
        )
        if encoding:
            yield look(
                "stream",
                f"the proxy compresses it ({encoding}), which may hold words back",
                "Leave text/event-stream out of its compression.",
            )

    def socket(self) -> Iterator[Finding]:
        from websockets.exceptions import WebSocketException
        from websockets.sync.client import connect

        asked = urlsplit(self.url)
        address = f"{'wss' if asked.scheme == 'https' else 'ws'}://{asked.netloc}/ws/healthz/?token={probe.new_token()}"
        context = None if asked.scheme == "http" else _context(self.verify)
        try:
            with connect(
                address, origin=self.url, ssl=context, open_timeout=10, close_timeout=2
            ) as connection:
                came = []
                for number in range(probe.TICKS):
                    _expect(connection.recv(10), str(number))
                    came.append(time.monotonic())
                connection.send("echo")
                _expect(connection.recv(10), "echo")
        except (OSError, WebSocketException, ValueError) as error:
            yield wrong(
                "socket (WebSocket)",
                f"none can be opened: {error or type(error).__name__}",
                "Have the proxy pass on Upgrade and Connection (deploy/ has examples), and set CSRF_TRUSTED_ORIGINS "
                "where people type another name than the server is told. The page works without; programs may not.",
            )
            return
        yield _paced(
            "socket (WebSocket)", came, "The proxy holds frames back; its WebSocket support must be on."
        )

    def static_file(self) -> Iterator[Finding]:
        path = staticfiles_storage.url(A_FILE)
        answer = httpx.get(
            self.url + path, headers={"Accept-Encoding": "gzip"}, verify=self.verify, timeout=15
        )
        if answer.status_code != 200 or not answer.headers.get("content-type", "").startswith("text/css"):
            yield wrong(
                "static files",
                f"{path} says {answer.status_code} ({answer.headers.get('content-type', 'no type')})",
                "Have the proxy pass /static/ on; doctor and server must be of one version.",
            )
        elif "content-encoding" not in answer.headers:
            yield look("static files", "arrive uncompressed", "Have the proxy pass on Accept-Encoding.")
        else:
            yield ok("static files", f"{path} arrives, compressed")

    def processes(self) -> Iterator[Finding]:
        answers = [seen for seen in (self._seen() for _ in range(ASKED)) if seen is not None]
        found = {str(seen["process"]) for seen in answers}
        if not found:
            return  # `origin` has said why
        words = f"{len(found)} server process{'es' if len(found) > 1 else ''} behind this address"
        if len(found) > 1 and not settings.REDIS_URL:
            yield look(
                "processes",
                f"{words}, without Redis: each hears of the others' news within a second, not at once",
                "Set REDIS_URL, or have the proxy send a person to one process.",
            )
        else:
            yield ok("processes", words)

    def certificate(self) -> Iterator[Finding]:
        asked = urlsplit(self.url)
        if asked.scheme != "https" or not self.verify:
            return
        with (
            socket.create_connection((asked.hostname, asked.port or 443), 10) as raw,
            _context(True).wrap_socket(raw, server_hostname=asked.hostname) as connection,
        ):
            until = ssl.cert_time_to_seconds(connection.getpeercert()["notAfter"])
        days = (until - time.time()) / 86400
        if days < CERTIFICATE_DAYS:
            yield wrong("certificate", f"ends in {days:.0f} days", "Is its renewal at work?")
        else:
            yield ok("certificate", f"holds for {days:.0f} days")


def _expect(heard: str | bytes, expected: str) -> None:
    if heard != expected:
        raise ValueError(f"{heard[:40]!r} came where {expected!r} was sent")


def _context(verify: bool) -> ssl.SSLContext:
    context = ssl.create_default_context()
    if not verify:
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


def _paced(about: str, came: list[float], advice: str) -> Finding:
    """Ticks that were sent one by one must not arrive all together."""
    if len(came) != probe.TICKS:
        return wrong(about, f"{len(came)} of {probe.TICKS} events arrived", advice)
    spread, sent = came[-1] - came[0], probe.EVERY * (probe.TICKS - 1)
    if spread < sent / 5:  # held back they come at once; and a busy machine may read the first of them late
        return wrong(
            about, f"is held back: what was sent over {sent:.1f} s came within {spread:.2f} s", advice
        )
    return ok(about, "each event arrives when it is sent")


def _time_of(answer: httpx.Response) -> Iterator[Finding]:
    told = answer.headers.get("date")
    if not told:
        return
    apart = (parsedate_to_datetime(told) - datetime.now(UTC)).total_seconds()
    if abs(apart) > CLOCK_APART + 1:  # the header knows whole seconds only
        yield wrong(
            "clock",
            f"who answers there is {apart:+.0f} s apart from this machine",
            "Let both follow a time server (NTP).",
        )
