"""The catalogs: what is found in the source, what is said of a bad one; and Python's gettext reads what is made."""

import gettext
import io
import re
import shutil
from collections.abc import Iterator

import pytest
from django.apps import apps

from chatsite import catalogs
from chatsite.catalogs import Key, Unmarkable, in_python, in_template
from chatsite.pofile import Entry, compiled, parsed, written

PYTHON = """
from django.utils.translation import gettext_lazy as _, ngettext, pgettext
A = _("one " "sentence")
B = ngettext("%(n)s file", "%(n)s files", 3)
C = pgettext("of a thread", "Open")
D = other("not marked")
E = _(A), _(a.b), _(a["b"])
"""
TEMPLATE = """{% load i18n %}<p title="{% translate 'It is %(not) code' %}">{{ name|default:_("New thread") }}
{% blocktranslate with n=x|length trimmed %}
  Keep {{ n }}, 5 %
{% endblocktranslate %}{% blocktranslate count n=x %}{{ n }} file{% plural %}{{ n }} files{% endblocktranslate %}
gettext("not a mark") {% translate "Open" context "of a thread" %}</p>"""


def test_every_kind_of_mark_is_found_in_python():
    assert dict(in_python(PYTHON)) == {
        Key("", "one sentence"): "",
        Key("", "%(n)s file"): "%(n)s files",
        Key("of a thread", "Open"): "",
    }


def test_every_kind_of_mark_is_found_in_a_template():
    assert dict(in_template(TEMPLATE)) == {
        Key("", "It is %%(not) code"): "",
        Key("", "New thread"): "",
        Key("", "Keep %(n)s, 5 %%"): "",
        Key("", "%(n)s file"): "%(n)s files",
        Key("of a thread", "Open"): "",
    }


@pytest.mark.parametrize("text", ['f"{name} is here"', '"a" + name', '"{}".format(name)'])
def test_a_mark_around_what_is_no_plain_text_is_an_error_that_says_where(text):
    source = f"from django.utils.translation import gettext as _\nx = _({text})\n"
    with pytest.raises(Unmarkable, match=r"views\.py:2"):
        list(in_python(source, "views.py"))


ENTRIES = [
    Entry(Key("", 'Say "no"\nor\\yes'), forms=("Sag „nein“\noder\\ja",), places=["a.py", "b.html"]),
    Entry(Key("of a thread", "Open"), forms=("Öffnen",)),
    Entry(Key("", "%(n)s file"), "%(n)s files", ("%(n)s Datei", "%(n)s Dateien")),
    Entry(Key("", "New"), fuzzy=True, forms=("Neu?",)),
    Entry(Key("", "Nothing yet")),
]


def test_what_is_written_is_read_again():
    assert list(parsed(written("de", ENTRIES))) == ENTRIES


def test_gettext_reads_what_is_compiled_and_what_is_unsure_is_left_out():
    said = gettext.GNUTranslations(io.BytesIO(compiled("de", ENTRIES)))
    assert said.gettext('Say "no"\nor\\yes') == "Sag „nein“\noder\\ja"
    assert said.pgettext("of a thread", "Open") == "Öffnen"
    assert said.ngettext("%(n)s file", "%(n)s files", 1) == "%(n)s Datei"
    assert said.ngettext("%(n)s file", "%(n)s files", 0) == "%(n)s Dateien"
    assert said.gettext("New") == "New"
    assert said.gettext("Nothing yet") == "Nothing yet"


@pytest.mark.parametrize(
    ("entry", "fault"),
    [
        (Entry(Key("", "Open")), "not translated"),
        (Entry(Key("", "Open"), forms=("Öffnen",), fuzzy=True), "unsure"),
        (Entry(Key("", "%(n)s of {all}"), forms=("%(n)s von {alle}",)), "placeholders differ"),
        (Entry(Key("", "%(n)s file"), "%(n)s files", ("%(n)s Datei", "Dateien")), "placeholders differ"),
        (Entry(Key("", "%(n)s file"), "%(n)s files", ("%(n)s Datei",)), "not translated"),
        (Entry(Key("", "%(n)s file"), "%(n)s files", ("eine Datei", "%(n)s Dateien")), None),
        (Entry(Key("", "50 %% of {all}"), forms=("50 %% von {all}",)), None),
    ],
)
def test_what_a_reader_would_miss_is_said(entry, fault):
    said = list(catalogs.faults([entry]))
    assert (not said) if fault is None else (len(said) == 1 and said[0].startswith(fault))


def test_a_sentence_that_was_added_makes_the_check_fail_until_it_is_translated(tmp_path, capsys):
    shutil.copytree(catalogs.ROOT / "locale", tmp_path / "locale")
    (tmp_path / "chatsite").mkdir()
    (tmp_path / "templates").mkdir()
    page = tmp_path / "templates" / "page.html"
    page.write_text('{% load i18n %}{% translate "Quite new" %}')
    assert any("not translated: 'Quite new'" in line for line in catalogs.problems(tmp_path))
    catalogs.bring_up(tmp_path)
    po = tmp_path / "locale/de/LC_MESSAGES/django.po"
    po.write_text(
        po.read_text().replace('msgid "Quite new"\nmsgstr ""', 'msgid "Quite new"\nmsgstr "Ganz neu"')
    )
    assert [line for line in catalogs.problems(tmp_path) if "django.mo" in line]
    catalogs.bring_up(tmp_path)
    assert catalogs.problems(tmp_path) == []


def test_what_models_and_their_fields_are_called_is_found_without_a_mark():
    found = {key.id for key in catalogs.collected()}
    for config in apps.get_app_configs():
        if not config.name.startswith("chatsite."):
            continue
        for model in config.get_models():
            said = {str(model._meta.verbose_name), str(model._meta.verbose_name_plural)}
            for field in (*model._meta.local_fields, *model._meta.local_many_to_many):
                if not field.auto_created:
                    said |= {str(field.verbose_name), str(field.help_text)}
                    said |= {str(label) for value, label in field.flatchoices if value or label}
            assert said - {""} <= found, model


def visible(source: str) -> Iterator[str]:
    """What a template says that stands in no mark: texts, and the attributes that are read out."""
    source = re.sub(r"{% (comment|blocktranslate)\b.*?{% end\1 %}", "", source, flags=re.DOTALL)
    source = re.sub(r"{#.*?#}|<(script|code|pre)\b.*?</\1>", "", source, flags=re.DOTALL)
    source = re.sub(r"{% block (bodyclass|body_attributes) %}.*?{% endblock %}", "", source)
    yield from re.findall(r'default:"([^"]+)"', source)
    source = re.sub(r"{%.*?%}|{{.*?}}", "", source, flags=re.DOTALL)
    yield from re.findall(r'(?:title|alt|placeholder|aria-label)="([^"]*)"', source)
    yield from re.sub(r"<[^>]*>|&\w+;", "\n", source).splitlines()


NAMES = {"Threadloom", "(UTC)", "CSV", "POST"}


def test_the_templates_say_nothing_that_is_not_marked():
    left = {}
    for path in (catalogs.ROOT / "templates").rglob("*.html"):
        said = {text.strip(" ·|") for text in visible(path.read_text()) if re.search("[A-Za-z]{2}", text)}
        if said - NAMES:
            left[path.name] = said - NAMES
    assert left == {}


def test_every_marked_sentence_is_translated_and_the_catalogs_are_of_this_source():
    """`python -m chatsite.catalogs` says what to write, and makes the rest."""
    assert catalogs.problems() == []
