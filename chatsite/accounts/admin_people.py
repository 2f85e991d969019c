"""Users in the admin.

Rule: nobody gives more than they have. Who is no superuser changes neither groups nor permissions, and nobody who may
open the admin: a link for a new password is a way to that one's rights.
"""

from __future__ import annotations

from typing import Any

from allauth.mfa.models import Authenticator
from allauth.socialaccount.models import SocialAccount, SocialApp, SocialToken
from django.contrib import admin, messages
from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.contrib.auth import get_user_model
from django.contrib.auth.admin import UserAdmin
from django.db import transaction
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext

from chatsite.accounts import links, signins
from chatsite.accounts.admin_invitations import shown_once
from chatsite.accounts.auditing import subject_of
from chatsite.adminkit import reading
from chatsite.adminkit.races import OnceOnly
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


# Ours takes the place of Django's; and of allauth's rows these hold secrets, or nothing that is changed by hand.
for _model in (People, Authenticator, SocialAccount, SocialApp, SocialToken):
    if admin.site.is_registered(_model):
        admin.site.unregister(_model)


@admin.register(People)
class PeopleAdmin(OnceOnly, UserAdmin):
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
            return archive(pieces)
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

    hold = asking.action(
        "hold",
        _("Hold all data of selected users…"),
        title=_("Place a hold"),
        explain=_("No rule of retention, no deletion and no erasure touches what is theirs then:"),
        button=_("Place the hold"),
        do=lambda user, reason, actor: holds.place(user=user, reason=reason, actor=actor, door="admin"),
    )
    erase = asking.action(
        "erase",
        _("Erase selected users…"),
        title=_("Erase users"),
        explain=_("All that is theirs goes, with the account. There is no way back:"),
        button=_("Erase for good"),
        do=lambda user, reason, actor: _erased(user, reason, actor),
    )


def _erased(user: Any, reason: str, actor: Any) -> None:
    """What takes long goes on in the background; the proof is under "Erasures"."""
    erasure = erasing.begin(user, reason=reason, actor=actor, door="admin")
    erasing.run(erasure, seconds=LONGEST_WAIT)


def _within_reach(request: HttpRequest, user: Any) -> bool:
    return user is None or request.user.is_superuser or not (user.is_superuser or user.is_staff)


def _deactivated(user: Any, by: Any) -> None:
    signins.end_all(user)
    log.record("user.deactivated", actor=by, subject=subject_of(user), door="admin")
