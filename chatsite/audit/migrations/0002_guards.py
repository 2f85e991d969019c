from django.db import migrations

from chatsite.audit import guards


class Migration(migrations.Migration):
    """Triggers, as `guards` says. A migration that changes one of the tables ends with the same operation."""

    dependencies = [("audit", "0001_initial")]

    operations = [migrations.RunPython(guards.install_in_migration, guards.remove_in_migration)]
