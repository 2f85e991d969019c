"""Something of a person in every table that leads to people, whichever app it belongs to.

A row of each is made by what its columns demand; so a new table is filled, too, without a line here.
"""

from __future__ import annotations

from typing import Any

from django.apps import apps
from django.contrib.auth import get_user_model
from django.db import models
from django.utils import timezone


def tables() -> list[type[models.Model]]:
    """All that lead to people by foreign keys, however long the way."""
    known: set[type[models.Model]] = {get_user_model()}
    everything = [model for model in apps.get_models(include_auto_created=True) if model._meta.managed]
    while True:
        more = {model for model in everything if model not in known and known & set(leads_to(model))}
        if not more:
            return sorted(known - {get_user_model()}, key=lambda model: model._meta.label)
        known |= more


def leads_to(model: type[models.Model]) -> dict[type[models.Model], str]:
    return {field.related_model: field.name for field in model._meta.concrete_fields if field.is_relation}


def needs(model: type[models.Model]) -> set[type[models.Model]]:
    """What has to be there before a row of it."""
    return {
        field.related_model for field in model._meta.concrete_fields if field.is_relation and not field.null
    }


def direct() -> list[tuple[str, str]]:
    """Each column that names a person."""
    people = get_user_model()
    return [
        (model._meta.label, field.name)
        for model in apps.get_models(include_auto_created=True)
        for field in model._meta.concrete_fields
        if field.is_relation and field.related_model is people and model._meta.managed
    ]


def fill(person: Any, skipped: set[str]) -> None:
    """A row of each table for the person, with all of its columns that lead to rows of theirs."""
    made: dict[type[models.Model], models.Model] = {get_user_model(): person}
    waiting = [model for model in tables() if model._meta.label not in skipped]
    while waiting:
        ready = next(model for model in waiting if not needs(model) & set(waiting))
        made[ready] = _row(ready, made, person)
        waiting.remove(ready)


def _row(model: type[models.Model], made: dict[Any, models.Model], person: Any) -> models.Model:
    values = {
        field.name: _value(field, made, person)
        for field in model._meta.concrete_fields
        if not field.primary_key and (not field.null or field.is_relation)
    }
    return model._default_manager.create(
        **{name: value for name, value in values.items() if value is not SKIP}
    )


SKIP = object()


def _value(field: models.Field, made: dict[Any, models.Model], person: Any) -> Any:
    if field.is_relation:
        known = made.get(field.related_model)
        if known is not None:
            return known
        return SKIP if field.null else field.related_model._default_manager.get_or_create()[0]
    if field.has_default():
        return SKIP
    match field:
        case models.BooleanField():
            return False
        case models.IntegerField() if field.unique:
            return person.pk
        case models.IntegerField() | models.DecimalField() | models.FloatField():
            return 1
        case models.DateTimeField():
            return timezone.now()
        case models.JSONField():
            return {}
        case models.DateField():
            return timezone.now().date()
        case models.EmailField():
            return f"{person.username}@example.org"
    return f"{person.username}"[: field.max_length or 20]
