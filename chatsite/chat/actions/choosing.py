"""What people choose for a thread and save for later ones. One transaction each, which the caller holds.

A preset is its owner's alone, and is meant by its name. An administrator shares some with groups or with all: those are
taken by their names too, and changed in the admin alone. One's own stands before a shared one of its name. Whoever
applies it gets a copy: changing or deleting it later changes no thread.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.db.models import Q, QuerySet
from django.utils.translation import gettext

from agent.text import storable
from chatsite.chat import choices
from chatsite.chat.choices import Choices
from chatsite.chat.models import Preset, Thread
from chatsite.chat.problems import Conflict, Invalid, NoPreset

MOST_PRESETS = 100
LONGEST_NAME = 100


def configure(*, thread: Thread, changes: Mapping[str, Any], model: str | None = None) -> Thread:
    """Change what is given (fields of `Choices`), for the runs that begin from now on."""
    row = Thread.objects.select_for_update().get(pk=thread.pk)
    now = choices.kept(row.choices)
    row.choices = choices.read({**now.model_dump(), **changes}).as_json()
    row.model = row.model if model is None else model
    row.save(update_fields=["choices", "model"])
    return row


def save_preset(*, owner: Any, name: str, model: str, chosen: Choices) -> Preset:
    """Keep these choices under that name; a preset that has it is written over."""
    name = _name(name)
    mine = Preset.objects.filter(owner=owner)
    if not mine.filter(name=name).exists() and mine.count() >= MOST_PRESETS:
        words = gettext("You have %(most)s presets, which is the most. Delete one first.")
        raise Invalid(words % {"most": MOST_PRESETS})
    kept = {"model": model, "choices": chosen.as_json()}
    return Preset.objects.update_or_create(owner=owner, name=name, defaults=kept)[0]


def rename_preset(*, owner: Any, name: str, new: str) -> Preset:
    preset, new = _own(owner, name), _name(new)
    if new != name and Preset.objects.filter(owner=owner, name=new).exists():
        raise Conflict(gettext("You have another preset of that name. Write another name."))
    preset.name = new
    preset.save(update_fields=["name"])
    return preset


def delete_preset(*, owner: Any, name: str) -> None:
    _own(owner, name).delete()


def make_default(*, owner: Any, name: str | None) -> None:
    """New threads on the page begin with that one from now on; None: with none."""
    preset = None if name is None else _own(owner, name)
    Preset.objects.filter(owner=owner, is_default=True).update(is_default=False)
    if preset is not None:
        Preset.objects.filter(pk=preset.pk).update(is_default=True)


def presets_of(owner: Any) -> list[Preset]:
    """Theirs, and behind them what is shared with them under other names."""
    own = list(Preset.objects.filter(owner=owner).order_by("name"))
    names = [preset.name for preset in own]
    return [*own, *_shared_with(owner).exclude(name__in=names).order_by("name")]


def preset_of(owner: Any, name: str) -> Preset:
    """One to take. Raises NoPreset when there is none of that name for the user."""
    name = storable(name)
    preset = (
        Preset.objects.filter(owner=owner, name=name).first() or _shared_with(owner).filter(name=name).first()
    )
    if preset is None:
        raise NoPreset(gettext("You have no preset of that name (any more)."))
    return preset


def _own(owner: Any, name: str) -> Preset:
    """One to change."""
    preset = Preset.objects.filter(owner=owner, name=storable(name)).first()
    if preset is None:
        raise NoPreset(gettext("You have no preset of that name (any more)."))
    return preset


def _shared_with(user: Any) -> QuerySet[Preset]:
    theirs = Q(groups=None) | Q(groups__in=user.groups.all())
    return Preset.objects.filter(theirs, owner=None).distinct()


def _name(name: str) -> str:
    name = " ".join(storable(name).split())
    if not name:
        raise Invalid(gettext("A preset needs a name. Write one."))
    if len(name) > LONGEST_NAME:
        words = gettext("A preset's name has at most %(most)s characters. Shorten it.")
        raise Invalid(words % {"most": LONGEST_NAME})
    return name
