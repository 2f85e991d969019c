"""`manage.py verify_audit [--expect NUMBER:HASH]`: 0 when the chain is whole, 1 when it is broken, and where."""

from __future__ import annotations

import sys
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from chatsite.audit.verifying import Broken, verify


class Command(BaseCommand):
    help = "Walks the chain of the audit log; names the first entry that was changed, removed or put in."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "--expect",
            action="append",
            default=[],
            metavar="NUMBER:HASH",
            help="an entry's hash that was kept elsewhere, as this command prints it; can be given several times",
        )

    def handle(self, *args: Any, expect: list[str], **options: Any) -> None:
        try:
            walk = verify(dict(map(_expected, expect)), self._tell)
        except Broken as broken:
            raise CommandError(f"{broken} (first broken: {broken.number}, {broken.how})") from None
        for number in walk.seals_broken:
            self.stdout.write(f"Look at entry {number}: the log before it had a seal of another SECRET_KEY.")
        for note in walk.notes:
            self.stdout.write(note)
        if not walk.number:
            self.stdout.write("The log is empty.")
            return
        self.stdout.write(f"The chain is whole, from entry 1 to {walk.number:,}.")
        self.stdout.write(f"Keep this elsewhere, for --expect: {walk.number}:{walk.hash}")

    def _tell(self, number: int, of: int) -> None:
        if sys.stderr.isatty():
            self.stderr.write(f"\r{number:,} of {of:,}", ending="" if number < of else "\n")


def _expected(given: str) -> tuple[int, str]:
    number, _, digest = given.partition(":")
    if not (number.isascii() and number.isdecimal() and len(digest) == 64):
        raise CommandError(f"--expect is {given!r}; write NUMBER:HASH, as this command prints it.")
    return int(number), digest
