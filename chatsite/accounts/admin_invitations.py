"""Invitations in the admin; and how a link that was made is shown.

Rule: nobody gives more than they have: who is no superuser invites into their own groups alone.
"""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib import admin, messages
from django.db.models import Q, QuerySet
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils.cache import add_never_cache_headers
from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext

from chatsite.accounts import invitations, links
from chatsite.accounts.conf import setting
from chatsite.accounts.models import Invitation
from chatsite.adminkit.base import ReadOnlyAdmin


def shown_once(
    admin_site: Any, request: HttpRequest, title: Any, made: list[tuple[str, str]]
) -> HttpResponse:
    """Links, in this answer and nowhere else."""
    context = {**admin_site.each_context(request), "title": title, "links": made}
    answer = TemplateResponse(request, "admin/accounts/links_made.html", context)
    add_never_cache_headers(answer)
    return answer


class InvitationForm(forms.ModelForm):
    days = forms.IntegerField(
        label=_("Days"),
        min_value=1,
        max_value=invitations.MOST_DAYS,
        initial=invitations.DAYS,
        help_text=_("How long the link is good."),
    )

    class Meta:
        model = Invitation
        fields = ("email", "groups")


class StateFilter(admin.SimpleListFilter):
    title = _("state")
    parameter_name = "open"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, Any]]:
        return [("yes", _("Open")), ("no", _("Used or over"))]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any] | None:
        match self.value():
            case "yes":
                return queryset.filter(invitations.still_good())
            case "no":
                return queryset.filter(
                    ~Q(pk__in=Invitation.objects.filter(invitations.still_good()).values("pk"))
                )
        return None


@admin.register(Invitation)
class InvitationAdmin(ReadOnlyAdmin):
    form = InvitationForm
    actions = ("revoke",)
    fields = ("email", "groups", "made_by", "made_at", "expires_at", "used_by", "used_at", "revoked_at")
    list_display = ("__str__", "made_by", "made_at", "expires_at", "used_by", "revoked_at")
    list_select_related = ("made_by", "used_by")
    list_filter = (StateFilter,)
    search_fields = ("email",)

    def has_add_permission(self, request: HttpRequest) -> bool:
        return bool(request.user.has_perm("accounts.add_invitation"))

    def has_revoke_permission(self, request: HttpRequest) -> bool:
        return bool(request.user.has_perm("accounts.change_invitation"))

    def get_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        return self.fields if obj else ("email", "groups", "days")

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        return self.fields if obj else ()

    def formfield_for_manytomany(self, db_field: Any, request: HttpRequest, **kwargs: Any) -> Any:
        if not request.user.is_superuser:
            kwargs["queryset"] = request.user.groups.all()
        return super().formfield_for_manytomany(db_field, request, **kwargs)

    def render_change_form(self, request: HttpRequest, context: dict[str, Any], **kwargs: Any) -> Any:
        # Behind a new invitation comes the page that shows its link, so there is one way to save.
        context |= {"show_save_and_add_another": False, "show_save_and_continue": False}
        return super().render_change_form(request, context, **kwargs)

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        asked = form.cleaned_data
        made, token = invitations.invite(
            email=asked["email"], groups=asked["groups"], days=asked["days"], by=request.user
        )
        obj.pk, obj.link = made.pk, links.absolute(reverse("invitation", args=[token]), request)
        if made.email and setting("HAS_MAIL"):
            invitations.send(made, obj.link)

    def save_related(self, request: HttpRequest, form: Any, formsets: Any, change: bool) -> None:
        """The groups are in it already."""

    def response_add(self, request: HttpRequest, obj: Any, post_url_continue: Any = None) -> HttpResponse:
        return shown_once(self.admin_site, request, _("The new invitation"), [(obj.email, obj.link)])

    @admin.action(description=_("Revoke selected invitations"), permissions=["revoke"])
    def revoke(self, request: HttpRequest, queryset: QuerySet[Any]) -> None:
        done = sum(invitations.revoke(each, by=request.user) for each in queryset)
        words = ngettext("Revoked %(n)d invitation.", "Revoked %(n)d invitations.", done) % {"n": done}
        self.message_user(request, words, messages.SUCCESS)
