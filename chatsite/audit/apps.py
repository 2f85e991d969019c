from django.utils.translation import gettext_lazy as _

from chatsite import together


class AuditConfig(together.TogetherConfig):
    name = "chatsite.audit"
    label = "audit"
    verbose_name = _("Audit")
    default_auto_field = "django.db.models.BigAutoField"
