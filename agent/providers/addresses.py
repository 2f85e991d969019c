"""Which addresses a request may go to.

Rule 1: what is looked at is the address that a socket is about to be opened to, in the moment it is. So a name that
        leads elsewhere by the second question, a host written as a number, a redirect: all are this one case.
Rule 2: an IPv4 address within an IPv6 one (mapped, NAT64, 6to4, Teredo) is that IPv4 address.

    public      on the internet
    private     within a network, or this machine: only where the operator says so
    never       link-local (where clouds hand out keys), nobody's, everybody's, reserved
"""

from __future__ import annotations

import socket
from collections.abc import Callable
from enum import Enum, StrEnum
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Any

NAT64 = ip_network("64:ff9b::/96")
SHARED = ip_network("100.64.0.0/10")
"""Behind a provider's or an overlay network's own translation: as near as a private one."""
METADATA = frozenset(
    map(ip_address, ("100.100.100.200", "168.63.129.16", "192.0.0.192", "fd00:ec2::254", "fd20:ce::254"))
)
"""Where clouds that do not use a link-local address hand out keys, or the way to them, to whoever asks from within."""

REFUSED = "is not an address that requests may go to"


class Kind(StrEnum):
    PUBLIC = "public"
    PRIVATE = "private"
    NEVER = "never"


class Reach(Enum):
    """How far a client's requests may go."""

    ANYWHERE = frozenset(Kind)
    """Where the operator's own configuration says."""
    NEAR = frozenset({Kind.PUBLIC, Kind.PRIVATE})
    PUBLIC = frozenset({Kind.PUBLIC})


class AddressRefused(OSError):
    """The name leads to an address that this request must not go to."""


def kind_of(address: str) -> Kind:
    """Of a numeric address, as `getaddrinfo` gives them. Raises ValueError for anything else."""
    ip = _plain(ip_address(address.partition("%")[0]))
    if ip in METADATA:
        return Kind.NEVER
    if ip.is_loopback or ip in SHARED:
        return Kind.PRIVATE
    if ip.is_link_local or ip.is_multicast or ip.is_unspecified or ip.is_reserved:
        return Kind.NEVER
    if ip.is_private or (isinstance(ip, IPv6Address) and ip.is_site_local):
        return Kind.PRIVATE
    return Kind.PUBLIC if ip.is_global else Kind.NEVER


def _plain(ip: IPv4Address | IPv6Address) -> IPv4Address | IPv6Address:
    if isinstance(ip, IPv4Address):
        return ip
    if ip.ipv4_mapped is not None:
        return ip.ipv4_mapped
    if ip.sixtofour is not None:
        return ip.sixtofour
    if ip.teredo is not None:
        return ip.teredo[1]
    if isinstance(NAT64, IPv6Network) and ip in NAT64:
        return IPv4Address(ip.packed[-4:])
    return ip


def sockets_within(reach: Reach) -> Callable[[tuple[Any, ...]], socket.socket]:
    """For aiohttp's `socket_factory`: sockets for addresses within reach. Raises AddressRefused for others."""

    def make(addr_info: tuple[Any, ...]) -> socket.socket:
        family, type_, protocol, _, address = addr_info
        if kind_of(str(address[0])) not in reach.value:
            raise AddressRefused(REFUSED)
        made = socket.socket(family=family, type=type_, proto=protocol)
        made.setblocking(False)
        return made

    return make


def was_refused(error: BaseException | None) -> bool:
    """Whether AddressRefused is what this error comes of, however often it was wrapped on its way."""
    while error is not None:
        if isinstance(error, AddressRefused) or REFUSED in str(error):
            return True
        error = error.__cause__ or error.__context__
    return False
