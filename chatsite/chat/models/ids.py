"""Ids that stand in addresses and cursors."""

from __future__ import annotations

import secrets


def new_public_id() -> str:
    """122+ bits nobody can guess; the `threadId` that resumes a thread."""
    return secrets.token_urlsafe(18)


def new_run_id() -> str:
    """Unguessable is its thread's part; this stands in every cursor, so it is short."""
    return secrets.token_urlsafe(9)
