"""Pictures of figures: SVG without a script or a style of its own, which reads in both themes.

Colours are classes (`admin.css`), and never alone: a line has its dashes, a bar its place and its words. A picture has
a title and a description for whoever does not see it; the same numbers stand in a table below it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

WIDTH, HEIGHT = 720, 200
LEFT, RIGHT, TOP, BOTTOM = 64, 8, 12, 24
ROW = 22
NAMES = 200
"""Room for the names beside lying bars."""
AFTER = 90

Text = Callable[[float], str]


@dataclass(frozen=True, slots=True)
class Series:
    """One value for each place; None where there is none."""

    name: str
    values: tuple[float | None, ...]


def bars(id: str, title: str, places: Sequence[str], series: Sequence[Series], text: Text) -> SafeString:
    """Standing bars, the series on top of each other."""
    totals = [sum(each.values[place] or 0 for each in series) for place in range(len(places))]
    most = max([*totals, 0]) or 1
    step = (WIDTH - LEFT - RIGHT) / max(1, len(places))
    drawn = []
    for place, name in enumerate(places):
        floor = 0.0
        for number, each in enumerate(series):
            value = each.values[place] or 0
            if value:
                top, bottom = _y(floor + value, most), _y(floor, most)
                drawn.append(
                    (number, _n(LEFT + place * step + step * 0.1), _n(top), _n(step * 0.8), _n(bottom - top),
                     f"{name}: {each.name} {text(value)}")
                )  # fmt: skip
                floor += value
    shapes = format_html_join(
        "", '<rect class="u{}" x="{}" y="{}" width="{}" height="{}"><title>{}</title></rect>', drawn
    )
    return _svg(id, title, places, series, text, most, shapes)


def lines(id: str, title: str, places: Sequence[str], series: Sequence[Series], text: Text) -> SafeString:
    """Lines from place to place; a gap where there is no value."""
    known = [value for each in series for value in each.values if value is not None]
    most = max([*known, 0]) or 1
    step = (WIDTH - LEFT - RIGHT) / max(1, len(places))
    drawn, dots = [], []
    for number, each in enumerate(series):
        path, pen = [], "M"
        for place, value in enumerate(each.values):
            if value is None:
                pen = "M"
                continue
            x, y = _n(LEFT + (place + 0.5) * step), _n(_y(value, most))
            path.append(f"{pen}{x} {y}")
            dots.append((number, x, y, f"{places[place]}: {each.name} {text(value)}"))
            pen = "L"
        drawn.append((number, "".join(path)))
    shapes = format_html_join("", '<path class="u{} line" d="{}"/>', drawn)
    marks = format_html_join(
        "", '<circle class="u{}" cx="{}" cy="{}" r="2.5"><title>{}</title></circle>', dots
    )
    return _svg(id, title, places, series, text, most, shapes + marks)


def lying(id: str, title: str, rows: Sequence[tuple[str, float]], text: Text) -> SafeString:
    """Lying bars, one below the other, each with its name and its value."""
    most = max((value for _, value in rows), default=0) or 1
    room = WIDTH - NAMES - AFTER
    drawn = [
        (_n(NAMES - 8), _n(place * ROW + 15), _short(name), NAMES, _n(place * ROW + 4), _n(max(1, value / most * room)),
         _n(NAMES + max(1, value / most * room) + 6), _n(place * ROW + 15), text(value))
        for place, (name, value) in enumerate(rows)
    ]  # fmt: skip
    shapes = format_html_join(
        "",
        '<text class="end" x="{}" y="{}">{}</text><rect class="u0" x="{}" y="{}" width="{}" height="14"/>'
        '<text x="{}" y="{}">{}</text>',
        drawn,
    )
    said = "; ".join(f"{name}: {text(value)}" for name, value in rows[:10])
    return _picture(id, title, said, max(1, len(rows)) * ROW, shapes)


def _svg(
    id: str,
    title: str,
    places: Sequence[str],
    series: Sequence[Series],
    text: Text,
    most: float,
    shapes: SafeString,
) -> SafeString:
    said = ". ".join(_said(each, places, text) for each in series)
    axis = format_html(
        '<path class="axis" d="M{0} {1}V{2}H{3}"/><text class="end" x="{4}" y="{5}">{6}</text>'
        '<text class="end" x="{4}" y="{2}">0</text><text x="{0}" y="{7}">{8}</text>'
        '<text class="end" x="{3}" y="{7}">{9}</text>',
        LEFT, TOP, HEIGHT - BOTTOM, WIDTH - RIGHT, LEFT - 6, TOP + 8, text(most), HEIGHT - 6,
        places[0] if places else "", places[-1] if len(places) > 1 else "",
    )  # fmt: skip
    return _picture(id, title, said, HEIGHT, axis + shapes)


def _picture(id: str, title: str, said: str, height: float, shapes: SafeString) -> SafeString:
    return format_html(
        '<svg class="loom-chart" role="img" aria-labelledby="{0}-t {0}-d" viewBox="0 0 {1} {2}">'
        '<title id="{0}-t">{3}</title><desc id="{0}-d">{4}</desc>{5}</svg>',
        id, WIDTH, _n(height), title, said, shapes,
    )  # fmt: skip


def _said(series: Series, places: Sequence[str], text: Text) -> str:
    known = [(value, place) for place, value in zip(places, series.values, strict=True) if value]
    if not known:
        return f"{series.name}: –"
    value, place = max(known)
    return f"{series.name}: {text(min(known)[0])} – {text(value)} ({place})"


def _y(value: float, most: float) -> float:
    return HEIGHT - BOTTOM - value / most * (HEIGHT - TOP - BOTTOM)


def _n(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")


def _short(name: str) -> str:
    return name if len(name) <= 28 else f"{name[:27]}…"
