"""`manage.py demothread --user NAME`: makes the thread in which each state can be seen, and prints its path."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.contrib.auth import get_user_model
from django.core.management.base import BaseCommand, CommandError
from django.db import transaction
from django.urls import reverse

from chatsite.chat import demothread


class Command(BaseCommand):
    help = "Makes a thread in which each state of the page can be seen, and prints its path."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--user", required=True, help="whose thread it is")

    def handle(self, *args: Any, user: str, **options: Any) -> None:
        people = get_user_model()
        try:
            person = people.objects.get_by_natural_key(user)
        except people.DoesNotExist:
            raise CommandError(
                f"There is no user {user!r}. Make one first: manage.py createsuperuser"
            ) from None
        with transaction.atomic():
            thread = demothread.make(person)
        self.stdout.write(reverse("chat:thread", args=[thread.public_id]))
