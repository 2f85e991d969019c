"""What is shown of a hit is plain words around it, whatever the text is made of."""

from __future__ import annotations

import time

import pytest

from chatsite.chat.models import Message, Thread
from chatsite.chat.rows.snippets import snippet

HOSTILE = (
    "# <script>alert(1)</script> **needle** <img src=x onerror=alert(1)> [a](javascript:alert(1))"
    ' <mark hx-get="/x">'
)


def shown(text: str, *terms: str) -> str:
    """The snippet, with what was looked for in «»."""
    pieces = snippet(text, [tuple(term.split()) for term in terms or ("needle",)])
    return "".join(f"«{piece}»" if place % 2 else piece for place, piece in enumerate(pieces))


def test_a_snippet_shows_the_place_and_marks_every_term():
    text = "a " * 200 + "here is the needle and another Needle\nin hay " + "b " * 200
    pieces = snippet(text, [("needle",), ("hay",)])
    assert pieces[1::2] == ("needle", "Needle", "hay")
    assert pieces[0].startswith("…a a")
    assert pieces[-1].endswith("…")
    assert "\n" not in "".join(pieces)
    assert len("".join(pieces)) < 250


def test_a_snippet_of_a_text_without_the_term_is_its_beginning():
    assert snippet("Some text", [("other",)]) == ("Some text",)


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("# A head\n\n**A needle** and *hay*", "A head A «needle» and hay"),
        ("***Needle***, __hay__, _straw_ and ~~gone~~", "«Needle», hay, straw and gone"),
        ("- [x] a **needle**\n* hay\n> > said", "a «needle» hay said"),
        ("The `needle` and ``a ` tick``", "The «needle» and a ` tick"),
        ("A [needle **and** hay](https://example.org/a_(b) 'title'), a ![picture](data:x)", None),
        ("See <https://example.org>, [this][1], a needle[^1]", "See https://example.org, this, a «needle»"),
        ("| a | needle |\n|---|:-:|\n| b | `c` |", "a · «needle» b · c"),
        ("Head\n====\nneedle\n\n* * *\n\nhay\n---", "Head «needle» hay"),
        (r"\*needle\* \# hay", "*«needle»* # hay"),
        ("2 * 3 needle snake_case 4*5 a|b", "2 * 3 «needle» snake_case 4*5 a|b"),
    ],
)
def test_marks_go_and_words_stay(written, read):
    assert shown(written) == (read or "A «needle» and hay, a picture")


def test_code_keeps_its_signs_also_where_the_snippet_begins_inside_of_it():
    assert (
        shown("**So:**\n```python\n# the needle\nf(**a)\n```\n**done**") == "So: # the «needle» f(**a) done"
    )
    long = "```\n" + "x = 1\n" * 1_000 + "# a **needle**\n```\n# **done**"
    assert shown(long).endswith("x = 1 # a **«needle»** done")


def test_what_stands_only_in_a_mark_is_shown_with_it():
    assert shown("**See** [docs](https://needle.example/a)") == "See docs https://«needle».example/a"
    assert shown("```needle\ncode\n```") == "«needle» code"
    assert shown("the __needle__ here", "__needle__") == "the «__needle__» here"


def test_words_that_stand_together_are_found_across_a_mark():
    assert shown("the weather **in** Oslo", "weather in oslo") == "the «weather in Oslo»"


def test_long_addresses_take_no_room_from_the_words():
    address = f"[docs](https://example.org/{'a' * 300})"
    assert shown(f"The words before {address} a needle") == "The words before docs a «needle»"


@pytest.mark.parametrize(
    "piece", ["`", "[", "*", "[a](", "[a](((", "_a ", "`a``b", "**_[`", "> ", "|-", "-", "\\", "~~"]
)
def test_no_text_takes_long(piece):
    started = time.process_time()
    assert "«needle»" in shown(f"needle {piece * (200_000 // len(piece))}")
    assert time.process_time() - started < 10


@pytest.mark.parametrize("cell", ["|    ", "|", "| - ", "|:   :"])
def test_a_torn_table_is_read_in_one_go(cell):
    started = time.process_time()
    assert "«needle»" in shown(f"needle\n-{cell * 180}x")
    assert time.process_time() - started < 10


@pytest.mark.parametrize(
    "rule", ["---", "- - -", "===", "|---|", "| :-- | --: |", "---|---", " :-:|:-: ", "|-|-", "---|"]
)
def test_what_is_drawn_between_rows_is_not_read(rule):
    assert shown(f"needle\n{rule}\nin a table") == "«needle» in a table"


@pytest.mark.django_db(transaction=True)
async def test_hostile_text_is_text_and_the_hit_alone_is_markup(async_client, person):
    thread = await Thread.objects.acreate(owner=person)
    await Message.objects.acreate(public_id="m1", thread=thread, role="assistant", text=HOSTILE, parts=[])
    await async_client.aforce_login(person)
    page = (await async_client.get("/search?q=needle")).content.decode()
    found = page[page.index('<ol class="found">') : page.index("</ol>")]
    assert (
        "&lt;script&gt;alert(1)&lt;/script&gt; <mark>needle</mark> &lt;img src=x onerror=alert(1)&gt; a &lt;mark"
        in found
    )
    assert found.count("<mark") == 1
    assert "<script" not in found
