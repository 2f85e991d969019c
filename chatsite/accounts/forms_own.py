"""What people change of their own account. Limits of keys are not among it: those an administrator gives."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django import forms
from django.contrib.auth import get_user_model
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from chatsite.accounts.models import CHAT, GATEWAY, SCOPES

LASTS = {"30": _("30 days"), "90": _("90 days"), "365": _("a year"), "": _("until it is revoked")}


class ProfileForm(forms.ModelForm):
    class Meta:
        model = get_user_model()
        fields = ("first_name", "last_name")


class OwnKeyForm(forms.Form):
    label = forms.CharField(
        max_length=100, label=_("Name"), help_text=_("What it is for, to tell it from others.")
    )
    scopes = forms.MultipleChoiceField(
        choices=list(SCOPES.items()),
        widget=forms.CheckboxSelectMultiple,
        initial=[CHAT, GATEWAY],
        label=_("It opens"),
    )
    lasts = forms.ChoiceField(choices=list(LASTS.items()), required=False, initial="90", label=_("It lasts"))

    def wishes(self) -> dict[str, Any]:
        """As `keys.new_api_key` takes them."""
        days = self.cleaned_data["lasts"]
        return {
            "label": self.cleaned_data["label"],
            "scopes": self.cleaned_data["scopes"],
            "expires_at": timezone.now() + timedelta(days=int(days)) if days else None,
        }
