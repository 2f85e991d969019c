"""The apps that the chat and the gateway both stand on. A project that leaves one out is told so in words: a model's
module fails as it is imported, before any system check could speak."""

from __future__ import annotations

from django.apps import AppConfig, apps
from django.core.exceptions import ImproperlyConfigured

SHARED = (
    "chatsite.audit",
    "chatsite.care",
    "chatsite.accounts",
    "chatsite.policies",
    "chatsite.catalog",
    "chatsite.usage",
)


class TogetherConfig(AppConfig):
    """An app that is installed beside all of SHARED.

    An `apps` module imports this one, not the class: of two classes in it, Django would take neither.
    """

    def import_models(self) -> None:
        missing = [name for name in SHARED if not apps.is_installed(name)]
        if missing:
            raise ImproperlyConfigured(
                f"{self.name} stands on other apps. Add to INSTALLED_APPS: {', '.join(missing)}."
            )
        super().import_models()
