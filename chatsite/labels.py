"""What models, their fields and their choices are called, in the reader's language.

They are named in English where the columns are, mostly by the column alone, and without a mark: it would stand in each
migration. `of_models` puts words in their place that are looked up when they are shown; `in_models` finds them all in
the source, for `catalogs`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from typing import Any

from django.db.models import Field, Model
from django.utils import translation
from django.utils.functional import Promise
from django.utils.text import camel_case_to_spaces


def of_models(models: Iterable[type[Model]]) -> None:
    for model in models:
        options = model._meta
        if "verbose_name_plural" not in options.original_attrs and not isinstance(
            options.verbose_name, Promise
        ):
            options.verbose_name_plural = f"{options.verbose_name}s"
        options.verbose_name_plural = _looked_up(options.verbose_name_plural)
        options.verbose_name = _looked_up(options.verbose_name)
        for field in (*options.local_fields, *options.local_many_to_many):
            _name(field)


def _name(field: Field[Any, Any]) -> None:
    field.verbose_name = _looked_up(field.verbose_name)
    field.help_text = _looked_up(field.help_text)
    if field.choices:
        field.choices = [(value, _looked_up(label)) for value, label in field.flatchoices]


def _looked_up(text: Any) -> Any:
    return text if isinstance(text, Promise) or not text else translation.gettext_lazy(text)


# -- in the source -------------------------------------------------------------------------------------------

RELATIONS = ("ForeignKey", "OneToOneField", "ManyToManyField")


def in_models(source: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ClassDef):
            bases = {base.attr for base in node.bases if isinstance(base, ast.Attribute)}
            if bases & {"TextChoices", "IntegerChoices"}:
                yield from _of_choices(node)
            elif "Model" in bases or any(isinstance(each, ast.Assign) and _field(each) for each in node.body):
                yield from _of_model(node)


def _of_choices(node: ast.ClassDef) -> Iterator[str]:
    for each in node.body:
        if isinstance(each, ast.Assign) and isinstance(each.targets[0], ast.Name):
            if isinstance(each.value, ast.Constant):
                yield each.targets[0].id.replace("_", " ").title()
            elif isinstance(each.value, ast.Tuple):
                yield from _plain(each.value.elts[-1])


def _of_model(node: ast.ClassDef) -> Iterator[str]:
    meta = next((each for each in node.body if isinstance(each, ast.ClassDef) and each.name == "Meta"), None)
    said = {
        each.targets[0].id: each.value
        for each in (meta.body if meta else ())
        if isinstance(each, ast.Assign) and isinstance(each.targets[0], ast.Name)
    }
    if "abstract" not in said:
        name = next(_plain(said.get("verbose_name")), camel_case_to_spaces(node.name))
        if not isinstance(said.get("verbose_name"), ast.Call):
            yield name
        if "verbose_name_plural" in said:
            yield from _plain(said["verbose_name_plural"])
        else:
            yield f"{name}s"
    for each in node.body:
        if isinstance(each, ast.Assign) and (call := _field(each)):
            yield from _of_field(each.targets[0].id, call)


def _of_field(name: str, call: ast.Call) -> Iterator[str]:
    given = {word.arg: word.value for word in call.keywords}
    if call.args and call.func.attr not in RELATIONS:
        given.setdefault("verbose_name", call.args[0])
    yield from _plain(given["verbose_name"]) if "verbose_name" in given else (name.replace("_", " "),)
    yield from _plain(given.get("help_text"))


def _field(node: ast.Assign) -> ast.Call | None:
    """The call that makes a field of this name."""
    call = node.value
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute):
        return None
    return call if call.func.attr.endswith("Field") or call.func.attr in RELATIONS else None


def _plain(node: ast.expr | None) -> Iterator[str]:
    """The text, if it is one that nobody marked."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value:
        yield node.value
