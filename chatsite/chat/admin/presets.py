"""Presets that an administrator shares with groups, or with everybody. Those of people are theirs, and not shown."""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib import admin
from django.core.exceptions import ValidationError
from django.db import transaction
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from chatsite.accounts.forms import NamesField
from chatsite.adminkit.races import OnceOnly
from chatsite.audit import log
from chatsite.chat import choices
from chatsite.chat.choices import HINTS, LONGEST_SYSTEM, WORDS, Parameters
from chatsite.chat.models import Preset
from chatsite.chat.problems import Invalid

FIGURES = tuple(name for name in Parameters.model_fields if name != "stop")


class PresetForm(forms.ModelForm):
    system = forms.CharField(
        required=False, widget=forms.Textarea, max_length=LONGEST_SYSTEM, label=WORDS["system"]
    )
    tools_off = NamesField(
        required=False, label=gettext_lazy("Tools that are off"), help_text=gettext_lazy("One a line.")
    )

    class Meta:
        model = Preset
        fields = ("name", "groups", "model")
        widgets = {"groups": forms.CheckboxSelectMultiple}
        help_texts = {"groups": gettext_lazy("None: for everybody.")}

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        chosen = choices.kept(self.instance.choices)
        self.fields["system"].initial, self.fields["tools_off"].initial = chosen.system, chosen.tools_off
        for name in FIGURES:
            given = getattr(chosen.parameters, name)
            field = forms.FloatField if name not in {"max_tokens", "seed"} else forms.IntegerField
            self.fields[name] = field(required=False, label=WORDS[name], help_text=HINTS[name], initial=given)

    def clean_name(self) -> str:
        name: str = self.cleaned_data["name"]
        if Preset.objects.filter(owner=None, name=name).exclude(pk=self.instance.pk).exists():
            raise ValidationError(_("There is another preset of this name. Write another name."))
        return name

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or {}
        figures = {name: cleaned[name] for name in FIGURES if cleaned.get(name) is not None}
        given = {name: cleaned[name] for name in ("system", "tools_off") if name in cleaned}
        stop = choices.kept(self.instance.choices).parameters.stop
        try:
            chosen = choices.read(given | {"parameters": figures | ({"stop": stop} if stop else {})})
        except Invalid as problem:
            raise ValidationError(str(problem)) from None
        self.instance.choices = chosen.as_json()
        return cleaned


@admin.register(Preset)
class PresetAdmin(OnceOnly, admin.ModelAdmin):
    form = PresetForm
    list_display = ("name", "model", "for_whom")
    ordering = ("name",)
    search_fields = ("name",)
    fields = ("name", "groups", "model", "system", "tools_off", *FIGURES)

    class Media:
        css = {"all": ["chat/admin.css"]}

    def get_queryset(self, request: HttpRequest) -> QuerySet[Preset]:
        return super().get_queryset(request).filter(owner=None).prefetch_related("groups")

    def get_form(self, request: HttpRequest, obj: Any = None, change: bool = False, **kwargs: Any) -> Any:
        # The figures are fields of the form alone, made as it is.
        return super().get_form(request, obj, change, **(kwargs | {"fields": ("name", "groups", "model")}))

    def save_related(self, request: HttpRequest, form: Any, formsets: Any, change: bool) -> None:
        super().save_related(request, form, formsets, change)
        self._record(request, form.instance, "changed" if change else "made")

    def delete_model(self, request: HttpRequest, obj: Preset) -> None:
        self._record(request, obj, "deleted")
        super().delete_model(request, obj)

    @transaction.atomic
    def delete_queryset(self, request: HttpRequest, queryset: QuerySet[Preset]) -> None:
        for preset in queryset:
            self.delete_model(request, preset)

    def _record(self, request: HttpRequest, preset: Preset, what: str) -> None:
        facts = {"what": what, "for": self.for_whom(preset), "model": preset.model}
        log.record(
            "preset.changed", actor=request.user, subject=f"preset {preset.name}", door="admin", facts=facts
        )

    @admin.display(description=gettext_lazy("for"))
    def for_whom(self, preset: Preset) -> str:
        return ", ".join(group.name for group in preset.groups.all()) or _("everybody")
