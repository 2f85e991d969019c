"""Formulas become MathML, whichever way a model writes them, and nothing else."""

from __future__ import annotations

import pytest

from chatsite.chat.render.blocks import blocks_of
from chatsite.chat.render.markdown import fresh_html
from tests.chat.render.hostile import HOSTILE, assert_inert

SUM = r"\sum_{i=0}^n i^2"


@pytest.mark.parametrize("text", [f"so ${SUM}$.", rf"so \({SUM}\)."])
def test_a_formula_in_a_line_is_drawn_in_it(text):
    html = fresh_html(text)
    assert '<math display="inline">' in html
    assert "∑" in html
    assert html.startswith("<p>so ")


@pytest.mark.parametrize("text", ["the value is\n$x$ here", "the value is\n\\(x\\) here", "**so**\n$x$ here"])
def test_a_formula_that_begins_a_line_keeps_the_space_before_it(text):
    html = fresh_html(text)
    assert "\n<math" in html
    assert "</math> here" in html


@pytest.mark.parametrize(
    "text",
    [f"$$\n{SUM}\n$$", f"$${SUM}$$", f"\\[\n{SUM}\n\\]", f"\\[{SUM}\\]", f"- one\n\n  \\[\n  {SUM}\n  \\]"],
)
def test_a_formula_by_itself_is_a_block(text):
    html = fresh_html(text)
    assert '<div class="math" tabindex="0"><math display="block">' in html
    assert "∑" in html


def test_lines_of_a_formula_are_no_markdown():
    html = fresh_html("\\[\na\n+ b_1 * c_2 * d\n- 3\n\\]\n\nText")
    assert "<li>" not in html
    assert "<em>" not in html
    assert html.count("<math") == 1
    assert html.endswith("<p>Text</p>")


@pytest.mark.parametrize(
    "text",
    [
        "It costs $5 and $10 today.",
        "$ 5 or 6 $",
        "`$x$` and `\\(x\\)`",
        r"\$x\$",
        "$$\nnever ended",
        "\\[\nnever\n\nended\n\\]",
        r"\(never ended",
        "    $$\n    code\n    $$",
    ],
)
def test_money_code_and_what_has_no_end_are_no_formulas(text):
    assert "<math" not in fresh_html(text)


@pytest.mark.parametrize(
    "source",
    [r"\frac{", "x^2^3", "{" * 500 + "x" + "}" * 500, "x" * 5_000, r"\left(" * 60, r"\begin{matrix}"],
)
def test_what_cannot_be_converted_is_shown_as_it_was_written(source):
    html = fresh_html(f"$${source}$$")
    assert "<math" not in html
    assert '<code class="math">' in html
    assert source[:40] in html


@pytest.mark.parametrize("text", [*HOSTILE, "javascript:alert(1)", "red;background:url(//e.example)"])
def test_nothing_hostile_comes_through_a_formula(text):
    text = text.replace("\n", " ")
    for source in (
        text,
        rf"\text{{{text}}}",
        rf"\href{{{text}}}{{x}}",
        rf"\style{{{text}}}{{x}}",
        rf"\color{{{text}}}x",
    ):
        assert_inert(fresh_html(f"$${source}$$ and ${source}$ and \\({source}\\)"))


def test_an_open_formula_waits_for_its_end_as_it_is():
    assert blocks_of("$$\na_1 * b_2 *", is_open=True) == ['<p class="raw">$$\na_1 * b_2 *</p>']
    assert "<math" in blocks_of("$$\na_1 * b_2\n$$", is_open=True)[0]
    assert "<math" in blocks_of("\\[\na_1\n\\]\nand", is_open=True)[0]
