"""Count what the runs and threads of before came to, by which lists are sorted now."""

from django.db import migrations
from django.db.models import Count, Q, Sum

AT_ONCE = 500
SUMS = ("turns", "calls", "errors", "tokens", "cost", "duration_ms")


def count_runs(apps, schema_editor):
    """What is not booked yet is counted with that."""
    Run, ToolCall = apps.get_model("chat", "Run"), apps.get_model("chat", "ToolCall")
    booked = Run.objects.filter(booked=True)
    booked.update(calls=0, errors=0)
    booked.filter(state__in=["failed", "lost"]).update(errors=1)
    last = 0
    while rows := list(booked.filter(pk__gt=last).order_by("pk").only("pk", "errors")[:AT_ONCE]):
        last = rows[-1].pk
        calls = ToolCall.objects.filter(run__gte=rows[0].pk, run__lte=last).values_list("run")
        bad = Count("pk", filter=Q(state__in=["failed", "unknown"]))
        counted = {run: (many, failed) for run, many, failed in calls.annotate(many=Count("pk"), bad=bad)}
        changed = [row for row in rows if row.pk in counted]
        for row in changed:
            row.calls, failed = counted[row.pk]
            row.errors += failed
        Run.objects.bulk_update(changed, ["calls", "errors"], batch_size=200)


def count_threads(apps, schema_editor):
    Run, Thread = apps.get_model("chat", "Run"), apps.get_model("chat", "Thread")
    last = 0
    while rows := list(Thread.objects.filter(pk__gt=last).order_by("pk").only("pk")[:AT_ONCE]):
        runs = Run.objects.filter(thread__gte=rows[0].pk, thread__lte=rows[-1].pk, booked=True)
        sums = runs.values("thread").annotate(**{f"{name}_": Sum(name) for name in SUMS})
        found = {each["thread"]: each for each in sums}
        for row in rows:
            for name in SUMS:
                setattr(row, name, found.get(row.pk, {}).get(f"{name}_") or 0)
        Thread.objects.bulk_update([row for row in rows if row.pk in found], SUMS, batch_size=100)
        last = rows[-1].pk


class Migration(migrations.Migration):
    dependencies = [("chat", "0017_figures_of_threads")]

    operations = [
        migrations.RunPython(count_runs, migrations.RunPython.noop),
        migrations.RunPython(count_threads, migrations.RunPython.noop),
    ]
