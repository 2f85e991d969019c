"""`manage.py backup [-o FILE] [--with-secrets]`: beside running servers; can be stopped at any time and run again."""

from __future__ import annotations

import time
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError
from django.utils import timezone

from chatsite.operator.backup.making import make
from chatsite.operator.copying import CannotCopy

TELL_EVERY = 2.0


class Telling:
    """Passes a line on now and then."""

    def __init__(self, command: BaseCommand) -> None:
        self._command = command
        self._told = 0.0

    def __call__(self, line: str) -> None:
        if time.monotonic() - self._told > TELL_EVERY:
            self._told = time.monotonic()
            self._command.stderr.write(line)


class Command(BaseCommand):
    help = "Writes database and attached files to one file, while the site runs."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "-o", "--output", metavar="FILE", help="default: DATA_DIR/backups/threadloom-TIME.tar.gz"
        )
        parser.add_argument(
            "--with-secrets",
            action="store_true",
            help="put SECRET_KEY into it: without it the keys of endpoints cannot be read after a restore, with it "
            "whoever has the file can be anybody",
        )

    def handle(self, *args: Any, output: str | None, with_secrets: bool, **options: Any) -> None:
        target = Path(output) if output else _default()
        try:
            known = make(target, with_secrets=with_secrets, tell=Telling(self))
        except CannotCopy as problem:
            raise CommandError(str(problem)) from None
        for digest in known.missing[:10]:
            self.stderr.write(f"An attached file is missing: {digest}")
        size = target.stat().st_size
        self.stdout.write(f"{target}: {size:,} bytes, {len(known.files):,} files.")
        if known.audit:
            self.stdout.write(f"The audit log was at {known.audit} (for verify_audit --expect).")


def _default() -> Path:
    folder = Path(settings.DATA_DIR) / "backups"
    folder.mkdir(mode=0o700, exist_ok=True)
    return folder / f"threadloom-{timezone.now():%Y%m%d-%H%M%S}.tar.gz"
