from django.apps import AppConfig, apps
from django.utils.translation import gettext_lazy as _


class OperatorConfig(AppConfig):
    """What whoever runs the site needs: `manage.py serve`, the first account, the health page."""

    name = "chatsite.operator"
    label = "operator"
    verbose_name = _("Operator")
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self):
        from chatsite import checks, labels  # noqa: F401 - `checks` registers them

        ours = (config for config in apps.get_app_configs() if config.name.startswith("chatsite."))
        labels.of_models(model for config in ours for model in config.get_models())
