"""Whether a project's ASGI application leads to a door of ours.

Some doors are ASGI applications and not urls: a project that does not wire them starts, and answers 404 or refuses
every socket. What its application is made of nobody can see from outside; but who wires a door imports its module.
"""

from __future__ import annotations

import sys

from django.conf import settings
from django.utils.module_loading import import_string

OURS = "chatsite.asgi.application"
"""It is made of everything, and takes half a second to import."""


def unwired(module: str) -> str:
    """In words, why nothing leads to what this module has; "" where something does."""
    path = getattr(settings, "ASGI_APPLICATION", None)
    if path == OURS:
        return ""
    if not path:
        return "ASGI_APPLICATION is not set, so nobody can see"
    try:
        import_string(path)
    except (
        ImportError,
        RuntimeError,
    ) as error:  # the second: it takes in models of an app that is not installed
        return f"ASGI_APPLICATION is {path!r}, which cannot be imported: {str(error).rstrip('.')}"
    return "" if module in sys.modules else f"{path}, the ASGI_APPLICATION, does not use {module}"
