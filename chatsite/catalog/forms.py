"""The forms for endpoints and models. A key is written, and never shown."""

from __future__ import annotations

from typing import Any

from django import forms
from django.conf import settings
from django.core.exceptions import ValidationError
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from agent.errors import InvalidRequest
from agent.providers.endpoint import Endpoint as Address
from chatsite.catalog import sealing
from chatsite.catalog.headers import check_names, check_value, is_secret
from chatsite.catalog.models import Endpoint

RESERVED = frozenset({"openai", "anthropic", "demo"})
KEPT = "••••••••"
"""Stands for a header's value that is kept and not shown. No header has such characters."""


class HeadersField(forms.CharField):
    """`name: value`, one a line, as a dict. The names in small letters."""

    widget = forms.Textarea(attrs={"rows": 3, "cols": 60, "autocomplete": "off", "spellcheck": "false"})

    def to_python(self, value: Any) -> Any:
        found: dict[str, str] = {}
        for line in (super().to_python(value) or "").splitlines():
            name, colon, text = line.partition(":")
            name = name.strip().lower()
            if not line.strip():
                continue
            if not colon:
                raise ValidationError(_("Write a line for each header, as name: value."))
            if name in found:
                raise ValidationError(_("“%(name)s” is there twice.") % {"name": name[:50]})
            found[name] = text.strip()
        return found

    def validate(self, value: Any) -> None:
        super().validate(value)
        check_names(value)
        for name, text in value.items():
            if text != KEPT:
                check_value(name, text)

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
        help_text=gettext_lazy(
            "One a line, as name: value. What looks like a key is kept encrypted and never shown again: dots stand "
            "for it, and it stays while they do."
        ),
    )

    class Meta:
        model = Endpoint
        fields = (
            "name", "dialect", "base_url", "api_key", "forget_key", "headers", "lists_models", "enabled",
            "connect_timeout", "first_byte_timeout", "idle_timeout",
        )  # fmt: skip
        widgets = {"base_url": forms.TextInput(attrs={"size": 60})}

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        given = self.instance.headers | dict.fromkeys(self.instance.sealed_headers, KEPT)
        self.initial["headers"] = dict(
            sorted(given.items())
        )  # each database keeps them in an order of its own
        self.secret_headers: dict[str, str] = {}

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

    def clean_headers(self) -> dict[str, str]:
        """Those that are kept as they are. What looks like a key is set aside: it is never a value of the row."""
        given = self.cleaned_data["headers"]
        for name, text in given.items():
            if text == KEPT and name not in self.instance.sealed_headers:
                raise ValidationError(_("No value of “%(name)s” is kept. Write it.") % {"name": name})
        self.secret_headers = {name: text for name, text in given.items() if is_secret(name) or text == KEPT}
        return {name: text for name, text in given.items() if name not in self.secret_headers}

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or {}
        if cleaned.get("api_key") and cleaned.get("forget_key"):
            self.add_error("forget_key", _("Write a new key, or forget the old one, not both."))
        if "base_url" in self.changed_data and self.instance.pk:
            self._leave_secrets_behind(cleaned)
        return cleaned

    def _leave_secrets_behind(self, cleaned: dict[str, Any]) -> None:
        """Else whoever may change an address could have them sent to one of their own."""
        if self.instance.sealed_key and not cleaned.get("api_key") and not cleaned.get("forget_key"):
            self.add_error(
                "api_key", _("The address is another: write its key, or forget the one that is kept.")
            )
        kept = sorted(name for name, text in self.secret_headers.items() if text == KEPT)
        if kept:
            words = _("The address is another: write the value of %(names)s anew, or leave it out.")
            self.add_error("headers", words % {"names": ", ".join(kept)})

    def save(self, commit: bool = True) -> Any:
        if self.cleaned_data["api_key"]:
            self.instance.sealed_key = sealing.seal(self.cleaned_data["api_key"])
        elif self.cleaned_data["forget_key"]:
            self.instance.sealed_key = ""
        kept = self.instance.sealed_headers
        self.instance.sealed_headers = {
            name: kept[name] if text == KEPT else sealing.seal(text)
            for name, text in self.secret_headers.items()
        }
        return super().save(commit)
