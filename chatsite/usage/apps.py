from django.apps import AppConfig
from django.utils.translation import gettext_lazy as _


class UsageConfig(AppConfig):
    name = "chatsite.usage"
    label = "usage"
    verbose_name = _("Usage")
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from chatsite.care import lines

        lines.register("chatsite.usage.personal")
