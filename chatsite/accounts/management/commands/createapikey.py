"""`manage.py createapikey --user NAME [--name LABEL] [limits]`: prints the key, and nothing else."""

from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import Callable
from typing import Any

from django.contrib.auth import get_user_model
from django.core.exceptions import ValidationError
from django.core.management.base import BaseCommand, CommandError
from django.db import IntegrityError, transaction

from chatsite.accounts import keys, written
from chatsite.accounts.auditing import record_key
from chatsite.accounts.models import SCOPES, ApiKey

OPTIONS: dict[str, tuple[str, Callable[[str], Any], dict[str, Any]]] = {
    "--scopes": (
        "scopes",
        written.names,
        {"help": f"what it opens, of {', '.join(SCOPES)} (chat and gateway)"},
    ),
    "--models": ("allowed_models", written.names, {"help": "the models it may use, parted by commas (all)"}),
    "--requests-per-minute": ("requests_per_minute", written.whole, {"metavar": "N"}),
    "--tokens-per-minute": ("tokens_per_minute", written.whole, {"metavar": "N"}),
    "--at-once": ("requests_at_once", written.whole, {"metavar": "N", "help": "requests under way"}),
    "--budget": ("budget", written.money, {"help": "in the currency of MODEL_PRICES"}),
    "--budget-period": ("budget_period", written.period, {"help": "total or monthly (total)"}),
    "--keep": ("keep", str, {"choices": ApiKey.Keep.values, "help": "of its requests to the gateway"}),
    "--stream-form": ("stream_form", str, {"choices": ["single", "append"]}),
    "--max-agentic-loops": ("max_agentic_loops", written.whole, {"metavar": "N"}),
    "--expires": ("expires_at", written.moment, {"help": "2027-01-31, 2027-01-31T18:00Z, or in days: 90d"}),
}
"""Option -> field of the key, what reads it, how argparse shows it."""


class Command(BaseCommand):
    help = "Makes an API key for a user and prints it. It is shown only here; what is kept is its hash."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--user", required=True, help="whose key it is")
        parser.add_argument("--name", default="", help="a label, to tell it from others")
        parser.add_argument("--key", default="", help="take this value as it is (for scripts)")
        for option, (field, _, more) in OPTIONS.items():
            parser.add_argument(option, dest=field, default=None, **more)

    def handle(self, *args: Any, user: str, name: str, key: str, **options: Any) -> None:
        people = get_user_model()
        try:
            person = people.objects.get_by_natural_key(user)
        except people.DoesNotExist:
            raise CommandError(
                f"There is no user {user!r}. Make one first: manage.py createsuperuser"
            ) from None
        if key and not keys.sane_key(key):
            raise CommandError("--key must be 1 to 200 printable characters, without blanks at its ends.")
        settings = _settings(options)
        try:
            with transaction.atomic():
                made = keys.new_api_key(person, label=name[:100], value=key, **settings)
                record_key("key.made", ApiKey.objects.get(digest=keys.digest_of(made)), door="command")
        except ValidationError as error:
            raise CommandError(_sentence(error)) from None
        except IntegrityError:
            raise CommandError("That key exists already. Choose another value, or leave --key out.") from None
        self.stdout.write(made)


def _settings(options: dict[str, Any]) -> dict[str, Any]:
    settings = {}
    for option, (field, read, _) in OPTIONS.items():
        if (given := options[field]) is not None:
            try:
                settings[field] = read(given)
            except ValueError as error:
                raise CommandError(f"{option} is {given!r}; {error}") from None
    return settings


def _sentence(error: ValidationError) -> str:
    """The first complaint, with the option it is about."""
    field, words = next(iter(error.message_dict.items()))
    option = next((option for option, (name, *_) in OPTIONS.items() if name == field), f"--{field}")
    return f"{option}: {words[0]}"
