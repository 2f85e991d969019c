"""The rows. `recorder` writes exchanges and rounds, `ledger` the calls.

    Exchange ──< Round          a request of a caller; each request to an endpoint that was made for it
    ExchangeCall                the ledger: a call of a tool that the gateway itself runs, claimed before it starts

An exchange is written when it is over, and its calls while it is under way: they share its `public_id`, no key.
"""

from __future__ import annotations

from django.conf import settings
from django.db import models
from django.utils import timezone


class Counted(models.Model):
    """What was used, and what that cost. `cost` is None where no price is known."""

    input_tokens = models.PositiveBigIntegerField(default=0)
    output_tokens = models.PositiveBigIntegerField(default=0)
    reasoning_tokens = models.PositiveBigIntegerField(default=0)
    cached_input_tokens = models.PositiveBigIntegerField(default=0)
    cache_write_input_tokens = models.PositiveBigIntegerField(default=0)
    cost = models.DecimalField(max_digits=18, decimal_places=8, null=True, blank=True)
    ms = models.PositiveIntegerField(default=0, help_text="From its start to its end.")
    first_byte_ms = models.PositiveIntegerField(null=True, blank=True)

    class Meta:
        abstract = True


class Exchange(Counted):
    """One request to the gateway. Texts are "" where the key says that no content is kept."""

    public_id = models.CharField(max_length=32, unique=True, editable=False)
    request_id = models.CharField(max_length=200, db_index=True, help_text="As in the answer's x-request-id.")
    key = models.ForeignKey(
        "accounts.ApiKey",
        null=True,
        blank=True,
        on_delete=models.SET_NULL,
        related_name="exchanges",
        db_index=False,
    )
    user = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        null=True,
        blank=True,
        on_delete=models.CASCADE,
        related_name="exchanges",
        db_index=False,
    )
    dialect = models.CharField(max_length=20, blank=True, help_text="The caller's: openai or anthropic.")
    model = models.CharField(max_length=200, blank=True)
    stream = models.BooleanField(default=False)
    status = models.PositiveIntegerField(default=0, help_text="What the caller got; 499: it had left.")
    error_code = models.CharField(max_length=100, blank=True)
    round_count = models.PositiveIntegerField(default=0)
    request = models.TextField(blank=True)
    response = models.TextField(blank=True)
    created_at = models.DateTimeField(default=timezone.now, db_index=True)

    class Meta:
        # A list is asked for the newest of one kind: each index ends in the order of the list.
        indexes = (
            models.Index(fields=["model", "-id"], name="gateway_exchange_of_model"),
            models.Index(fields=["status", "-id"], name="gateway_exchange_of_status"),
            models.Index(fields=["key", "-id"], name="gateway_exchange_of_key"),
            models.Index(fields=["user", "-id"], name="gateway_exchange_of_user"),
        )

    def __str__(self) -> str:
        return f"{self.request_id} ({self.status})"


class Round(Counted):
    """One request to an endpoint: the first attempt, another after a failure, or a rerun that a hook asked for."""

    exchange = models.ForeignKey(Exchange, on_delete=models.CASCADE, related_name="rounds")
    number = models.PositiveIntegerField(help_text="From 1 on, in the order in which they were made.")
    depth = models.PositiveIntegerField(default=0, help_text="Reruns before it.")
    asked_by = models.CharField(max_length=200, blank=True, help_text="The hook that asked for it.")
    endpoint = models.CharField(max_length=200, blank=True)
    model = models.CharField(max_length=200, blank=True, help_text="The endpoint's name for it.")
    dialect = models.CharField(max_length=20, blank=True, help_text="What the endpoint speaks.")
    status = models.PositiveIntegerField(default=0, help_text="The endpoint's; 0: it did not answer.")
    error_code = models.CharField(max_length=100, blank=True)
    stop_reason = models.CharField(max_length=100, blank=True)
    request = models.TextField(blank=True)
    response = models.TextField(blank=True)

    class Meta:
        constraints = (
            models.UniqueConstraint(fields=["exchange", "number"], name="gateway_round_in_exchange"),
        )

    def __str__(self) -> str:
        return f"round {self.number} at {self.endpoint}"


class ExchangeCall(models.Model):
    """What became of a call of a tool that ran here. Claimed, and committed, before its tool starts."""

    class State(models.TextChoices):
        CLAIMED = "claimed"
        DONE = "done"
        FAILED = "failed"
        UNKNOWN = "unknown"

    exchange_id = models.CharField(max_length=32, db_index=True, help_text="The exchange's public id.")
    call_id = models.CharField(max_length=200)
    name = models.CharField(max_length=200)
    state = models.CharField(max_length=20, choices=State.choices, default=State.CLAIMED, db_index=True)
    key = models.ForeignKey(
        "accounts.ApiKey", null=True, blank=True, on_delete=models.SET_NULL, related_name="+"
    )
    arguments = models.TextField(blank=True, help_text="Where the key has content kept.")
    result = models.TextField(blank=True, help_text="Where the key has content kept.")
    error_code = models.CharField(max_length=100, blank=True)
    claimed_at = models.DateTimeField(default=timezone.now, db_index=True)
    finished_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        constraints = (
            models.UniqueConstraint(fields=["exchange_id", "call_id"], name="gateway_call_in_exchange"),
        )

    def __str__(self) -> str:
        return f"{self.name} ({self.state})"


class LoadedHook(models.Model):
    """No row: what the admin's page of loaded hooks, and the permission to see it, hang on."""

    class Meta:
        managed = False
        default_permissions = ("view",)
        verbose_name = "loaded hook"

    def __str__(self) -> str:
        return "loaded hook"
