"""What a key is, when it opens something, and how one is made by command."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from io import StringIO

import pytest
from django.core.exceptions import ValidationError
from django.core.management import CommandError, call_command
from django.utils import timezone

from chatsite.accounts import keys
from chatsite.accounts.models import ApiKey
from tests.accounts.conftest import row


def test_a_new_key_opens_both_doors_to_every_model_without_limits(person):
    view = keys.look_up(keys.new_api_key(person, label="laptop"))
    assert (view.user_id, view.label, view.scopes) == (person.pk, "laptop", {"chat", "gateway"})
    assert view.may_use("any-model")
    assert (view.requests_per_minute, view.tokens_per_minute, view.budget, view.expires_at) == (None,) * 4
    assert (view.keep, view.stream_form, view.max_agentic_loops) == ("metadata", "", None)


def test_what_is_kept_of_a_key_does_not_give_it_away(person):
    key = keys.new_api_key(person)
    kept = {field.name: str(getattr(row(), field.name)) for field in ApiKey._meta.concrete_fields}
    assert not any(key in value for value in kept.values())
    assert kept["hint"] == key[:8]
    assert key not in repr(keys.look_up(key))
    assert kept["digest"] not in repr(keys.look_up(key))


@pytest.mark.parametrize(
    "change",
    [
        {"revoked_at": datetime(2020, 1, 1, tzinfo=UTC)},
        {"expires_at": datetime(2020, 1, 1, tzinfo=UTC)},
        {"user__is_active": False},
        {"digest": "another"},
    ],
    ids=str,
)
def test_a_key_that_is_over_opens_nothing(person, key, change):
    assert keys.look_up(key)
    if "user__is_active" in change:
        type(person).objects.update(is_active=False)
    else:
        ApiKey.objects.update(**change)
    assert keys.look_up(key) is None
    assert keys.user_and_view(key) is None


def test_a_key_opens_until_it_expires(person):
    key = keys.new_api_key(person, expires_at=timezone.now() + timedelta(hours=1))
    assert keys.look_up(key).expires_at == row().expires_at


def test_use_is_noted_once_a_minute(person, key, django_assert_num_queries):
    keys.look_up(key)
    noted = row().last_used_at
    assert noted
    with django_assert_num_queries(2):  # the key and its user
        keys.look_up(key)
    ApiKey.objects.update(last_used_at=noted - timedelta(minutes=2))
    keys.look_up(key)
    assert row().last_used_at >= noted


def test_a_key_may_use_the_models_it_names(person):
    view = keys.look_up(keys.new_api_key(person, allowed_models=["small", "large"]))
    assert view.may_use("small")
    assert not view.may_use("smaller")


def test_a_monthly_budget_begins_anew_each_month(person):
    key = keys.new_api_key(person, budget=Decimal(10), budget_period="monthly")
    ApiKey.objects.update(spent=12, spent_this_month=4, month=keys.month_of(timezone.now()))
    assert keys.look_up(key).spent == 4
    ApiKey.objects.update(month="2020-01")
    assert keys.look_up(key).spent == 0
    ApiKey.objects.update(budget_period="")
    assert keys.look_up(key).spent == 12


@pytest.mark.parametrize(
    ("settings", "field"),
    [
        ({"scopes": []}, "scopes"),
        ({"scopes": ["chat", "everything"]}, "scopes"),
        ({"scopes": "chat"}, "scopes"),
        ({"allowed_models": ["two words"]}, "allowed_models"),
        ({"allowed_models": [7]}, "allowed_models"),
        ({"allowed_models": ["m"] * 201}, "allowed_models"),
        ({"requests_per_minute": 0}, "requests_per_minute"),
        ({"tokens_per_minute": 10**12}, "tokens_per_minute"),
        ({"budget": Decimal(-1)}, "budget"),
        ({"budget": Decimal("1e30")}, "budget"),
        ({"keep": "some"}, "keep"),
        ({"stream_form": "both"}, "stream_form"),
        ({"max_agentic_loops": 0}, "max_agentic_loops"),
        ({"budget_period": "daily"}, "budget_period"),
        ({"label": "x" * 101}, "label"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_a_key_with_limits_that_cannot_be_is_not_made(person, settings, field):
    with pytest.raises(ValidationError) as refused:
        keys.new_api_key(person, **settings)
    assert list(refused.value.message_dict) == [field]
    assert not ApiKey.objects.exists()


@pytest.mark.parametrize(
    ("authorization", "x_api_key", "key"),
    [
        ("Bearer tl-1", "", "tl-1"),
        ("bearer  tl-1 \r\n", "tl-2", "tl-1"),
        ("Basic dXNlcg==", " tl-2\n", "tl-2"),
        ("", "", None),
        ("Bearer", "", ""),
        ("", "  ", None),
        ("Bearer ", "tl-b", "tl-b"),
        ("Bearer", "tl-b", "tl-b"),
    ],
)
def test_a_key_is_found_in_either_header(authorization, x_api_key, key):
    assert keys.key_in(authorization, x_api_key) == key


# -- by command ----------------------------------------------------------------------------------------------


def create(*arguments: str) -> str:
    out = StringIO()
    call_command("createapikey", "--user", "ada", *arguments, stdout=out)
    return out.getvalue().strip()


def test_the_command_sets_every_limit(person):
    key = create(
        "--scopes", "gateway", "--models", "small, large", "--requests-per-minute", "60", "--tokens-per-minute",
        "100000", "--at-once", "4", "--budget", "12.50", "--budget-period", "monthly", "--keep", "full",
        "--stream-form", "append", "--max-agentic-loops", "2", "--expires", "2999-01-31",
    )  # fmt: skip
    view = keys.look_up(key)
    assert view.scopes == {"gateway"}
    assert view.models == ("small", "large")
    assert (view.requests_per_minute, view.tokens_per_minute, view.requests_at_once) == (60, 100_000, 4)
    assert (view.budget, view.budget_period) == (Decimal("12.5"), "monthly")
    assert (view.keep, view.stream_form, view.max_agentic_loops) == ("full", "append", 2)
    assert view.expires_at == datetime(2999, 1, 31, tzinfo=UTC)


def test_a_key_may_expire_in_days(person):
    expires = keys.look_up(create("--expires", "90d")).expires_at
    assert abs(expires - timezone.now() - timedelta(days=90)) < timedelta(minutes=5)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--scopes", "chat,admin"], "--scopes: Choose one or more of: chat, gateway, models."),
        (["--models", "two words"], "--models: Write up to"),
        (["--requests-per-minute", "0"], "--requests-per-minute is '0'; write a whole number above 0."),
        (["--tokens-per-minute", "-5"], "a whole number above 0"),
        (["--requests-per-minute", "٣"], "a whole number above 0"),
        (["--budget", "much"], "--budget is 'much'; write an amount such as 25 or 0.5."),
        (["--budget", "NaN"], "write an amount"),
        (["--budget-period", "daily"], "write total or monthly"),
        (["--keep", "all"], "invalid choice: 'all'"),
        (["--expires", "tomorrow"], "--expires is 'tomorrow'; write a day such as 2027-01-31"),
        (["--expires", "2020-01-01"], "must lie ahead"),
        (["--expires", "99999d"], ""),
    ],
)
def test_the_command_says_what_to_write_instead(person, arguments, words):
    if not words:
        assert create(*arguments)
        return
    with pytest.raises(CommandError) as refused:
        create(*arguments)
    assert words in str(refused.value)
    assert not ApiKey.objects.exists()
