"""Markdown becomes HTML that may be shown: what it looks like, and what never comes through."""

from __future__ import annotations

import time

import pytest

from chatsite.chat.render.blocks import blocks_of
from chatsite.chat.render.cleaning import clean
from chatsite.chat.render.code import code_html, language_of
from chatsite.chat.render.code_css import css
from chatsite.chat.render.escaping import escape
from chatsite.chat.render.markdown import block_html, fresh_html
from tests.chat.render.hostile import HOSTILE, assert_inert


def test_html_in_markdown_is_text():
    assert fresh_html("<b onclick=x>hi</b>") == "<p>&lt;b onclick=x&gt;hi&lt;/b&gt;</p>"


@pytest.mark.parametrize("text", HOSTILE)
def test_no_markup_of_the_model_survives(text):
    for shown in (
        text,
        f"[a]({text})",
        f'[a](https://e.example "{text}")',
        f"![{text}]({text})",
        f"`{text}`",
    ):
        assert_inert(fresh_html(shown))
        assert_inert("".join(blocks_of(shown, is_open=True)))
    assert_inert(fresh_html(f"```{text}\n{text}\n```"))
    assert_inert("".join(blocks_of(f"```{text}\n{text}\n", is_open=True)))


@pytest.mark.parametrize(
    "html",
    [
        '<a href="https://e.example" hx-get="/x" hx-trigger="load" onclick="x()" style="x" id="x" name="x">a</a>',
        '<div hx-swap-oob="true" id="composer" data-x="1">a</div>',
        '<hx-partial target="#x">a</hx-partial>',
        '<p onmouseover="x()" style="x">a</p>',
        '<span hx-on:load="x()" data-hx-get="/x">a</span>',
        '<button type="submit" formaction="/x" name="x">a</button>',
        '<td style="x" hx-vals="js:x()">a</td>',
        "<form action=/x><input name=x></form>",
        "<iframe src=/x></iframe><object data=/x></object><embed src=/x>",
        "<svg onload=x()><script>x()</script></svg>",
        "<template><script>x()</script></template>",
        '<a href="javascript:x()">a</a><a href="data:text/html,x">a</a>',
    ],
)
def test_the_last_sieve_lets_through_nothing_that_acts_also_if_all_before_it_did(html):
    """Markdown's own reader makes text of tags; this is what would hold if it did not."""
    assert_inert(clean(html))


def test_no_text_ends_the_attribute_that_it_is_written_into():
    assert escape('" onclick="x()') == "&quot; onclick=&quot;x()"


@pytest.mark.parametrize(
    "address", ["javascript:alert(1)", "data:text/html,x", "vbscript:x", "//e.example", "/admin/"]
)
def test_a_link_leads_only_to_the_web_or_to_mail(address):
    assert "href" not in fresh_html(f"[a]({address})")
    assert "href" not in fresh_html(f"<{address}>")
    assert "href" not in fresh_html(f"![a]({address})")


def test_a_link_opens_elsewhere_and_tells_nothing():
    html = fresh_html("[a](https://e.example/x?a=1&b=2)")
    assert 'href="https://e.example/x?a=1&amp;b=2"' in html
    assert 'target="_blank"' in html
    assert 'rel="nofollow noopener noreferrer"' in html


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("see https://e.example/a.", "https://e.example/a"),
        ("(https://e.example/a_(b))", "https://e.example/a_(b)"),
        ("**https://e.example**", "https://e.example"),
        ("http://e.example, and more", "http://e.example"),
    ],
)
def test_a_bare_address_is_a_link(text, address):
    assert f'href="{address}"' in fresh_html(text)


def test_a_bare_address_in_code_or_in_a_link_is_left_alone():
    assert "href" not in fresh_html("`https://e.example`")
    assert fresh_html("[https://a.example](https://b.example)").count("href") == 1


def test_a_remote_picture_is_a_link_with_its_host():
    html = fresh_html("![a cat](https://e.example/cat.png)")
    assert "<img" not in html
    assert ">a cat (e.example)</a>" in html


def test_a_task_list_has_boxes_that_cannot_be_ticked():
    html = fresh_html("- [x] done\n- [ ] open\n- [y] neither")
    assert html.count("<input") == html.count("disabled") == 2
    assert html.count("checked") == 1
    assert "[y] neither" in html


def test_a_footnote_shows_the_label_that_was_given():
    html = fresh_html("A fact[^a] and more[^2].\n\n[^a]: Where *it*\ncomes from\n[^2]: Elsewhere\n- a list")
    assert '<sup class="footnote">a</sup>' in html
    assert '<p class="footnote"><sup>a</sup> Where <em>it</em>\ncomes from</p>' in html
    assert '<p class="footnote"><sup>2</sup> Elsewhere</p>' in html
    assert "<ul>" in html


@pytest.mark.parametrize("text", ["[^ a]", "[^]", "`[^1]`", "\\[^1]", "[^a[b]]"])
def test_what_is_no_footnote_stays_as_it_is(text):
    assert "<sup" not in fresh_html(text)


def test_a_table_aligns_by_class_since_styles_are_refused():
    html = fresh_html("|a|b|\n|-|-:|\n|1|2|")
    assert '<td class="right">2</td>' in html
    assert "style" not in html


def test_code_names_its_language_and_is_coloured():
    html = fresh_html("```python title=x\nreturn 1\n```")
    assert "<figcaption>python<button" in html
    assert '<span class="k">return</span>' in html


def test_code_in_an_unknown_language_is_plain():
    assert code_html("<a>", "nosuchthing") == "&lt;a&gt;"


def test_code_that_is_very_long_is_plain():
    assert "<span" not in code_html("x = 1\n" * 10_000, "python")


@pytest.mark.parametrize("info", ['"><script>', "py<thon", "a" * 900, "  "])
def test_a_language_is_one_harmless_word(info):
    assert set(language_of(info)) <= set("abcdefghijklmnopqrstuvwxyz0123456789+#.-_")
    assert len(language_of(info)) <= 24


@pytest.mark.parametrize(
    "piece",
    [
        *("[", ">", "*a ", "`", "- ", "|a", "![](", "<", "**", "a\n", "[a](", "&", "_a_", "https://", "1. "),
        *("\\(", "\\[x\n", "$a ", "$$\n", "$x$ ", "[^", "[^1]: x\n", "\\[\na\n"),
    ],
)
def test_nonsense_does_not_take_the_server_with_it(piece):
    began = time.process_time()
    fresh_html(piece * (30_000 // len(piece)))
    assert time.process_time() - began < 5


def test_a_huge_block_is_shown_as_it_is():
    assert block_html("*a* " * 30_000).startswith('<p class="raw">*a* ')


def test_a_huge_fence_is_still_code():
    code = "a < b\n\n" * 10_000
    html = block_html(f"```sql\n{code}```\n")
    assert "<figcaption>sql" in html
    assert html.endswith("a &lt; b\n\n</code></pre></figure>")


def test_the_colours_of_code_are_what_the_command_makes():
    from django.conf import settings

    assert (settings.BASE_DIR / "static/chat/code.css").read_text() == css()
