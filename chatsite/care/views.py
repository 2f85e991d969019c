"""A person's own door to everything of theirs (`exporting`)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor

from django.contrib.auth.decorators import login_required
from django.db import connection
from django.http import HttpRequest, HttpResponseBase, StreamingHttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods

from chatsite.care import downloads


@require_http_methods(["GET", "HEAD", "POST"])
@never_cache
@login_required
def my_data(request: HttpRequest) -> HttpResponseBase:
    if request.method != "POST":
        return render(request, "care/my_data.html")
    claimed = downloads.claim(request.user)
    if claimed is None:
        notice = _("An archive is being made already. Try again when it is done.")
        answer = render(request, "care/my_data.html", {"notice": notice}, status=429)
        answer["Retry-After"] = "60"
        return answer
    # Imported here: it is needed rarely, and brings zipfile along.
    from chatsite.care.exporting import export

    return archive(downloads.held(export(request.user, actor=request.user, door="page"), claimed))


def archive(pieces: Iterator[bytes]) -> StreamingHttpResponse:
    response = StreamingHttpResponse(_told(pieces), content_type="application/zip")
    name = f"threadloom-{timezone.now():%Y-%m-%d}.zip"
    response.headers["Content-Disposition"] = f'attachment; filename="{name}"'
    response.headers["X-Content-Type-Options"] = "nosniff"
    return response


async def _told(pieces: Iterator[bytes]) -> AsyncIterator[bytes]:
    """In a thread of its own, with a connection of its own: nobody waits for it but who asked."""
    worker = ThreadPoolExecutor(max_workers=1, thread_name_prefix="export")
    loop = asyncio.get_running_loop()
    try:
        while (piece := await loop.run_in_executor(worker, next, pieces, None)) is not None:
            yield piece
    finally:
        worker.submit(_end, pieces)
        worker.shutdown(wait=False)


def _end(pieces: Iterator[bytes]) -> None:
    pieces.close()  # it is a generator
    connection.close()
