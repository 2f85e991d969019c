"""Settings, rights and static files: what can be seen without asking anybody."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

from django.conf import settings
from django.contrib.staticfiles.storage import ManifestFilesMixin, staticfiles_storage
from django.core import checks

from chatsite.operator import prepare
from chatsite.operator.doctor.findings import Finding, look, ok, wrong


def configuration() -> Iterator[Finding]:
    """Django's checks; those for a site in public where others can reach it."""
    public = settings.HTTPS or settings.HOST in settings.ANY_ADDRESS
    found = checks.run_checks(include_deployment_checks=public)
    for message in found:
        if message.is_silenced():
            continue
        advice = message.hint or "See the message."
        yield (wrong if message.is_serious() else look)(
            f"settings {message.id}", str(message.msg), str(advice)
        )
    if not [each for each in found if not each.is_silenced()]:
        yield ok("settings", "nothing to say" + (" (as a site in public)" if public else ""))
    if settings.DEBUG:
        yield wrong("DEBUG", "is on: errors show their traces to everybody", "Unset DEBUG.")
    if settings.HOST in settings.ANY_ADDRESS and not settings.HTTPS:
        yield look(
            "HTTPS",
            "other machines reach this server, and passwords go over the wire as they are",
            "Put a proxy with TLS in front (deploy/ has examples) and set HTTPS=true.",
        )


def data_folder() -> Iterator[Finding]:
    folder = Path(settings.DATA_DIR)
    if not os.access(folder, os.W_OK | os.X_OK):
        yield wrong(
            "DATA_DIR", f"{folder} cannot be written by this user", f"chown -R {os.getuid()} {folder}"
        )
        return
    exposed = [
        path.name for path in folder.iterdir() if path.is_file() and _is_secret(path) and _others_read(path)
    ]
    if exposed:
        yield wrong(
            "rights",
            f"other users can read {', '.join(sorted(exposed))}",
            f"chmod 600 {' '.join(str(folder / name) for name in sorted(exposed))}",
        )
    else:
        yield ok("DATA_DIR", f"{folder} can be written, and its secrets are its owner's alone")
    owners = {path.stat().st_uid for path in folder.iterdir()}
    if len(owners) > 1:
        yield look("owners", "files in DATA_DIR belong to several users", f"chown -R {os.getuid()} {folder}")


def _is_secret(path: Path) -> bool:
    return "secret" in path.name.lower()


def _others_read(path: Path) -> bool:
    return bool(path.stat().st_mode & (stat.S_IRGRP | stat.S_IROTH))


def static_files() -> Iterator[Finding]:
    if not isinstance(staticfiles_storage, ManifestFilesMixin):
        yield look("static files", "come from where they lie, uncompressed", "Unset DEBUG.")
    elif prepare.static_files_are_stale():
        yield look(
            "static files",
            "are not collected, or have changed since",
            "Start `manage.py serve`, or run `collectstatic`.",
        )
    else:
        yield ok("static files", "collected")
