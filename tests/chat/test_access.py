"""Whose a key is, and when it was last used."""

from datetime import timedelta

import pytest
from django.utils import timezone

from chatsite.accounts import keys
from chatsite.accounts.models import ApiKey
from chatsite.chat import access
from chatsite.chat.models import Thread


def test_a_key_gives_its_user_whole(person, stranger, key):
    keys.new_api_key(stranger, label="another's")
    user = access.user_of_key(key)
    assert user == person
    assert user.date_joined == person.date_joined
    assert user.is_active is True
    assert user.get_deferred_fields() == set()


@pytest.mark.parametrize("why", ["unknown", "revoked", "its user is deactivated"])
def test_a_key_that_is_nobodys_gives_nobody(why, person, key):
    if why == "revoked":
        keys.revoke(ApiKey.objects.get())
    person.is_active = why != "its user is deactivated"
    person.save()
    assert access.user_of_key(key if why != "unknown" else "tl-unknown") is None
    assert ApiKey.objects.get().last_used_at is None


@pytest.mark.parametrize(
    ("before", "noted"), [(None, True), (timedelta(minutes=2), True), (timedelta(seconds=20), False)]
)
def test_the_use_of_a_key_is_noted_once_a_minute(before, noted, key):
    earlier = timezone.now() - before if before else None
    ApiKey.objects.update(last_used_at=earlier)
    access.user_of_key(key)
    assert (ApiKey.objects.get().last_used_at != earlier) is noted


def test_a_thread_is_found_by_its_owner_alone(person, stranger):
    thread = Thread.objects.create(owner=person, public_id="t-1", title="Weather")
    found = access.thread_for(person, "t-1")
    assert (found, found.title, found.created_at) == (thread, "Weather", thread.created_at)
    for who, id in [(stranger, "t-1"), (person, "t-2"), (person, "' OR 1=1 --"), (person, "../t-1")]:
        with pytest.raises(access.NotFound):
            access.thread_for(who, id)
