from django.utils.translation import gettext_lazy as _

from chatsite import together


class UsageConfig(together.TogetherConfig):
    name = "chatsite.usage"
    label = "usage"
    verbose_name = _("Usage")
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from chatsite.care import lines

        lines.register("chatsite.usage.personal")
