"""A thread as a file, for whoever may read it: the same that its owner gets."""

from __future__ import annotations

from django.http import HttpResponse
from django.utils.translation import gettext_lazy as _

from chatsite.chat import store, transfer, transfer_files, transfer_markdown
from chatsite.chat.models import Thread

KINDS = {"json": _("As JSON"), "md": _("As Markdown")}
TYPES = {"json": "application/json", "md": "text/markdown"}


def file_of(thread: Thread, kind: str) -> HttpResponse:
    if kind == "json":
        text = transfer_files.with_bytes(transfer.file_of(thread), thread).as_json()
    else:
        text = transfer_markdown.markdown_of(store.load_state(thread))
    answer = HttpResponse(text, content_type=f"{TYPES[kind]}; charset=utf-8")
    # Its id and not its title, which would be content in the log of whoever is on the way.
    answer["Content-Disposition"] = f'attachment; filename="{transfer.file_name(thread.public_id)}.{kind}"'
    return answer
