from django.apps import AppConfig


class ChatConfig(AppConfig):
    name = "chatsite.chat"
    label = "chat"
    verbose_name = "Chat"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from chatsite.chat import checks  # noqa: F401  (registers the system checks)
