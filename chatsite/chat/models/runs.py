"""A run, what it said, and what it asked of a model."""

from __future__ import annotations

from django.db import models
from django.utils import timezone

from chatsite.chat.models.ids import new_run_id
from chatsite.chat.models.threads import FIGURES, Thread


class Run(models.Model):
    """One continuous piece of work on a thread."""

    class State(models.TextChoices):
        QUEUED = "queued"
        RUNNING = "running"
        FINISHED = "finished"
        INTERRUPTED = "interrupted"
        CANCELLED = "cancelled"
        FAILED = "failed"
        LOST = "lost"

    ACTIVE = (State.QUEUED, State.RUNNING)

    class Log(models.TextChoices):
        WHOLE = "whole"
        FOLDED = "folded"
        PRUNED = "pruned"

    class Continuation(models.TextChoices):
        """That a run goes on with its parent, which was lost: by itself, or because a person asked."""

        NONE = ""
        AUTOMATIC = "automatic"
        ASKED = "asked"

    public_id = models.CharField(max_length=200, default=new_run_id, editable=False)
    thread = models.ForeignKey(Thread, on_delete=models.CASCADE, related_name="runs", db_index=False)
    parent = models.ForeignKey(
        "self", null=True, blank=True, on_delete=models.SET_NULL, related_name="children"
    )
    continuation = models.CharField(
        max_length=10,
        choices=Continuation.choices,
        default=Continuation.NONE,
        blank=True,
        help_text="Whether it goes on with its parent, a lost run.",
    )
    state = models.CharField(max_length=20, choices=State.choices, default=State.QUEUED)
    door = models.CharField(max_length=20, default="page", help_text="page, api, websocket or recovery")
    provider = models.CharField(max_length=100, blank=True)
    model = models.CharField(max_length=200, blank=True)
    stop_reason = models.CharField(max_length=100, blank=True)
    finish_reason = models.CharField(max_length=20, blank=True, help_text="Of the last turn.")
    error = models.TextField(blank=True)
    error_code = models.CharField(max_length=100, blank=True)
    turns = models.PositiveIntegerField(default=0)
    usage = models.JSONField(default=list, blank=True, help_text="AG-UI TokenUsage, one entry a model.")
    tokens = models.PositiveBigIntegerField(default=0, help_text="In and out, of its end.")
    cost = models.FloatField(
        null=True, blank=True, help_text="In the money of MODEL_PRICES, as they were then."
    )
    duration_ms = models.PositiveBigIntegerField(null=True, blank=True)
    calls = models.PositiveIntegerField(
        null=True, blank=True, help_text="Calls of tools; none until the figures of its day have it."
    )
    errors = models.PositiveIntegerField(
        null=True, blank=True, help_text="Calls that failed, and its own end if that is one."
    )
    given = models.JSONField(
        default=dict,
        blank=True,
        help_text="What it began with besides messages: choices, clientTools, clientResults, onDisconnect.",
    )
    receipt = models.JSONField(
        default=dict, blank=True, help_text="Of a stopped run: what it was at, what had already happened."
    )
    stop_requested = models.BooleanField(default=False)
    owner = models.CharField(max_length=200, blank=True, help_text="The process that runs it.")
    beat = models.PositiveBigIntegerField(default=0, help_text="Counts up while that process lives.")
    heartbeat_at = models.DateTimeField(
        null=True, blank=True, help_text="For people: nobody decides by a clock."
    )
    created_at = models.DateTimeField(default=timezone.now, db_index=True)
    finished_at = models.DateTimeField(null=True, blank=True)
    log = models.CharField(
        max_length=10,
        choices=Log.choices,
        default=Log.WHOLE,
        help_text="What `upkeep` has done to its events.",
    )
    booked = models.BooleanField(default=False, help_text="Whether the figures of its day have it.")

    class Meta:
        permissions = (("stop_run", "Can stop the runs of others"),)
        # A list of the admin is asked for the newest of one kind: each index ends in the order of the list.
        indexes = (
            models.Index(fields=["log", "finished_at"], name="chat_run_log_due"),
            models.Index(fields=["finished_at"], condition=models.Q(booked=False), name="chat_run_to_book"),
            models.Index(fields=["public_id"], name="chat_run_by_id"),
            models.Index(fields=["state", "-created_at"], name="chat_run_of_state"),
            models.Index(fields=["stop_reason", "-created_at"], name="chat_run_of_reason"),
            models.Index(fields=["model", "-created_at"], name="chat_run_of_model"),
            models.Index(fields=["error_code", "-created_at"], name="chat_run_of_error"),
            *(
                models.Index(
                    fields=[name, "id"], condition=models.Q(calls__isnull=False), name=f"chat_run_by_{name}"
                )
                for name in FIGURES
            ),
        )
        constraints = (
            models.UniqueConstraint(fields=["thread", "public_id"], name="chat_run_id_in_thread"),
            models.UniqueConstraint(
                fields=["thread"],
                condition=models.Q(state__in=["queued", "running"]),
                name="chat_one_active_run_a_thread",
            ),
            models.UniqueConstraint(
                fields=["parent"],
                condition=models.Q(continuation="automatic"),
                name="chat_one_continuation_a_run",
            ),
        )

    def __str__(self) -> str:
        return f"{self.public_id} ({self.state})"


class RunEvent(models.Model):
    """One event of a run's log, or an unbroken row of deltas of one entity.

    `data` is the event's AG-UI JSON. For a row of deltas (`first` < `number`) its `delta` is a list of
    `number - first + 1` strings, so that a reader who has seen half of them gets the other half; once it is folded
    it is their text in one, and `sizes` says how many characters each had, as in "4 4 11". `at` (ms) and `batches` say
    when they were kept (`rows.packing.batches_of`). A terminal event
    with `first` < `number` stands for its whole log, which was pruned: what was said is in the message rows.
    """

    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="events", db_index=False)
    first = models.PositiveIntegerField()
    number = models.PositiveIntegerField()
    type = models.CharField(max_length=40)
    data = models.JSONField()

    class Meta:
        constraints = (models.UniqueConstraint(fields=["run", "number"], name="chat_event_number_in_run"),)

    def __str__(self) -> str:
        return f"{self.number} {self.type}"


class RequestConfig(models.Model):
    """What many requests have in common: all of them but the messages. `digest` is that of `data`, JSON text."""

    digest = models.CharField(max_length=32, unique=True)
    data = models.TextField()
    touched_at = models.DateTimeField(default=timezone.now, db_index=True)

    def __str__(self) -> str:
        return self.digest


class Turn(models.Model):
    """A request to a model, as it can be put together again (`requests`, `admin.requests`).

    `pieces` is JSON text: messages of the branch that ends with `head`, by name, and those that stand nowhere else.
    `path` is the protocol's, "" where there was no wire; `digest` and `size` are the body's as it last went out, and
    `sent` how often it did. `status`, `received` (bytes) and `response` are of what came back (`responses`).
    """

    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="turn_rows", db_index=False)
    number = models.PositiveIntegerField()
    message_id = models.CharField(max_length=200, help_text="The answer's, where there is one.")
    config = models.CharField(max_length=32, db_index=True, help_text="The digest of its RequestConfig.")
    head = models.CharField(max_length=200, blank=True)
    pieces = models.TextField()
    path = models.CharField(max_length=100, blank=True)
    url = models.CharField(max_length=500, blank=True)
    digest = models.CharField(max_length=32, blank=True)
    size = models.PositiveIntegerField(default=0)
    sent = models.PositiveIntegerField(default=0)
    began_at = models.DateTimeField(default=timezone.now)
    status = models.PositiveSmallIntegerField(default=0)
    received = models.PositiveBigIntegerField(default=0)
    response_cut = models.BooleanField(default=False)
    response = models.BinaryField(null=True, help_text="As it came, packed; none once the log is pruned.")

    class Meta:
        constraints = (models.UniqueConstraint(fields=["run", "number"], name="chat_turn_number_in_run"),)

    def __str__(self) -> str:
        return f"turn {self.number}"
