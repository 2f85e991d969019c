"""The admin with a million messages: what each list, filter, search and page takes at the server.

    python -m bench.admin                       makes the database in a temporary folder (about a minute) and measures
    python -m bench.admin --folder DIRECTORY    keeps it there for the next time

Goal: each page in less than 300 ms. The first time after the start (a cold one) stands beside the median of the others.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from bench.common import machine, number, print_table

GOAL_MS = 300
LISTS = {
    "chat/thread": (
        "", "p=2", "p={last}", "o=8", "o=-8", "o=-9", "o=-10", "o=-11", "o=-12", "o=-13", "o=10", "o=14",
        "min_errors=2", "min_tokens=80000", "min_turns=10&max_turns=12&{day}",
        "state=failed", "state=finished", "stop_reason=length", "owner=user7", "{day}", "tool=tool_3",
        "q=thread-1234", "q=user7", "q=nothing",
    ),
    "chat/run": (
        "", "p={last}", "o=-8", "o=8", "o=-9", "o=9", "o=-10", "o=10", "o=-11", "o=-12", "o=-13", "o=15",
        "min_errors=1", "min_tokens=8000", "min_calls=1&min_turns=5", "max_turns=2&{day}", "min_cost=0.09&o=-13",
        "state=finished", "state=lost", "stop_reason=length", "model=model-3",
        "error_code=provider_error", "error_code=", "tool=tool_3", "owner=user7", "{day}", "state=failed&{day}",
        "q=run-777", "q=thread-1234", "q=user7", "q=nothing",
    ),
    "chat/message": (
        "", "p={last}", "o=6", "role=user", "role=tool", "role=system", "finish_reason=length", "finish_reason=stop",
        "finish_reason=", "{day}", "finish_reason=length&{day}", "q=thread-1234", "q=run-777", "q=nothing",
    ),
    "chat/toolcall": (
        "", "p={last}", "state=failed", "name=tool_3", "error_code=timeout", "error_code=", "{day}",
        "name=tool_3&{day}",
        "q=tool_3", "q=run-777", "q=nothing",
    ),
    "gateway/exchange": (
        "", "p={last}", "status=502", "model=model-3", "user=user7", "{day}", "q=req-777", "q=nothing",
    ),
}  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--messages", type=int, default=1_000_000)
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--quick", action="store_true", help="100,000 messages, one repeat")
    options = parser.parse_args()
    if options.quick:
        options.messages, options.repeats = 100_000, 1
    if options.folder:
        options.folder.mkdir(parents=True, exist_ok=True)
        return run(options.folder, options.messages, options.repeats)
    with tempfile.TemporaryDirectory(prefix="threadloom-bench-admin-") as folder:
        return run(Path(folder), options.messages, options.repeats)


def run(folder: Path, messages: int, repeats: int) -> int:
    os.environ |= {
        "DATA_DIR": str(folder),
        "DATABASE_URL": f"sqlite:///{folder}/admin.sqlite3",
        "DJANGO_SETTINGS_MODULE": "chatsite.settings",
        "DEBUG": "true",  # static files without their manifest
        "LOG_LEVEL": "ERROR",
    }
    prepare(messages)
    client = admin()
    rows = [measured(client, name, address, repeats) for name, address in pages()]
    print(f"{messages:,} messages. {machine()}\n")
    print_table(("page", "first, ms", "median, ms", ""), rows)
    return any(row[-1] for row in rows)


def prepare(messages: int) -> None:
    import django

    django.setup()
    from django.core.management import call_command

    from bench import admin_rows
    from chatsite.chat.models import Message

    call_command("migrate", verbosity=0)
    if Message.objects.exists():
        return
    began = time.monotonic()
    admin_rows.build(messages)
    print(f"made in {time.monotonic() - began:.0f} s", file=sys.stderr, flush=True)


def admin() -> Any:
    """A client that is logged in, and has given its reason for what it will open."""
    from django.contrib.auth import get_user_model
    from django.test import Client

    users = get_user_model().objects
    user = users.filter(username="root").first() or users.create_superuser("root", password=None)
    client = Client(SERVER_NAME="localhost")
    client.force_login(user)
    for _, address in transcripts():
        client.post(address, {"reason": "A measurement."})
    return client


def pages() -> Iterator[tuple[str, str]]:
    from chatsite.chat.models import Thread

    last = min(200, Thread.objects.count() // 50)
    since = datetime.now(UTC).date() - timedelta(days=100)
    day = f"since={since}&until={since + timedelta(days=2)}"
    for name, queries in LISTS.items():
        for query in queries:
            query = query.format(day=day, last=last)
            yield f"{name}?{query}", f"/admin/{name}/?{query}"
    for query in ("days=30", "days=365", "days=365&source=chat", "days=365&csv=users"):
        yield f"usage?{query}", f"/admin/usage/day/?{query}"
    yield from transcripts()


def transcripts() -> Iterator[tuple[str, str]]:
    from chatsite.chat.models import Run, Thread

    thread = Thread.objects.get(public_id="thread-1234").pk
    long = Thread.objects.get(public_id="long").pk
    run = Run.objects.filter(thread=long).order_by("-pk").values_list("pk", flat=True).first()
    yield "a transcript (50 messages)", f"/admin/chat/thread/{thread}/transcript/"
    yield "... of 1,000 messages", f"/admin/chat/thread/{long}/transcript/"
    yield "... its last page", f"/admin/chat/thread/{long}/transcript/?page=4"
    yield "... searched", f"/admin/chat/thread/{long}/transcript/?q=umbrella"
    yield "... replay of its last run", f"/admin/chat/run/{run}/replay/"
    yield "... its requests", f"/admin/chat/run/{run}/requests/"


def measured(client: Any, name: str, address: str, repeats: int) -> tuple[str, ...]:
    took = []
    for _ in range(repeats + 1):
        began = time.perf_counter()
        answer = client.get(address)
        took.append((time.perf_counter() - began) * 1000)
        assert answer.status_code == 200, (address, answer.status_code, answer.headers.get("location"))
    median = statistics.median(took[1:])
    return name, number(took[0]), number(median), "over the goal" if median > GOAL_MS else ""


if __name__ == "__main__":
    sys.exit(main())
