from django.utils.translation import gettext_lazy as _

from chatsite import together


class GatewayConfig(together.TogetherConfig):
    name = "chatsite.gateway"
    label = "gateway"
    verbose_name = _("Gateway")
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from chatsite.care import housework, lines
        from chatsite.gateway import checks  # noqa: F401 - registers the system checks

        housework.register("exchanges", "chatsite.gateway.retention.step")
        lines.register("chatsite.gateway.personal")
