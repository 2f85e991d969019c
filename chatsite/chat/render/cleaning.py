"""The allow-list through which all HTML goes last. Loaded with the first text that is shown, as `parsing` is."""

from __future__ import annotations

from collections.abc import Callable

import nh3

from chatsite.chat.render import mathematics

_ATTRIBUTES: dict[str, set[str]] = {
    "a": {"href", "class"},
    "button": {"type", "class"},
    "code": {"class"},
    "div": {"class", "tabindex"},
    "figure": {"class", "dir"},
    "input": {"type", "disabled", "checked", "aria-label"},
    "li": {"class"},
    "ol": {"start"},
    "p": {"class"},
    "pre": {"tabindex"},
    "span": {"class"},
    "sup": {"class"},
    "td": {"class"},
    "th": {"class"},
    **mathematics.ATTRIBUTES,
}
_TAGS = (
    set(_ATTRIBUTES)
    | mathematics.TAGS
    | {
        *("blockquote", "br", "del", "em", "figcaption", "h1", "h2", "h3", "h4", "h5", "h6", "hr"),
        *("s", "strong", "table", "tbody", "thead", "tr", "ul"),
    }
)


def _no_angles(tag: str, attribute: str, value: str) -> str:
    return value.replace("<", "%3C").replace(">", "%3E")


_CLEANER = nh3.Cleaner(
    tags=_TAGS,
    attributes=_ATTRIBUTES,
    attribute_filter=_no_angles,
    url_schemes={"http", "https", "mailto"},
    url_relative="deny",
    link_rel="nofollow noopener noreferrer",
    set_tag_attribute_values={"a": {"target": "_blank"}},
)
clean: Callable[[str], str] = _CLEANER.clean
