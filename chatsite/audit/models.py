"""The rows. Only `log` writes them, and nobody changes or deletes an entry.

    Entry    what somebody did; numbered without a gap, each with the hash of the one before it
    Head     the one row that says how far the chain goes, sealed; whoever writes an entry holds it meanwhile

People are kept as text: an entry outlives whom it is about.
"""

from __future__ import annotations

from typing import Any, NoReturn

from django.db import models
from django.utils.translation import gettext_lazy as _


class AppendOnly(Exception):
    """An entry was to be changed or deleted."""

    def __init__(self) -> None:
        super().__init__("The audit log only grows: an entry is never changed and never deleted.")


class AppendOnlyRows(models.QuerySet["Entry"]):
    def _refuse(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise AppendOnly

    update = delete = bulk_update = update_or_create = _refuse


class Entry(models.Model):
    number = models.BigIntegerField(_("number"), primary_key=True)
    at = models.DateTimeField(_("at"), db_index=True)
    action = models.CharField(_("action"), max_length=100)
    actor_id = models.CharField(_("actor's id"), max_length=64, blank=True)
    actor_name = models.CharField(
        _("actor"), max_length=200, blank=True, db_index=True, help_text=_("As it was then.")
    )
    subject = models.CharField(_("subject"), max_length=300, blank=True, db_index=True)
    reason = models.CharField(_("reason"), max_length=2000, blank=True)
    door = models.CharField(_("door"), max_length=20, blank=True)
    facts = models.JSONField(_("facts"), default=dict, blank=True)
    previous = models.CharField(_("hash of the entry before"), max_length=64, blank=True)
    hash = models.CharField(_("hash"), max_length=64)

    objects = AppendOnlyRows.as_manager()

    class Meta:
        default_permissions = ("view",)
        verbose_name = _("entry")
        verbose_name_plural = _("entries")
        # A list is asked for the newest of one kind.
        indexes = (models.Index(fields=["action", "-number"], name="audit_entry_of_action"),)

    def __str__(self) -> str:
        return f"{self.number} {self.action}"

    def save(self, *args: Any, **kwargs: Any) -> None:
        if not self._state.adding:
            raise AppendOnly
        super().save(*args, **{**kwargs, "force_insert": True})

    def delete(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise AppendOnly


class Head(models.Model):
    number = models.BigIntegerField(default=0)
    hash = models.CharField(max_length=64, blank=True)
    seal = models.CharField(max_length=64, blank=True)

    class Meta:
        default_permissions = ()

    def __str__(self) -> str:
        return f"up to {self.number}"
