"""What administrators add to the endpoints and models of the environment.

    Endpoint ──< Route >── Model     which endpoints serve a model, in the order in which they are tried

A model without a route is one that an endpoint of the environment has: its row says what it costs and can do. An
endpoint that is asked for its models needs no row of each.
"""

from __future__ import annotations

import re
from typing import Any

from django.core.exceptions import ValidationError
from django.core.validators import MaxValueValidator, MinValueValidator, RegexValidator
from django.db import models
from django.utils.translation import gettext_lazy as _

from agent.errors import InvalidRequest
from agent.providers.endpoint import Endpoint as Address
from chatsite.catalog.headers import check_plain

A_NAME = RegexValidator(
    re.compile(r"\A[A-Za-z0-9][A-Za-z0-9._-]{0,63}\Z"),
    _("Write 1 to 64 letters, digits, dots, dashes or underscores."),
)
SECONDS = [MinValueValidator(0.1), MaxValueValidator(3600)]
A_PRICE = [MinValueValidator(0)]


def check_model_name(name: str) -> None:
    if not (0 < len(name) <= 200 and name.isprintable() and name == name.strip()):
        raise ValidationError(_("Write 1 to 200 printable characters, without blanks at the ends."))


class Endpoint(models.Model):
    """Somewhere models are served. Its key, and headers that hold one, are kept sealed and never shown again."""

    class Dialect(models.TextChoices):
        OPENAI = "openai", _("OpenAI's (also Ollama, vLLM, llama.cpp, OpenRouter, ...)")
        ANTHROPIC = "anthropic", _("Anthropic's")

    name = models.CharField(_("name"), max_length=64, unique=True, validators=[A_NAME])
    dialect = models.CharField(_("dialect"), max_length=20, choices=Dialect.choices, default=Dialect.OPENAI)
    base_url = models.CharField(
        _("address"),
        max_length=500,
        help_text=_("Such as https://api.example.com/v1, without user or query."),
    )
    sealed_key = models.TextField(blank=True, editable=False)
    headers = models.JSONField(_("further headers"), default=dict, blank=True, validators=[check_plain])
    sealed_headers = models.JSONField(default=dict, blank=True, editable=False)
    """Name -> sealed value, of those that hold a key."""
    lists_models = models.BooleanField(
        _("ask it for its models"),
        default=True,
        help_text=_("Else it serves those alone that have a route to it."),
    )
    enabled = models.BooleanField(_("in use"), default=True)
    connect_timeout = models.FloatField(_("seconds to connect"), null=True, blank=True, validators=SECONDS)
    first_byte_timeout = models.FloatField(
        _("seconds to the first byte"), null=True, blank=True, validators=SECONDS
    )
    idle_timeout = models.FloatField(_("seconds of silence"), null=True, blank=True, validators=SECONDS)
    created_at = models.DateTimeField(_("made"), auto_now_add=True)

    class Meta:
        verbose_name = _("endpoint")
        verbose_name_plural = _("endpoints")
        ordering = ("name",)

    def __str__(self) -> str:
        return self.name

    def clean(self) -> None:
        try:
            Address(name=self.name or "it", base_url=self.base_url)
        except InvalidRequest:
            raise ValidationError(
                {"base_url": _("That is no address. Write https://host/path, without user or query.")}
            ) from None


class Model(models.Model):
    """A model under the name that people and programs use."""

    name = models.CharField(_("name"), max_length=200, unique=True, validators=[check_model_name])
    label = models.CharField(
        _("label"), max_length=200, blank=True, help_text=_("What the picker shows. Empty: the name.")
    )
    enabled = models.BooleanField(
        _("in use"), default=True, help_text=_("Off: nobody is offered it, and no door takes it.")
    )
    price_input = models.DecimalField(
        _("price of input"), max_digits=14, decimal_places=6, null=True, blank=True, validators=A_PRICE,
        help_text=_("A million tokens. Prices count where input and output are both set."),
    )  # fmt: skip
    price_output = models.DecimalField(
        _("price of output"), max_digits=14, decimal_places=6, null=True, blank=True, validators=A_PRICE
    )
    price_cached = models.DecimalField(
        _("price of cached input"), max_digits=14, decimal_places=6, null=True, blank=True, validators=A_PRICE,
        help_text=_("Empty: as other input."),
    )  # fmt: skip
    context = models.PositiveIntegerField(
        _("context"), null=True, blank=True, validators=[MinValueValidator(1)], help_text=_("Tokens.")
    )
    images = models.BooleanField(_("takes images"), null=True, blank=True)
    tools = models.BooleanField(_("uses tools"), null=True, blank=True)
    endpoints = models.ManyToManyField(Endpoint, through="Route", related_name="models")

    class Meta:
        verbose_name = _("model")
        verbose_name_plural = _("models")
        ordering = ("name",)

    def __str__(self) -> str:
        return self.name

    def clean(self) -> None:
        if (self.price_input is None) != (self.price_output is None):
            missing = "price_input" if self.price_input is None else "price_output"
            raise ValidationError({missing: _("Write both prices, or none.")})


class Route(models.Model):
    """An endpoint that serves a model, and how it calls it."""

    model = models.ForeignKey(Model, on_delete=models.CASCADE, related_name="routes")
    endpoint = models.ForeignKey(Endpoint, on_delete=models.CASCADE, related_name="routes")
    name_there = models.CharField(
        _("name there"), max_length=200, blank=True, help_text=_("Empty: the same name.")
    )
    position = models.PositiveSmallIntegerField(
        _("position"), default=0, help_text=_("The lowest is asked first; the next when that one fails.")
    )

    class Meta:
        verbose_name = _("route")
        verbose_name_plural = _("routes")
        ordering = ("position", "pk")
        constraints = (
            models.UniqueConstraint(
                fields=["model", "endpoint"],
                name="catalog_one_route",
                violation_error_message=_("There is a route to this endpoint already."),
            ),
        )

    def __str__(self) -> str:
        return f"{self.endpoint_id}/{self.name_there or self.model_id}"

    def clean(self) -> None:
        if self.name_there:
            check_model_name(self.name_there)

    def validate_constraints(self, exclude: Any = None) -> None:
        # The form within a model's page leaves the model out of what is looked at, and that is known.
        super().validate_constraints(set(exclude or ()) - {"model"})
