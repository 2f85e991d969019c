"""What an administrator lets groups and people use. `rules.policy_of` makes one policy of it for a person.

    GroupPolicy    what each member of a group may use (without a group: everybody who is in none that has one)
    GroupBudget    what the group may use as a whole, beside that
    UserPolicy     other limits for one person, whatever their groups say
    Used           what is used of limits, one row for each kind of window
    Reservation    what somebody has under way, and what of their limits is held for it

Only `quotas` writes the last two.
"""

from __future__ import annotations

import re
from typing import Any

from django.conf import settings
from django.contrib.auth.models import Group
from django.core.exceptions import ValidationError
from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import models
from django.db.models.functions import Coalesce
from django.utils.translation import gettext_lazy as _

from chatsite.policies.values import ANY, LIMITS, RULES, Limits

MOST_NAMES = 500
A_LIMIT = [MinValueValidator(1), MaxValueValidator(2**31 - 1)]
MANY = [MinValueValidator(1), MaxValueValidator(2**53)]
TOOL = re.compile(r"[A-Za-z0-9_-]{1,64}|\*")


def check_models(value: Any) -> None:
    sane = isinstance(value, list) and len(value) <= MOST_NAMES
    if not sane or not all(isinstance(name, str) and _is_model(name) for name in value):
        raise ValidationError(
            _(
                "Write up to %(most)s model names, each of 1 to 200 printable characters without blanks; "
                "a * may stand at the end, for any rest."
            ),
            params={"most": MOST_NAMES},
        )


def _is_model(name: str) -> bool:
    sane = 0 < len(name) <= 200 and name.isprintable() and not set(name) & {" ", ","}
    return sane and ANY not in name[:-1]


def check_tools(value: Any) -> None:
    sane = isinstance(value, dict) and len(value) <= MOST_NAMES
    if not sane or not all(TOOL.fullmatch(name) and rule in RULES for name, rule in value.items()):
        raise ValidationError(
            _("Write a line for each tool: its name (or * for all others), a colon, and allow, ask or deny.")
        )


class LimitFields(models.Model):
    """The fields of `values.Limits`. Empty: no limit."""

    requests_per_minute = models.PositiveIntegerField(
        _("requests a minute"), null=True, blank=True, validators=A_LIMIT
    )
    requests_per_day = models.PositiveIntegerField(
        _("requests a day"), null=True, blank=True, validators=A_LIMIT
    )
    tokens_per_day = models.PositiveBigIntegerField(
        _("tokens a day"), null=True, blank=True, validators=MANY, help_text=_("In and out together.")
    )
    tokens_per_month = models.PositiveBigIntegerField(
        _("tokens a month"), null=True, blank=True, validators=MANY
    )
    cost_per_month = models.DecimalField(
        _("money a month"),
        max_digits=18,
        decimal_places=8,
        null=True,
        blank=True,
        validators=[MinValueValidator(0)],
        help_text=_("In the currency of the models' prices."),
    )
    runs_at_once = models.PositiveIntegerField(_("runs at once"), null=True, blank=True, validators=A_LIMIT)

    class Meta:
        abstract = True

    @property
    def limits(self) -> Limits:
        return Limits(**{name: getattr(self, name) for name in LIMITS})


class GroupPolicy(LimitFields):
    """What each member may use; the limits are for each of them alone."""

    group = models.OneToOneField(
        Group,
        on_delete=models.CASCADE,
        null=True,
        blank=True,
        related_name="policy",
        verbose_name=_("group"),
        help_text=_("Empty: for everybody who is in no group that has a policy."),
    )
    allowed_models = models.JSONField(
        _("models"),
        default=list,
        blank=True,
        validators=[check_models],
        help_text=_("Their public names, one a line; a * at the end stands for any rest. Empty: all."),
    )
    tools = models.JSONField(
        _("tools"),
        default=dict,
        blank=True,
        validators=[check_tools],
        help_text=_(
            "One a line, as “send_email: ask”: allow, ask or deny. * stands for all that have no line of their own. "
            "Without any line a tool is used as it says itself."
        ),
    )
    retention_days = models.PositiveIntegerField(
        _("days that threads are kept"),
        null=True,
        blank=True,
        validators=A_LIMIT,
        help_text=_("Empty: no rule of this group."),
    )

    class Meta:
        verbose_name = _("policy of a group")
        verbose_name_plural = _("policies of groups")
        constraints = [
            models.UniqueConstraint(
                Coalesce("group", 0),
                condition=models.Q(group=None),
                name="one_policy_for_everybody_else",
                violation_error_message=_("There is a policy for everybody else already. Choose a group."),
            )
        ]

    def __str__(self) -> str:
        return self.group.name if self.group is not None else str(_("Everybody else"))


class GroupBudget(LimitFields):
    """What the members of a group may use together."""

    policy = models.OneToOneField(GroupPolicy, on_delete=models.CASCADE, related_name="budget")

    class Meta:
        verbose_name = _("budget of the whole group")
        verbose_name_plural = _("budgets of whole groups")

    def __str__(self) -> str:
        return str(self.policy)


class UserPolicy(LimitFields):
    """Limits of one person. An empty one is as their groups say; `exempt` lifts all, those of groups as a whole too."""

    user = models.OneToOneField(
        settings.AUTH_USER_MODEL,
        on_delete=models.CASCADE,
        related_name="usage_policy",
        verbose_name=_("user"),
    )
    exempt = models.BooleanField(
        _("no limits at all"),
        default=False,
        help_text=_("Nothing limits this person: neither the fields below nor their groups."),
    )

    class Meta:
        verbose_name = _("limits of a user")
        verbose_name_plural = _("limits of users")

    def __str__(self) -> str:
        return str(self.user)


class Used(models.Model):
    """What a subject (`user:12`, `group:3`, `key:7`) used in the window that began at `since`."""

    class Span(models.TextChoices):
        MINUTE = "minute", _("minute")
        DAY = "day", _("day")
        MONTH = "month", _("month")

    subject = models.CharField(_("whose"), max_length=80)
    span = models.CharField(_("window"), max_length=6, choices=Span.choices)
    since = models.CharField(
        _("since"), max_length=16, help_text=_("In UTC: 2026-11, 2026-11-30 or 2026-11-30T17:25.")
    )
    requests = models.PositiveBigIntegerField(_("requests"), default=0)
    tokens = models.PositiveBigIntegerField(_("tokens"), default=0)
    cost = models.DecimalField(_("money"), max_digits=18, decimal_places=8, default=0)

    class Meta:
        verbose_name = _("usage")
        verbose_name_plural = _("usage")
        constraints = [models.UniqueConstraint(fields=["subject", "span"], name="policies_one_window_a_span")]

    def __str__(self) -> str:
        return f"{self.subject} {self.since}"


class Reservation(models.Model):
    """One run or request under way. `tokens` and `cost` are held for its next turn, `booked_*` are counted already.

    `until` is for holders that died with their process.
    """

    subject = models.CharField(max_length=80)
    holder = models.CharField(max_length=120)
    tokens = models.PositiveBigIntegerField(default=0)
    cost = models.DecimalField(max_digits=18, decimal_places=8, default=0)
    booked_tokens = models.PositiveBigIntegerField(default=0)
    booked_cost = models.DecimalField(max_digits=18, decimal_places=8, default=0)
    until = models.DateTimeField()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["holder", "subject"], name="policies_one_reservation_each")
        ]
        indexes = [models.Index(fields=["subject"], name="policies_reserved_for")]

    def __str__(self) -> str:
        return f"{self.holder} of {self.subject}"
