"""Rendering needs no database."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def _database() -> None:
    """Takes the place of the chat's own fixture of this name."""
