"""The pages of accounts that are not django-allauth's: one's own account, with its sessions and keys."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

from allauth.socialaccount.models import SocialAccount
from django.contrib import admin
from django.contrib.auth.decorators import login_required
from django.contrib.auth.views import redirect_to_login
from django.core.exceptions import PermissionDenied
from django.db import transaction
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.cache import add_never_cache_headers
from django.utils.http import url_has_allowed_host_and_scheme
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET, require_POST

from chatsite.accounts import keys, signins
from chatsite.accounts.auditing import record
from chatsite.accounts.conf import setting
from chatsite.accounts.factors import factors_of
from chatsite.accounts.forms_own import OwnKeyForm, ProfileForm
from chatsite.accounts.models import ApiKey, SignIn
from chatsite.accounts.signing import shown_again

PAGE = "account/account.html"
MOST_KEYS = 50


@never_cache
def admin_login(request: HttpRequest) -> HttpResponseBase:
    """All sign in at one page. Who is signed in goes on to the admin, or reads what may be done about it."""
    there = _admin_page(request)
    if not request.user.is_authenticated:
        return redirect_to_login(there)
    if admin.site.has_permission(request):
        return redirect(there)
    return render(
        request, "account/no_admin.html", {"next": there}, status=403
    )  # raised, it would leave a trace


def _admin_page(request: HttpRequest) -> str:
    """Where somebody was going; never another site, and never back here."""
    there = request.GET.get("next", "")
    hosts = {request.get_host()}
    if not url_has_allowed_host_and_scheme(there, hosts, require_https=request.is_secure()):
        return reverse("admin:index")
    return reverse("admin:index") if urlsplit(there).path == request.path else there


@login_required
def admin_password(request: HttpRequest) -> HttpResponseBase:
    """One's own password is changed where that is counted, and on record."""
    return redirect("account_change_password")


@never_cache
@login_required
@require_GET
def account(request: HttpRequest) -> HttpResponse:
    return _page(request)


def _page(request: HttpRequest, **more: Any) -> HttpResponse:
    user = request.user
    context = {
        "profile_form": ProfileForm(instance=user),
        "key_form": OwnKeyForm(),
        "factors": factors_of(user),
        "elsewhere": not user.has_usable_password(),
        "identity": SocialAccount.objects.filter(user=user).exists(),
        "sessions": signins.live_of(user),
        "this_session": request.session.session_key,
        "keys": list(ApiKey.objects.filter(user=user, revoked_at=None).order_by("-pk")),
        "own_keys": setting("OWN_KEYS"),
    }
    return render(request, PAGE, context | more)


@login_required
@require_POST
def profile(request: HttpRequest) -> HttpResponseBase:
    form = ProfileForm(request.POST, instance=request.user)
    if not form.is_valid():
        return _page(request, profile_form=form)
    form.save()
    return redirect("account")


# -- sessions ------------------------------------------------------------------------------------------------


@login_required
@require_POST
@transaction.atomic
def end_session(request: HttpRequest, pk: int) -> HttpResponseBase:
    row = SignIn.objects.filter(user=request.user, pk=pk).first()
    if row is None:
        raise Http404
    signins.end(row)
    record("session.ended", request.user, request)
    return redirect("account")


@login_required
@require_POST
@transaction.atomic
def end_sessions(request: HttpRequest) -> HttpResponseBase:
    """All but this one: whoever asks for it wants to see that it is done."""
    ended = signins.end_all(request.user, but=request.session.session_key)
    record("logout.everywhere", request.user, request, sessions=ended)
    return redirect("account")


# -- keys ----------------------------------------------------------------------------------------------------


@login_required
@require_POST
@shown_again
def make_key(request: HttpRequest) -> HttpResponseBase:
    """The key is in this answer and nowhere else: no redirect, no cookie, no session has it."""
    if not setting("OWN_KEYS"):
        raise PermissionDenied
    form = OwnKeyForm(request.POST)
    live = ApiKey.objects.filter(user=request.user, revoked_at=None).count()
    if not form.is_valid() or live >= MOST_KEYS:
        return _page(request, key_form=form, too_many_keys=MOST_KEYS if live >= MOST_KEYS else 0)
    with transaction.atomic():
        made = keys.new_api_key(request.user, **form.wishes())
        row = ApiKey.objects.get(digest=keys.digest_of(made))
        record("key.made", request.user, request, key=row.hint, scopes=row.scopes)
    answer = render(request, "account/key_made.html", {"key": made, "row": row})
    add_never_cache_headers(answer)
    return answer


@login_required
@require_POST
@transaction.atomic
def revoke_key(request: HttpRequest, pk: int) -> HttpResponseBase:
    row = ApiKey.objects.filter(user=request.user, pk=pk).first()
    if row is None:
        raise Http404
    if keys.revoke(row):
        record("key.revoked", request.user, request, key=row.hint)
    return redirect("account")
