"""What an administrator writes to place a hold or to erase somebody."""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib.auth import get_user_model
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy


class ReasonForm(forms.Form):
    reason = forms.CharField(
        label=gettext_lazy("Reason"),
        max_length=2000,
        widget=forms.Textarea(attrs={"rows": 3, "class": "vLargeTextField"}),
        help_text=gettext_lazy("It is kept in the audit log."),
    )


class PersonForm(ReasonForm):
    user = forms.CharField(
        label=gettext_lazy("User name"), max_length=200, widget=forms.TextInput(attrs={"class": "vTextField"})
    )

    def clean_user(self) -> Any:
        people = get_user_model()
        try:
            return people.objects.get_by_natural_key(self.cleaned_data["user"].strip())
        except (people.DoesNotExist, ValueError):
            raise forms.ValidationError(_("There is no such user.")) from None


class HoldForm(PersonForm):
    thread = forms.CharField(
        label=gettext_lazy("Thread"),
        max_length=200,
        required=False,
        widget=forms.TextInput(attrs={"class": "vTextField"}),
        help_text=gettext_lazy("Its id. Empty: everything of this user."),
    )
    field_order = ("user", "thread", "reason")
