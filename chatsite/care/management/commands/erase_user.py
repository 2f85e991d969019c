"""`manage.py erase_user NAME --reason WHY [-o PROOF.json]`: can be stopped and run again, and again when it is done."""

from __future__ import annotations

import json
import time
from argparse import ArgumentParser
from collections import Counter
from pathlib import Path
from typing import Any

from django.contrib.auth import get_user_model
from django.core.management.base import BaseCommand, CommandError

from chatsite.care import erasing
from chatsite.care.models import Erasure

TELL_EVERY = 2.0


class Command(BaseCommand):
    help = "Erases a user with all that is theirs, and prints the proof. There is no way back."

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._gone: Counter[str] = Counter()
        self._told = time.monotonic()

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("name", help="the user's name")
        parser.add_argument("--reason", required=True, help="kept in the audit log and in the proof")
        parser.add_argument("-o", "--output", metavar="FILE", help="write the proof there")

    def handle(self, *args: Any, name: str, reason: str, output: str | None, **options: Any) -> None:
        try:
            erasure = _begun(name, reason)
            erasing.run(erasure, tell=self._tell)
        except erasing.Refused as refused:
            raise CommandError(str(refused)) from None
        text = json.dumps(erasure.proof, indent=1, ensure_ascii=False)
        if output:
            Path(output).write_text(text + "\n", encoding="utf-8")
        else:
            self.stdout.write(text)
        rows = sum(erasure.before.values())
        self.stderr.write(f"{name} was erased: {rows:,} rows, none of them is left.")

    def _tell(self, table: str, gone: int, before: int) -> None:
        self._gone[table] += gone
        if time.monotonic() - self._told > TELL_EVERY:
            self._told = time.monotonic()
            self.stderr.write(f"{table}: {self._gone[table]:,} of {before:,}")


def _begun(name: str, reason: str) -> Erasure:
    people = get_user_model()
    try:
        return erasing.begin(people.objects.get_by_natural_key(name), reason=reason, door="command")
    except people.DoesNotExist:
        known = Erasure.objects.filter(user_name=name).order_by("-pk").first()
        if known is None:
            raise CommandError(f"There is no user {name!r}, and none of that name was erased.") from None
        return known
