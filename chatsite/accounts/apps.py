from django.apps import apps
from django.utils.translation import gettext_lazy as _

from chatsite import together


class AccountsConfig(together.TogetherConfig):
    """Who people and programs are, and how they come in. The chat and the gateway both ask here; it knows neither."""

    name = "chatsite.accounts"
    label = "accounts"
    verbose_name = _("Accounts")
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from chatsite.accounts import auditing  # noqa: F401 - it listens from then on

        if apps.is_installed("allauth.account"):
            from chatsite.accounts import auditing_allauth  # noqa: F401 - likewise
        from chatsite.care import lines

        lines.register("chatsite.accounts.personal")
