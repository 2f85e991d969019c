"""Who asks in the matrix, by which credential, of what; and the least client that can ask.

    nobody     nobody we know
    owner      whose things they are
    other      another person
    staff      of the staff, without any permission
    admin      a superuser
    gone       deactivated; asks for things of their own
    narrow     the owner, by a key for the other doors

Each by cookie, by `Authorization: Bearer` and by `x-api-key`, but for nobody (without any) and narrow (by key).
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode, urlsplit

from django.apps import apps
from django.conf import settings
from django.contrib.auth.models import Group, User
from django.test import Client
from django.utils import timezone

from chatsite.accounts import keys
from chatsite.accounts.models import CHAT, GATEWAY, ApiKey, SignIn
from chatsite.audit import log
from chatsite.care.lines import staying
from chatsite.care.models import Erasure, Hold
from chatsite.catalog.models import Endpoint, Model
from chatsite.chat.files import attachments, disk
from chatsite.chat.models import Message, Preset, Run, Share, Thread
from chatsite.policies.models import GroupPolicy, Used
from tests.care import drawers

PASSWORD = "a long enough secret"
CSRF = "c" * 32
HOST = "localhost"
WAYS = ("cookie", "bearer", "x-api-key")


@dataclass(frozen=True)
class Caller:
    who: str
    way: str = ""
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)

    def __str__(self) -> str:
        return f"{self.who} by {self.way}" if self.way else self.who


@dataclass
class World:
    """What there is to ask for. `ids` has what stands in paths, of the owner and of who is gone."""

    callers: list[Caller]
    ids: dict[str, dict[str, str]]

    def of(self, who: str) -> dict[str, str]:
        return self.ids["gone" if who == "gone" else "owner"]


def made() -> World:
    people = {name: User.objects.create_user(name, password=PASSWORD) for name in ("owner", "other", "gone")}
    people["staff"] = User.objects.create_user("staff", password=PASSWORD, is_staff=True)
    people["admin"] = User.objects.create_superuser("admin", password=PASSWORD)
    ids = {name: things_of(people[name]) for name in ("owner", "gone")}
    callers = [Caller("nobody"), *(caller for who, user in people.items() for caller in _ways_of(who, user))]
    # Whoever may do something does it last.
    callers.sort(key=lambda caller: caller.who == "owner")
    callers += [
        Caller("narrow", f"{way} of {scope}", _by_key(way, key))
        for scope in (CHAT, GATEWAY)
        for key in [keys.new_api_key(people["owner"], scopes=[scope])]
        for way in WAYS[1:]
    ]
    User.objects.filter(username="gone").update(is_active=False)
    return World(callers, ids)


def _ways_of(who: str, user: User) -> Iterator[Caller]:
    yield Caller(who, "cookie", {"cookie": f"{settings.SESSION_COOKIE_NAME}={_session_of(user)}"})
    key = keys.new_api_key(user)
    for way in WAYS[1:]:
        yield Caller(who, way, _by_key(way, key))


def _by_key(way: str, key: str) -> dict[str, str]:
    return {"authorization": f"Bearer {key}"} if way == "bearer" else {"x-api-key": key}


def _session_of(user: User) -> str:
    client = Client()
    client.force_login(user, backend=settings.AUTHENTICATION_BACKENDS[0])
    return client.cookies[settings.SESSION_COOKIE_NAME].value


def things_of(user: User) -> dict[str, str]:
    thread = Thread.objects.create(owner=user, title="Mine")
    run = Run.objects.create(
        thread=thread, public_id="r1", state="finished", stop_reason="stop", model="demo"
    )
    asked = _said(thread, run, None, "user", "Hello")
    thread.head = _said(thread, run, asked, "assistant", "Hi.")
    thread.save()
    draft = disk.draft_of(f"of {user}".encode(), "note.txt")
    file = attachments.keep(user, draft)
    disk.in_place(draft)
    file.threads.add(thread)
    keys.new_api_key(user, label="to be revoked")
    share = Share.objects.create(thread=thread, created_by=user)
    thrown = Thread.objects.create(owner=user, title="Thrown away", deleted_at=timezone.now())
    return {
        "thread_id": thread.public_id,
        "thread_pk": str(thread.pk),
        "key_pk": str(ApiKey.objects.filter(user=user, label="to be revoked").last().pk),
        "sign_in": str(SignIn.objects.create(user=user, session_key=f"{thread.pk:040}").pk),
        "thrown_away": thrown.public_id,
        "id": file.public_id,
        "token": share.token,
        "message": asked.public_id,
        "answer": thread.head.public_id,
    }


def _said(thread: Thread, run: Run, parent: Message | None, role: str, text: str) -> Message:
    return Message.objects.create(
        thread=thread,
        run=run,
        parent=parent,
        role=role,
        public_id=f"{role}-{thread.pk}",
        parts=[{"type": "text", "text": text}],
        text=text,
        finish_reason="stop" if role == "assistant" else None,
    )


def fill_tables() -> None:
    """A row of the owner's in every table that the admin shows, and what they are made of newest."""
    owner = User.objects.get(username="owner")
    drawers.fill(
        owner, {line.model for line in staying()} | {"auth.User_groups", "auth.User_user_permissions"}
    )
    Hold.objects.create(user=owner, reason="a reason")
    Erasure.objects.create(user_id="0", user_name="somebody")
    log.record("test.done")
    Preset.objects.create(name="for everybody")
    Used.objects.create(subject=f"user:{owner.pk}", span="day", since="2026-11-30")
    Endpoint.objects.create(name="here", base_url="http://127.0.0.1:9/v1")
    Model.objects.create(name="small")
    GroupPolicy.objects.create(group=Group.objects.create(name="team"))
    things_of(owner)


def newest_of(app_label: str, model_name: str) -> Any:
    """The key of a row of that table; 1 where there is none."""
    row = apps.get_model(app_label, model_name)._default_manager.order_by("-pk").first()
    return 1 if row is None else row.pk


# -- asking --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Answered:
    status: int
    headers: Mapping[str, str]

    @property
    def came_to(self) -> str:
        """`in` when the caller was let in, whatever the door thinks of what they ask; else how they were kept out."""
        where = urlsplit(self.headers.get("location", "")).path
        if self.status in {301, 302, 303} and where.startswith(("/accounts/login", "/admin/login")):
            return "login"
        if self.status == 302 and where.startswith("/accounts/reauthenticate"):
            return "again"
        return str(self.status) if self.status in {401, 403, 404, 405} or self.status >= 500 else "in"


async def ask(
    app: Any,
    caller: Caller,
    method: str,
    path: str,
    *,
    form: Mapping[str, str] | None = None,
    value: Any = None,
    csrf: bool = True,
) -> Answered:
    """The head of the answer. Whatever streams behind it is left, as by a client that goes."""
    headers = {"host": HOST, **caller.headers}
    body = b""
    if value is not None:
        body, headers["content-type"] = json.dumps(value).encode(), "application/json"
    elif method == "POST":
        body, headers["content-type"] = urlencode(form or {}).encode(), "application/x-www-form-urlencoded"
    headers["content-length"] = str(len(body))
    if csrf and method == "POST":
        # Whoever means it gets themselves a token; here is asked what it is worth.
        cookies = "; ".join(filter(None, (headers.get("cookie"), f"csrftoken={CSRF}")))
        headers |= {"cookie": cookies, "x-csrftoken": CSRF, "origin": f"http://{HOST}"}
    address, _, query = path.partition("?")
    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": address,
        "raw_path": address.encode(),
        "query_string": query.encode(),
        "root_path": "",
        "headers": [(name.encode(), text.encode()) for name, text in headers.items()],
        "client": ("127.0.0.1", 50000),
        "server": (HOST, 80),
    }
    return await _head_of(app, scope, body)


async def _head_of(app: Any, scope: dict[str, Any], body: bytes) -> Answered:
    left, told, over = asyncio.Event(), asyncio.get_running_loop().create_future(), asyncio.Event()
    waiting = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive() -> dict[str, Any]:
        if waiting:
            return waiting.pop()
        await left.wait()
        return {"type": "http.disconnect"}

    async def send(message: dict[str, Any]) -> None:
        if message["type"] == "http.response.start" and not told.done():
            named = {
                name.decode("latin-1").lower(): value.decode("latin-1") for name, value in message["headers"]
            }
            told.set_result(Answered(message["status"], named))
        elif not message.get("more_body", False):
            over.set()

    work = asyncio.ensure_future(app(scope, receive, send))
    await asyncio.wait({work, told}, return_when=asyncio.FIRST_COMPLETED)
    if not told.done():
        await work  # it raised, or said nothing
        raise AssertionError(f"no answer: {scope['method']} {scope['path']}")
    if not told.result().headers.get("content-type", "").startswith("text/event-stream"):
        await asyncio.wait({work})
    left.set()
    await work
    return told.result()
