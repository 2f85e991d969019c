"""Arguments as the fields of a form, and back: what nobody changed stays what it was."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chatsite.chat.render.asking import form_html
from chatsite.chat.render.context import Question
from chatsite.chat.render.field_schemas import MOST_EDITABLE
from chatsite.chat.render.fields import control, fields_of, read_arguments
from chatsite.chat.render.one_field import Unreadable
from chatsite.chat.state import InterruptView
from tests.chat.render.hostile import assert_inert
from tests.chat.render.page import Node, parse
from tests.chat.render.test_blocks import steady

SCHEMA = {
    "type": "object",
    "properties": {
        "to": {"type": "string", "description": "An address"},
        "code": {"type": "string", "maxLength": 10},
        "count": {"type": "integer"},
        "price": {"type": "number"},
        "urgent": {"type": "boolean"},
        "size": {"enum": ["S", "M", 3, True]},
        "tags": {"type": "array", "items": {"type": "string"}},
        "note": {"anyOf": [{"type": "string"}, {"type": "null"}]},
        "level": {"$ref": "#/$defs/Level"},
    },
    "required": ["to", "count"],
    "$defs": {"Level": {"enum": ["low", "high"], "type": "string"}},
}
GIVEN = {
    "to": "a\r\nb", "code": "x1", "count": 3, "price": 1.5, "urgent": True, "size": 3, "tags": ["a"],
    "note": None, "level": "high",
}  # fmt: skip


def asked(given, schema=SCHEMA) -> InterruptView:
    return InterruptView("q1", "r1", "c1", "order", input=given, schema=schema)


def submitted(question: InterruptView, **changes: str) -> dict[str, list[str]]:
    """What a browser sends of the form as it is shown, with these controls changed."""
    posted: dict[str, list[str]] = {}

    def walk(node: Node) -> None:
        name, kind = node.attributes.get("name"), node.attributes.get("type")
        text = "".join(each for each in node.children if isinstance(each, str))
        match node.tag:
            case "textarea":
                posted.setdefault(name, []).append(text.removeprefix("\n").replace("\n", "\r\n"))
            case "input" if kind not in ("checkbox", "radio") or "checked" in node.attributes:
                posted.setdefault(name, []).append(node.attributes.get("value") or "")
            case "select":
                chosen = [each for each in node.elements if "selected" in each.attributes]
                posted.setdefault(name, []).append((chosen or node.elements)[0].attributes["value"])
        for each in node.elements:
            walk(each)

    html = form_html("i", Question(question))
    assert_inert(html)
    walk(parse(html))
    return posted | {f"q1.arg.{name}": [text] for name, text in changes.items()}


def read(given, schema=SCHEMA, **changes: str):
    question = asked(given, schema)
    return read_arguments(question, submitted(question, **changes))


def kinds(given, schema=SCHEMA) -> dict:
    return {field.name: field.kind for field in fields_of(asked(given, schema))}


def test_each_type_has_its_control_and_the_required_ones_stand_first():
    assert list(kinds(GIVEN).items()) == [
        ("to", "text"), ("count", "integer"), ("code", "line"), ("level", "choice"), ("note", "text"),
        ("price", "number"), ("size", "choice"), ("tags", "json"), ("urgent", "flag"),
    ]  # fmt: skip


def test_the_order_does_not_depend_on_how_a_database_keeps_an_object():
    turned = {**SCHEMA, "properties": dict(reversed(SCHEMA["properties"].items()))}
    assert list(kinds(dict(reversed(GIVEN.items())), turned)) == list(kinds(GIVEN))


def test_what_nobody_changed_is_no_edit():
    assert read(GIVEN) is None
    assert read({"to": "x", "count": 1}) is None
    assert read_arguments(asked(GIVEN), {}) is None


@pytest.mark.parametrize(
    ("name", "typed", "value"),
    [
        ("to", "new\r\ntext", "new\ntext"),
        ("to", "", ""),
        ("code", "y2", "y2"),
        ("count", " 12 ", 12),
        ("price", "2", 2),
        ("price", "1e3", 1000.0),
        ("urgent", "off", False),
        ("size", "0", "S"),
        ("size", "3", True),
        ("tags", '["b", {"c": null}]', ["b", {"c": None}]),
        ("note", "hi", "hi"),
        ("level", "0", "low"),
    ],
)
def test_a_change_is_read_as_what_the_schema_says(name, typed, value):
    assert read(GIVEN, **{name: typed}) == {**GIVEN, name: value}
    assert type(read(GIVEN, **{name: typed})[name]) is type(value)


def test_what_may_be_left_out_can_be_taken_out():
    assert "price" not in read(GIVEN, price="")
    assert "size" not in read(GIVEN, size="")
    assert read({**GIVEN, "note": "hi"}, note="")["note"] is None


def test_what_was_left_out_can_be_put_in():
    few = {"to": "x", "count": 1}
    assert read(few, price="2.5") == {**few, "price": 2.5}
    assert read(few, urgent="on") == {**few, "urgent": True}


@pytest.mark.parametrize(
    ("name", "typed", "words"),
    [
        ("count", "1.5", "count: “1.5” is not a whole number."),
        ("count", "many", "count: “many” is not a whole number."),
        ("count", "", "count: this is needed."),
        ("count", "٣", "not a whole number"),
        ("count", "1" * 500, "not a whole number"),
        ("price", "1,5", "price: “1,5” is not a number."),
        ("price", "1_000", "is not a number"),
        ("price", "nan", "is not a number"),
        ("price", "1e999", "is not a number"),
        ("size", "9", "size: choose one of the list."),
        ("size", "-1", "choose one of the list"),
        ("tags", '["a"', "tags: this is not valid JSON (line 1, column 5)."),
        ("tags", "[NaN]", "cannot be used"),
        ("tags", "[" * 100_000, "cannot be used"),
    ],
)
def test_what_cannot_be_read_is_said_with_what_was_typed(name, typed, words):
    with pytest.raises(Unreadable) as caught:
        read(GIVEN, **{name: typed})
    assert words in str(caught.value)


def test_the_same_json_written_otherwise_is_no_edit():
    assert read(GIVEN, tags='[ "a" ]') is None
    assert read(GIVEN, count="03") is None


def test_an_argument_that_the_schema_does_not_know_is_shown_all_the_same():
    given = {**GIVEN, "secret": "x", "more": {"a": 1}}
    assert kinds(given)["secret"] == "text"
    assert kinds(given)["more"] == "json"
    assert read(given) is None
    assert read(given, secret="y") == {**given, "secret": "y"}


@pytest.mark.parametrize("schema", [{}, {"type": "object"}, {"properties": 7}, {"properties": {}}, {"x": []}])
def test_without_properties_all_arguments_are_one_box_of_json(schema):
    question = asked({"a": 1} if schema != {"properties": {}} else {}, schema)
    assert [field.name for field in fields_of(question)] == [None]
    assert read_arguments(question, submitted(question)) is None
    assert read_arguments(question, {"q1.all.": ['{"b": 2}']}) == {"b": 2}
    with pytest.raises(Unreadable, match="JSON object"):
        read_arguments(question, {"q1.all.": ["[1]"]})


def test_a_tool_without_arguments_asks_for_none():
    nothing = asked({}, {"type": "object", "properties": {}, "additionalProperties": False})
    assert fields_of(nothing) == ()
    assert read_arguments(nothing, {}) is None
    assert "It takes no arguments." in form_html("i", Question(nothing))


def test_a_value_that_does_not_fit_its_schema_is_still_what_it_is():
    odd = {"to": ["a"], "count": "3", "urgent": "yes", "size": "XXL", "level": 5, "price": None}
    assert kinds(odd) == {
        **kinds(GIVEN), "to": "json", "count": "text", "urgent": "text", "size": "json", "level": "json",
        "price": "json",
    }  # fmt: skip
    assert read(odd) is None


def test_a_very_long_value_is_shown_and_kept():
    long = {**GIVEN, "to": "x" * (MOST_EDITABLE + 1)}
    assert kinds(long)["to"] == "long"
    assert read(long) is None
    assert read(long, to="short") is None
    assert "Too long to be changed here" in form_html("i", Question(asked(long)))


def test_what_no_database_holds_is_mended():
    assert read(GIVEN, tags='["\\u0000\\ud800"]')["tags"] == ["\ufffd\ufffd"]
    assert read(GIVEN, to="a\0")["to"] == "a\ufffd"


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@steady
@given(
    JSON,
    st.dictionaries(st.text(), JSON, max_size=4),
    st.dictionaries(
        st.sampled_from(["type", "properties", "required", "anyOf", "$ref", "enum", "title"]), JSON
    ),
)
def test_no_schema_and_no_arguments_break_the_form(value, properties, schema):
    for arguments in (value, properties):
        for told in (schema, {**schema, "properties": properties}):
            question = asked(arguments, told)
            assert read_arguments(question, submitted(question)) is None
            for field in fields_of(question):
                assert set(control(question, field)) <= set(
                    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789%.-_~"
                )
                json.dumps(field.value if field.value.__class__ is not object else None)
