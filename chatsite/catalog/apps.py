from django.utils.translation import gettext_lazy as _

from chatsite import together


class CatalogConfig(together.TogetherConfig):
    name = "chatsite.catalog"
    label = "catalog"
    verbose_name = _("Endpoints and models")
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from chatsite.catalog import entries

        entries.listen()
