"""More lost runs, each a copy of one that a killed server left. `bench.lasting` runs it in the site's own shell."""

from __future__ import annotations

from itertools import cycle, islice

from django.db import transaction

from chatsite.chat import models


@transaction.atomic
def multiply(count: int) -> None:
    """Until there are `count` of them, each in a thread of its own, with its message and its log."""
    runs = models.Run.objects.filter(state__in=models.Run.ACTIVE).select_related("thread", "thread__head")
    left = [(run, list(run.events.all())) for run in runs]
    for run, events in islice(cycle(left), count - len(left)):
        copy(run, events)


def copy(run: models.Run, events: list[models.RunEvent]) -> None:
    thread, message = run.thread, run.thread.head
    thread.pk, thread.public_id, thread.head = None, models.new_public_id(), None
    thread.save(force_insert=True)
    run.pk, run.public_id, run.thread = None, models.new_run_id(), thread
    run.save(force_insert=True)
    assert message is not None
    message.pk, message.thread, message.run = None, thread, run
    message.save(force_insert=True)
    thread.head = message
    thread.save(update_fields=["head"])
    for event in events:
        event.pk, event.run = None, run
    models.RunEvent.objects.bulk_create(events)
