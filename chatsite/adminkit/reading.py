"""Who reads in the admin what others said, why, and that it is on record.

Rule 1: neither staff alone nor the permission to view rows opens content of another's: `chat.view_transcript` does.
Rule 2: before the first look somebody gives a reason. It holds for `HOLDS`, for this subject and this session.
Rule 3: each opening is in the audit log. The next page, step or search within what is open is no opening.

    own             nothing is asked, nothing recorded
    no permission   403
    no reason yet   the page that asks for one; its form comes back to the same address
    else            recorded, and shown
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.utils.translation import gettext as _

from chatsite.audit import log as audit

PERMISSION = "chat.view_transcript"
HOLDS = 30 * 60
"""Seconds that a reason holds."""
MOST_OPEN = 50
LONGEST_REASON = 500
SESSION = "opened_transcripts"


@dataclass(frozen=True, slots=True)
class Subject:
    """What is opened: whose it is, under which id it stands in the audit log, and as what (`action`)."""

    id: str
    owner_pk: int | None
    action: str = "transcript.opened"

    @property
    def key(self) -> str:
        return f"{self.action} {self.id}"


def may_read(user: Any) -> bool:
    """Whether this user may read others' content at all."""
    return bool(user.is_active and user.has_perm(PERMISSION))


def is_open(request: HttpRequest, subject: Subject) -> bool:
    """Whether its content may stand on a page: it is one's own, or was opened with a reason that still holds."""
    if subject.owner_pk == request.user.pk:
        return True
    return may_read(request.user) and _opened(request, subject) is not None


def opening(
    request: HttpRequest, subject: Subject, page: str, *, further: bool = False
) -> HttpResponse | None:
    """None when the content may be shown; else the answer to give in its place. Raises PermissionDenied.

    `page` says in the log what was looked at. `further`: this is another part of what such a page has shown before.
    """
    if subject.owner_pk == request.user.pk:
        return None
    if not may_read(request.user):
        raise PermissionDenied(_("To read what others wrote you need the permission to read transcripts."))
    if request.method == "POST" and "reason" in request.POST:
        return _reason_given(request, subject)
    opened = _opened(request, subject)
    if opened is None:
        if request.method not in {"GET", "HEAD"}:
            raise PermissionDenied
        return _ask(request, subject)
    if not (further and page in opened["pages"]):
        _record(request, subject, opened, page)
    return None


def _opened(request: HttpRequest, subject: Subject) -> dict[str, Any] | None:
    opened = request.session.get(SESSION, {}).get(subject.key)
    return opened if opened and opened["until"] > time.time() else None


def _record(request: HttpRequest, subject: Subject, opened: dict[str, Any], page: str) -> None:
    audit.record(
        subject.action,
        actor=request.user,
        subject=subject.id,
        reason=opened["reason"],
        door="admin",
        facts={"page": page},
    )
    if page not in opened["pages"]:
        opened["pages"].append(page)
        request.session.modified = True


def _reason_given(request: HttpRequest, subject: Subject) -> HttpResponse:
    reason = " ".join(request.POST["reason"].split())
    if not reason:
        return _ask(request, subject, _("Write in a few words why you need to read this."))
    now = time.time()
    still = {key: each for key, each in request.session.get(SESSION, {}).items() if each["until"] > now}
    newest = dict(list(still.items())[-(MOST_OPEN - 1) :])
    newest[subject.key] = {"reason": reason[:LONGEST_REASON], "until": now + HOLDS, "pages": []}
    request.session[SESSION] = newest
    return HttpResponseRedirect(request.get_full_path())


def _ask(request: HttpRequest, subject: Subject, problem: str = "") -> HttpResponse:
    from django.contrib import admin

    context = {
        **admin.site.each_context(request),
        "title": _("Why do you open this?"),
        "subject": subject,
        "problem": problem,
        "minutes": HOLDS // 60,
        "longest": LONGEST_REASON,
    }
    return TemplateResponse(request, "admin/reason.html", context, status=400 if problem else 200)
