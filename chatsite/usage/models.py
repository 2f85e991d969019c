"""The rows. Only `booking` adds to them."""

from __future__ import annotations

from django.db import models
from django.utils.translation import gettext_lazy as _


class Day(models.Model):
    """What was used on one day (UTC), by one model, endpoint, user, tool or end; or by all.

    `value` of a user is the key of their row as text. `spread` counts by how long things took (`tally.bucket_of`).
    """

    class Source(models.TextChoices):
        CHAT = "chat", _("Chat")
        GATEWAY = "gateway", _("Gateway")
        TITLE = "title", _("Names of threads")

    class About(models.TextChoices):
        ALL = "all"
        MODEL = "model"
        ENDPOINT = "endpoint"
        USER = "user"
        TOOL = "tool"
        END = "end"

    day = models.DateField()
    source = models.CharField(max_length=10, choices=Source.choices)
    about = models.CharField(max_length=10, choices=About.choices)
    value = models.CharField(max_length=200, blank=True)
    count = models.PositiveBigIntegerField(default=0)
    errors = models.PositiveBigIntegerField(default=0)
    input_tokens = models.PositiveBigIntegerField(default=0)
    output_tokens = models.PositiveBigIntegerField(default=0)
    cost = models.FloatField(default=0)
    ms = models.PositiveBigIntegerField(default=0)
    spread = models.JSONField(default=dict)

    class Meta:
        verbose_name = _("usage")
        verbose_name_plural = _("usage")
        constraints = (
            models.UniqueConstraint(fields=["about", "day", "source", "value"], name="usage_once_a_day"),
        )

    def __str__(self) -> str:
        return f"{self.day} {self.source} {self.about} {self.value}"
