"""Keys in Django admin: made and shown once, limited, watched, revoked."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from io import StringIO

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import Permission, User
from django.core.management import CommandError, call_command
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from chatsite.accounts import keys
from chatsite.accounts.models import ApiKey
from chatsite.audit.models import Entry
from tests.accounts.conftest import row

LIST = "admin:accounts_apikey_changelist"
HOSTILE = "</pre><script>alert('x')</script><img src=x onerror=alert(1)>"
FILLED = {
    "user_name": "ada", "label": "laptop", "scopes": ["gateway"], "allowed_models": "small\nlarge",
    "requests_per_minute": "60", "tokens_per_minute": "", "requests_at_once": "4", "budget": "12.5",
    "budget_period": "monthly", "keep": "full", "stream_form": "", "max_agentic_loops": "",
    "expires_at": "2999-01-31T18:00",
}  # fmt: skip


@pytest.fixture
def staff(db) -> User:
    return User.objects.create_user("clerk", password="a long enough secret", is_staff=True)


def logged_in(who: User, *permissions: str) -> Client:
    who.user_permissions.add(*Permission.objects.filter(codename__in=permissions))
    client = Client()
    client.force_login(who)
    return client


def detail(key: ApiKey) -> str:
    return reverse("admin:accounts_apikey_change", args=[key.pk])


def page(client: Client, url: str, status: int = 200) -> str:
    answer = client.get(url)
    assert answer.status_code == status, (url, answer.status_code)
    return answer.text


def add(client: Client, **changes: object) -> str:
    return client.post(reverse("admin:accounts_apikey_add"), FILLED | changes).text


def test_a_key_is_made_with_its_limits_and_shown_once(admin, person):
    shown = add(admin)
    key = re.search(r'value="(tl-[^"]+)"', shown)[1]
    view = keys.look_up(key)
    assert (view.user_id, view.label, view.scopes) == (person.pk, "laptop", {"gateway"})
    assert (view.models, view.requests_per_minute, view.budget) == (("small", "large"), 60, Decimal("12.5"))
    assert view.requests_at_once == 4
    assert (view.keep, view.expires_at) == ("full", datetime(2999, 1, 31, 18, tzinfo=UTC))
    for url in (reverse(LIST), detail(row()), reverse("admin:index")):
        text = page(admin, url)
        assert key not in text
        assert row().digest not in text
    assert not any(key in cookie.value for cookie in admin.cookies.values())
    assert LogEntry.objects.get().action_flag == 1


def test_the_answer_with_the_key_is_kept_by_no_cache(admin, person):
    answer = admin.post(reverse("admin:accounts_apikey_add"), FILLED)
    assert "no-store" in answer.headers["Cache-Control"]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"user_name": "nobody"}, "There is no user “nobody”."),
        ({"user_name": ""}, "This field is required."),
        ({"user_name": "a\0b"}, "Null characters are not allowed."),
        ({"scopes": []}, "This field is required."),
        ({"scopes": ["everything"]}, "Select a valid choice."),
        ({"allowed_models": "two words"}, "Write up to 200 model names"),
        ({"requests_per_minute": "0"}, "greater than or equal to 1"),
        ({"budget": "much"}, "Enter a number."),
        ({"budget": "-1"}, "greater than or equal to 0"),
        ({"expires_at": "2020-01-01T00:00"}, "This lies in the past. To end a key now, revoke it."),
        ({"keep": "all"}, "Select a valid choice."),
    ],
)
def test_a_limit_that_cannot_be_is_said_beside_its_field(admin, person, change, words):
    assert words in add(admin, **change)
    assert not ApiKey.objects.exists()


def test_limits_are_changed_and_what_was_booked_meanwhile_stays(admin, person, key, monkeypatch):
    before = keys.ApiKey.save

    def booked_meanwhile(self, *args, **kwargs):
        ApiKey.objects.filter(pk=self.pk).update(spent=7)
        before(self, *args, **kwargs)

    monkeypatch.setattr(ApiKey, "save", booked_meanwhile)
    answer = admin.post(detail(row()), FILLED | {"scopes": ["chat", "gateway"], "requests_per_minute": "5"})
    assert answer.status_code == 302
    view = keys.look_up(key)
    assert (view.requests_per_minute, view.label, row().spent) == (5, "laptop", 7)
    assert view.user_id == person.pk


def test_an_expired_key_can_be_changed_without_touching_its_end(admin, person, key):
    ApiKey.objects.update(expires_at=datetime(2020, 1, 1, tzinfo=UTC))
    answer = admin.post(detail(row()), FILLED | {"expires_at": "2020-01-01T00:00"})
    assert answer.status_code == 302
    assert row().label == "laptop"


def test_the_list_shows_models_rate_budget_and_spent(admin, person):
    keys.new_api_key(
        person, label="laptop", allowed_models=["a", "b", "c", "d", "e"], requests_per_minute=60,
        tokens_per_minute=100_000, budget=Decimal(10), budget_period="monthly",
    )  # fmt: skip
    ApiKey.objects.update(spent=40, spent_this_month=Decimal("3.2"), month=keys.month_of(timezone.now()))
    text = page(admin, reverse(LIST))
    for cell in ("a, b, c and 2 more", "60 requests, 100,000 tokens", "3.20 of 10.00 this month", "in force"):
        assert cell in text


def test_the_queries_of_the_list_do_not_grow_with_its_rows(admin, person, django_assert_max_num_queries):
    for _ in range(60):
        keys.new_api_key(person)
    with django_assert_max_num_queries(8):
        page(admin, reverse(LIST))


@pytest.mark.parametrize(("live", "labels"), [("yes", "live"), ("expired", "old"), ("revoked", "gone")])
def test_keys_are_found_by_their_state(admin, person, live, labels):
    keys.new_api_key(person, label="live")
    keys.new_api_key(person, label="old")
    keys.new_api_key(person, label="gone")
    ApiKey.objects.filter(label="old").update(expires_at=timezone.now() - timedelta(days=1))
    ApiKey.objects.filter(label="gone").update(revoked_at=timezone.now())
    text = page(admin, reverse(LIST, query={"live": live}))
    assert re.findall(r'class="field-label">(\w+)', text) == [labels]


def test_keys_are_found_by_person(admin, person, staff):
    keys.new_api_key(person)
    keys.new_api_key(staff)
    text = page(admin, reverse(LIST, query={"user": "ada"}))
    assert re.findall(r'class="field-user nowrap">(\w+)', text) == ["ada"]


# -- who may -------------------------------------------------------------------------------------------------


def test_a_revoked_key_opens_nothing_any_more(admin, person, key):
    assert keys.look_up(key)
    answer = admin.post(reverse(LIST), {"action": "revoke", "_selected_action": [row().pk]}, follow=True)
    assert "Revoked 1 key." in answer.text
    assert keys.look_up(key) is None
    assert LogEntry.objects.get().get_change_message() == "Revoked."
    first = row().revoked_at
    admin.post(reverse(LIST), {"action": "revoke", "_selected_action": [row().pk]})
    assert row().revoked_at == first


def test_a_revoked_key_is_history(admin, key):
    ApiKey.objects.update(revoked_at=timezone.now())
    assert admin.post(detail(row()), FILLED).status_code == 403
    assert "Save" not in page(admin, detail(row()))


def test_nobody_deletes_a_key(admin, key):
    url = reverse("admin:accounts_apikey_delete", args=[row().pk])
    assert admin.post(url, {"post": "yes"}).status_code == 403
    assert ApiKey.objects.exists()


def test_who_may_only_look_cannot_change_add_or_revoke(staff, key):
    client = logged_in(staff, "view_apikey")
    assert "revoke" not in page(client, reverse(LIST)).replace("revoked", "").replace("Revoked", "")
    assert not re.search(r"<(input|textarea|select)[^>]* name=\"(?!csrf)", page(client, detail(row())))
    client.post(reverse(LIST), {"action": "revoke", "_selected_action": [row().pk]})
    assert client.post(detail(row()), FILLED).status_code == 403
    assert client.post(reverse("admin:accounts_apikey_add"), FILLED).status_code == 403
    assert ApiKey.objects.get().revoked_at is None


def test_staff_without_the_permission_see_none(staff, key):
    client = logged_in(staff)
    for url in (reverse(LIST), detail(row()), reverse("admin:accounts_apikey_add")):
        page(client, url, 403)


def urls() -> list[str]:
    return [
        reverse(LIST),
        detail(row()),
        reverse("admin:accounts_apikey_add"),
        reverse(LIST, query={"q": HOSTILE}),
    ]


def test_what_people_wrote_stays_text(admin, person):
    keys.new_api_key(person, label=HOSTILE, allowed_models=[HOSTILE.replace(" ", "_")])
    for text in (*(page(admin, url) for url in urls()), add(admin, label=HOSTILE)):
        assert "<script>alert" not in text
        assert "<img src=x" not in text
        assert "<img_src=x" not in text


def test_no_page_needs_anything_inline_or_from_elsewhere(admin, person, key):
    for text in (*(page(admin, url) for url in urls()[:3]), add(admin)):
        assert "<style" not in text
        assert not re.search(r"<[^>]* (style|on\w+)=", text)
        assert not re.search(r"<script(?![^>]* src=)", text)
        assert not re.search(r"(src|href)=\"?(https?:)?//", text)


def test_what_becomes_of_a_key_is_in_the_audit_log_and_the_key_is_not(admin, person):
    shown = add(admin)
    key = re.search(r'value="(tl-[^"]+)"', shown)[1]
    changed = {name: value for name, value in FILLED.items() if name != "user_name"} | {"label": "desk"}
    assert admin.post(detail(row()), changed).status_code == 302
    admin.post(reverse(LIST), {"action": "revoke", "_selected_action": [row().pk]})
    entries = list(Entry.objects.filter(action__startswith="key.").order_by("number"))
    assert [entry.action for entry in entries] == ["key.made", "key.changed", "key.revoked"]
    for entry in entries:
        assert (entry.actor_name, entry.subject, entry.door) == ("root", "user ada", "admin")
        assert entry.facts["key"] == key[:8]
        assert key not in str(entry.facts)
    assert entries[1].facts["fields"] == ["label"]


def test_a_key_of_the_command_is_in_the_audit_log_and_one_that_is_refused_is_not(person):
    call_command("createapikey", user="ada", key="a value of my own", stdout=StringIO())
    with pytest.raises(CommandError):
        call_command("createapikey", user="ada", key="a value of my own", stdout=StringIO())
    entry = Entry.objects.get()
    assert (entry.action, entry.subject, entry.door) == ("key.made", "user ada", "command")


def test_only_an_administrator_makes_a_key_of_another_one(admin, staff, person):
    clerk = logged_in(staff, "add_apikey", "view_apikey")
    assert "who may do everything makes a key of another" in add(clerk, user_name="root")
    assert not ApiKey.objects.exists()
    assert "tl-" in add(clerk, user_name="ada")
    assert "tl-" in add(admin, user_name="root")
    assert ApiKey.objects.count() == 2


CHAT_WORDS = "it takes the permission to read transcripts"


def test_a_key_that_reads_anothers_threads_is_made_by_who_may_read_transcripts(staff, person):
    clerk = logged_in(staff, "add_apikey", "view_apikey", "change_apikey")
    for scopes in (["chat"], ["chat", "gateway"]):
        assert CHAT_WORDS in add(clerk, scopes=scopes)
    assert not ApiKey.objects.exists()
    assert "tl-" in add(clerk, user_name="clerk", scopes=["chat"])
    reader = logged_in(User.objects.get(pk=staff.pk), "view_transcript")
    assert "tl-" in add(reader, scopes=["chat"])
    entry = Entry.objects.order_by("number").last()
    assert (entry.action, entry.actor_name, entry.subject) == ("key.made", "clerk", "user ada")
    assert entry.facts["scopes"] == ["chat"]


def test_no_change_of_a_key_gives_the_chat_of_another_to_who_knows_its_value(staff, person):
    clerk = logged_in(staff, "add_apikey", "view_apikey", "change_apikey")
    add(clerk, scopes=["gateway"])
    filled = {name: value for name, value in FILLED.items() if name != "user_name"}
    assert CHAT_WORDS in clerk.post(detail(row()), filled | {"scopes": ["chat"]}).text
    assert row().scopes == ["gateway"]
    ApiKey.objects.update(scopes=["chat"])
    # What it has already is not asked for anew when its limits change.
    assert clerk.post(detail(row()), filled | {"scopes": ["chat"], "label": "desk"}).status_code == 302
    assert row().label == "desk"
