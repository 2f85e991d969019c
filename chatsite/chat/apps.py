from django.apps import AppConfig
from django.db.models.signals import post_migrate
from django.utils.translation import gettext_lazy as _


class ChatConfig(AppConfig):
    name = "chatsite.chat"
    label = "chat"
    verbose_name = _("Chat")
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from chatsite.care import housework, lines
        from chatsite.chat import checks, search  # noqa: F401  (`checks` registers the system checks)

        housework.register("threads", "chatsite.chat.upkeep.step")
        housework.register("figures", "chatsite.chat.booking.step")
        lines.register("chatsite.chat.personal")
        post_migrate.connect(search.prepare, sender=self)
