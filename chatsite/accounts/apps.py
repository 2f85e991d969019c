from django.apps import AppConfig
from django.utils.translation import gettext_lazy as _


class AccountsConfig(AppConfig):
    """Who people and programs are, and how they come in. The chat and the gateway both ask here; it knows neither."""

    name = "chatsite.accounts"
    label = "accounts"
    verbose_name = _("Accounts")
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from chatsite.accounts import auditing  # noqa: F401 - it listens from then on
        from chatsite.care import lines

        lines.register("chatsite.accounts.personal")
