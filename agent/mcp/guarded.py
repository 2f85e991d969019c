"""What goes over HTTP to one server: bounded, and its failures told apart.

The SDK ends the whole session, every call in it, when one request fails to connect, and says of most refusals only
that there was one. So they become answers here, of the protocol's own form, with codes that `server.py` knows:

| what happened | code |
|---|---|
| no connection | NOT_SENT: nothing arrived |
| the session is not known there any more | FORGOTTEN: nothing was done |
| 4xx without an answer of the protocol | REFUSED: nothing was done |
| 5xx without one, a broken connection, an answer that cannot be read | LOST: it may have been done |

Redirects are the SDK's: within the origin, or not at all. Addresses are the operator's, and so may be private; proxies
of the environment are not used: where secrets go is decided by configuration alone.
"""

from __future__ import annotations

import json
import ssl
from collections.abc import AsyncIterator, Mapping

import httpx2

from agent.mcp.faults import Fault, fault, packed

NOT_SENT, FORGOTTEN, REFUSED, LOST = -44001, -44002, -44003, -44004
"""Outside of what JSON-RPC keeps for itself, and of what servers use."""

LARGEST_ANSWER = 16 * 1024 * 1024
LARGEST_REFUSAL = 64 * 1024
CONNECT_FOR = 5.0
LEAVE_FOR = 3.0
"""Seconds for an answer to our leave of a session. What is called meanwhile waits for the next one."""
USER_AGENT = "threadloom"
SESSION = "mcp-session-id"


def client(headers: Mapping[str, str]) -> httpx2.AsyncClient:
    """How long an answer may take is its tool's to say, so there is no limit for reading."""
    return httpx2.AsyncClient(
        headers={"user-agent": USER_AGENT, **headers, "accept-encoding": "identity"},
        timeout=httpx2.Timeout(30, connect=CONNECT_FOR, read=None),
        transport=Guarded(httpx2.AsyncHTTPTransport(verify=_certificates(), trust_env=False)),
        trust_env=False,
        follow_redirects=False,
    )


def _certificates() -> ssl.SSLContext:
    tls = ssl.create_default_context()
    if not tls.get_ca_certs() and not ssl.get_default_verify_paths().capath:
        return httpx2.create_ssl_context(trust_env=False)
    return tls


class Guarded(httpx2.AsyncBaseTransport):
    def __init__(self, inner: httpx2.AsyncBaseTransport) -> None:
        self._inner = inner

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        if request.method == "DELETE":
            request.extensions["timeout"] = {**request.extensions.get("timeout", {}), "read": LEAVE_FOR}
        try:
            response = await self._inner.handle_async_request(request)
        except (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout) as error:
            why = str(error)
            return _said(503, NOT_SENT, fault("unreachable", why=why) if why else fault("no_answer"))
        except httpx2.TransportError as error:
            return _said(502, LOST, fault("broken", why=str(error) or type(error).__name__))
        if response.headers.get("content-encoding", "identity").lower() != "identity":
            await response.aclose()
            return _said(502, LOST, fault("packed"))
        if response.status_code >= 400:
            return await _refusal(request, response)
        if not response.headers.get("content-type", "").lower().startswith("text/event-stream"):
            assert isinstance(response.stream, httpx2.AsyncByteStream)
            response.stream = _Bounded(response.stream)
        return response

    async def aclose(self) -> None:
        await self._inner.aclose()


class _Bounded(httpx2.AsyncByteStream):
    """A body that ends too late, or breaks, is one that cannot be read: the SDK then ends its request alone."""

    def __init__(self, inner: httpx2.AsyncByteStream) -> None:
        self._inner = inner

    async def __aiter__(self) -> AsyncIterator[bytes]:
        taken = 0
        try:
            async for chunk in self._inner:
                taken += len(chunk)
                if taken > LARGEST_ANSWER:
                    raise httpx2.StreamError(f"the answer is larger than {LARGEST_ANSWER // 1024 // 1024} MB")
                yield chunk
        except httpx2.TransportError as error:
            raise httpx2.StreamError("the connection broke") from error

    async def aclose(self) -> None:
        await self._inner.aclose()


async def _refusal(request: httpx2.Request, response: httpx2.Response) -> httpx2.Response:
    status = response.status_code
    body = await _beginning_of(response)
    if status == 404 and SESSION in request.headers:
        return _said(status, FORGOTTEN, fault("forgotten"))
    if _is_of_the_protocol(body):
        return httpx2.Response(status, headers={"content-type": "application/json"}, content=body)
    if status in (401, 403):
        return _said(status, REFUSED, fault("locked", status=status))
    if status in (404, 405):
        return _said(status, REFUSED, fault("no_protocol", status=status))
    if status < 500:
        return _said(status, REFUSED, fault("refused", status=status))
    return _said(status, LOST, fault("failed", status=status))


async def _beginning_of(response: httpx2.Response) -> bytes:
    body = bytearray()
    try:
        async for chunk in response.aiter_raw():
            body += chunk
            if len(body) > LARGEST_REFUSAL:
                break
    except (httpx2.TransportError, httpx2.StreamError):
        pass  # its status says enough
    finally:
        await response.aclose()
    return bytes(body)


def _is_of_the_protocol(body: bytes) -> bool:
    try:
        said = json.loads(body)
    except (ValueError, RecursionError):
        return False
    return isinstance(said, dict) and said.get("jsonrpc") == "2.0" and isinstance(said.get("error"), dict)


def _said(status: int, code: int, found: Fault) -> httpx2.Response:
    error = {"code": code, "message": str(found), "data": packed(found)}
    return httpx2.Response(status, json={"jsonrpc": "2.0", "id": None, "error": error})
