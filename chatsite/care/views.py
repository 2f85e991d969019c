"""A person's own door to everything of theirs (`exporting`)."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from django.contrib.auth.decorators import login_required
from django.db import connection
from django.http import HttpRequest, HttpResponseBase, StreamingHttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods

MOST_AT_ONCE = 4
A_BEGINNING = 60.0
"""Seconds after which a download that never began holds nobody up: its browser was gone before the answer was."""

_at_work: dict[Any, float] = {}
"""Who takes their data out just now, of this process, and when that ends if nothing is read."""
_claiming = threading.Lock()


@require_http_methods(["GET", "HEAD", "POST"])
@never_cache
@login_required
def my_data(request: HttpRequest) -> HttpResponseBase:
    if request.method != "POST":
        return render(request, "care/my_data.html")
    if not _claim(request.user.pk):
        notice = _("An archive is being made already. Try again when it is done.")
        answer = render(request, "care/my_data.html", {"notice": notice}, status=429)
        answer["Retry-After"] = "60"
        return answer
    # Imported here: it is needed rarely, and brings zipfile along.
    from chatsite.care.exporting import export

    return archive(export(request.user, actor=request.user, door="page"), request.user.pk)


def _claim(who: Any) -> bool:
    """Before there is an answer, so that two clicks make one archive. False: theirs is under way, or too many are."""
    now = time.monotonic()
    with _claiming:
        for each in [each for each, until in _at_work.items() if until < now]:
            del _at_work[each]
        if who in _at_work or len(_at_work) >= MOST_AT_ONCE:
            return False
        _at_work[who] = now + A_BEGINNING
    return True


def archive(pieces: Iterator[bytes], who: Any) -> StreamingHttpResponse:
    response = StreamingHttpResponse(_told(pieces, who), content_type="application/zip")
    name = f"threadloom-{timezone.now():%Y-%m-%d}.zip"
    response.headers["Content-Disposition"] = f'attachment; filename="{name}"'
    response.headers["X-Content-Type-Options"] = "nosniff"
    return response


async def _told(pieces: Iterator[bytes], who: Any) -> AsyncIterator[bytes]:
    """In a thread of its own, with a connection of its own: nobody waits for it but who asked."""
    worker = ThreadPoolExecutor(max_workers=1, thread_name_prefix="export")
    loop = asyncio.get_running_loop()
    _at_work[who] = float("inf")
    try:
        while (piece := await loop.run_in_executor(worker, next, pieces, None)) is not None:
            yield piece
    finally:
        _at_work.pop(who, None)
        worker.submit(_end, pieces)
        worker.shutdown(wait=False)


def _end(pieces: Iterator[bytes]) -> None:
    pieces.close()  # type: ignore[attr-defined]  # it is a generator
    connection.close()
