"""What became of the calls that a run made, and the questions that it ended with."""

from __future__ import annotations

from django.conf import settings
from django.db import models
from django.utils import timezone

from chatsite.chat.models.runs import Run
from chatsite.chat.models.threads import Thread


class ToolCall(models.Model):
    """The ledger: what became of a call the model asked for. Claimed before its tool starts."""

    class State(models.TextChoices):
        PROPOSED = "proposed"
        WAITING = "waiting"
        CLAIMED = "claimed"
        DONE = "done"
        FAILED = "failed"
        SKIPPED = "skipped"
        DENIED = "denied"
        CANCELLED = "cancelled"
        UNKNOWN = "unknown"

    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="tool_calls", db_index=False)
    call_id = models.CharField(max_length=200)
    name = models.CharField(max_length=200)
    state = models.CharField(max_length=20, choices=State.choices, default=State.PROPOSED)
    arguments = models.TextField(blank=True, help_text="JSON text as the model wrote it.")
    edited_arguments = models.TextField(blank=True, help_text="JSON text a person put in its place.")
    result = models.TextField(blank=True, help_text="What the model was given.")
    error_code = models.CharField(max_length=100, blank=True)
    created_at = models.DateTimeField(default=timezone.now, db_index=True)
    claimed_at = models.DateTimeField(null=True, blank=True)
    finished_at = models.DateTimeField(null=True, blank=True)
    duration_ms = models.PositiveIntegerField(null=True, blank=True)
    booked = models.BooleanField(default=False, help_text="Whether the figures of its day have it.")

    class Meta:
        constraints = (models.UniqueConstraint(fields=["run", "call_id"], name="chat_call_id_in_run"),)
        indexes = (
            models.Index(fields=["name", "-created_at"], name="chat_call_of_name"),
            models.Index(fields=["state", "-created_at"], name="chat_call_of_state"),
            models.Index(fields=["error_code", "-created_at"], name="chat_call_of_error"),
        )

    def __str__(self) -> str:
        return f"{self.name} ({self.state})"


class Interrupt(models.Model):
    """A question that only a person can settle, with which a run ended. Exactly one answer wins.

    `data` is the AG-UI interrupt as it was told. `open` becomes one of the others once, by a conditional update.
    """

    class Status(models.TextChoices):
        OPEN = "open"
        APPROVED = "approved"
        DENIED = "denied"
        CANCELLED = "cancelled"

    public_id = models.CharField(max_length=200)
    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="interrupts")
    thread = models.ForeignKey(Thread, on_delete=models.CASCADE, related_name="interrupts")
    tool_call_id = models.CharField(max_length=200)
    tool_name = models.CharField(max_length=200, blank=True, db_index=True)
    data = models.JSONField(default=dict)
    expires_at = models.DateTimeField(null=True, blank=True)
    status = models.CharField(max_length=20, choices=Status.choices, default=Status.OPEN, db_index=True)
    edited_arguments = models.JSONField(null=True, blank=True)
    reason = models.TextField(blank=True, help_text="The person's, of a denial.")
    answered_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, blank=True, on_delete=models.SET_NULL, related_name="+"
    )
    answered_at = models.DateTimeField(null=True, blank=True)
    door = models.CharField(max_length=20, blank=True, help_text="By which the answer came.")
    resumed_by = models.ForeignKey(
        Run,
        null=True,
        blank=True,
        on_delete=models.SET_NULL,
        related_name="answers",
        help_text="The run that took the answer up.",
    )
    created_at = models.DateTimeField(default=timezone.now, db_index=True)

    class Meta:
        constraints = (
            models.UniqueConstraint(fields=["thread", "public_id"], name="chat_interrupt_id_in_thread"),
        )
        indexes = (models.Index(fields=["thread", "status"], name="chat_interrupt_open"),)

    def __str__(self) -> str:
        return f"{self.tool_name} ({self.status})"
