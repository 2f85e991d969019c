"""The forms for endpoints and models. A key is written, and never shown."""

from __future__ import annotations

from typing import Any

from django import forms
from django.conf import settings
from django.core.exceptions import ValidationError
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from agent.errors import InvalidRequest
from agent.providers.http import Endpoint as Address
from chatsite.catalog import sealing
from chatsite.catalog.models import Endpoint

RESERVED = frozenset({"openai", "anthropic", "demo"})


class HeadersField(forms.CharField):
    """`name: value`, one a line, as a dict."""

    widget = forms.Textarea(attrs={"rows": 3, "cols": 60})

    def to_python(self, value: Any) -> Any:
        found: dict[str, str] = {}
        for line in (super().to_python(value) or "").splitlines():
            name, colon, text = line.partition(":")
            if not line.strip():
                continue
            if not colon:
                raise ValidationError(_("Write a line for each header, as name: value."))
            found[name.strip()] = text.strip()
        return found

    def prepare_value(self, value: Any) -> Any:
        if isinstance(value, dict):
            return "\n".join(f"{name}: {text}" for name, text in value.items())
        return value

    def has_changed(self, initial: Any, data: Any) -> bool:
        try:
            return (initial or {}) != self.to_python(data)
        except ValidationError:
            return True


class EndpointForm(forms.ModelForm):
    api_key = forms.CharField(
        required=False,
        label=gettext_lazy("Key"),
        widget=forms.PasswordInput(attrs={"autocomplete": "new-password", "size": 60}),
        help_text=gettext_lazy(
            "It is kept encrypted and never shown again. Empty: the one that is kept stays."
        ),
    )
    forget_key = forms.BooleanField(required=False, label=gettext_lazy("Forget the key that is kept"))
    headers = HeadersField(
        required=False,
        label=gettext_lazy("Further headers"),
        help_text=gettext_lazy("One a line, as name: value."),
    )

    class Meta:
        model = Endpoint
        fields = (
            "name", "dialect", "base_url", "api_key", "forget_key", "headers", "lists_models", "enabled",
            "connect_timeout", "first_byte_timeout", "idle_timeout",
        )  # fmt: skip
        widgets = {"base_url": forms.TextInput(attrs={"size": 60})}

    def clean_name(self) -> str:
        name = self.cleaned_data["name"]
        configured = (getattr(settings, "GATEWAY_MODELS", {}) or {}).get("endpoints", {})
        if name.lower() in RESERVED or name in configured:
            raise ValidationError(_("The environment has an endpoint of that name. Choose another."))
        return name

    def clean_api_key(self) -> str:
        key = self.cleaned_data["api_key"].strip()
        try:
            Address(name="it", base_url="https://example.com", api_key=key or None)
        except InvalidRequest:
            raise ValidationError(
                _("A key has no such characters. Was something else copied with it?")
            ) from None
        return key

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or {}
        if cleaned.get("api_key") and cleaned.get("forget_key"):
            self.add_error("forget_key", _("Write a new key, or forget the old one, not both."))
        moved = "base_url" in self.changed_data and self.instance.pk and self.instance.sealed_key
        if moved and not cleaned.get("api_key") and not cleaned.get("forget_key"):
            # Else whoever may change an address could have the key sent to one of their own.
            self.add_error(
                "api_key", _("The address is another: write its key, or forget the one that is kept.")
            )
        return cleaned

    def save(self, commit: bool = True) -> Any:
        if self.cleaned_data["api_key"]:
            self.instance.sealed_key = sealing.seal(self.cleaned_data["api_key"])
        elif self.cleaned_data["forget_key"]:
            self.instance.sealed_key = ""
        return super().save(commit)
