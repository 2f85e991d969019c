"""Presets that an administrator shares: taken by those they are for, changed by none of them."""

from __future__ import annotations

import pytest
from django.contrib.auth.models import Group, User
from django.test import Client
from django.urls import reverse

from chatsite.audit.models import Entry
from chatsite.chat.actions import choosing
from chatsite.chat.choices import Choices
from chatsite.chat.models import Preset
from chatsite.chat.problems import NoPreset

FORM = {
    "name": "Terse",
    "model": "demo",
    "system": "Be brief.",
    "tools_off": "send_email",
    "temperature": "0.5",
}


def logged_in(user: User) -> Client:
    client = Client()
    client.force_login(user)
    return client


@pytest.fixture
def admin() -> Client:
    return logged_in(User.objects.create_superuser("root"))


def names_of(user: User) -> list[str]:
    return [preset.name for preset in choosing.presets_of(user)]


def test_an_administrator_shares_one_with_a_group_or_with_everybody(admin, person, stranger):
    group = Group.objects.create(name="team")
    group.user_set.add(person)
    add = reverse("admin:chat_preset_add")
    assert admin.post(add, FORM | {"groups": [group.pk]}).status_code == 302
    assert admin.post(add, FORM | {"name": "Plain"}).status_code == 302
    assert (names_of(person), names_of(stranger)) == (["Plain", "Terse"], ["Plain"])
    kept = choosing.preset_of(person, "Terse")
    assert kept.choices == {
        "system": "Be brief.",
        "toolsOff": ["send_email"],
        "parameters": {"temperature": 0.5},
    }
    with pytest.raises(NoPreset):
        choosing.preset_of(stranger, "Terse")
    assert Entry.objects.filter(action="preset.changed").count() == 2
    shown = admin.get(reverse("admin:chat_preset_change", args=[kept.pk])).text
    assert "Be brief." in shown
    assert 'value="0.5"' in shown


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"temperature": "9"}, "Temperature: write a number from 0 to 2."),
        ({"name": ""}, "This field is required."),
        ({"name": "There"}, "There is another preset of this name."),
    ],
)
def test_what_cannot_be_is_refused_in_words(admin, change, words):
    Preset.objects.create(name="There")
    assert words in admin.post(reverse("admin:chat_preset_add"), FORM | change).text
    assert Preset.objects.count() == 1


def test_a_person_takes_a_shared_one_and_changes_it_nowhere(person):
    Preset.objects.create(name="Plain", choices={"system": "Be plain."})
    page = logged_in(person)
    shown = page.get("/presets").text
    assert "from an administrator" in shown
    for form in ({"do": "delete"}, {"do": "rename", "name": "Mine"}, {"do": "default"}):
        assert page.post("/presets", form | {"preset": "Plain"}).status_code == 404
    assert Preset.objects.get().name == "Plain"
    assert "Plain" in page.get("/?preset=Plain").text


def test_ones_own_stands_before_a_shared_one_of_its_name(person):
    Preset.objects.create(name="Plain", choices={"system": "Theirs."})
    choosing.save_preset(owner=person, name="Plain", model="", chosen=Choices(system="Mine."))
    assert names_of(person) == ["Plain"]
    assert choosing.preset_of(person, "Plain").choices == {"system": "Mine."}


def test_presets_of_people_are_not_in_the_admin(admin, person):
    own = choosing.save_preset(owner=person, name="Secret", model="", chosen=Choices(system="Mine."))
    assert "Secret" not in admin.get(reverse("admin:chat_preset_changelist")).text
    assert admin.get(reverse("admin:chat_preset_change", args=[own.pk])).status_code == 302
