"""What all lists and detail pages have in common."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any
from urllib.parse import urlencode

from django.contrib import admin
from django.contrib.admin.options import IncorrectLookupParameters
from django.contrib.admin.utils import label_for_field, lookup_field, unquote
from django.contrib.admin.views.main import ChangeList
from django.contrib.auth import get_user_model
from django.core.exceptions import PermissionDenied
from django.core.paginator import Paginator
from django.db.models import Model, QuerySet
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.functional import cached_property
from django.utils.html import format_html, strip_tags
from django.utils.safestring import SafeString
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from chatsite.adminkit import reading
from chatsite.adminkit.reading import Subject
from chatsite.adminkit.sheets import csv_response
from chatsite.audit import log as audit
from chatsite.phrases import count

USERNAME = get_user_model().USERNAME_FIELD
NOTHING = "–"
MAX_SHOWN = 100_000
"""Characters of one value that a page shows; how many more there are is said."""

MOST_COUNTED = 10_000
"""Rows of a list that are counted and paged through; what lies behind them is found by a filter."""

Link = tuple[str, str]
"""Text and address."""


class BoundedPaginator(Paginator):
    """Counts no further than `MOST_COUNTED`: to count a table of millions costs more than its page."""

    @cached_property
    def count(self) -> int:
        return min(self._seen, MOST_COUNTED)

    @property
    def more(self) -> bool:
        """Whether there are rows behind those that are counted."""
        return self._seen > MOST_COUNTED

    @cached_property
    def _seen(self) -> int:
        return self.object_list.order_by()[: MOST_COUNTED + 1].count()


class Listing(ChangeList):
    """A list that leaves long columns in the database, and asks once for what a whole page needs besides."""

    def get_queryset(self, request: HttpRequest, exclude_parameters: Any = None) -> QuerySet[Any]:
        if any("\0" in value for values in self.filter_params.values() for value in values):
            # No text column holds one, and PostgreSQL refuses to be asked.
            raise IncorrectLookupParameters
        rows = super().get_queryset(request, exclude_parameters)
        if str(next(iter(rows.query.order_by), "")).lstrip("-") in self.model_admin.counted:
            rows = rows.filter(calls__isnull=False)
        return rows.defer(*self.model_admin.heavy).annotate(**self.model_admin.list_annotations)

    def get_ordering_field(self, field_name: str) -> Any:
        """None for a column that no index sorts, whatever the address asks for."""
        known = self.sortable_by is None or field_name in self.sortable_by
        return super().get_ordering_field(field_name) if known else None

    def get_ordering(self, request: HttpRequest, queryset: QuerySet[Any]) -> list[Any]:
        """By a counted column alone, and rows that are alike in its direction: so its index has the whole order."""
        ordering = list(super().get_ordering(request, queryset))
        first = str(ordering[0]) if ordering else ""
        if first.lstrip("-") not in self.model_admin.counted:
            return ordering
        return [first, "-pk" if first.startswith("-") else "pk"]

    def get_results(self, request: HttpRequest) -> None:
        super().get_results(request)
        self.result_list = list(self.result_list)
        self.model_admin.complete(self.result_list, request)


class ReadOnlyAdmin(admin.ModelAdmin):
    """Shows rows to whoever may view them."""

    actions: Any = None
    fields: Sequence[str] = ()
    list_per_page = 50
    list_max_show_all = 50
    paginator = BoundedPaginator
    show_full_result_count = False
    show_facets = admin.ShowFacets.NEVER
    ordering = ("-pk",)
    sortable_by: Sequence[str] = ()

    found_by: Sequence[str] = ()
    """Lookups that a search tries in turn, each of them answered by an index; the first that finds anything counts."""
    heavy: Sequence[str] = ()
    """Columns a list does not read."""
    counted: Sequence[str] = ()
    """Columns of which there is an index of those rows alone that are counted: whose `calls` is not null."""
    list_annotations: dict[str, Any] = {}
    """Columns only a list reads."""
    link_lookups: frozenset[str] = frozenset()
    """Lookups through a relation that links to this list use."""

    class Media:
        css = {"all": ["chat/admin.css"]}

    def complete(self, rows: list[Any], request: HttpRequest) -> None:
        """Give the rows of one page of the list what its columns need besides."""

    def subject_of(self, row: Any) -> Subject | None:
        """Whose content the page of a row shows; None where it shows none."""
        return None

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Any], search_term: str
    ) -> tuple[QuerySet[Any], bool]:
        """One index after the other: an OR over columns of several tables reads all of them."""
        term = search_term.strip()
        if not term or not self.found_by:
            return super().get_search_results(request, queryset, search_term)
        for lookup in self.found_by:
            if self.model._default_manager.filter(**{lookup: term}).exists():
                return queryset.filter(**{lookup: term}), False
        return queryset.none(), False

    @admin.action(description=_("Selected rows as CSV"), permissions=["view"])
    def as_csv(self, request: HttpRequest, queryset: QuerySet[Any]) -> HttpResponse:
        """What the list shows of them to this person, without its links; the newest `MOST_COUNTED` at most."""
        rows = list(queryset.defer(*self.heavy).annotate(**self.list_annotations)[:MOST_COUNTED])
        self.complete(rows, request)
        columns = self.get_list_display(request)
        head = [label_for_field(name, self.model, self) for name in columns]
        audit.record(
            "list.exported",
            actor=request.user,
            subject=self.opts.label,
            door="admin",
            facts={"rows": len(rows)},
        )
        return csv_response(
            f"{self.opts.model_name}.csv", head, ([self._cell(row, name) for name in columns] for row in rows)
        )

    def _cell(self, row: Any, name: str) -> Any:
        _field, _attribute, value = lookup_field(name, row, self)
        return strip_tags(value) if isinstance(value, str) else value

    def change_view(
        self, request: HttpRequest, object_id: str, form_url: str = "", extra_context: Any = None
    ) -> HttpResponse:
        self.require_view(request)
        row = self.get_object(request, unquote(object_id))
        subject = self.subject_of(row) if row is not None else None
        if subject is not None:
            asked = reading.opening(request, subject, self.opts.model_name)
            if asked is not None:
                return asked
        return super().change_view(request, object_id, form_url, extra_context)

    def links(self, row: Any) -> Sequence[Link]:
        """Where the detail page of the row leads."""
        return ()

    def require_view(self, request: HttpRequest) -> None:
        if not self.has_view_permission(request):
            raise PermissionDenied

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False

    def get_readonly_fields(self, request: HttpRequest, obj: Model | None = None) -> Sequence[str]:
        return self.fields

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[ChangeList]:
        return Listing

    def lookup_allowed(self, lookup: str, value: str, request: HttpRequest) -> bool:
        return lookup in self.link_lookups or super().lookup_allowed(lookup, value, request)

    def render_change_form(self, request: HttpRequest, context: dict[str, Any], **kwargs: Any) -> Any:
        row = kwargs.get("obj")
        context["links"] = self.links(row) if row is not None else ()
        return super().render_change_form(request, context, **kwargs)


def list_url(model: type[Model], **lookups: Any) -> str:
    """The list of a model, narrowed down."""
    address = reverse(f"admin:{model._meta.app_label}_{model._meta.model_name}_changelist")
    return f"{address}?{urlencode(lookups)}" if lookups else address


def row_url(row: Model) -> str:
    return reverse(f"admin:{row._meta.app_label}_{row._meta.model_name}_change", args=[row.pk])


def link_to(text: object, address: str) -> SafeString:
    return format_html('<a href="{}">{}</a>', address, text)


def as_text(text: str) -> SafeString | str:
    """Text as it is, in lines of its own."""
    return format_html('<pre class="loom-value" tabindex="0">{}</pre>', _shortened(text)) if text else NOTHING


def as_json(value: Any) -> SafeString | str:
    """A JSON value set out in lines."""
    return as_text(pretty_json(value)) if value not in (None, "", [], {}) else NOTHING


def as_json_text(text: str) -> SafeString | str:
    """The same for text that may or may not be JSON."""
    try:
        return as_json(json.loads(text))
    except (ValueError, RecursionError):
        return as_text(text)


def pretty_json(value: Any) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False)


def _shortened(text: str) -> str:
    more = len(text) - MAX_SHOWN
    if more <= 0:
        return text
    return f"{text[:MAX_SHOWN]}\n… " + gettext("and %(characters)s more") % {
        "characters": count(more, "character")
    }
