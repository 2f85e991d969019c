"""The keys, as they were while they were the chat's.

The chat made this table before accounts were an app of their own. So a database that has it keeps it, with
every row; one without it gets it. Neither way does this need the chat: a site may install the gateway alone.
"""

import django.db.models.deletion
import django.utils.timezone
from django.conf import settings
from django.db import migrations, models


class CreateModelUnlessThere(migrations.CreateModel):
    """As `SeparateDatabaseAndState`, with the state alone where the database already has the table."""

    def database_forwards(self, app_label, schema_editor, from_state, to_state):
        table = to_state.apps.get_model(app_label, self.name)._meta.db_table
        if table not in schema_editor.connection.introspection.table_names():
            super().database_forwards(app_label, schema_editor, from_state, to_state)


def take_over_permissions(apps, schema_editor):
    """Who might look at keys, or revoke them, still may; what the admin's log says of them stays theirs."""
    types = apps.get_model("contenttypes", "ContentType").objects.using(schema_editor.connection.alias)
    if not types.filter(app_label="accounts", model="apikey").exists():
        types.filter(app_label="chat", model="apikey").update(app_label="accounts")


class Migration(migrations.Migration):
    initial = True

    dependencies = [
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
        ("contenttypes", "0002_remove_content_type_name"),
    ]

    operations = [
        CreateModelUnlessThere(
            name="ApiKey",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("label", models.CharField(blank=True, max_length=100)),
                ("digest", models.CharField(editable=False, max_length=64, unique=True)),
                ("hint", models.CharField(editable=False, help_text="How the key begins, to tell it from others.", max_length=12)),
                ("created_at", models.DateTimeField(default=django.utils.timezone.now)),
                ("last_used_at", models.DateTimeField(blank=True, null=True)),
                ("revoked_at", models.DateTimeField(blank=True, null=True)),
                ("user", models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name="api_keys", to=settings.AUTH_USER_MODEL)),
            ],
            options={"db_table": "chat_apikey"},
        ),
        migrations.RunPython(take_over_permissions, migrations.RunPython.noop),
    ]
