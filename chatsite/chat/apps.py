from django.db.models.signals import post_migrate
from django.utils.translation import gettext_lazy as _

from chatsite import together


class ChatConfig(together.TogetherConfig):
    name = "chatsite.chat"
    label = "chat"
    verbose_name = _("Chat")
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from chatsite.care import housework, lines
        from chatsite.chat import checks  # noqa: F401 - registers the system checks
        from chatsite.chat.rows import search

        housework.register("threads", "chatsite.chat.care.upkeep.step")
        housework.register("figures", "chatsite.chat.counting.booking.step")
        lines.register("chatsite.chat.care.personal")
        post_migrate.connect(search.prepare, sender=self)
