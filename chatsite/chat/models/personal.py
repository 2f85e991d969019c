"""What belongs to a person beside their threads: files that they gave, choices that they saved."""

from __future__ import annotations

from django.conf import settings
from django.contrib.auth.models import Group
from django.db import models
from django.utils import timezone

from chatsite.chat.models.ids import new_public_id
from chatsite.chat.models.threads import Thread


class Attachment(models.Model):
    """A file that somebody gave, of which messages hold the reference `attachment:<public_id>`.

    Its bytes lie outside the database, under the SHA-256 of their content (`files.disk`). One that is in no
    thread yet waits for its message; `upkeep` removes it a day later.
    """

    public_id = models.CharField(max_length=64, unique=True, default=new_public_id, editable=False)
    owner = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="attachments")
    threads = models.ManyToManyField(Thread, related_name="attachments", blank=True)
    digest = models.CharField(max_length=64, db_index=True)
    size = models.PositiveBigIntegerField(help_text="Bytes.")
    mime_type = models.CharField(max_length=100, help_text="By the content.")
    name = models.CharField(max_length=200)
    created_at = models.DateTimeField(
        default=timezone.now, db_index=True, help_text="When it was last given."
    )

    class Meta:
        constraints = (
            models.UniqueConstraint(fields=["owner", "digest", "name"], name="chat_attachment_once_an_owner"),
        )

    def __str__(self) -> str:
        return self.name


class Preset(models.Model):
    """A person's saved choices, by a name of theirs. New threads of theirs begin with the default one, if any.

    Without an owner it is an administrator's, for the members of `groups`, or for everybody when there are none.
    """

    owner = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, blank=True, on_delete=models.CASCADE, related_name="presets"
    )
    groups = models.ManyToManyField(Group, blank=True, related_name="+")
    name = models.CharField(max_length=100)
    model = models.CharField(max_length=200, blank=True, help_text="Empty: whatever is the default.")
    choices = models.JSONField(default=dict, blank=True, help_text="As a thread's.")
    is_default = models.BooleanField(default=False)
    created_at = models.DateTimeField(default=timezone.now)

    class Meta:
        constraints = (
            models.UniqueConstraint(fields=["owner", "name"], name="chat_preset_name_of_owner"),
            models.UniqueConstraint(
                fields=["owner"], condition=models.Q(is_default=True), name="chat_one_default_preset"
            ),
            models.UniqueConstraint(
                fields=["name"],
                condition=models.Q(owner=None),
                name="chat_one_shared_preset_a_name",
            ),
        )

    def __str__(self) -> str:
        return self.name
