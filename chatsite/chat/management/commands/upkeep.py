"""`manage.py upkeep`: at once what the server does bit by bit. Safe beside running servers, and to stop at any time."""

from django.core.management.base import BaseCommand
from django.db import connection

from chatsite.chat import attachments, upkeep


class Command(BaseCommand):
    help = (
        "Folds the logs of ended runs, prunes those older than EVENTS_KEEP_DAYS, removes what nobody holds."
    )

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
        for shard in attachments.SHARDS:
            steps += attachments.sweep(shard)
        if shrink:
            with connection.cursor() as cursor:
                cursor.execute("VACUUM FULL" if connection.vendor == "postgresql" else "VACUUM")
        self.stdout.write(f"Done, in {steps} steps." if steps else "There was nothing to do.")
