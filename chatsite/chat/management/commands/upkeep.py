"""`manage.py upkeep`: at once what the server does bit by bit. Safe beside running servers, and to stop at any time."""

import time

from django.core.management.base import BaseCommand
from django.db import connection

from chatsite.care import housework
from chatsite.chat.files import removing

TELL_EVERY = 5.0


class Command(BaseCommand):
    help = (
        "Folds the logs of ended runs, prunes those older than EVENTS_KEEP_DAYS, removes what nobody holds and what "
        "is older than THREADS_KEEP_DAYS, GATEWAY_KEEP_DAYS or the policy of its owner's group."
    )

    def add_arguments(self, parser):
        parser.add_argument(
            "--shrink",
            action="store_true",
            help="Give freed space back to the disk too (VACUUM). Nothing can be written meanwhile.",
        )

    def handle(self, *args, shrink, **options):
        steps = 0
        # Twice: what one of them throws away is another one's to remove.
        for name, step in 2 * list(housework.steps().items()):
            steps += self._work_off(name, step)
        for shard in removing.SHARDS:
            steps += removing.sweep(shard)
        if shrink:
            with connection.cursor() as cursor:
                cursor.execute("VACUUM FULL" if connection.vendor == "postgresql" else "VACUUM")
        self.stdout.write(f"Done, in {steps} steps." if steps else "There was nothing to do.")

    def _work_off(self, name, step):
        done, told = 0, time.monotonic()
        while step():
            done += 1
            if time.monotonic() - told > TELL_EVERY:
                told = time.monotonic()
                self.stderr.write(f"{name}: {done} steps so far")
        return done
