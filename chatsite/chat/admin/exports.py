"""A thread as a file, for whoever may read it: the same that its owner gets.

Several are one archive of such files, each of which the import takes. It is written while it is read, with one thread
in memory at a time.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.db import transaction
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from chatsite.audit import log as audit
from chatsite.care import asking
from chatsite.care.forms import ReasonForm
from chatsite.care.views import archive
from chatsite.chat import store
from chatsite.chat.admin.subjects import subject_of
from chatsite.chat.models import Thread
from chatsite.chat.transfer import attached, markdown, moving

KINDS = {"json": _("As JSON"), "md": _("As Markdown")}
TYPES = {"json": "application/json", "md": "text/markdown"}


def file_of(thread: Thread, kind: str) -> HttpResponse:
    if kind == "json":
        text = attached.with_bytes(moving.file_of(thread), thread).as_json()
    else:
        text = markdown.markdown_of(store.load_state(thread))
    answer = HttpResponse(text, content_type=f"{TYPES[kind]}; charset=utf-8")
    # Its id and not its title, which would be content in the log of whoever is on the way.
    answer["Content-Disposition"] = f'attachment; filename="{moving.file_name(thread.public_id)}.{kind}"'
    return answer


def several(page: Any, request: HttpRequest, threads: QuerySet[Thread]) -> HttpResponseBase:
    """Asks for a reason; each thread of another's is on record with it before the first byte goes out."""
    rows = list(threads.select_related("owner").order_by("pk")[: asking.MOST])
    form = ReasonForm(request.POST if "confirmed" in request.POST else None)
    if not form.is_valid():
        return asking.ask(
            page,
            request,
            form,
            title=gettext("Export threads"),
            explain=gettext(
                "An archive with a JSON file of each, which can be imported; %(most)s at once at most:"
            )
            % {"most": asking.MOST},
            button=gettext("Export them"),
            rows=[thread.public_id for thread in rows],
            hidden=[("action", "export"), *((ACTION_CHECKBOX_NAME, thread.pk) for thread in rows)],
        )
    with transaction.atomic():
        for thread in rows:
            if thread.owner_id != request.user.pk:
                _on_record(thread, request.user, form.cleaned_data["reason"])
    return archive(zipped_files([thread.pk for thread in rows]))


def _on_record(thread: Thread, actor: Any, reason: str) -> None:
    subject = subject_of(thread)
    facts = {"page": "export zip"}
    audit.record(subject.action, actor=actor, subject=subject.id, reason=reason, door="admin", facts=facts)


def zipped_files(pks: list[int]) -> Iterator[bytes]:
    # Imported here: it is needed rarely, and brings zipfile along.
    from chatsite.care.exporting import zipped

    return zipped(_files_of(pks))


def _files_of(pks: list[int]) -> Iterator[tuple[str, list[bytes]]]:
    """Nothing of a thread that went meanwhile."""
    for pk in pks:
        thread = Thread.objects.filter(pk=pk).first()
        if thread is not None:
            file = attached.with_bytes(moving.file_of(thread), thread)
            yield f"{pk:06}-{moving.file_name(thread.public_id)}.json", [file.as_json().encode()]
