from django.apps import AppConfig
from django.utils.translation import gettext_lazy as _


class CatalogConfig(AppConfig):
    name = "chatsite.catalog"
    label = "catalog"
    verbose_name = _("Endpoints and models")
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from chatsite.catalog import entries

        entries.listen()
