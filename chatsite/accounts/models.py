"""The rows of accounts.

    ApiKey        only `keys` makes and ends them; what they have used is booked by `usage`
    Remembered    what is known for a moment (Django's cache): codes of second factors that were used
    Attempts      how often somebody tried to come in of late (`doors`)
    SignIn        where somebody is signed in (`signins`)
    Invitation    a link that makes an account, once (`invitations`)

Of a key:

scopes                        which doors the key opens
models, rates, budget         how much of them (the gateway holds them; empty: no limit)
keep, stream form, reruns     how the gateway treats its requests
spent, tokens, requests       what it has used
"""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.core.exceptions import ValidationError
from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import models
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

CHAT, GATEWAY, MODELS = "chat", "gateway", "models"
SCOPES = {CHAT: _("the chat"), GATEWAY: _("the gateway"), MODELS: _("the gateway's list of models alone")}
MOST_MODELS = 200
A_LIMIT = [MinValueValidator(1), MaxValueValidator(2**31 - 1)]


def all_scopes() -> list[str]:
    return [CHAT, GATEWAY]


def check_scopes(value: Any) -> None:
    if not isinstance(value, list) or not value or not set(map(str, value)) <= set(SCOPES):
        raise ValidationError(_("Choose one or more of: %(scopes)s.") % {"scopes": ", ".join(SCOPES)})


def check_models(value: Any) -> None:
    sane = isinstance(value, list) and len(value) <= MOST_MODELS
    if not sane or not all(isinstance(name, str) and _is_name(name) for name in value):
        words = _("Write up to %(most)s model names, each of 1 to 200 printable characters without blanks.")
        raise ValidationError(words % {"most": MOST_MODELS})


def _is_name(text: str) -> bool:
    return 0 < len(text) <= 200 and text.isprintable() and not set(text) & {" ", ","}


class ApiKey(models.Model):
    """A program's key to what its user may do. Kept as a SHA-256: a key has 256 bits, no dictionary helps."""

    class Keep(models.TextChoices):
        OFF = "off", "nothing but the sums"
        METADATA = "metadata", "who, when, which model, how much: no content"
        FULL = "full", "requests and answers too"

    class Period(models.TextChoices):
        TOTAL = "", "for good"
        MONTHLY = "monthly", "each month (UTC)"

    class StreamForm(models.TextChoices):
        DEFAULT = "", "as the caller asks"
        SINGLE = "single", "single: reruns join one message"
        APPEND = "append", "append: reruns follow as messages of their own"

    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="api_keys")
    label = models.CharField(max_length=100, blank=True, help_text="To tell it from others.")
    digest = models.CharField(max_length=64, unique=True, editable=False)
    hint = models.CharField(
        max_length=12, editable=False, help_text="How the key begins, to tell it from others."
    )
    created_at = models.DateTimeField(default=timezone.now)
    last_used_at = models.DateTimeField(null=True, blank=True)
    expires_at = models.DateTimeField(
        null=True, blank=True, help_text="From then on it opens nothing. Empty: it does not expire."
    )
    revoked_at = models.DateTimeField(null=True, blank=True)

    scopes = models.JSONField(default=all_scopes, validators=[check_scopes], help_text="What it opens.")
    allowed_models = models.JSONField(
        default=list,
        blank=True,
        validators=[check_models],
        help_text="The models it may use, by their public names. Empty: all.",
    )
    requests_per_minute = models.PositiveIntegerField(
        null=True, blank=True, validators=A_LIMIT, help_text="Empty: no limit."
    )
    tokens_per_minute = models.PositiveIntegerField(
        null=True,
        blank=True,
        validators=A_LIMIT,
        help_text="Tokens of requests and answers together. Empty: no limit.",
    )
    requests_at_once = models.PositiveIntegerField(
        null=True, blank=True, validators=A_LIMIT, help_text="Under way at the same time. Empty: no limit."
    )
    budget = models.DecimalField(
        max_digits=18,
        decimal_places=8,
        null=True,
        blank=True,
        validators=[MinValueValidator(0)],
        help_text="Money, in the currency of MODEL_PRICES. Empty: no limit.",
    )
    budget_period = models.CharField(
        max_length=10, choices=Period.choices, blank=True, default=Period.TOTAL, help_text="What it is for."
    )
    keep = models.CharField(
        max_length=10,
        choices=Keep.choices,
        default=Keep.METADATA,
        help_text="What is kept of its requests to the gateway.",
    )
    stream_form = models.CharField(
        max_length=10,
        choices=StreamForm.choices,
        blank=True,
        default=StreamForm.DEFAULT,
        help_text="How a streamed answer to /v1/messages shows reruns.",
    )
    max_agentic_loops = models.PositiveSmallIntegerField(
        null=True,
        blank=True,
        validators=[MinValueValidator(1)],
        help_text="How often hooks may run the model again in one request. Empty: as the server is set.",
    )

    spent = models.DecimalField(max_digits=18, decimal_places=8, default=0, editable=False)
    spent_this_month = models.DecimalField(max_digits=18, decimal_places=8, default=0, editable=False)
    month = models.CharField(
        max_length=7, blank=True, editable=False, help_text="The month of `spent_this_month`, as 2026-11."
    )
    requests = models.PositiveBigIntegerField(default=0, editable=False)
    input_tokens = models.PositiveBigIntegerField(default=0, editable=False)
    output_tokens = models.PositiveBigIntegerField(default=0, editable=False)

    class Meta:
        # The table was the chat's; its keys stay where they are.
        db_table = "chat_apikey"
        verbose_name = "API key"

    def __str__(self) -> str:
        return self.label or self.hint


class Attempts(models.Model):
    """How often somebody tried to come in, of late. Only `doors` writes these."""

    who = models.CharField(max_length=64, primary_key=True)
    tries = models.PositiveIntegerField()
    until = models.BigIntegerField(db_index=True, help_text="Seconds since 1970; then it counts anew.")

    class Meta:
        default_permissions = ()

    def __str__(self) -> str:
        return f"{self.tries} until {self.until}"


class Remembered(models.Model):
    """Django's cache, as a table: all processes of the site share it, whether there is a Redis or not.

    What a restart, a second process or a Redis that is away must not forget: that a code was used already.
    """

    cache_key = models.CharField(max_length=255, primary_key=True)
    value = models.TextField()
    expires = models.DateTimeField(db_index=True)

    class Meta:
        db_table = "accounts_remembered"
        default_permissions = ()

    def __str__(self) -> str:
        return self.cache_key


class SignIn(models.Model):
    """A session, with what its owner knows it by. The session itself is what counts: a row without one is history."""

    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="sign_ins")
    session_key = models.CharField(max_length=40, unique=True)
    address = models.CharField(max_length=64, blank=True)
    browser = models.CharField(max_length=200, blank=True)
    at = models.DateTimeField(default=timezone.now)

    class Meta:
        default_permissions = ()

    def __str__(self) -> str:
        return f"{self.browser} from {self.address}"


class Invitation(models.Model):
    """A link that makes one account. Its token is kept as a hash."""

    digest = models.CharField(max_length=64, unique=True, editable=False)
    email = models.EmailField(
        _("email"), blank=True, help_text=_("Whose invitation it is. Empty: whoever has the link.")
    )
    groups = models.ManyToManyField(
        "auth.Group", blank=True, verbose_name=_("groups"), help_text=_("The new account is in them.")
    )
    mailed = models.BooleanField(default=False, editable=False)
    made_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, editable=False, on_delete=models.SET_NULL, related_name="+"
    )
    made_at = models.DateTimeField(default=timezone.now, editable=False)
    expires_at = models.DateTimeField(_("expires"), editable=False)
    used_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, editable=False, on_delete=models.SET_NULL, related_name="+"
    )
    used_at = models.DateTimeField(_("used"), null=True, editable=False)
    revoked_at = models.DateTimeField(_("revoked"), null=True, editable=False)

    class Meta:
        verbose_name = _("invitation")
        verbose_name_plural = _("invitations")

    def __str__(self) -> str:
        return self.email or f"invitation {self.pk}"
