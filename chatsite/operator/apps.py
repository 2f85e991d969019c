from django.apps import AppConfig


class OperatorConfig(AppConfig):
    """What whoever runs the site needs: `manage.py serve`, the first account, the health page."""

    name = "chatsite.operator"
    label = "operator"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self):
        from chatsite import checks  # noqa: F401 - registers them
