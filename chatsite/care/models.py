"""The rows. `holds` writes holds, `erasing` writes erasures, `downloads` writes downloads.

Hold       this person's data, or one thread of theirs, stays until somebody lifts it
Erasure    a person who is being erased, or was: how far it is, and the proof
Download   a person who takes their data out just now
"""

from __future__ import annotations

from django.conf import settings
from django.db import models
from django.utils import timezone
from django.utils.translation import gettext_lazy as _


class Hold(models.Model):
    # Protected: who has a hold cannot be deleted past `erasing` either.
    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="holds", verbose_name=_("user")
    )
    thread = models.CharField(
        _("thread"), max_length=200, blank=True, help_text=_("Its id. Empty: everything of this user.")
    )
    reason = models.CharField(_("reason"), max_length=2000)
    placed_by = models.CharField(_("placed by"), max_length=200, blank=True)
    placed_at = models.DateTimeField(_("placed at"), default=timezone.now)

    class Meta:
        default_permissions = ("add", "delete", "view")
        verbose_name = _("hold")
        verbose_name_plural = _("holds")
        constraints = (models.UniqueConstraint(fields=["user", "thread"], name="care_one_hold_on_each"),)

    def __str__(self) -> str:
        return f"{self.user}: {self.thread or _('everything')}"


class Erasure(models.Model):
    """`before` counts rows by table; `proof` is the document, once all is gone. No key leads to the person."""

    user_id = models.CharField(_("user's id"), max_length=64, unique=True)
    user_name = models.CharField(_("user"), max_length=200, db_index=True)
    reason = models.CharField(_("reason"), max_length=2000)
    asked_by = models.CharField(_("asked by"), max_length=200, blank=True)
    door = models.CharField(_("door"), max_length=20, blank=True)
    before = models.JSONField(_("rows before"), default=dict)
    started_at = models.DateTimeField(_("started"), default=timezone.now)
    finished_at = models.DateTimeField(_("finished"), null=True, blank=True, db_index=True)
    proof = models.JSONField(_("proof"), null=True, blank=True)

    class Meta:
        default_permissions = ("add", "view")
        verbose_name = _("erasure")
        verbose_name_plural = _("erasures")

    def __str__(self) -> str:
        return self.user_name


class Download(models.Model):
    """`place` is one of those that there are at once; `until` is when it is free again if nobody reads on."""

    user = models.OneToOneField(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+")
    place = models.PositiveSmallIntegerField(unique=True)
    until = models.DateTimeField(db_index=True)

    class Meta:
        default_permissions = ()

    def __str__(self) -> str:
        return f"{self.user}, {self.until}"
