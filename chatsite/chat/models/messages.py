"""The transcript, a row a message."""

from __future__ import annotations

from django.db import models
from django.utils import timezone

from chatsite.chat.models.runs import Run
from chatsite.chat.models.threads import Thread


class Message(models.Model):
    """One entry of a transcript. `parts` is `agent.wire.parts` JSON, in order.

    `metadata` of an assistant message: finishReason, stopReason (of its run, on the run's last message), model,
    usage, durationMs.
    """

    class Role(models.TextChoices):
        SYSTEM = "system"
        DEVELOPER = "developer"
        USER = "user"
        ASSISTANT = "assistant"
        TOOL = "tool"

    public_id = models.CharField(max_length=200, editable=False)
    thread = models.ForeignKey(Thread, on_delete=models.CASCADE, related_name="messages", db_index=False)
    parent = models.ForeignKey(
        "self", null=True, blank=True, on_delete=models.SET_NULL, related_name="children"
    )
    run = models.ForeignKey(Run, null=True, blank=True, on_delete=models.SET_NULL, related_name="messages")
    role = models.CharField(max_length=20, choices=Role.choices)
    parts = models.JSONField(default=list)
    text = models.TextField(blank=True, help_text="The text parts, joined: for search.")
    finish_reason = models.CharField(max_length=20, null=True, blank=True)
    metadata = models.JSONField(default=dict, blank=True)
    client_id = models.CharField(max_length=200, null=True, blank=True)
    created_at = models.DateTimeField(default=timezone.now, db_index=True)
    deleted_at = models.DateTimeField(
        null=True,
        blank=True,
        help_text="With all that stands behind it, which says the same moment; `upkeep` removes it later.",
    )

    class Meta:
        constraints = (
            models.UniqueConstraint(fields=["thread", "public_id"], name="chat_message_id_in_thread"),
            models.UniqueConstraint(
                fields=["thread", "client_id"],
                condition=models.Q(client_id__isnull=False),
                name="chat_client_id_in_thread",
            ),
        )
        # A run writes each of these with each message: none holds rows that nobody looks for by it, and none is the
        # beginning of another.
        indexes = (
            models.Index(
                fields=["deleted_at"],
                condition=models.Q(deleted_at__isnull=False),
                name="chat_message_deleted",
            ),
            models.Index(fields=["role", "finish_reason", "-created_at"], name="chat_message_of_kind"),
        )

    def __str__(self) -> str:
        return f"{self.role} {self.public_id}"
