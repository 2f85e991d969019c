"""Which language somebody reads.

Rule 1: what a person chose (a cookie, set by a form) goes before what their browser asks for, and that before
LANGUAGE_CODE.
Rule 2: programs read English, whatever the site's language is: they compare words.
Rule 3: what a model reads is no word of the page, and is never marked for translation.

Django's own middleware for this would put every request, and each open stream, into a thread.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any, TypeVar

from asgiref.sync import iscoroutinefunction
from django.conf import settings
from django.http import HttpRequest, HttpResponseBase, parse_cookie
from django.utils import translation
from django.utils.cache import patch_vary_headers
from django.utils.decorators import sync_and_async_middleware
from django.utils.translation.trans_real import parse_accept_lang_header

T = TypeVar("T")

PROGRAMS = "en"


def language_of(chosen: str, accepted: str) -> str:
    """The code of a language that there is here; `accepted` is an `Accept-Language`, best first."""
    known = {code for code, _ in settings.LANGUAGES}
    if chosen in known:
        return chosen
    for code, _ in parse_accept_lang_header(accepted.lower()):
        if code == "*":
            break
        for wanted in (code, code.partition("-")[0]):
            if wanted in known:
                return wanted
    return settings.LANGUAGE_CODE


def speak_to(headers: Mapping[str, str], *, program: bool) -> None:
    """The language of a request before Django, from here on: it is a task of its own, so nobody else hears of it.

    Header names are lower case.
    """
    if program:
        translation.activate(PROGRAMS)  # cheaper than asking what is spoken
        return
    chosen = parse_cookie(headers.get("cookie", "")).get(settings.LANGUAGE_COOKIE_NAME, "")
    translation.activate(language_of(chosen, headers.get("accept-language", "")))


@contextmanager
def speaking(language: str) -> Iterator[None]:
    """`translation.override`, but free where the language is the one that is spoken already."""
    if translation.get_language() == language:
        yield
        return
    with translation.override(language):
        yield


def here(job: Callable[..., T], *args: Any, **kwargs: Any) -> Callable[[], T]:
    """`job(*args, **kwargs)` for another thread, in the language of this one. A copied context would not do: what
    Django keeps in one is bound to its thread."""
    return partial(_spoken, translation.get_language(), partial(job, *args, **kwargs))


def _spoken(language: str, job: Callable[[], T]) -> T:
    if translation.get_language() == language:
        return job()
    with translation.override(language):
        return job()


def settle_language() -> None:
    """As a thread begins that works for many: asking what is spoken costs 7 us where nothing is, else 2."""
    translation.activate(settings.LANGUAGE_CODE)


@sync_and_async_middleware
def LanguageMiddleware(get_response):
    def chosen(request: HttpRequest) -> str:
        request.LANGUAGE_CODE = language_of(
            request.COOKIES.get(settings.LANGUAGE_COOKIE_NAME, ""), request.headers.get("Accept-Language", "")
        )
        return request.LANGUAGE_CODE

    def told(request: HttpRequest, response: HttpResponseBase) -> HttpResponseBase:
        patch_vary_headers(response, ("Accept-Language", "Cookie"))
        response.headers.setdefault("Content-Language", request.LANGUAGE_CODE)
        return response

    if iscoroutinefunction(get_response):

        async def middleware(request):
            with translation.override(chosen(request)):
                return told(request, await get_response(request))
    else:

        def middleware(request):
            with translation.override(chosen(request)):
                return told(request, get_response(request))

    return middleware
