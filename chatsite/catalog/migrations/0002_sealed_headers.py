from django.db import migrations, models

from chatsite.catalog import headers, sealing


def seal(apps, schema_editor):
    """What looks like a key is sealed, what says how a request is sent goes, names are in small letters."""
    for row in apps.get_model("catalog", "Endpoint").objects.exclude(headers={}):
        kept = {name.lower(): text for name, text in row.headers.items() if not headers.is_framing(name)}
        row.sealed_headers = {name: sealing.seal(text) for name, text in kept.items() if headers.is_secret(name)}
        row.headers = {name: text for name, text in kept.items() if not headers.is_secret(name)}
        row.save(update_fields=["headers", "sealed_headers"])


class Migration(migrations.Migration):
    dependencies = [("catalog", "0001_initial")]

    operations = [
        migrations.AddField(
            model_name="endpoint",
            name="sealed_headers",
            field=models.JSONField(blank=True, default=dict, editable=False),
        ),
        # The way back leaves what is sealed behind: it must not stand open again.
        migrations.RunPython(seal, migrations.RunPython.noop),
    ]
