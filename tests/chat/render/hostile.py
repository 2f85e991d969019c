"""Text that wants to be markup, and what may never be in the HTML that comes of it."""

from __future__ import annotations

import re
from html.parser import HTMLParser

HOSTILE = [
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    '"><svg onload=alert(1)>',
    "' onmouseover='alert(1)",
    '" onmouseover="alert(1)" x="',
    'x" hx-get="/admin/" hx-trigger="load',
    "<hx-partial hx-target='#log' hx-swap='innerHTML'>x</hx-partial>",
    "<hx-up to=composer><i id=live></i></hx-up>",
    "</hx-add></hx-set></hx-up></template></div></details></section>",
    "<div hx-get=/admin/ hx-trigger=load data-hx-get=/x hx-on:click=alert(1)>x</div>",
    "<i id=live hx-swap-oob=true></i>",
    "<template hx type=partial hx-target=body>x</template>",
    "<head><title>x</title></head>",
    "<title>x</title><style>*{display:none}</style><base href=//e.example>",
    "<a href=javascript:alert(1) style=position:fixed>x</a>",
    "<iframe src=//e.example></iframe><form action=//e.example><input name=a></form>",
    "&lt;script&gt;alert(1)&lt;/script&gt;",
    "javascript:alert(1)",
    "java\tscript:alert(1)",
    "data:text/html;base64,PHNjcmlwdD4=",
    "\0<scr\0ipt>\r\n\r\ndata: <script>\rid: 7",
    "<!-- <b> --><![CDATA[<script>]]><?php ?>",
    "<math><mtext><table><mglyph><style><img src=x onerror=alert(1)>",
]

TAGS = {
    *("a", "article", "b", "blockquote", "br", "button", "code", "del", "details", "div", "em", "figcaption"),
    *(
        "figure",
        "footer",
        "h1",
        "h2",
        "h3",
        "h4",
        "h5",
        "h6",
        "hr",
        "i",
        "img",
        "input",
        "li",
        "ol",
        "p",
        "pre",
    ),
    *(
        "s",
        "section",
        "small",
        "span",
        "strong",
        "summary",
        "table",
        "tbody",
        "td",
        "th",
        "thead",
        "tr",
        "ul",
        # of a question's form
        "fieldset",
        "label",
        "legend",
        "option",
        "select",
        "textarea",
        "time",
    ),
    # of a footnote, and of a formula
    *(
        "sup",
        "progress",
        "math",
        "mi",
        "mn",
        "mo",
        "mrow",
        "msup",
        "msub",
        "msubsup",
        "mstyle",
        "mtext",
        "mfrac",
        "mover",
    ),
    *("mtable", "mtr", "mtd", "munder", "munderover", "mspace", "mpadded"),
}
OURS = {"hx-up", "hx-set", "hx-add", "hx-partial", "title"}
ATTRIBUTES = {
    *("accent", "display", "fence", "form", "max", "mathvariant", "movablelimits", "stretchy", "width"),
    *("alt", "aria-hidden", "aria-label", "checked", "class", "data-v", "disabled", "form", "hidden", "href"),
    *("dir", "hx-ignore", "id", "rel", "src", "tabindex", "start", "target", "type"),
    *(
        "aria-describedby",
        "aria-labelledby",
        "autocomplete",
        "data-message",
        "data-q",
        "datetime",
        "for",
        "inputmode",
        "maxlength",
        "popovertarget",
    ),
    *("name", "open", "placeholder", "required", "role", "rows", "selected", "spellcheck", "value"),
}
OURS_ATTRIBUTES = {"to", "k", "d", "c", "f", "v", "hx-target", "hx-swap"}


class _Inert(HTMLParser):
    def handle_starttag(self, tag, attributes):
        assert tag in TAGS | OURS, tag
        for name, value in attributes:
            assert name in (ATTRIBUTES | OURS_ATTRIBUTES if tag in OURS else ATTRIBUTES), (tag, name)
            assert "<" not in (value or ""), value
            if name == "href" and not re.fullmatch(r"\./\?(edit|quote)=[\w.~%-]*", value):
                assert value.startswith(("http://", "https://", "mailto:")), value
            if name == "src":
                assert value.startswith("data:image/"), value

    def handle_comment(self, data):
        raise AssertionError(data)

    handle_decl = unknown_decl = handle_pi = handle_comment


def assert_inert(html: str) -> None:
    """Only our own tags and attributes, no address that runs something, nothing that breaks an SSE frame."""
    parser = _Inert()
    parser.feed(html)
    parser.close()
    assert "\r" not in html
    assert "\0" not in html
