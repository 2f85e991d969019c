from django.utils.translation import gettext_lazy as _

from chatsite import together


class CareConfig(together.TogetherConfig):
    name = "chatsite.care"
    label = "care"
    verbose_name = _("Care of data")
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from chatsite.care import housework, lines

        housework.register("erasures", "chatsite.care.erasing.step")
        lines.register("chatsite.care.personal")
