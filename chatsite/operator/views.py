import logging
import sys

from django.core.exceptions import RequestDataTooBig, TooManyFieldsSent, TooManyFilesSent
from django.db import DatabaseError, InterfaceError, OperationalError, connection
from django.http import HttpResponse
from django.shortcuts import render
from django.template.loader import render_to_string
from django.utils.html import format_html
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _
from django.views import defaults
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters, sensitive_variables
from django.views.decorators.http import require_http_methods, require_safe

from chatsite.accounts.guard import guarded
from chatsite.accounts.signing import sign_in
from chatsite.adminkit.races import looked_at_again
from chatsite.chat.problems import NotStored
from chatsite.chat.process import draining
from chatsite.operator.readiness import readiness
from chatsite.operator.setup_link import FirstAdminForm, is_valid, make_first_admin

logger = logging.getLogger(__name__)

TOO_LARGE = _("That is more than the server takes at once. Go back, and send less of it.")
MALFORMED = _("The server could not make sense of this request. Go back, reload the page and try again.")


@sensitive_post_parameters()
@sensitive_variables("token")
@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def setup(request, token):
    return guarded("setup", _setup, request, token)


@looked_at_again
def _setup(request, token):
    """The form that makes the first administrator and logs them in; 404 with words for any other link."""
    if not is_valid(token):
        return _no_such_link(request)
    form = FirstAdminForm(request.POST or None)
    if request.method != "POST" or not form.is_valid():
        return render(request, "registration/setup.html", {"form": form})
    user = make_first_admin(token, form)
    if user is None:
        return _no_such_link(request)
    return sign_in(request, user)


def _no_such_link(request):
    return render(request, "registration/setup.html", {"form": None}, status=404)


@never_cache
@require_safe
def healthz(request):
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")
    except DatabaseError:
        return HttpResponse("The database does not answer.\n", status=503, content_type="text/plain")
    # Still 200: a supervisor that kills what is not healthy must not kill what is about to end well.
    return HttpResponse("draining\n" if draining.is_draining() else "ok\n", content_type="text/plain")


@never_cache
@require_safe
def readyz(request):
    found = readiness()
    status = 200 if found.ready else 503
    return HttpResponse(
        "".join(f"{line}\n" for line in found.lines), status=status, content_type="text/plain"
    )


def bad_request(request, exception):
    """In words what was wrong with the request as a whole; htmx puts them where the page has a place for them."""
    large = isinstance(exception, RequestDataTooBig | TooManyFieldsSent | TooManyFilesSent)
    words, status = (TOO_LARGE, 413) if large else (MALFORMED, 400)
    if request.headers.get("HX-Request") == "true":
        return HttpResponse(format_html('<p class="notice error" role="alert">{}</p>', words), status=status)
    return HttpResponse(render_to_string("400.html", {"words": words}), status=status)


def _away(request):
    """As `bad_request` has it, for htmx and for all others."""
    if request.headers.get("HX-Request") == "true":
        return format_html('<p class="notice error" role="alert">{}</p>', NotStored.words)
    return render_to_string("503.html")


def server_error(request):
    """500.html, or a plain line when that page is itself what fails (a static file is missing, say).

    A database that is away is no fault of the page: 503.html, and when to come again.
    """
    try:
        if isinstance(sys.exc_info()[1], OperationalError | InterfaceError):
            return HttpResponse(_away(request), status=503, headers={"Retry-After": "5"})
        return defaults.server_error(request)
    except Exception:  # whatever it was, it must not take the answer with it
        logger.exception("The page for errors failed")
        return HttpResponse(
            gettext("Something went wrong on the server.") + "\n",
            status=500,
            content_type="text/plain; charset=utf-8",
        )
