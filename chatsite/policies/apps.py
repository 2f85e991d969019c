from django.utils.translation import gettext_lazy as _

from chatsite import together


class PoliciesConfig(together.TogetherConfig):
    """What groups and people may use: models, tools, how much. The chat and the gateway ask; it knows neither."""

    name = "chatsite.policies"
    label = "policies"
    verbose_name = _("Policies")
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from chatsite.care import lines
        from chatsite.policies import rules

        rules.listen()
        lines.register("chatsite.policies.personal")
