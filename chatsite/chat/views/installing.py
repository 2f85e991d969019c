"""The page as an app of its own on a phone or a desk: its name, its icons, where it starts. No service worker: what is
shown comes from the server, and nothing of a thread is kept in a browser.
"""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest, JsonResponse
from django.templatetags.static import static
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_safe


@require_safe
def manifest(request: HttpRequest) -> JsonResponse:
    home = reverse("chat:home")
    return JsonResponse(
        {
            "id": home,
            "name": "Threadloom",
            "description": _(
                "A chat whose server runs the tools and keeps on working when you close the page."
            ),
            "start_url": home,
            "scope": home,
            "display": "standalone",
            "background_color": "#fcfcfa",
            "theme_color": "#12645c",
            "icons": [
                _icon("icon.svg", "any", "image/svg+xml"),
                _icon("icon-192.png", "192x192"),
                _icon("icon-512.png", "512x512"),
                _icon("icon-full-512.png", "512x512", purpose="maskable"),
            ],
        },
        content_type="application/manifest+json",
        headers={"Cache-Control": "max-age=3600", "Vary": "Accept-Language, Cookie"},
    )


def _icon(name: str, sizes: str, type: str = "image/png", purpose: str = "any") -> dict[str, Any]:
    return {"src": static(f"chat/{name}"), "sizes": sizes, "type": type, "purpose": purpose}
