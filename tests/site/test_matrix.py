"""Who may what, at every door: each route, each path of the gateway and each command of a socket, by each caller.

A route or command without a line here fails. A line says what kind of door it is; the kind says what becomes of each
caller. `in`: the caller was let in, whatever the door thinks of what they ask.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, get_args

import pytest
from django.apps import apps
from django.contrib.auth.models import User
from django.urls import URLResolver, get_resolver, reverse

from chatsite import asgi
from chatsite.accounts import doors
from chatsite.chat import db, runner
from chatsite.chat.commands import values
from chatsite.chat.process import rounds
from chatsite.gateway import auth
from chatsite.gateway.recorder import recorder
from tests.communicators import WebsocketCommunicator
from tests.site import callers
from tests.site.callers import Caller, World, ask

Kind = Callable[[Caller], str]


# -- kinds of doors: what becomes of a caller ----------------------------------------------------------------


def public(caller: Caller) -> str:
    return "in"


def person(caller: Caller) -> str:
    """A page of whoever is logged in. Keys open no page."""
    return "in" if caller.way == "cookie" and caller.who != "gone" else "login"


def mine(caller: Caller) -> str:
    """A page of the owner's thread: for everybody else it is not there, administrators too."""
    if person(caller) == "login":
        return "login"
    return "in" if caller.who == "owner" else "404"


def stream(caller: Caller) -> str:
    """The owner's, by page or program."""
    if caller.who == "narrow":
        return _by_scope(caller)
    if caller.who in {"nobody", "gone"}:
        return "login"
    return "in" if caller.who == "owner" else "404"


def program(caller: Caller) -> str:
    """A door for programs, of whoever is known."""
    if caller.who == "narrow":
        return _by_scope(caller)
    return "401" if caller.who in {"nobody", "gone"} else "in"


def program_mine(caller: Caller) -> str:
    known = program(caller)
    return "404" if known == "in" and caller.who in {"other", "staff", "admin"} else known


def _by_scope(caller: Caller) -> str:
    return "in" if caller.way.endswith("of chat") else "403"


def admin(caller: Caller) -> str:
    """Django admin: not for who is not of the staff, and no permission comes with that alone."""
    if caller.way != "cookie" or caller.who in {"owner", "other", "gone"}:
        return "login"
    return "403" if caller.who == "staff" else "in"


def staff(caller: Caller) -> str:
    """What all of the staff may see."""
    return "in" if caller.way == "cookie" and caller.who in {"staff", "admin"} else "login"


def never(caller: Caller) -> str:
    """What the admin has for no one, administrators too."""
    return "login" if staff(caller) == "login" else "403"


def unknown(caller: Caller) -> str:
    """Of something that is not there; who may not look learns that first."""
    return "404" if admin(caller) == "in" else admin(caller)


def apps_of(caller: Caller) -> str:
    """The index of an app: for those of the staff who may see anything in it."""
    return "404" if caller.who == "staff" and caller.way == "cookie" else admin(caller)


def signs_in(caller: Caller) -> str:
    """Leads to where all sign in; who is signed in goes on to the admin, or reads that it is not for them."""
    if staff(caller) == "in":
        return "in"
    return "403" if person(caller) == "in" else "login"


def signs_out(caller: Caller) -> str:
    return "login"


def signs_out_of_admin(caller: Caller) -> str:
    return "login" if staff(caller) == "in" else "in"


def shared(caller: Caller) -> str:
    """Anybody's who has the link, while who shared it has an account. Who is gone asks for a link of their own."""
    return "404" if caller.who == "gone" else "in"


def not_set_up(caller: Caller) -> str:
    """There is no identity provider here."""
    return "404"


def again(caller: Caller) -> str:
    """For whoever has just shown once more who they are."""
    return "again" if person(caller) == "in" else "login"


def of_a_factor(caller: Caller) -> str:
    """A page about a second factor, which nobody here has."""
    return "404" if person(caller) == "in" else "login"


def in_the_middle(caller: Caller) -> str:
    """A step of signing in: who is signed in is sent on, who has not begun begins."""
    return "in" if person(caller) == "in" else "login"


def not_there(caller: Caller) -> str:
    return "404" if staff(caller) == "in" else "login"


def token(caller: Caller) -> str:
    """Opened by a secret that none of them has."""
    return "404"


def gateway(caller: Caller) -> str:
    if caller.way in {"", "cookie"} or caller.who == "gone":
        return "401"
    if caller.who == "narrow":
        return "403" if caller.way.endswith("of chat") else "in"
    return "in"


# -- the lines -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Line:
    kind: Kind
    method: str = "GET"
    query: str = ""
    form: dict[str, str] | None = None
    value: Any = None
    ids: dict[str, str] | None = None
    """What else than its name says stands in the path."""
    never: tuple[str, ...] = ()
    """Of a line with a `*`: which of these pages are for no one."""

    def kind_of(self, name: str) -> Kind:
        return never if name.rpartition("_")[2] in self.never else self.kind


READ_ONLY = [Line(admin, never=("add", "delete"))]


def post(kind: Kind, **form: str) -> Line:
    return Line(kind, "POST", form=form)


ROUTES: dict[str, list[Line]] = {
    "chat:home": [Line(person)],
    "chat:create": [post(person)],
    "chat:thread": [Line(mine)],
    "chat:send": [post(mine)],
    "chat:stop": [post(mine)],
    "chat:retry": [post(mine, model="no such model")],
    "chat:continue": [post(mine)],
    "chat:answer": [post(mine)],
    "chat:forget": [post(mine, tool="send_email")],
    "chat:events": [Line(stream), Line(stream, query="?wait=0"), Line(stream, query="?format=html")],
    "chat:branch": [post(mine, message="{answer}")],
    "chat:fork": [post(mine, message="{message}")],
    "chat:remove": [post(mine, message="{answer}")],
    "chat:take_back": [post(mine, message="{answer}")],
    "chat:organize": [post(mine, title="Mine")],
    "chat:share": [Line(mine), post(mine)],
    "chat:export_json": [Line(mine)],
    "chat:export_markdown": [Line(mine)],
    "chat:settings": [Line(mine), post(mine)],
    "chat:attachment": [Line(stream)],
    "chat:tour": [post(person)],
    "chat:presets": [Line(person), post(person)],
    "chat:import": [post(person)],
    "chat:search": [Line(person, query="?q=hello")],
    "chat:archive": [Line(person)],
    "chat:shared": [Line(shared)],
    "chat:shared_attachment": [Line(token)],  # no message that the link shows refers to it
    "chat:upload": [post(program)],
    "chat:manifest": [Line(public)],
    "chat:api": [
        Line(program_mine, query="?threadId={thread_id}"),
        Line(program, "POST", value={"threadId": "T1"}),
        Line(program_mine, query="?runId=r1&threadId={thread_id}"),
    ],
    "chat:restore": [Line(mine, "POST", ids={"thread_id": "thrown_away"})],
    "my_data": [Line(person), post(person)],
    "setup": [Line(token)],
    "set_language": [post(public)],
    "healthz": [Line(public)],
    "readyz": [Line(public)],
    "metrics": [Line(token)],
    "admin_login": [Line(signs_in)],
    "login": [Line(public)],
    "account_inactive": [Line(public)],
    "account_signup": [Line(public)],
    "account_email_verification_sent": [Line(public)],
    "account_confirm_email": [Line(public)],
    "account_reset_password": [Line(public)],
    "account_reset_password_done": [Line(public)],
    "account_reset_password_from_key": [Line(public)],
    "account_reset_password_from_key_done": [Line(public)],
    "account_end_session": [Line(mine, "POST", ids={"pk": "sign_in"})],
    "account": [Line(person)],
    "account_profile": [post(person)],
    "account_make_key": [post(again)],
    "account_revoke_key": [Line(mine, "POST", ids={"pk": "key_pk"})],
    "invitation": [Line(token)],
    "oidc_login": [Line(not_set_up, "POST")],
    "oidc_callback": [Line(not_set_up)],
    "oidc_connect": [post(again)],
    "oidc_disconnect": [post(again)],
    "mfa_index": [Line(person)],
    "mfa_list_webauthn": [Line(person)],
    "mfa_authenticate": [Line(in_the_middle)],
    "mfa_due": [Line(in_the_middle)],
    "mfa_login_webauthn": [Line(in_the_middle)],
    "mfa_reauthenticate": [Line(again)],
    "mfa_reauthenticate_webauthn": [Line(again)],
    "mfa_activate_totp": [Line(again)],
    "mfa_deactivate_totp": [Line(of_a_factor)],
    "mfa_view_recovery_codes": [Line(of_a_factor)],
    "mfa_generate_recovery_codes": [Line(again)],
    "mfa_add_webauthn": [Line(again)],
    "mfa_remove_webauthn": [Line(again)],
    "mfa_edit_webauthn": [Line(again)],
    "schema": [Line(public)],
    "account_reauthenticate": [Line(person)],
    "account_email": [Line(person)],
    "account_change_password": [Line(person)],
    "account_set_password": [Line(person)],
    "admin:index": [Line(staff)],
    "admin:app_list": [Line(apps_of)],
    "admin:jsi18n": [Line(staff)],
    "admin:autocomplete": [Line(never)],  # no list of the admin completes anything
    "admin_password": [Line(person)],
    "admin:password_change_done": [Line(staff)],
    "admin:view_on_site": [Line(not_there)],
    "admin:to the change page": [Line(staff)],
    "admin:anything else": [Line(not_there)],
    "admin:auth_user_password_change": [Line(admin)],
    "admin:auth_group_*": [Line(admin)],
    "admin:auth_user_*": [Line(admin, never=("delete",))],
    "admin:audit_entry_*": READ_ONLY,
    "admin:account_emailaddress_*": [Line(admin)],
    "admin:care_hold_*": [Line(admin, never=("delete",))],
    "admin:care_erasure_*": [Line(admin, never=("delete",))],
    "admin:accounts_apikey_*": [Line(admin, never=("delete",))],
    "admin:policies_grouppolicy_*": [Line(admin)],
    "admin:policies_userpolicy_*": [Line(admin)],
    "admin:policies_used_*": READ_ONLY,
    "admin:chat_thread_*": READ_ONLY,
    "admin:chat_thread_transcript": [Line(admin)],
    "admin:chat_thread_attachment": [Line(admin)],
    "admin:chat_thread_export": [Line(admin)],
    "admin:chat_run_*": READ_ONLY,
    "admin:chat_run_events": [Line(admin)],
    "admin:chat_run_replay": [Line(admin)],
    "admin:chat_run_requests": [Line(admin)],
    "admin:chat_run_request": [Line(admin)],
    "admin:chat_message_*": READ_ONLY,
    "admin:chat_toolcall_*": READ_ONLY,
    "admin:chat_interrupt_*": READ_ONLY,
    "admin:chat_approvalrule_*": READ_ONLY,
    "admin:chat_preset_*": [Line(admin)],
    "admin:gateway_exchange_*": READ_ONLY,
    "admin:gateway_exchange_kept": [Line(unknown)],
    "admin:gateway_round_kept": [Line(unknown)],
    "admin:gateway_exchangecall_*": READ_ONLY,
    "admin:gateway_loadedhook_changelist": [Line(admin)],
    "admin:gateway_loadedhook_add": [Line(never)],
    **{f"admin:gateway_loadedhook_{page}": [Line(not_there)] for page in ("change", "delete", "history")},
    "admin:operator_toolserver_changelist": [Line(admin)],
    "admin:operator_toolserver_add": [Line(never)],
    **{f"admin:operator_toolserver_{page}": [Line(not_there)] for page in ("change", "delete", "history")},
    "admin:accounts_invitation_*": [Line(admin, never=("delete",))],
    "admin:catalog_endpoint_*": [Line(admin)],
    "admin:catalog_endpoint_try": [Line(unknown, "POST")],
    "admin:catalog_model_*": [Line(admin)],
    "admin:usage_day_*": READ_ONLY,
    **{f"admin:usage_day_{page}": [Line(not_there)] for page in ("change", "delete", "history")},
    # Last: these end the sessions of who asks.
    "account_end_sessions": [post(person)],
    "admin:logout": [post(signs_out_of_admin)],
    "logout": [post(signs_out)],
}
SAME = {
    "account_login": "login",
    "account_logout": "logout",
    "admin:login": "admin_login",
    "admin:password_change": "admin_password",
}
"""Other names of the same path."""
GENERATED = ("changelist", "add", "history", "delete", "change")
"""What Django makes for each model of its admin: one line with a `*` stands for these, and for nothing else."""

COMMANDS: dict[str, dict[str, Any]] = {
    "send": {"text": ""},
    "stop": {},
    "retry": {"model": "no such model"},
    "edit": {"messageId": "{message}", "text": ""},
    "branch": {"messageId": "{answer}"},
    "remove": {"messageId": "{answer}"},
    "restore": {"messageId": "{answer}"},
    "fork": {"messageId": "{message}"},
    "continue": {},
    "answer": {"answers": [{"interruptId": "no such", "status": "denied"}]},
    "forget": {"tool": "send_email"},
    "organize": {},
    "configure": {},
}

GATEWAY: dict[str, list[Line]] = {
    "/v1/chat/completions": [Line(gateway, "POST", value={"model": "demo", "messages": []})],
    "/v1/messages": [Line(gateway, "POST", value={"model": "demo", "messages": []})],
    "/v1/messages/count_tokens": [Line(gateway, "POST", value={"model": "demo", "messages": []})],
    "/v1/models": [Line(gateway)],
    "/v1/models/demo": [Line(gateway)],
    "/v1/health": [Line(public)],
}


TAKE_KEYS = (stream, program, program_mine, gateway)
"""Kinds of doors that open to keys. At the others a key is nothing; the quick matrix asks that for one key alone."""
QUICK_PAGES = ("changelist", "change")
quick_and_wide = pytest.mark.parametrize(
    "wide", [pytest.param(False, id="quick"), pytest.param(True, id="wide", marks=pytest.mark.slow)]
)


def who_asks(world: World, kind: Kind, wide: bool) -> list[Caller]:
    if wide or kind in TAKE_KEYS:
        return world.callers
    return [each for each in world.callers if each.way in {"", "cookie"} or str(each) == "owner by bearer"]


# -- what there is -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Route:
    name: str
    kwargs: frozenset[str]
    pattern: str


UNNAMED = {"<path:object_id>/": "admin:to the change page", "(?P<url>.*)$": "admin:anything else"}


def routes() -> list[Route]:
    return list(_routes(get_resolver(), "", "", frozenset()))


def _routes(resolver: URLResolver, names: str, before: str, kwargs: frozenset[str]) -> Iterator[Route]:
    for each in resolver.url_patterns:
        own = kwargs | set(each.pattern.regex.groupindex) | set(each.pattern.converters)
        if isinstance(each, URLResolver):
            space = f"{names}{each.namespace}:" if each.namespace else names
            yield from _routes(each, space, before + str(each.pattern), own)
        else:
            pattern = str(each.pattern)
            name = f"{names}{each.name}" if each.name else UNNAMED.get(pattern, before + pattern)
            yield Route(SAME.get(name, name), frozenset(own), before + pattern)


def lines_of(name: str) -> list[Line]:
    if name in ROUTES:
        return ROUTES[name]
    model, _, what = name.rpartition("_")
    return ROUTES.get(f"{model}_*", []) if what in GENERATED else []


def test_each_route_and_each_path_of_the_gateway_and_each_command_has_a_line():
    names = {route.name for route in routes()}
    assert [name for name in sorted(names) if not lines_of(name)] == [], "say in ROUTES who may"
    stale = [
        line for line in ROUTES if not any(line in (name, f"{name.rpartition('_')[0]}_*") for name in names)
    ]
    assert stale == [], "these are not there any more"
    assert {*asgi.gateway._doors, "/v1/models/demo"} == set(GATEWAY)
    types = {get_args(each.model_fields["type"].annotation)[0] for each in get_args(values.Command)}
    assert types == set(COMMANDS)


# -- the matrix ----------------------------------------------------------------------------------------------


@pytest.fixture
def world(transactional_db: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    monkeypatch.setattr(rounds, "FIRST_BEAT_AFTER", 3600.0)
    monkeypatch.setattr(doors, "DOORS", {name: doors.Door(doors.Limit(10**6, 60)) for name in doors.DOORS})
    yield callers.made()
    assert recorder.flush(30)
    auth.close_connections()
    db.close_connections()


@pytest.fixture(autouse=True)
async def _nothing_goes_on() -> Any:
    yield
    for work in runner.running_here():
        work.abort.abort("the test is over")
    await asyncio.gather(*(work.task for work in runner.running_here() if work.task), return_exceptions=True)


def path_of(route: Route, line: Line, ids: dict[str, str]) -> str:
    """The route's path with the things of whoever asks, or whom they ask of."""
    known = ids | {
        "app_label": "chat",
        "number": "1",
        "piece": "request",
        "uidb36": "1",
        "key": "a-b",
        "url": "nothing",
    }
    known |= {"content_type_id": "1", "object_id": "1", "pk": "1"}
    if route.name == "admin:to the change page":
        return f"/{route.pattern.replace('<path:object_id>', '1')}"
    if route.name == route.pattern:
        return f"/{route.pattern}"
    if route.name == "admin:anything else":
        return "/admin/nothing"
    if route.name in {"setup", "metrics"}:
        known["token"] = "no-such-token"
    if route.name.startswith("admin:") and "_" in route.name:
        app, model = route.name.removeprefix("admin:").split("_")[:2]
        if model in MODELS.get(app, ()):
            known |= {
                "object_id": str(callers.newest_of(app, model)),
                "id": str(callers.newest_of(app, model)),
            }
            known["pk"] = known["object_id"]
    if route.name.startswith("admin:chat_thread_"):
        known |= {"pk": ids["thread_pk"], "id": ids["id"], "kind": "json"}
    known |= {name: ids[of] for name, of in (line.ids or {}).items()}
    return reverse(route.name, kwargs={name: known[name] for name in route.kwargs})


MODELS = {
    app.label: {model._meta.model_name for model in app.get_models() if model._meta.managed}
    for app in apps.get_app_configs()
}


def filled(value: Any, ids: dict[str, str]) -> Any:
    if isinstance(value, dict):
        return {name: filled(each, ids) for name, each in value.items()}
    if isinstance(value, list):
        return [filled(each, ids) for each in value]
    return value.format_map(ids) if isinstance(value, str) and value.startswith(("{", "?")) else value


async def wrong_of(
    world: World, route: Route, line: Line, app: Any = asgi.application, *, wide: bool = True
) -> list[str]:
    wrong = []
    for caller in who_asks(world, line.kind, wide):
        ids = world.of(caller.who)
        path = await db.read(path_of, route, line, ids) + filled(line.query, ids)
        answer = await ask(
            app, caller, line.method, path, form=filled(line.form, ids), value=filled(line.value, ids)
        )
        due = line.kind_of(route.name)(caller)
        if answer.came_to != due:
            wrong.append(f"{caller}: {line.method} {path} came to {answer.came_to}, not to {due}")
    return wrong


def is_generated(name: str) -> bool:
    return name not in ROUTES


@quick_and_wide
async def test_every_route_lets_in_whom_it_should_and_nobody_else(world, wide):
    order = {name: place for place, name in enumerate(ROUTES)}
    named = sorted(
        (each for each in routes() if not is_generated(each.name)), key=lambda each: order[each.name]
    )
    wrong = [
        line
        for route in named
        for each in ROUTES[route.name]
        for line in await wrong_of(world, route, each, wide=wide)
    ]
    assert not wrong, "\n".join(wrong)


@quick_and_wide
async def test_every_generated_page_of_the_admin_is_for_who_may(world, wide):
    await db.write(callers.fill_tables)
    found = [each for each in routes() if is_generated(each.name)]
    if not wide:
        found = [each for each in found if each.name.rpartition("_")[2] in QUICK_PAGES]
    wrong = [
        line
        for route in found
        for each in lines_of(route.name)
        for line in await wrong_of(world, route, each, wide=wide)
    ]
    assert not wrong, "\n".join(wrong)


async def test_every_path_of_the_gateway_asks_for_a_key_with_its_scope(world):
    wrong = []
    for path, lines in GATEWAY.items():
        for line in lines:
            for caller in world.callers:
                answer = await ask(asgi.application, caller, line.method, path, value=line.value)
                if answer.came_to != line.kind(caller):
                    wrong.append(f"{caller}: {path} came to {answer.came_to}, not to {line.kind(caller)}")
    assert not wrong, "\n".join(wrong)


BEHIND_DJANGO = {
    "chat:events": [Line(mine, query="?wait=0")],
    "chat:attachment": [Line(mine)],
    "chat:upload": ROUTES["chat:upload"],
    "chat:api": ROUTES["chat:api"],
}
"""What is answered before Django, as it is for projects that mount only the urls: a thread's streams are pages then."""


async def test_what_is_answered_before_django_is_no_side_door_behind_it(world):
    wrong = [
        line
        for route in routes()
        for each in BEHIND_DJANGO.get(route.name, ())
        for line in await wrong_of(world, route, each, asgi.django_app)
    ]
    assert not wrong, "\n".join(wrong)


async def test_no_form_is_taken_without_its_token(world):
    owner = next(each for each in world.callers if str(each) == "owner by cookie")
    wrong = []
    for route in (each for each in routes() if not is_generated(each.name)):
        for line in ROUTES[route.name]:
            if line.method == "POST":
                path = await db.read(path_of, route, line, world.of("owner"))
                answer = await ask(
                    asgi.application, owner, "POST", path, form=line.form, value=line.value, csrf=False
                )
                if answer.status != 403:
                    wrong.append(f"{path}: {answer.status}")
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("name", ["chat:upload", "chat:api"])
async def test_what_checks_its_token_itself_does_so_behind_django_too(world, name):
    owner = next(each for each in world.callers if str(each) == "owner by cookie")
    path = reverse(name)
    answer = await ask(asgi.django_app, owner, "POST", path, value={"threadId": "T1"}, csrf=False)
    assert (answer.status, answer.headers["content-type"]) == (403, "application/json")
    assert (await ask(asgi.django_app, owner, "POST", path, value={"threadId": "T1"})).status == 422


# -- sockets -------------------------------------------------------------------------------------------------


def socket(caller: Caller) -> str:
    """What a command comes to, or with which code the socket is closed."""
    if caller.who == "narrow":
        return "in" if caller.way.endswith("of chat") else "4403"
    if caller.who in {"nobody", "gone"}:
        return "4401"
    return "in" if caller.who == "owner" else "4404"


async def opened(caller: Caller, ids: dict[str, str]) -> WebsocketCommunicator:
    headers = [(b"host", callers.HOST.encode())]
    headers += [(name.encode(), text.encode()) for name, text in caller.headers.items()]
    talk = WebsocketCommunicator(asgi.application, f"/ws/threads/{ids['thread_id']}/", headers=headers)
    assert (await talk.connect())[0]
    return talk


async def said(talk: WebsocketCommunicator) -> str:
    while True:
        message = await talk.receive_output()
        if message["type"] == "websocket.close":
            return str(message["code"])
        answer = json.loads(message["text"])
        if answer.get("id") == 7:
            return "404" if answer.get("code") == "not_found" else "in"


async def command_of(caller: Caller, ids: dict[str, str], name: str) -> str:
    talk = await opened(caller, ids)
    try:
        if socket(caller) == "in":
            await talk.send_json_to({"type": name, "id": 7, **filled(COMMANDS[name], ids)})
        return await said(talk)
    finally:
        await talk.disconnect()


async def test_every_command_is_for_the_owner_of_the_thread_alone(world):
    wrong = []
    for name in COMMANDS:
        for caller in world.callers:
            came_to = await command_of(caller, world.of(caller.who), name)
            if came_to != socket(caller):
                wrong.append(f"{caller}: {name} came to {came_to}, not to {socket(caller)}")
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("way", ["cookie", "bearer", "x-api-key"])
async def test_a_socket_that_is_open_takes_no_command_of_whoever_was_deactivated_since(world, way):
    owner = next(each for each in world.callers if (each.who, each.way) == ("owner", way))
    ids = world.of("owner")
    talks = {name: await opened(owner, ids) for name in COMMANDS}
    await db.write(User.objects.filter(username="owner").update, is_active=False)
    for name, talk in talks.items():
        await talk.send_json_to({"type": name, "id": 7, **filled(COMMANDS[name], ids)})
        assert await said(talk) == "4401", name
        await talk.disconnect()
