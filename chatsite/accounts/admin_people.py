"""Users and invitations in the admin.

Rule: nobody gives more than they have. Who is no superuser changes neither groups nor permissions, and nobody who may
open the admin: a link for a new password is a way to that one's rights.
"""

from __future__ import annotations

from typing import Any

from allauth.mfa.models import Authenticator
from allauth.socialaccount.models import SocialAccount, SocialApp, SocialToken
from django import forms
from django.conf import settings
from django.contrib import admin, messages
from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.contrib.auth import get_user_model
from django.contrib.auth.admin import UserAdmin
from django.db import transaction
from django.db.models import Q, QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils.cache import add_never_cache_headers
from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext

from chatsite.accounts import invitations, links, signins
from chatsite.accounts.auditing import subject_of
from chatsite.accounts.models import Invitation
from chatsite.adminkit import reading
from chatsite.adminkit.base import ReadOnlyAdmin
from chatsite.audit import log
from chatsite.care import asking, erasing, holds
from chatsite.care.exporting import export
from chatsite.care.forms import ReasonForm
from chatsite.care.views import archive

People = get_user_model()
OF_SUPERUSERS = ("is_staff", "is_superuser", "groups", "user_permissions")
MOST_LINKS = 50
LONGEST_WAIT = 5.0
"""Seconds that an administrator waits for the erasure of one person; upkeep does the rest."""


def shown_once(
    admin_site: Any, request: HttpRequest, title: Any, made: list[tuple[str, str]]
) -> HttpResponse:
    """Links, in this answer and nowhere else."""
    context = {**admin_site.each_context(request), "title": title, "links": made}
    answer = TemplateResponse(request, "admin/accounts/links_made.html", context)
    add_never_cache_headers(answer)
    return answer


# Ours takes the place of Django's; and of allauth's rows these hold secrets, or nothing that is changed by hand.
for _model in (People, Authenticator, SocialAccount, SocialApp, SocialToken):
    if admin.site.is_registered(_model):
        admin.site.unregister(_model)


@admin.register(People)
class PeopleAdmin(UserAdmin):
    actions = ("make_links", "end_sessions", "remove_factors", "deactivate", "export", "hold", "erase")

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return super().has_change_permission(request, obj) and _within_reach(request, obj)

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        # People are erased (below), with a reason, a proof, and all that a cascade does not know of.
        return False

    def has_hold_permission(self, request: HttpRequest) -> bool:
        return bool(request.user.has_perm("care.add_hold"))

    def has_erase_permission(self, request: HttpRequest) -> bool:
        return bool(request.user.has_perm("care.add_erasure"))

    def has_export_permission(self, request: HttpRequest) -> bool:
        return reading.may_read(request.user)

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> tuple[str, ...]:
        fields = tuple(super().get_readonly_fields(request, obj))
        return fields if request.user.is_superuser else (*fields, *OF_SUPERUSERS)

    @transaction.atomic
    def save_related(self, request: HttpRequest, form: Any, formsets: Any, change: bool) -> None:
        super().save_related(request, form, formsets, change)
        user, changed = form.instance, sorted(form.changed_data)
        if change and "is_active" in changed and not user.is_active:
            _deactivated(user, request.user)
        elif changed:
            action = "user.changed" if change else "user.made"
            fields = [name for name in changed if "password" not in name]
            log.record(
                action, actor=request.user, subject=subject_of(user), door="admin", facts={"fields": fields}
            )

    def user_change_password(self, request: HttpRequest, id: str, form_url: str = "") -> HttpResponse:
        answer: HttpResponse = super().user_change_password(request, id, form_url)
        if request.method == "POST" and answer.status_code == 302:
            user = self.get_object(request, id)
            log.record("password.changed", actor=request.user, subject=subject_of(user), door="admin")
        return answer

    # -- actions ---------------------------------------------------------------------------------------------

    def _reached(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        return queryset if request.user.is_superuser else queryset.filter(is_superuser=False, is_staff=False)

    @admin.action(description=_("Make links for a new password"), permissions=["change"])
    def make_links(self, request: HttpRequest, queryset: QuerySet[Any]) -> HttpResponse:
        """Each works once, for a day. It is also how somebody without a password gets one."""
        made = []
        for user in self._reached(request, queryset).filter(is_active=True)[:MOST_LINKS]:
            log.record("reset_link.made", actor=request.user, subject=subject_of(user), door="admin")
            made.append((user.get_username(), links.reset_link(user, request)))
        return shown_once(self.admin_site, request, _("Links for a new password"), made)

    @admin.action(description=_("End all sessions"), permissions=["change"])
    def end_sessions(self, request: HttpRequest, queryset: QuerySet[Any]) -> None:
        ended = 0
        for user in self._reached(request, queryset):
            ended += signins.end_all(user)
            log.record("sessions.ended", actor=request.user, subject=subject_of(user), door="admin")
        words = ngettext("Ended %(n)d session.", "Ended %(n)d sessions.", ended) % {"n": ended}
        self.message_user(request, words, messages.SUCCESS)

    @admin.action(description=_("Remove second factors"), permissions=["change"])
    def remove_factors(self, request: HttpRequest, queryset: QuerySet[Any]) -> None:
        """For whoever has lost theirs, once you know who asks: from then on the password alone opens."""
        done = 0
        for user in self._reached(request, queryset):
            with transaction.atomic():
                removed, _each = Authenticator.objects.filter(user=user).delete()
                if removed:
                    log.record("factor.removed", actor=request.user, subject=subject_of(user), door="admin")
                    done += 1
        words = ngettext("Removed those of %(n)d user.", "Removed those of %(n)d users.", done) % {"n": done}
        self.message_user(request, words, messages.SUCCESS)

    @admin.action(description=_("Deactivate"), permissions=["change"])
    def deactivate(self, request: HttpRequest, queryset: QuerySet[Any]) -> None:
        """Their sessions and keys open nothing from now on. What they wrote stays."""
        done = 0
        for user in self._reached(request, queryset).filter(is_active=True).exclude(pk=request.user.pk):
            with transaction.atomic():
                user.is_active = False
                user.save(update_fields=["is_active"])
                self.log_change(request, user, "Deactivated.")
                _deactivated(user, request.user)
            done += 1
        words = ngettext("Deactivated %(n)d user.", "Deactivated %(n)d users.", done) % {"n": done}
        self.message_user(request, words, messages.SUCCESS)

    @admin.action(description=_("Export all data of a user…"), permissions=["export"])
    def export(self, request: HttpRequest, queryset: QuerySet[Any]) -> HttpResponseBase | None:
        """One at a time: an archive is a download."""
        person, more = queryset.first(), queryset.count() > 1
        if person is None or more:
            self.message_user(request, _("Choose one user: each archive is a download."), messages.ERROR)
            return None
        form = ReasonForm(request.POST if "confirmed" in request.POST else None)
        if form.is_valid():
            pieces = export(person, actor=request.user, reason=form.cleaned_data["reason"], door="admin")
            return archive(pieces, (request.user.pk, person.pk))
        return asking.ask(
            self,
            request,
            form,
            title=_("Export all data of a user"),
            explain=_("Everything that is kept of this user, as one ZIP file, with what they wrote:"),
            button=_("Download"),
            rows=[person],
            hidden=[("action", "export"), (ACTION_CHECKBOX_NAME, person.pk)],
        )

    @admin.action(description=_("Hold all data of selected users…"), permissions=["hold"])
    def hold(self, request: HttpRequest, queryset: QuerySet[Any]) -> HttpResponse | None:
        return asking.each_with_reason(
            self,
            request,
            queryset,
            action="hold",
            title=_("Place a hold"),
            explain=_("No rule of retention, no deletion and no erasure touches what is theirs then:"),
            button=_("Place the hold"),
            do=lambda user, reason: holds.place(user=user, reason=reason, actor=request.user, door="admin"),
        )

    @admin.action(description=_("Erase selected users…"), permissions=["erase"])
    def erase(self, request: HttpRequest, queryset: QuerySet[Any]) -> HttpResponse | None:
        """What takes long goes on in the background; the proof is under "Erasures"."""

        def gone(user: Any, reason: str) -> None:
            erasure = erasing.begin(user, reason=reason, actor=request.user, door="admin")
            erasing.run(erasure, seconds=LONGEST_WAIT)

        return asking.each_with_reason(
            self,
            request,
            queryset,
            action="erase",
            title=_("Erase users"),
            explain=_("All that is theirs goes, with the account. There is no way back:"),
            button=_("Erase for good"),
            do=gone,
        )


def _within_reach(request: HttpRequest, user: Any) -> bool:
    return user is None or request.user.is_superuser or not (user.is_superuser or user.is_staff)


def _deactivated(user: Any, by: Any) -> None:
    signins.end_all(user)
    log.record("user.deactivated", actor=by, subject=subject_of(user), door="admin")


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
        if made.email and settings.HAS_MAIL:
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
