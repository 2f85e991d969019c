"""The forms for policies: lists and rules are written a line each."""

from __future__ import annotations

from typing import Any

from django import forms
from django.core.exceptions import ValidationError
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from chatsite.accounts.forms import NamesField, UserNameField
from chatsite.policies.models import GroupBudget, GroupPolicy, UserPolicy
from chatsite.policies.values import LIMITS


class RulesField(forms.CharField):
    """`name: rule`, one a line, as a dict."""

    widget = forms.Textarea(attrs={"rows": 6, "cols": 40})

    def to_python(self, value: Any) -> Any:
        rules: dict[str, str] = {}
        for line in (super().to_python(value) or "").splitlines():
            name, _colon, rule = (piece.strip() for piece in line.partition(":"))
            if name in rules:
                raise ValidationError(_("There are two lines for “%(name)s”.") % {"name": name})
            if name or rule:
                rules[name] = rule.lower()
        return rules

    def prepare_value(self, value: Any) -> Any:
        if isinstance(value, dict):
            return "\n".join(f"{name}: {rule}" for name, rule in sorted(value.items()))
        return value

    def has_changed(self, initial: Any, data: Any) -> bool:
        try:
            return (initial or {}) != self.to_python(data)
        except ValidationError:
            return True


class GroupPolicyForm(forms.ModelForm):
    allowed_models = NamesField(
        required=False,
        strip=False,
        label=gettext_lazy("Models"),
        help_text=GroupPolicy._meta.get_field("allowed_models").help_text,
    )
    tools = RulesField(
        required=False,
        label=gettext_lazy("Tools"),
        help_text=GroupPolicy._meta.get_field("tools").help_text,
    )

    class Meta:
        model = GroupPolicy
        fields = ("group", "allowed_models", "tools", *LIMITS, "retention_days")


class GroupBudgetForm(forms.ModelForm):
    class Meta:
        model = GroupBudget
        fields = LIMITS


class UserPolicyForm(forms.ModelForm):
    class Meta:
        model = UserPolicy
        fields = ("exempt", *LIMITS)


class NewUserPolicyForm(UserPolicyForm):
    user_name = UserNameField(max_length=150, label=gettext_lazy("User name"))

    field_order = ("user_name",)

    def clean_user_name(self) -> Any:
        user = self.cleaned_data["user_name"]
        if UserPolicy.objects.filter(user=user).exists():
            raise ValidationError(_("This person has limits of their own already. Change those."))
        self.instance.user = user
        return user
