"""Give the runs that have ended the figures that lists are sorted by; what they cost then, nobody knows any more."""

from django.db import migrations

AT_ONCE = 2_000


def fill_in(apps, schema_editor):
    Run = apps.get_model("chat", "Run")
    last = 0
    while True:
        rows = Run.objects.filter(pk__gt=last, finished_at__isnull=False).order_by("pk")
        rows = list(rows.only("pk", "usage", "created_at", "finished_at")[:AT_ONCE])
        if not rows:
            return
        for row in rows:
            row.tokens = sum(each.get("inputTokens", 0) + each.get("outputTokens", 0) for each in row.usage)
            row.duration_ms = max(0, round((row.finished_at - row.created_at).total_seconds() * 1000))
        Run.objects.bulk_update(rows, ["tokens", "duration_ms"], batch_size=200)
        last = rows[-1].pk


class Migration(migrations.Migration):
    dependencies = [("chat", "0009_transcripts_and_lists")]

    operations = [migrations.RunPython(fill_in, migrations.RunPython.noop)]
