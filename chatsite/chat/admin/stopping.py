"""Stop another's run, as its owner would: by the same command, in whichever process it is."""

from __future__ import annotations

from typing import Any

from asgiref.sync import async_to_sync
from django.utils.translation import gettext as _

from chatsite.audit import log as audit
from chatsite.care.holds import Refused
from chatsite.chat import commands
from chatsite.chat.models import Run


def stop(run: Run, *, reason: str, actor: Any) -> None:
    """Raises Refused when it is over already."""
    if async_to_sync(commands.stop)(run.thread, run.public_id) is None:
        raise Refused(_("It is over already."))
    audit.record(
        "run.stopped",
        actor=actor,
        subject=f"run {run.public_id}",
        reason=reason,
        door="admin",
        facts={"thread": run.thread.public_id},
    )
