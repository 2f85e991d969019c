"""What a backup says of itself. It is written last, so that a file that was cut off has none."""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from typing import Any, Literal

import django
from django.conf import settings
from pydantic import BaseModel, ConfigDict

NAME = "manifest.json"
DATABASES = {"sqlite": "database.sqlite3", "postgresql": "database.sql"}
MOST_FILES = 1_000_000
"""In one backup. What it says of a million takes 200 MB, and that is read as one piece."""
SECRET = "secret_key"  # noqa: S105 - its name in the archive


class Member(BaseModel):
    model_config = ConfigDict(extra="forbid")
    bytes: int
    sha256: str


class Manifest(BaseModel):
    model_config = ConfigDict(extra="forbid")
    format: Literal["threadloom-backup"] = "threadloom-backup"
    version: Literal[1] = 1
    made_at: datetime
    threadloom: str
    django: str
    database: Literal["sqlite", "postgresql"]
    migrations: list[tuple[str, str]]
    secret_key: str
    """A fingerprint, to tell whether a site has the same one."""
    audit: str = ""
    """`NUMBER:HASH` of the audit log's last entry, for `verify_audit --expect`."""
    missing: list[str] = []
    """Files that rows refer to and that were not there."""
    files: dict[str, Member]


def made(vendor: str, **facts: Any) -> Manifest:
    return Manifest(
        made_at=datetime.now(UTC),
        threadloom=own_version(),
        django=django.__version__,
        database=vendor,  # checked by the model
        secret_key=fingerprint(settings.SECRET_KEY),
        **facts,
    )


def fingerprint(secret: str) -> str:
    return hashlib.sha256(b"threadloom.backup\0" + secret.encode()).hexdigest()[:16]


def own_version() -> str:
    try:
        return version("threadloom")
    except PackageNotFoundError:
        return "from its sources"
