"""Whose address a request comes from.

Rule: what a client writes about itself is not believed. TRUSTED_PROXIES says how many proxies of the operator's stand
in front; each appends the address it was asked from to X-Forwarded-For, so that many from the end is the client's.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from typing import Any

from django.conf import settings
from django.http import HttpRequest

from chatsite.accounts.conf import setting

NETWORK = 64
"""Bits of an IPv6 address that belong to one customer, who has all the addresses below them."""


def of_request(request: HttpRequest) -> str:
    return client_of(request.META.get("REMOTE_ADDR", ""), [request.META.get("HTTP_X_FORWARDED_FOR", "")])


def of_scope(scope: Any) -> str:
    """The same of an ASGI scope."""
    direct = (scope.get("client") or ("",))[0]
    lines = (value.decode("latin-1") for name, value in scope["headers"] if name == b"x-forwarded-for")
    return client_of(direct, lines)


def is_in_the_open(scope: Any) -> bool:
    """Whether it came over plain http though people come over https (HTTPS): past the proxy, or the proxy says so.

    What this very machine asks without a proxy goes over no wire.
    """
    if not settings.SECURE_SSL_REDIRECT:
        return False
    headers = dict(scope["headers"])
    name, secure = settings.SECURE_PROXY_SSL_HEADER or ("", "")
    told = headers.get(name.removeprefix("HTTP_").replace("_", "-").lower().encode())
    if told is not None:
        return told.decode("latin-1").partition(",")[0].strip() != secure
    if scope.get("scheme") in ("https", "wss"):
        return False
    return b"x-forwarded-for" in headers or not _is_this_machine((scope.get("client") or ("",))[0])


def _is_this_machine(direct: str) -> bool:
    try:
        address = ipaddress.ip_address(direct)
    except ValueError:
        return False
    return (getattr(address, "ipv4_mapped", None) or address).is_loopback


def client_of(direct: str, forwarded: Iterable[str]) -> str:
    """One client's address, or its network. "" when nobody knows (a Unix socket): all of those are one."""
    proxies = setting("TRUSTED_PROXIES")
    if proxies:
        told = [entry.strip() for line in forwarded for entry in line.split(",") if entry.strip()]
        # Fewer than there are proxies: it came past them.
        if len(told) >= proxies and (client := _parsed(told[-proxies])):
            return client
    return _parsed(direct)


def _parsed(text: str) -> str:
    host = text.strip()
    if host.startswith("["):
        host = host[1:].partition("]")[0]
    elif host.count(":") == 1:
        host = host.partition(":")[0]
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return ""
    if isinstance(address, ipaddress.IPv6Address):
        if address.ipv4_mapped:
            return str(address.ipv4_mapped)
        return str(ipaddress.ip_network((int(address), NETWORK), strict=False))
    return str(address)
