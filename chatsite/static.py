"""Static files, served before Django.

WhiteNoise knows what to answer (types, compressed variants, ranges, 304); its own middleware is synchronous,
and under ASGI would put every request of the site into a thread. So this is an ASGI application on top of it.

Collected files are looked up in a list made at start. Without a manifest (DEBUG, tests) they come from where
they lie.
"""

import asyncio
import re

from django.conf import settings
from django.contrib.staticfiles import finders
from django.contrib.staticfiles.storage import ManifestFilesMixin, staticfiles_storage
from whitenoise import WhiteNoise

HASHED_NAME = re.compile(r"\.[0-9a-f]{12}\.[^/]+$")
CHUNK = 256 * 1024


class StaticFiles(WhiteNoise):
    def __init__(self, otherwise):
        collected = isinstance(staticfiles_storage, ManifestFilesMixin)
        super().__init__(
            None,
            root=settings.STATIC_ROOT if collected else None,
            prefix=settings.STATIC_URL,
            autorefresh=not collected,
            max_age=60 if collected else 0,
            allow_all_origins=False,
            add_headers_function=lambda headers, path, url: headers.add_header(
                "X-Content-Type-Options", "nosniff"
            ),
            immutable_file_test=lambda path, url: HASHED_NAME.search(url) is not None,
        )
        self.otherwise = otherwise

    async def __call__(self, scope, receive, send):
        file = self._find(scope["path"])
        if file is None:
            await self.otherwise(scope, receive, send)
        else:
            answer = await asyncio.to_thread(file.get_response, scope["method"], _environ(scope["headers"]))
            await _send(answer, send)

    def _find(self, path):
        if not path.startswith(settings.STATIC_URL):
            return None
        return self.find_file(path) if self.autorefresh else self.files.get(path)

    def candidate_paths_for_url(self, url):
        found = finders.find(url.removeprefix(settings.STATIC_URL))
        if found:
            yield found


async def _send(answer, send):
    headers = [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in answer.headers]
    await send({"type": "http.response.start", "status": int(answer.status), "headers": headers})
    if answer.file is not None:
        with answer.file as file:
            while chunk := await asyncio.to_thread(file.read, CHUNK):
                await send({"type": "http.response.body", "body": chunk, "more_body": True})
    await send({"type": "http.response.body"})


def _environ(headers):
    """The request's headers under the names WSGI gives them, which WhiteNoise looks for."""
    return {
        "HTTP_" + name.decode("latin-1").upper().replace("-", "_"): value.decode("latin-1")
        for name, value in headers
    }
