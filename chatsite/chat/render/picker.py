"""The models as a picker lists them, with what is known of each."""

from __future__ import annotations

from django.utils.translation import gettext

from chatsite.chat.agents import Catalog, ModelChoice


def models_in(catalog: Catalog) -> list[dict[str, str]]:
    return [{"id": choice.id, "label": choice.label, "note": _note(choice)} for choice in catalog.choices]


def _note(choice: ModelChoice) -> str:
    size = _size(choice.context) if choice.context else ""
    can = (gettext("images") if choice.images else "", gettext("no tools") if choice.tools is False else "")
    return " · ".join(filter(None, (choice.provider, size, *can)))


def _size(tokens: int) -> str:
    """A context size: `128K`, `1M`, `1.5M`."""
    if tokens >= 1_000_000:
        return f"{tokens / 1_000_000:.3g}M"
    return f"{tokens / 1000:.0f}K" if tokens >= 1000 else str(tokens)
