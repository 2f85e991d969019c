"""A thread, and what its owner allows in it: links for readers, tools that need not ask."""

from __future__ import annotations

from django.conf import settings
from django.db import models
from django.utils import timezone

from chatsite.chat.models.ids import new_public_id

FIGURES = ("turns", "calls", "errors", "tokens", "cost", "duration_ms")
"""Of a thread: sums of what its runs that have ended came to."""


class Thread(models.Model):
    """A conversation, owned by a user. A program may bring its own `threadId`, so it can be any short text."""

    class Titled(models.TextChoices):
        TEXT = "text"
        MODEL = "model"
        PERSON = "person"

    public_id = models.CharField(max_length=200, unique=True, default=new_public_id, editable=False)
    owner = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="threads")
    title = models.CharField(max_length=200, blank=True)
    model = models.CharField(max_length=200, blank=True, help_text="The model its next run uses.")
    choices = models.JSONField(
        default=dict, blank=True, help_text="How its next run is to answer: `choices.Choices`."
    )
    head = models.ForeignKey("Message", null=True, blank=True, on_delete=models.SET_NULL, related_name="+")
    branch = models.PositiveIntegerField(
        default=0, help_text="Counts how often another branch was shown; no log tells of that, so cursors do."
    )
    created_at = models.DateTimeField(default=timezone.now, db_index=True)
    updated_at = models.DateTimeField(default=timezone.now)
    titled = models.CharField(
        max_length=10,
        choices=Titled.choices,
        default=Titled.TEXT,
        help_text="Whose words the title is; a person's stays.",
    )
    pinned_at = models.DateTimeField(null=True, blank=True)
    archived_at = models.DateTimeField(null=True, blank=True)
    deleted_at = models.DateTimeField(
        null=True,
        blank=True,
        help_text="It is nobody's from then on; `upkeep` removes it later.",
    )

    # FIGURES, by which lists of the admin are sorted. Null, and in no index, until `booking` has counted them: a thread
    # begins without a page of an index for each.
    turns = models.PositiveBigIntegerField(null=True, editable=False)
    calls = models.PositiveBigIntegerField(null=True, editable=False)
    errors = models.PositiveBigIntegerField(null=True, editable=False)
    tokens = models.PositiveBigIntegerField(null=True, editable=False)
    cost = models.FloatField(null=True, editable=False)
    duration_ms = models.PositiveBigIntegerField(null=True, editable=False)

    class Meta:
        indexes = (
            models.Index(fields=["owner", "-updated_at"], name="chat_thread_of_owner"),
            models.Index(
                fields=["deleted_at"],
                condition=models.Q(deleted_at__isnull=False),
                name="chat_thread_deleted",
            ),
            *(
                models.Index(
                    fields=[name, "id"],
                    condition=models.Q(calls__isnull=False),
                    name=f"chat_thread_by_{name}",
                )
                for name in FIGURES
            ),
        )
        permissions = (("view_transcript", "Can read what others wrote and were answered"),)

    def __str__(self) -> str:
        # Not its title: what a row is called stands in places where nobody asks who may read it.
        return self.public_id


class Share(models.Model):
    """A link by which anybody may read one branch of a thread, until it is taken back or its time is over.

    With a `head` it shows the branch that ends there (a snapshot); without one, whatever the thread shows (live).
    """

    token = models.CharField(max_length=64, unique=True, default=new_public_id, editable=False)
    thread = models.ForeignKey(Thread, on_delete=models.CASCADE, related_name="shares")
    head = models.ForeignKey("Message", null=True, blank=True, on_delete=models.CASCADE, related_name="+")
    created_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="+"
    )
    created_at = models.DateTimeField(default=timezone.now)
    expires_at = models.DateTimeField(null=True, blank=True)
    revoked_at = models.DateTimeField(null=True, blank=True)

    def __str__(self) -> str:
        return f"{'snapshot' if self.head_id else 'live'} of {self.thread_id}"


class ApprovalRule(models.Model):
    """A person's standing answer for one tool in one thread. Deleting it takes it back."""

    thread = models.ForeignKey(Thread, on_delete=models.CASCADE, related_name="approval_rules")
    tool_name = models.CharField(max_length=200)
    created_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="+"
    )
    created_at = models.DateTimeField(default=timezone.now)

    class Meta:
        constraints = (
            models.UniqueConstraint(fields=["thread", "tool_name"], name="chat_rule_of_tool_in_thread"),
        )

    def __str__(self) -> str:
        return f"always allow {self.tool_name}"
