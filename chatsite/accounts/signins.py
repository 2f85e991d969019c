"""Where somebody is signed in, and how that ends.

Rule: a session ends by its row being deleted. Open streams look again within 5 seconds and find nobody.
"""

from __future__ import annotations

from typing import Any

from django.contrib.auth import SESSION_KEY
from django.contrib.sessions.models import Session
from django.http import HttpRequest
from django.utils import timezone

from chatsite.accounts import addresses
from chatsite.accounts.models import SignIn

BROWSERS = (("Edg/", "Edge"), ("Firefox/", "Firefox"), ("Chrome/", "Chrome"), ("Safari/", "Safari"))
SYSTEMS = (
    ("Android", "Android"),
    ("iPhone", "iPhone"),
    ("iPad", "iPad"),
    ("Windows", "Windows"),
    ("Mac OS", "macOS"),
    ("CrOS", "ChromeOS"),
    ("Linux", "Linux"),
)


def note(request: HttpRequest, user: Any) -> None:
    """The request's session is now this user's."""
    if not request.session.session_key:
        request.session.create()
    SignIn.objects.update_or_create(
        session_key=request.session.session_key,
        defaults={
            "user": user,
            "address": addresses.of_request(request),
            "browser": browser_of(request.META.get("HTTP_USER_AGENT", "")),
            "at": timezone.now(),
        },
    )


def live_of(user: Any) -> list[SignIn]:
    """Newest first. What has ended is forgotten here."""
    rows = list(SignIn.objects.filter(user=user).order_by("-at"))
    live = set(
        Session.objects.filter(
            session_key__in=[row.session_key for row in rows], expire_date__gt=timezone.now()
        ).values_list("session_key", flat=True)
    )
    SignIn.objects.filter(pk__in=[row.pk for row in rows if row.session_key not in live]).delete()
    return [row for row in rows if row.session_key in live]


def end(row: SignIn) -> None:
    Session.objects.filter(session_key=row.session_key).delete()
    row.delete()


def end_all(user: Any, *, but: str | None = None) -> int:
    """End every session of the user, but for the one of that key; how many there were.

    All sessions are looked through, so that one nobody noted ends too. That is slow where they are many, and rare.
    """
    now = timezone.now()
    theirs = [
        row.session_key
        for row in Session.objects.filter(expire_date__gt=now).iterator(chunk_size=500)
        if row.session_key != but and row.get_decoded().get(SESSION_KEY) == str(user.pk)
    ]
    for begin in range(0, len(theirs), 500):
        Session.objects.filter(session_key__in=theirs[begin : begin + 500]).delete()
    SignIn.objects.filter(user=user).exclude(session_key=but or "").delete()
    return len(theirs)


def browser_of(agent: str) -> str:
    """`Firefox on Linux`: what a person knows it by, and nothing of what else a browser tells."""
    browser = next((name for mark, name in BROWSERS if mark in agent), "")
    system = next((name for mark, name in SYSTEMS if mark in agent), "")
    return " on ".join(filter(None, (browser, system)))
