"""An identity provider of its own: OpenID Connect over HTTP, with a page that asks, PKCE and RS256.

    with IdentityProvider().in_thread() as provider:
        provider.person |= {"groups": ["writers"]}
        provider.spoil = lambda claims: claims | {"aud": "somebody-else"}

It is strict where clients err: a code works once, for the client, address and verifier it was made for.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
import secrets
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import jwt
from cryptography.hazmat.primitives.asymmetric import rsa

CLIENT, SECRET = "threadloom", "a secret of the client"


class IdentityProvider:
    def __init__(self) -> None:
        self.key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        self.key_id = "k1"
        self.codes: dict[str, dict[str, str]] = {}
        self.tokens: dict[str, dict[str, Any]] = {}
        self.asked: list[dict[str, str]] = []
        self.url = ""
        self.reset()

    def reset(self) -> None:
        self.person: dict[str, Any] = {
            "sub": "u-1", "preferred_username": "grace", "name": "Grace Hopper", "email": "grace@example.org",
            "email_verified": True,
        }  # fmt: skip
        self.spoil: Callable[[dict[str, Any]], dict[str, Any]] = lambda claims: claims
        self.sign: Callable[[dict[str, Any]], str] = self._sign
        self.told: dict[str, Any] | None = None
        self.issuer = self.url

    def _sign(self, claims: dict[str, Any]) -> str:
        return jwt.encode(claims, self.key, algorithm="RS256", headers={"kid": self.key_id})

    # -- what it answers -------------------------------------------------------------------------------------

    def discovery(self) -> dict[str, Any]:
        paths = {"authorization_endpoint": "authorize", "token_endpoint": "token", "jwks_uri": "jwks"}
        return {
            "issuer": self.issuer,
            "userinfo_endpoint": f"{self.url}/userinfo",
            "token_endpoint_auth_methods_supported": ["client_secret_basic", "client_secret_post"],
            **{name: f"{self.url}/{path}" for name, path in paths.items()},
        }

    def jwks(self) -> dict[str, Any]:
        public = json.loads(jwt.algorithms.RSAAlgorithm.to_jwk(self.key.public_key()))
        return {"keys": [public | {"kid": self.key_id, "use": "sig", "alg": "RS256"}]}

    def page(self, asked: dict[str, str]) -> str:
        self.asked.append(asked)
        assert asked["client_id"] == CLIENT, asked
        assert asked["response_type"] == "code", asked
        assert asked["code_challenge_method"] == "S256", asked
        fields = "".join(
            f'<input type="hidden" name="{html.escape(name)}" value="{html.escape(value)}">'
            for name, value in asked.items()
        )
        return (
            f"<!doctype html><title>Provider</title><form method=post action=/authorize>{fields}"
            f"<p>{html.escape(self.person['name'])}</p>"
            "<button name=answer value=yes>Allow</button><button name=answer value=no>Refuse</button></form>"
        )

    def decide(self, form: dict[str, str]) -> str:
        """Where the browser is sent."""
        back = {"state": form["state"]}
        if form["answer"] != "yes":
            back["error"] = "access_denied"
        else:
            back["code"] = secrets.token_urlsafe(16)
            self.codes[back["code"]] = form
        return f"{form['redirect_uri']}?{urlencode(back)}"

    def token(self, form: dict[str, str]) -> tuple[int, dict[str, Any]]:
        made_for = self.codes.pop(form.get("code", ""), None)
        digest = hashlib.sha256(form.get("code_verifier", "").encode()).digest()
        challenge = base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
        known = (form.get("client_id"), form.get("client_secret")) == (CLIENT, SECRET)
        if not known or made_for is None or made_for["code_challenge"] != challenge:
            return 400, {"error": "invalid_grant"}
        if form["redirect_uri"] != made_for["redirect_uri"]:
            return 400, {"error": "invalid_grant"}
        now = int(time.time())
        claims = {
            **self.person, "iss": self.url, "aud": CLIENT, "iat": now, "exp": now + 300, "nonce": made_for["nonce"],
        }  # fmt: skip
        token = secrets.token_urlsafe(16)
        self.tokens[token] = self.told if self.told is not None else self.person
        signed = self.sign(self.spoil(claims))
        return 200, {"access_token": token, "token_type": "Bearer", "expires_in": 300, "id_token": signed}

    # -- its life --------------------------------------------------------------------------------------------

    @contextmanager
    def in_thread(self) -> Iterator[IdentityProvider]:
        handler = type("Handler", (_Handler,), {"provider": self})
        server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self.url = f"http://127.0.0.1:{server.server_address[1]}"
        self.reset()
        thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
        thread.start()
        try:
            yield self
        finally:
            server.shutdown()
            server.server_close()
            thread.join()


class _Handler(BaseHTTPRequestHandler):
    provider: IdentityProvider

    def log_message(self, *_: Any) -> None:
        pass

    def do_GET(self) -> None:
        path, query = urlsplit(self.path).path, _single(urlsplit(self.path).query)
        match path:
            case "/.well-known/openid-configuration":
                self._json(200, self.provider.discovery())
            case "/jwks":
                self._json(200, self.provider.jwks())
            case "/authorize":
                self._send(200, "text/html; charset=utf-8", self.provider.page(query).encode())
            case "/userinfo":
                token = self.headers.get("Authorization", "").removeprefix("Bearer ")
                found = self.provider.tokens.get(token)
                self._json(200 if found else 401, found or {"error": "invalid_token"})
            case _:
                self._json(404, {})

    def do_POST(self) -> None:
        form = _single(self.rfile.read(int(self.headers.get("Content-Length", 0))).decode())
        if self.path == "/authorize":
            self._send(303, "text/plain", b"", Location=self.provider.decide(form))
        elif self.path == "/token":
            self._json(*self.provider.token(form))
        else:
            self._json(404, {})

    def _json(self, status: int, value: Any) -> None:
        self._send(status, "application/json", json.dumps(value).encode())

    def _send(self, status: int, type: str, body: bytes, **headers: str) -> None:
        self.send_response(status)
        for name, value in {"Content-Type": type, "Content-Length": str(len(body)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)


def _single(query: str) -> dict[str, str]:
    return {name: values[-1] for name, values in parse_qs(query, keep_blank_values=True).items()}
