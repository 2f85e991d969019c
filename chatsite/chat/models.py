"""The rows. Only `actions`, `actions_steering`, `keeping`, `requests`, `booking`, `rounds`, `recovery`, `upkeep`,
`organizing`, `attachments`, `choosing`, `transfer` and `demothread` write them.

    Thread ──< Run ──< RunEvent      what a run said, numbered; the truth while it is active
       │        ├────< Turn          one model call: what of its request the messages do not say
       │        ├────< ToolCall      the ledger: one row a call
       │        └────< Interrupt     a question the run ended with, and its one answer
       ├──────< Message              the transcript, a row a message, a tree by `parent`; the truth afterwards
       ├──────< ApprovalRule         "always allow this tool here", until it is taken back
       ├──────< Share                a link for readers
       └─────<> Attachment           a file that messages of it refer to
    RequestConfig                    what requests have in common: tools, system prompt, parameters
    Preset                           a person's saved choices: model, system prompt, tools, parameters

A thread's active branch is the path from `head` up to the root. While a run is active its messages are its
events, folded; when it ends (or a message of it is whole) they are rows. `store.load_state` joins the two.
"""

from __future__ import annotations

import secrets

from django.conf import settings
from django.contrib.auth.models import Group
from django.db import models
from django.utils import timezone


def new_public_id() -> str:
    """122+ bits nobody can guess; the `threadId` that resumes a thread."""
    return secrets.token_urlsafe(18)


def new_run_id() -> str:
    """Unguessable is its thread's part; this stands in every cursor, so it is short."""
    return secrets.token_urlsafe(9)


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
        db_index=True,
        help_text="It is nobody's from then on; `upkeep` removes it later.",
    )

    class Meta:
        indexes = (models.Index(fields=["owner", "-updated_at"], name="chat_thread_of_owner"),)
        permissions = (("view_transcript", "Can read what others wrote and were answered"),)

    def __str__(self) -> str:
        # Not its title: what a row is called stands in places where nobody asks who may read it.
        return self.public_id


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
    thread = models.ForeignKey(Thread, on_delete=models.CASCADE, related_name="runs")
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
    tokens = models.PositiveBigIntegerField(default=0, db_index=True, help_text="In and out, of its end.")
    cost = models.FloatField(
        null=True, blank=True, db_index=True, help_text="In the money of MODEL_PRICES, as they were then."
    )
    duration_ms = models.PositiveBigIntegerField(null=True, blank=True, db_index=True)
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
    thread = models.ForeignKey(Thread, on_delete=models.CASCADE, related_name="messages")
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
        db_index=True,
        help_text="With all that stands behind it, which says the same moment; `upkeep` removes it later.",
    )

    class Meta:
        constraints = (
            models.UniqueConstraint(fields=["thread", "public_id"], name="chat_message_id_in_thread"),
            models.UniqueConstraint(fields=["thread", "client_id"], name="chat_client_id_in_thread"),
        )
        indexes = (
            models.Index(fields=["role", "finish_reason", "-created_at"], name="chat_message_of_kind"),
        )

    def __str__(self) -> str:
        return f"{self.role} {self.public_id}"


class RunEvent(models.Model):
    """One event of a run's log, or an unbroken row of deltas of one entity.

    `data` is the event's AG-UI JSON. For a row of deltas (`first` < `number`) its `delta` is a list of
    `number - first + 1` strings, so that a reader who has seen half of them gets the other half; once it is folded
    it is their text in one, and `sizes` says how many characters each had, as in "4 4 11". `at` (ms) and `batches` say
    when they were kept (`store.batches_of`). A terminal event
    with `first` < `number` stands for its whole log, which was pruned: what was said is in the message rows.
    """

    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="events")
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
    `sent` how often it did.
    """

    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="turn_rows")
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

    class Meta:
        constraints = (models.UniqueConstraint(fields=["run", "number"], name="chat_turn_number_in_run"),)

    def __str__(self) -> str:
        return f"turn {self.number}"


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

    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="tool_calls")
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


class Share(models.Model):
    """A link by which anybody may read one branch of a thread, until it is taken back or its time is over.

    With a `head` it shows the branch that ends there (a snapshot); without one, whatever the thread shows (live).
    """

    token = models.CharField(max_length=64, unique=True, default=new_public_id, editable=False)
    thread = models.ForeignKey(Thread, on_delete=models.CASCADE, related_name="shares")
    head = models.ForeignKey(Message, null=True, blank=True, on_delete=models.CASCADE, related_name="+")
    created_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="+"
    )
    created_at = models.DateTimeField(default=timezone.now)
    expires_at = models.DateTimeField(null=True, blank=True)
    revoked_at = models.DateTimeField(null=True, blank=True)

    def __str__(self) -> str:
        return f"{'snapshot' if self.head_id else 'live'} of {self.thread_id}"


class Attachment(models.Model):
    """A file that somebody gave, of which messages hold the reference `attachment:<public_id>`.

    Its bytes lie outside the database, under the SHA-256 of their content (`attachments`). One that is in no thread
    yet waits for its message; `upkeep` removes it a day later.
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
