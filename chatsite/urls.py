"""The site's paths. `/api/chat`, `/static/` and WebSockets are answered before Django, in asgi.py."""

from django.contrib import admin
from django.urls import include, path
from django.views.i18n import set_language

from chatsite.accounts.urls import later
from chatsite.care.views import my_data
from chatsite.operator.description import schema
from chatsite.operator.metrics import metrics
from chatsite.operator.views import healthz, readyz, setup

urlpatterns = [
    # Before the admin's own: there is one login page, with its limits and second factors.
    path("admin/login/", later("chatsite.accounts.views.admin_login"), name="admin_login"),
    path("admin/password_change/", later("chatsite.accounts.views.admin_password"), name="admin_password"),
    path("admin/", admin.site.urls),
    path("accounts/", include("chatsite.accounts.urls")),
    path("account/data", my_data, name="my_data"),
    path("setup/<str:token>/", setup, name="setup"),
    path("language", set_language, name="set_language"),
    path("healthz", healthz, name="healthz"),
    path("readyz", readyz, name="readyz"),
    path("api/schema.json", schema, name="schema"),
    path("metrics", metrics, name="metrics"),
    path("", include("chatsite.chat.urls")),
]

handler400 = "chatsite.operator.views.bad_request"
handler500 = "chatsite.operator.views.server_error"
