"""Endpoints and models that administrators add: kept safely, tried, and used by the chat and the gateway at once."""

from __future__ import annotations

import json
from importlib import import_module

import httpx
import pytest
from asgiref.sync import sync_to_async
from django.apps import apps
from django.contrib.auth.models import Group, Permission, User
from django.db import connection
from django.test import Client
from django.urls import reverse

from agent.messages import Message, TextPart, Transcript
from agent.providers.base import TurnRequest
from agent.providers.http import close_shared_clients
from chatsite.accounts import keys
from chatsite.asgi import application
from chatsite.audit.models import Entry
from chatsite.catalog import entries, forms, sealing, trying
from chatsite.catalog.models import Endpoint, Model, Route
from chatsite.chat.agents import Agents
from chatsite.chat.limits import budgets
from chatsite.chat.problems import UnknownModel
from chatsite.gateway import auth
from chatsite.gateway.prices import cost_of
from chatsite.gateway.recorder import recorder
from chatsite.gateway.routes import use_routes
from chatsite.policies.models import GroupPolicy
from tests.standin import Broken, Raw, StandIn

KEY = "sk-endpoint-0123456789"
ADD = "admin:catalog_endpoint_add"

pytestmark = pytest.mark.usefixtures("catalog_rows")


@pytest.fixture
def root(client: Client) -> Client:
    client.force_login(User.objects.create_superuser("root"))
    return client


def form(**changes: object) -> dict[str, object]:
    return {"name": "local", "dialect": "openai", "base_url": "http://127.0.0.1:9/v1", "api_key": KEY,
            "headers": "", "lists_models": "on", "enabled": "on", **changes}  # fmt: skip


def save(client: Client, **changes: object) -> Endpoint:
    row = Endpoint.objects.filter(name=changes.get("name", "local")).first()
    url = reverse(ADD) if row is None else reverse("admin:catalog_endpoint_change", args=[row.pk])
    answer = client.post(url, form(**changes))
    assert answer.status_code == 302, answer.context["errors"]
    return Endpoint.objects.get(name=changes.get("name", "local"))


# -- the key


@pytest.mark.django_db
def test_a_key_is_sealed_where_it_is_kept_and_shown_nowhere(root):
    row = save(root, headers="x-team: ours")
    with connection.cursor() as cursor:
        cursor.execute("SELECT * FROM catalog_endpoint")
        assert KEY not in str(cursor.fetchall())
    assert entries.entry_of(row).api_key == KEY
    assert KEY not in repr(entries.entry_of(row))
    page = root.get(reverse("admin:catalog_endpoint_change", args=[row.pk])).content.decode()
    assert KEY not in page
    assert row.sealed_key not in page
    assert KEY not in str(list(Entry.objects.values()))
    assert [entry.action for entry in Entry.objects.all()] == ["endpoint.made"]


@pytest.mark.django_db
def test_an_empty_field_keeps_the_key_and_an_address_that_moves_does_not_take_it_along(root):
    row = save(root)
    assert entries.entry_of(save(root, api_key="")).api_key == KEY
    url = reverse("admin:catalog_endpoint_change", args=[row.pk])
    moved = form(api_key="", base_url="https://thief.example/v1")
    refused = root.post(url, moved)
    assert refused.status_code == 200
    assert "The address is another" in refused.content.decode()
    assert root.post(url, moved | {"forget_key": "on"}).status_code == 302
    row.refresh_from_db()
    assert (row.base_url, row.sealed_key) == ("https://thief.example/v1", "")


def test_a_key_sealed_under_an_older_secret_opens_while_that_is_a_fallback(settings):
    settings.SECRET_KEY = "first"
    sealed = sealing.seal(KEY)
    settings.SECRET_KEY, settings.SECRET_KEY_FALLBACKS = "second", ["first"]
    assert sealing.unseal(sealed) == KEY
    settings.SECRET_KEY_FALLBACKS = []
    with pytest.raises(sealing.CannotOpen):
        sealing.unseal(sealed)


SECRETS = {"x-api-key": "xk-0123456789", "x-house-token": "ht-0123456789", "cookie": "session=ck-0123456789"}


def written(headers: dict[str, str], **more: str) -> str:
    return "\n".join(f"{name}: {text}" for name, text in (headers | more).items())


@pytest.mark.django_db
def test_headers_that_hold_a_key_are_sealed_sent_and_never_shown_again(root, settings, caplog):
    settings.PRIVATE_ENDPOINTS = True
    with StandIn().in_thread() as standin:
        row = save(root, base_url=standin.openai_url, headers=written(SECRETS, **{"X-Team": "ours"}))
        page = root.get(reverse("admin:catalog_endpoint_change", args=[row.pk])).content.decode()
        root.post(reverse("admin:catalog_endpoint_try", args=[row.pk]))
        sent = standin.exchanges[0].headers
    with connection.cursor() as cursor:
        cursor.execute("SELECT * FROM catalog_endpoint")
        kept = str(cursor.fetchall())
    seen = page + kept + str(list(Entry.objects.values())) + repr(entries.entry_of(row)) + caplog.text
    assert not [text for text in SECRETS.values() if text in seen]
    assert f"cookie: {forms.KEPT}\nx-api-key: {forms.KEPT}\n" in page
    assert "\nx-team: ours" in page
    assert {name: sent[name] for name in SECRETS} == SECRETS
    assert sent["x-team"] == "ours"
    assert set(SECRETS.values()) < set(entries.Entries((entries.entry_of(row),)).secrets)


@pytest.mark.django_db
def test_dots_keep_a_sealed_header_and_without_its_line_it_is_forgotten(root):
    save(root, headers=written(SECRETS))
    row = save(root, headers=f"x-api-key: {forms.KEPT}\ncookie: another=1", api_key="")
    assert dict(entries.entry_of(row).headers) == {"x-api-key": SECRETS["x-api-key"], "cookie": "another=1"}
    assert save(root, headers="", api_key="").sealed_headers == {}


@pytest.mark.django_db
def test_an_address_that_moves_does_not_take_sealed_headers_along(root):
    row = save(root, headers="x-api-key: xk-0123456789", api_key="")
    url = reverse("admin:catalog_endpoint_change", args=[row.pk])
    moved = form(api_key="", base_url="https://thief.example/v1", headers=f"x-api-key: {forms.KEPT}")
    assert "write the value of x-api-key anew" in root.post(url, moved).content.decode()
    assert root.post(url, moved | {"headers": "x-api-key: another"}).status_code == 302


@pytest.mark.django_db
def test_headers_that_an_older_version_kept_open_are_sealed_by_the_migration():
    row = Endpoint.objects.create(
        name="old",
        base_url="https://x/v1",
        headers={"X-Token": "t-0123456789", "Host": "y", "X-Team": "ours"},
    )
    import_module("chatsite.catalog.migrations.0002_sealed_headers").seal(apps, None)
    row.refresh_from_db()
    assert row.headers == {"x-team": "ours"}
    assert dict(entries.entry_of(row).headers) == {"x-team": "ours", "x-token": "t-0123456789"}


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"base_url": "ftp://x"}, "no address"),
        ({"base_url": "https://user:secret@x/v1"}, "no address"),
        ({"name": "openai"}, "The environment has an endpoint of that name"),
        ({"name": "a/b"}, "letters, digits"),
        ({"api_key": "sk-ü"}, "no such characters"),
        *(
            ({"headers": f"{name}: x"}, "is decided here")
            for name in (
                "Host",
                "Transfer-Encoding",
                "content-length",
                "CONNECTION",
                "accept-encoding",
                "te",
                "upgrade",
            )
        ),
        ({"headers": "x-a: 1\nX-A: 2"}, "is there twice"),
        ({"headers": "x a: 1"}, "no header&#x27;s name"),
        ({"headers": f"x-token: {forms.KEPT}"}, "No value of “x-token” is kept"),
        ({"headers": "\n".join(f"x-{n}: 1" for n in range(21))}, "at most 20 headers"),
        ({"headers": "no colon"}, "as name: value"),
        ({"headers": "x-a: b\x00c"}, "ASCII text of one line"),
        ({"connect_timeout": "0"}, "greater than or equal"),
        ({"dialect": "telepathy"}, "not one of the available"),
    ],
)
def test_what_cannot_be_an_endpoint_is_refused_in_words(root, changes, words):
    answer = root.post(reverse(ADD), form(**changes))
    assert answer.status_code == 200
    assert words in answer.content.decode()
    assert not Endpoint.objects.exists()


@pytest.mark.django_db
def test_who_may_only_look_at_endpoints_changes_and_tries_none(client):
    row = Endpoint.objects.create(name="local", base_url="http://127.0.0.1:9/v1")
    staff = User.objects.create_user("staff", is_staff=True)
    staff.user_permissions.add(Permission.objects.get(codename="view_endpoint"))
    client.force_login(staff)
    assert client.get(reverse("admin:catalog_endpoint_change", args=[row.pk])).status_code == 200
    assert client.post(reverse("admin:catalog_endpoint_change", args=[row.pk]), form()).status_code == 403
    assert client.post(reverse("admin:catalog_endpoint_try", args=[row.pk])).status_code == 403
    assert client.get(reverse("admin:catalog_endpoint_try", args=[row.pk])).status_code == 405
    assert client.get(reverse(ADD)).status_code == 403


# -- the button that tries it


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("plays", "model", "allowed", "words"),
    [
        (None, "", True, "It has 2 models: stand-in"),
        (None, "house", True, "house answers: "),
        (Broken("401"), "house", True, "does not accept the API key"),
        (None, "", False, "leads into a private network"),
    ],
)
def test_the_button_says_what_the_endpoint_says(root, settings, plays, model, allowed, words):
    settings.PRIVATE_ENDPOINTS = allowed
    with StandIn().in_thread() as standin:
        if plays is not None:
            standin.play(plays)
        row = save(root, base_url=standin.openai_url, lists_models="" if model else "on")
        if model:
            route(model, (row, ""))
        answer = root.post(reverse("admin:catalog_endpoint_try", args=[row.pk]), follow=True)
        asked = len(standin.exchanges)
    *_, message = answer.context["messages"]  # the first one is that it was saved
    assert words in str(message)
    assert KEY not in str(message)
    assert asked == 0 or allowed
    entry = Entry.objects.get(action="endpoint.tried")
    assert (entry.actor_name, entry.subject) == ("root", "endpoint local")
    assert entry.facts == {"well": "It has 2" in words or "answers" in words, "base_url": row.base_url}
    assert KEY not in str(list(Entry.objects.values()))


@pytest.mark.django_db
def test_an_endpoint_that_only_gives_signs_of_life_is_not_waited_for(root, settings, monkeypatch):
    settings.PRIVATE_ENDPOINTS = True
    monkeypatch.setattr(trying, "LONGEST", 0.3)
    with StandIn().in_thread() as standin:
        standin.play(Raw([b": here\n\n"] * 100, delay=0.05))
        row = save(root, base_url=standin.openai_url, lists_models="")
        route("house", (row, ""))
        answer = root.post(reverse("admin:catalog_endpoint_try", args=[row.pk]), follow=True)
    *_, message = answer.context["messages"]
    assert "does not come to an end" in str(message)


# -- what the chat and the gateway make of it


@pytest.fixture
async def standins(settings):
    settings.PRIVATE_ENDPOINTS = True
    async with StandIn() as one, StandIn() as two:
        yield one, two
        await close_shared_clients()


def route(model: str, *endpoints: tuple[Endpoint, str], **facts: object) -> Model:
    row = Model.objects.create(name=model, **facts)
    for position, (endpoint, there) in enumerate(endpoints):
        Route.objects.create(model=row, endpoint=endpoint, name_there=there, position=position)
    return row


def withdraw(model: str) -> None:
    row = Model.objects.get(name=model)
    row.enabled = False
    row.save()


def at(standin: StandIn, name: str, *, kind: str = "openai", **more: object) -> Endpoint:
    url = standin.openai_url if kind == "openai" else standin.anthropic_url
    return Endpoint.objects.create(
        name=name, dialect=kind, base_url=url, sealed_key=sealing.seal(KEY), lists_models=False, **more
    )


def asked(model: str) -> TurnRequest:
    return TurnRequest(model, Transcript([Message(id="u", role="user", parts=(TextPart("Hi"),))]), "m1")


@pytest.mark.django_db(transaction=True)
async def test_the_chat_asks_a_routed_model_under_its_name_there_and_the_next_endpoint_when_one_fails(
    standins,
):
    one, two = standins
    one.play(Broken("401"))

    def rows() -> None:
        route("house", (at(one, "one"), "one-s-own"), (at(two, "two", kind="anthropic"), "two-s-own"),
              label="The house's", context=1000, images=False, price_input=2, price_output=4)  # fmt: skip

    await sync_to_async(rows)()
    agents = Agents([])
    catalog = await agents.catalog()
    (choice, _demo) = catalog.choices
    assert (choice.id, choice.label, choice.provider) == ("house", "The house's", "one")
    assert (choice.context, choice.images) == (1000, False)
    agent = await agents.agent_for("house")
    said = [event async for event in agent.provider.stream(asked("house"))]
    assert said
    assert one.exchanges[0].json["model"] == "one-s-own"
    assert two.exchanges[0].json["model"] == "two-s-own"
    assert two.exchanges[0].headers["x-api-key"] == KEY
    cost = budgets.cost()
    assert cost is not None


@pytest.mark.django_db(transaction=True)
async def test_what_is_withdrawn_is_offered_to_nobody_and_taken_by_no_door(standins):
    one, _ = standins

    def rows() -> None:
        endpoint = at(one, "one")
        route("old", (endpoint, ""), enabled=False)
        route("demo", enabled=False)
        route("new", (endpoint, ""))

    await sync_to_async(rows)()
    agents = Agents([])
    assert [choice.id for choice in (await agents.catalog()).choices] == ["new"]
    with pytest.raises(UnknownModel):
        await agents.agent_for("old")


@pytest.mark.django_db(transaction=True)
async def test_a_row_counts_at_the_gateway_as_soon_as_it_is_saved(standins):
    one, two = standins
    use_routes(None)
    person = await sync_to_async(User.objects.create_user)("ada")
    key = await sync_to_async(keys.new_api_key)(person, label="it")
    transport = httpx.ASGITransport(app=application)
    headers = {"authorization": f"Bearer {key}"}
    body = {"model": "house", "max_tokens": 9, "messages": [{"role": "user", "content": "Hi"}]}
    async with httpx.AsyncClient(
        transport=transport, base_url="http://gateway.test", headers=headers
    ) as http:
        assert (await http.post("/v1/chat/completions", json=body)).status_code == 404
        one.play(Broken("500"))

        def rows() -> None:
            route("house", (at(one, "one"), "one-s-own"), (at(two, "two"), "two-s-own"), price_input=1000000,
                  price_output=0)  # fmt: skip

        await sync_to_async(rows)()
        answer = await http.post("/v1/chat/completions", json=body)
        assert answer.status_code == 200
        assert answer.json()["model"] == "house"
        assert json.loads(two.exchanges[0].body)["model"] == "two-s-own"
        assert "house" in [model["id"] for model in (await http.get("/v1/models")).json()["data"]]
        await sync_to_async(withdraw)("house")
        assert (await http.post("/v1/chat/completions", json=body)).status_code == 404
        assert cost_of(usage_of(answer.json()), "house") == usage_of(answer.json()).input_tokens

        await sync_to_async(Model.objects.filter(name="house").update)(enabled=False)
        entries.forget()  # `update` sends no signal; in another process the time would do it
        await entries.fresh()
        assert (await http.post("/v1/chat/completions", json=body)).status_code == 404
    assert recorder.flush(30)
    use_routes(None)
    auth.close_connections()


def usage_of(answer: dict) -> object:
    from agent.messages import Usage

    return Usage(answer["usage"]["prompt_tokens"], answer["usage"]["completion_tokens"])


@pytest.mark.django_db
def test_a_model_s_page_says_which_groups_may_use_it(root):
    editors = Group.objects.create(name="editors")
    GroupPolicy.objects.create(group=editors, allowed_models=["hou*"])
    GroupPolicy.objects.create(group=None, allowed_models=["other"])
    model = Model.objects.create(name="house")
    page = root.get(reverse("admin:catalog_model_change", args=[model.pk])).content.decode()
    assert ">editors</a>: yes" in page
    assert ">everybody else</a>: no" in page


@pytest.mark.django_db
def test_one_price_without_the_other_is_refused(root):
    data = {
        "name": "house",
        "enabled": "on",
        "price_input": "1",
        "routes-TOTAL_FORMS": "0",
        "routes-INITIAL_FORMS": "0",
    }
    answer = root.post(reverse("admin:catalog_model_add"), data)
    assert answer.status_code == 200
    assert "Write both prices, or none." in answer.content.decode()


@pytest.mark.django_db
def test_each_change_of_an_endpoint_a_model_and_its_routes_is_on_record(root):
    endpoint = save(root, base_url="https://local.example/v1")
    save(root, base_url="https://other.example/v1", headers="x-token: t-0123456789")
    data = {"name": "house", "enabled": "on", "price_input": "1", "price_output": "2", "routes-TOTAL_FORMS": "1",
            "routes-INITIAL_FORMS": "0", "routes-0-endpoint": endpoint.pk, "routes-0-name_there": "own",
            "routes-0-position": "0"}  # fmt: skip
    assert root.post(reverse("admin:catalog_model_add"), data).status_code == 302
    chosen = {"action": "delete_selected", "_selected_action": [endpoint.pk], "post": "yes"}
    assert root.post(reverse("admin:catalog_endpoint_changelist"), chosen).status_code == 302
    said = {(entry.action, entry.subject): entry.facts for entry in Entry.objects.all()}
    assert said["endpoint.made", "endpoint local"]["now"]["base_url"] == "https://local.example/v1"
    assert said["endpoint.changed", "endpoint local"] == {
        "fields": ["api_key", "base_url", "headers"], "now": {"base_url": "https://other.example/v1"}
    }  # fmt: skip
    assert said["model.made", "model house"]["now"]["price_output"] == "2"
    assert said["model.routed", "model house"] == {"routes": "house at local as own"}
    assert said["endpoint.deleted", "endpoint local"] == {"routes": "house at local as own"}
    assert "t-0123456789" not in str(said)


@pytest.mark.django_db
def test_routes_of_many_long_names_are_cut_in_the_record_and_not_refused(root):
    made = [Endpoint.objects.create(name=f"e{n}", base_url="https://x/v1") for n in range(30)]
    data = {"name": "ü" * 200, "enabled": "on", "routes-TOTAL_FORMS": "30", "routes-INITIAL_FORMS": "0"}
    for number, endpoint in enumerate(made):
        data |= {f"routes-{number}-endpoint": endpoint.pk, f"routes-{number}-name_there": "ü" * 200,
                 f"routes-{number}-position": "0"}  # fmt: skip
    assert root.post(reverse("admin:catalog_model_add"), data).status_code == 302
    assert Entry.objects.get(action="model.routed").facts["routes"].endswith("…")
