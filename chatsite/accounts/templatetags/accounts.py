"""`{% setting "SIGNUP" as signup %}`: what a page of accounts has to know of how the site is set."""

from __future__ import annotations

import json
from typing import Any

from django import template
from django.core.serializers.json import DjangoJSONEncoder

from chatsite.accounts import conf

register = template.Library()

TOLD = frozenset({"HAS_MAIL", "OIDC_ISSUER", "OIDC_NAME", "SIGNUP"})


@register.simple_tag
def setting(name: str) -> Any:
    if name not in TOLD:
        raise template.TemplateSyntaxError(f"{name} is not for pages")
    return conf.setting(name)


@register.filter
def as_json(value: Any) -> str:
    """For an attribute, where the page's policy lets no script stand."""
    return json.dumps(value, cls=DjangoJSONEncoder)
