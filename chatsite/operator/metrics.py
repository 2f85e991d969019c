"""`/metrics`: what this process counts, for a Prometheus that shows METRICS_TOKEN. Without it: 404."""

from django.conf import settings
from django.http import Http404, HttpResponse
from django.utils.crypto import constant_time_compare
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from chatsite.watch.exposition import CONTENT_TYPE, exposition


@never_cache
@require_safe
def metrics(request):
    if not settings.METRICS_TOKEN:
        raise Http404
    scheme, _, given = request.headers.get("Authorization", "").partition(" ")
    if scheme.lower() != "bearer" or not constant_time_compare(given.strip(), settings.METRICS_TOKEN):
        return HttpResponse(
            "Send `Authorization: Bearer` with the value of METRICS_TOKEN.\n",
            status=401,
            content_type="text/plain",
            headers={"WWW-Authenticate": "Bearer"},
        )
    return HttpResponse(exposition(), content_type=CONTENT_TYPE)
