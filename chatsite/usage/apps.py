from django.apps import AppConfig


class UsageConfig(AppConfig):
    name = "chatsite.usage"
    label = "usage"
    verbose_name = "Usage"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from chatsite.care import lines

        lines.register("chatsite.usage.personal")
