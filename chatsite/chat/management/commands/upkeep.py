"""`manage.py upkeep`: at once what the server does bit by bit. Safe beside running servers, and to stop at any time."""

from django.core.management.base import BaseCommand
from django.db import connection

from chatsite.chat import upkeep


class Command(BaseCommand):
    help = "Folds the logs of ended runs and prunes those older than EVENTS_KEEP_DAYS."

    def add_arguments(self, parser):
        parser.add_argument(
            "--shrink",
            action="store_true",
            help="Give freed space back to the disk too (VACUUM). Nothing can be written meanwhile.",
        )

    def handle(self, *args, shrink, **options):
        steps = 0
        while upkeep.step():
            steps += 1
        if shrink:
            with connection.cursor() as cursor:
                cursor.execute("VACUUM FULL" if connection.vendor == "postgresql" else "VACUUM")
        self.stdout.write(f"Done, in {steps} steps." if steps else "There was nothing to do.")
