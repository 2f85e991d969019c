"""The form for a key: what it opens, how much of it. Lists are written a line each."""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib.auth import get_user_model
from django.core.exceptions import ValidationError
from django.utils import timezone
from django.utils.text import format_lazy
from django.utils.translation import gettext_lazy as _

from chatsite.accounts import written
from chatsite.accounts.models import CHAT, SCOPES, ApiKey, all_scopes
from chatsite.adminkit import reading


class NamesField(forms.CharField):
    """Names, one a line (or parted by commas), as a list."""

    widget = forms.Textarea(attrs={"rows": 4, "cols": 40})

    def to_python(self, value: Any) -> Any:
        return written.names(super().to_python(value) or "")

    def prepare_value(self, value: Any) -> Any:
        return "\n".join(value) if isinstance(value, list) else value

    def has_changed(self, initial: Any, data: Any) -> bool:
        return (initial or []) != self.to_python(data)


class UserNameField(forms.CharField):
    """A user, by name: a list of all of them would be a long one."""

    def clean(self, value: Any) -> Any:
        name = super().clean(value)
        people = get_user_model()
        try:
            return people.objects.get_by_natural_key(name)
        except (people.DoesNotExist, ValueError):
            raise ValidationError(_("There is no user “%(name)s”.") % {"name": name}) from None


class ApiKeyForm(forms.ModelForm):
    """The chat is opened to a key of somebody else's by who may read transcripts: it reads that one's threads."""

    by: Any = None
    scopes = forms.MultipleChoiceField(
        choices=[(scope, format_lazy("{}: {}", scope, words)) for scope, words in SCOPES.items()],
        label=_("Scopes"),
        widget=forms.CheckboxSelectMultiple,
        initial=all_scopes,
        help_text=_("What it opens."),
    )
    allowed_models = NamesField(
        required=False,
        strip=False,
        label=_("Models"),
        help_text=_("The models it may use, by their public names, one a line. Empty: all."),
    )

    class Meta:
        model = ApiKey
        fields = (
            "label", "scopes", "allowed_models", "requests_per_minute", "tokens_per_minute", "requests_at_once",
            "budget", "budget_period", "keep", "stream_form", "max_agentic_loops", "expires_at",
        )  # fmt: skip
        help_texts = {"expires_at": _("In UTC. From then on it opens nothing. Empty: it does not expire.")}
        field_classes = {"expires_at": forms.DateTimeField}
        widgets = {
            "expires_at": forms.DateTimeInput(attrs={"type": "datetime-local"}, format="%Y-%m-%dT%H:%M"),
        }

    def clean_expires_at(self) -> Any:
        at = self.cleaned_data["expires_at"]
        if at is not None and "expires_at" in self.changed_data and at <= timezone.now():
            raise ValidationError(_("This lies in the past. To end a key now, revoke it."))
        return at

    def clean(self) -> dict[str, Any]:
        cleaned: dict[str, Any] = super().clean() or self.cleaned_data
        if self._opens_the_chat_of_another() and not (self.by and reading.may_read(self.by)):
            words = _(
                "A key of another person that opens the chat reads their threads: "
                "it takes the permission to read transcripts."
            )
            self.add_error("scopes", words)
        return cleaned

    def _opens_the_chat_of_another(self) -> bool:
        had = CHAT in self.instance.scopes if self.instance.pk else False
        others = self.instance.user_id != getattr(self.by, "pk", None)
        return others and not had and CHAT in self.cleaned_data.get("scopes", ())


class NewApiKeyForm(ApiKeyForm):
    """A key does what its user may: nobody makes one of somebody who may more than they."""

    user_name = UserNameField(max_length=150, label=_("User name"), help_text=_("Whose key it is."))

    field_order = ("user_name",)

    def clean_user_name(self) -> Any:
        user = self.cleaned_data["user_name"]
        if user.is_superuser and not getattr(self.by, "is_superuser", False):
            raise ValidationError(
                _("Only an administrator who may do everything makes a key of another one.")
            )
        self.instance.user = user
        return user
