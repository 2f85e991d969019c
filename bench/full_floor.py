"""The same work as Django's users would write it down: `python -m bench.full_floor --port N --model URL`.

`floor.py` in an asynchronous view, without middleware, on uvicorn, with each message as a row of SQLite (WAL, no wait
for the disk). It has no ledger, no log, no key, nothing that goes on after a crash. What a durable server may cost is
measured against this one in the same run: a figure in milliseconds says as much about the machine.
"""

from __future__ import annotations

import asyncio
import json
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import django
from django.conf import settings

from bench.floor import Floor
from bench.serving import arguments, serve, session


def configure(folder: str) -> None:
    settings.configure(
        ALLOWED_HOSTS=["*"],
        SECRET_KEY="of the bench alone",
        ROOT_URLCONF=__name__,
        USE_TZ=True,
        DATABASES={
            "default": {
                "ENGINE": "django.db.backends.sqlite3",
                "NAME": Path(folder) / "db.sqlite3",
                "OPTIONS": {
                    "transaction_mode": "IMMEDIATE",
                    "timeout": 20,
                    "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL;",
                },
            }
        },
    )
    django.setup()


def application(model_url: str) -> Any:
    """The view with its rows. Django's models can only be made once it is configured."""
    from django.core.asgi import get_asgi_application
    from django.db import connection, models, transaction
    from django.http import HttpRequest, StreamingHttpResponse
    from django.urls import path

    class Run(models.Model):  # noqa: DJ008 - nobody looks at it
        public_id = models.CharField(max_length=64, unique=True)
        thread_id = models.CharField(max_length=64, db_index=True)
        state = models.CharField(max_length=16, default="running")
        created_at = models.DateTimeField(auto_now_add=True)

        class Meta:
            app_label = "bench"

    class Message(models.Model):  # noqa: DJ008 - likewise
        run_id = models.CharField(max_length=64, db_index=True)
        data = models.JSONField()
        created_at = models.DateTimeField(auto_now_add=True)

        class Meta:
            app_label = "bench"

    @transaction.atomic
    def begin(asked: Any) -> None:
        Run.objects.create(public_id=asked["runId"], thread_id=asked["threadId"])
        for message in asked["messages"]:
            Message.objects.create(run_id=asked["runId"], data=message)

    class FullFloor(Floor):
        async def said(self, run_id: str, message: Any) -> None:
            await Message.objects.acreate(run_id=run_id, data=message)

        async def kept(self, asked: Any) -> AsyncIterator[bytes]:
            if self.session is None:
                self.session = session()
            await asyncio.to_thread(begin, asked)
            async for piece in self.run(asked):
                if b'"RUN_FINISHED"' in piece:  # the end is told when it is kept
                    await Run.objects.filter(public_id=asked["runId"]).aupdate(state="finished")
                yield piece

    floor = FullFloor(model_url)

    async def chat(request: HttpRequest) -> StreamingHttpResponse:
        return StreamingHttpResponse(floor.kept(json.loads(request.body)), content_type="text/event-stream")

    with connection.schema_editor() as editor:
        editor.create_model(Run)
        editor.create_model(Message)
    globals()["urlpatterns"] = [path("api/chat", chat)]
    return get_asgi_application()


def main() -> None:
    port, model = arguments("The same work in a Django view that keeps rows.", "model")
    with tempfile.TemporaryDirectory(prefix="threadloom-bench-") as folder:
        configure(folder)
        serve(application(model), port)


if __name__ == "__main__":
    main()
