"""What other apps' pages show of limits, without knowing of them."""

from __future__ import annotations

from typing import Any

from django import template

from chatsite.policies.meters import meters_of

register = template.Library()


@register.inclusion_tag("policies/meters.html")
def usage_meters(user: Any) -> dict[str, Any]:
    return {"meters": meters_of(user.pk)}
