from django.apps import AppConfig


class PoliciesConfig(AppConfig):
    """What groups and people may use: models, tools, how much. The chat and the gateway ask; it knows neither."""

    name = "chatsite.policies"
    label = "policies"
    verbose_name = "Policies"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from chatsite.care import lines
        from chatsite.policies import rules

        rules.listen()
        lines.register("chatsite.policies.personal")
