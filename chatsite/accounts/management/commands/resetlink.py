"""`manage.py resetlink NAME`: prints a link with which that user chooses a new password."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.contrib.auth import get_user_model
from django.core.management.base import BaseCommand, CommandError

from chatsite.accounts import links
from chatsite.accounts.auditing import subject_of
from chatsite.audit import log


class Command(BaseCommand):
    help = "Prints a link with which a user chooses a new password. It works once, for a day."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("user", help="whose password it is")

    def handle(self, *args: Any, user: str, **options: Any) -> None:
        people = get_user_model()
        try:
            person = people.objects.get_by_natural_key(user)
        except people.DoesNotExist:
            raise CommandError(f"There is no user {user!r}.") from None
        if not person.is_active:
            raise CommandError(f"{user!r} is deactivated: activate the account first.")
        log.record("reset_link.made", subject=subject_of(person), door="command")
        self.stdout.write(links.reset_link(person))
