from django.apps import AppConfig


class AccountsConfig(AppConfig):
    """Who programs are, and what they may: API keys. The chat and the gateway both ask here; it knows neither."""

    name = "chatsite.accounts"
    label = "accounts"
    verbose_name = "Accounts"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from chatsite.care import lines

        lines.register("chatsite.accounts.personal")
