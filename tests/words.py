"""Words in a text that holds random ids, too: three letters of a name stand in one of them every now and then."""

from __future__ import annotations

import re

A_KEY = re.compile(r"sk-(live|ant|test|browser)-")
"""The beginning of an endpoint's key, as tests have them. `sk-` alone may be of an id."""


def says(text: str, word: str) -> bool:
    """Whether it stands there by itself, and not as a part of something longer."""
    return re.search(rf"(?<![\w-]){re.escape(word)}(?![\w-])", text) is not None
