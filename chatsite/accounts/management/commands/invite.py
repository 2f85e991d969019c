"""`manage.py invite [--email ADDRESS] [--groups A,B] [--days N]`: prints the link."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.contrib.auth.models import Group
from django.core.exceptions import ValidationError
from django.core.management.base import BaseCommand, CommandError
from django.core.validators import validate_email
from django.urls import reverse

from chatsite.accounts import invitations, links, written
from chatsite.accounts.conf import setting


class Command(BaseCommand):
    help = "Makes an invitation and prints its link, which makes one account. It is shown only here."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "--email", default="", help="whose it is; with a mail server it is sent there too"
        )
        parser.add_argument("--groups", default="", help="groups of the new account, parted by commas")
        parser.add_argument("--days", type=int, default=invitations.DAYS, help="how long it lasts (7)")

    def handle(self, *args: Any, email: str, groups: str, days: int, **options: Any) -> None:
        if not 1 <= days <= invitations.MOST_DAYS:
            raise CommandError(f"--days is {days}; write a number from 1 to {invitations.MOST_DAYS}.")
        try:
            validate_email(email) if email else None
        except ValidationError:
            raise CommandError(f"--email is {email!r}, which is no address.") from None
        made, token = invitations.invite(email=email, groups=_groups(groups), days=days)
        link = links.absolute(reverse("invitation", args=[token]))
        if email and setting("HAS_MAIL"):
            invitations.send(made, link)
        self.stdout.write(link)


def _groups(text: str) -> list[Group]:
    found = []
    for name in written.names(text):
        try:
            found.append(Group.objects.get(name=name))
        except Group.DoesNotExist:
            raise CommandError(f"There is no group {name!r}. Make it first, in the administration.") from None
    return found
