"""`manage.py export_user NAME -o FILE.zip`: the file is there once it is whole."""

from __future__ import annotations

import os
import time
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.contrib.auth import get_user_model
from django.core.management.base import BaseCommand, CommandError

from chatsite.care.exporting import export

TELL_EVERY = 2.0


class Command(BaseCommand):
    help = "Writes everything of a user to a ZIP file, for them or for whoever may ask for it."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("name", help="the user's name")
        parser.add_argument("-o", "--output", required=True, metavar="FILE.zip")

    def handle(self, *args: Any, name: str, output: str, **options: Any) -> None:
        people = get_user_model()
        try:
            user = people.objects.get_by_natural_key(name)
        except people.DoesNotExist:
            raise CommandError(f"There is no user {name!r}.") from None
        file = Path(output)
        draft = file.with_name(f".{file.name}.part")
        try:
            size = self._write(user, draft)
            draft.replace(file)
        except OSError as error:
            raise CommandError(f"{output} cannot be written: {error.strerror}.") from None
        finally:
            draft.unlink(missing_ok=True)
        self.stdout.write(f"{file}: {size:,} bytes.")

    def _write(self, user: Any, draft: Path) -> int:
        size, told = 0, time.monotonic()
        with os.fdopen(os.open(draft, os.O_CREAT | os.O_TRUNC | os.O_WRONLY, 0o600), "wb") as out:
            for piece in export(user, door="command"):
                out.write(piece)
                size += len(piece)
                if time.monotonic() - told > TELL_EVERY:
                    told = time.monotonic()
                    self.stderr.write(f"{size:,} bytes so far")
            out.flush()
            os.fsync(out.fileno())
        return size
