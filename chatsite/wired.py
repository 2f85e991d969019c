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
        Exception
    ) as error:  # the project's own code: an app that is not installed, a variable of the server's alone
        said = f"{type(error).__name__}: {error}".rstrip(".")
        return f"ASGI_APPLICATION is {path!r}, which cannot be imported ({said})"
    return "" if module in sys.modules else f"{path}, the ASGI_APPLICATION, does not use {module}"
