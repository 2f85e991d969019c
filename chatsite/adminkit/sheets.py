"""Lists as CSV, which people open in a spreadsheet: no cell may be taken there for a formula."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Any

from django.http import HttpResponse

BEGINS_FORMULAS = ("=", "+", "-", "@", "\t", "\r", "\n")


def csv_response(name: str, head: Sequence[Any], rows: Iterable[Sequence[Any]]) -> HttpResponse:
    """The rows as a download of that (plain) name."""
    text = io.StringIO()
    csv.writer(text).writerows([safe(value) for value in row] for row in chain([head], rows))
    answer = HttpResponse(text.getvalue(), content_type="text/csv; charset=utf-8")
    answer["Content-Disposition"] = f'attachment; filename="{name}"'
    return answer


def safe(value: Any) -> Any:
    """A cell. Numbers stay numbers; text that would be run has an apostrophe in front, as spreadsheets have it."""
    if value is None:
        return ""
    if isinstance(value, int | float):
        return value
    text = str(value).replace("\0", "")
    return f"'{text}" if text.lstrip(" ").startswith(BEGINS_FORMULAS) else text
