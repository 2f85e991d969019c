"""`manage.py createapikey --user NAME [--name LABEL] [--key VALUE]`: prints the key, and nothing else."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.contrib.auth import get_user_model
from django.core.management.base import BaseCommand, CommandError
from django.db import IntegrityError

from chatsite.chat import access


class Command(BaseCommand):
    help = "Makes an API key for a user and prints it. It is shown only here; what is kept is its hash."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--user", required=True, help="whose key it is")
        parser.add_argument("--name", default="", help="a label, to tell it from others")
        parser.add_argument("--key", default="", help="take this value as it is (for scripts)")

    def handle(self, *args: Any, user: str, name: str, key: str, **options: Any) -> None:
        people = get_user_model()
        try:
            person = people.objects.get_by_natural_key(user)
        except people.DoesNotExist:
            raise CommandError(
                f"There is no user {user!r}. Make one first: manage.py createsuperuser"
            ) from None
        if key and not access.sane_id(key):
            raise CommandError("--key must be 1 to 200 printable characters, without blanks at its ends.")
        try:
            self.stdout.write(access.new_api_key(person, label=name[:100], value=key))
        except IntegrityError:
            raise CommandError("That key exists already. Choose another value, or leave --key out.") from None
