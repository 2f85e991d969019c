"""A page where the list of a model would be: for what has no table, or is not read row by row."""

from __future__ import annotations

from typing import Any

from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse
from django.template.response import TemplateResponse

from chatsite.adminkit.base import ReadOnlyAdmin


class PageAdmin(ReadOnlyAdmin):
    """One page for whoever may view the model, and none of a row. Its template extends `admin/one_page.html`."""

    page_template: str
    page_title: Any
    """In the reader's language (`gettext_lazy`)."""

    def content(self, request: HttpRequest) -> dict[str, Any]:
        """What the template shows, by name."""
        return {}

    def answer(self, request: HttpRequest) -> HttpResponse:
        """To somebody who may view it, and only looks."""
        context = {
            **self.admin_site.each_context(request),
            "title": self.page_title,
            "opts": self.opts,
            "media": self.media,
            **self.content(request),
        }
        return TemplateResponse(request, self.page_template, context)

    def changelist_view(self, request: HttpRequest, extra_context: Any = None) -> HttpResponse:
        self.require_view(request)
        if request.method not in {"GET", "HEAD"}:
            raise PermissionDenied
        return self.answer(request)

    def change_view(self, request: HttpRequest, object_id: str, *args: Any, **kwargs: Any) -> HttpResponse:
        raise Http404

    def delete_view(self, request: HttpRequest, object_id: str, extra_context: Any = None) -> HttpResponse:
        raise Http404

    def history_view(self, request: HttpRequest, object_id: str, extra_context: Any = None) -> HttpResponse:
        raise Http404
