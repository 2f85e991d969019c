"""`manage.py restore FILE [--replace]`: beside no server; can be stopped at any time and run again."""

from __future__ import annotations

from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from chatsite.operator.backup.restoring import Refused, restore
from chatsite.operator.copying import CannotCopy
from chatsite.operator.management.commands.backup import Telling


class Command(BaseCommand):
    help = "Makes a backup the site, in an empty place or with --replace."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("file", help="what `manage.py backup` wrote")
        parser.add_argument(
            "--replace",
            action="store_true",
            help="there is a site here: keep it aside and put the backup in its place",
        )

    def handle(self, *args: Any, file: str, replace: bool, **options: Any) -> None:
        try:
            said = restore(Path(file), replace=replace, tell=Telling(self))
        except (Refused, CannotCopy) as problem:
            raise CommandError(str(problem)) from None
        for line in said:
            self.stdout.write(line)
        self.stdout.write(f"{file} is restored. Start the server.")
