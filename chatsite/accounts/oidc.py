"""OpenID Connect: django-allauth's provider, with every check of an ID token.

Rule 1: what a token says counts when its signature (by a key of the issuer's, with an algorithm of ours), issuer,
        audience, age and nonce are right. Allauth trusts the connection instead; we do not.
Rule 2: a person is (issuer, sub). Another issuer's `sub` is another person.

Imported at the first sign-in, for `requests` and what belongs to it take memory.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Mapping
from typing import Any

import jwt
from allauth.socialaccount.adapter import get_adapter
from allauth.socialaccount.providers import registry
from allauth.socialaccount.providers.oauth2.client import OAuth2Error
from allauth.socialaccount.providers.oauth2.views import OAuth2CallbackView
from allauth.socialaccount.providers.openid_connect.provider import OpenIDConnectProvider
from allauth.socialaccount.providers.openid_connect.views import OpenIDConnectOAuth2Adapter
from django.http import HttpRequest, HttpResponseBase
from django.urls import reverse

from chatsite.accounts.conf import setting

NAME = "oidc"
ALGORITHMS = ["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"]
"""With keys that everybody may know. Neither `none`, nor those whose key is a secret."""
CLOCKS_DIFFER = 60
KEPT = ("sub", "email", "email_verified", "name", "given_name", "family_name", "preferred_username")
MOST_GROUPS = 500


class Refused(OAuth2Error):
    """What came from the provider is not what it has to be."""


class Adapter(OpenIDConnectOAuth2Adapter):
    nonce = ""

    @property
    def openid_config(self) -> dict[str, Any]:
        config: dict[str, Any] = super().openid_config
        if str(config.get("issuer", "")).rstrip("/") != setting("OIDC_ISSUER"):
            raise Refused("the discovery document is of another issuer")
        return config

    def get_callback_url(self, request: HttpRequest, app: Any) -> str:
        return request.build_absolute_uri(reverse("oidc_callback"))

    def complete_login(self, request: HttpRequest, app: Any, token: Any, **kwargs: Any) -> Any:
        claims = self._claims(kwargs["response"].get("id_token"), app.client_id)
        told = self._fetch_user_info(token.token) if self.openid_config.get("userinfo_endpoint") else {}
        if told and told.get("sub") != claims["sub"]:
            raise Refused("the user info is about somebody else")
        return self.get_provider().sociallogin_from_response(request, joined(claims, told))

    def _claims(self, id_token: Any, client_id: str) -> dict[str, Any]:
        try:
            claims: dict[str, Any] = jwt.decode(
                str(id_token or ""),
                self._key_of(str(id_token or "")),
                algorithms=ALGORITHMS,
                issuer=self.openid_config["issuer"],
                audience=client_id,
                leeway=CLOCKS_DIFFER,
                options={"require": ["iss", "aud", "exp", "iat", "sub"]},
            )
        except (jwt.PyJWTError, TypeError, ValueError) as error:
            raise Refused(f"the ID token is not good: {type(error).__name__}") from error
        if not self.nonce or not secrets.compare_digest(str(claims.get("nonce", "")), self.nonce):
            raise Refused("the ID token belongs to another sign-in")
        if isinstance(claims["aud"], list) and len(claims["aud"]) > 1 and claims.get("azp") != client_id:
            raise Refused("the ID token was made for another client")
        return claims

    def _key_of(self, id_token: str) -> Any:
        wanted = jwt.get_unverified_header(id_token).get("kid")
        with get_adapter().get_requests_session() as session:
            answer = session.get(self.openid_config["jwks_uri"])
            answer.raise_for_status()
        keys = [
            key for key in jwt.PyJWKSet.from_dict(answer.json()).keys if key.public_key_use in {None, "sig"}
        ]
        fitting = [key for key in keys if wanted is None or key.key_id == wanted]
        if len(fitting) != 1:
            raise Refused("the ID token names no key of the issuer's")
        return fitting[0].key


class Provider(OpenIDConnectProvider):
    oauth2_adapter_class = Adapter

    def redirect(
        self, request: HttpRequest, process: str, next_url: Any = None, *args: Any, **more: Any
    ) -> Any:
        nonce = secrets.token_urlsafe(24)
        params = {"nonce": nonce}
        return super().redirect(request, process, next_url, auth_params=params, nonce=nonce)

    def extract_uid(self, data: dict[str, Any]) -> str:
        return hashlib.sha256(f"{setting('OIDC_ISSUER')}\n{data['sub']}".encode()).hexdigest()

    def extract_extra_data(self, data: dict[str, Any]) -> dict[str, Any]:
        """What is kept of it: not all that a provider likes to tell."""
        return {name: data[name] for name in KEPT if name in data} | {"groups": groups_in(data)}


class Callback(OAuth2CallbackView):
    def _get_state(self, request: HttpRequest, provider: Any) -> Any:
        state, answer = super()._get_state(request, provider)
        self.adapter.nonce = (state or {}).get("nonce", "")
        return state, answer


def callback(request: HttpRequest) -> HttpResponseBase:
    answer: HttpResponseBase = Callback.adapter_view(Adapter(request, NAME))(request)
    return answer


def joined(claims: Mapping[str, Any], told: Mapping[str, Any]) -> dict[str, Any]:
    """The token's claims over the user info's. An address and the word for it come from the same of both."""
    whole = {**told, **claims}
    if "email" in claims:
        whole["email_verified"] = claims.get("email_verified", False)
    elif "email" in told:
        whole["email_verified"] = told.get("email_verified", False)
    return whole


def groups_in(claims: Mapping[str, Any]) -> list[str]:
    """By the path in OIDC_GROUPS_CLAIM, such as `groups` or `realm_access.roles`."""
    found: Any = claims
    for step in filter(None, setting("OIDC_GROUPS_CLAIM").split(".")):
        found = found.get(step) if isinstance(found, Mapping) else None
    if isinstance(found, str):
        found = [found]
    if not setting("OIDC_GROUPS_CLAIM") or not isinstance(found, list):
        return []
    return [name for name in found if isinstance(name, str)][:MOST_GROUPS]


registry.register(Provider)
