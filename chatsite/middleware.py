"""Headers that say what a page may do.

SECURE_CSP has the name and the shape that Django 6 gives it (directive -> list of sources), so that Django's
own middleware can take over. A response that has a policy keeps it: a file for download wants a stricter one.
"""

from collections.abc import Iterable, Mapping

from asgiref.sync import iscoroutinefunction
from django.conf import settings
from django.utils.decorators import sync_and_async_middleware


def build_policy(directives: Mapping[str, Iterable[str]]) -> str:
    return "; ".join(" ".join([name, *sources]) for name, sources in directives.items())


@sync_and_async_middleware
def PolicyHeadersMiddleware(get_response):
    headers = {
        "Content-Security-Policy": build_policy(settings.SECURE_CSP),
        "Permissions-Policy": settings.PERMISSIONS_POLICY,
    }

    def add(response):
        for name, value in headers.items():
            response.headers.setdefault(name, value)
        return response

    if iscoroutinefunction(get_response):

        async def middleware(request):
            return add(await get_response(request))
    else:

        def middleware(request):
            return add(get_response(request))

    return middleware
