"""The site's paths. `/api/chat`, `/static/` and WebSockets are answered before Django, in asgi.py."""

from django.contrib import admin
from django.contrib.auth import views as auth_views
from django.urls import include, path
from django.views.i18n import set_language

from chatsite.operator.metrics import metrics
from chatsite.operator.views import healthz, readyz, setup

urlpatterns = [
    path("admin/", admin.site.urls),
    path("accounts/login/", auth_views.LoginView.as_view(redirect_authenticated_user=True), name="login"),
    path("accounts/logout/", auth_views.LogoutView.as_view(), name="logout"),
    path("setup/<str:token>/", setup, name="setup"),
    path("language", set_language, name="set_language"),
    path("healthz", healthz, name="healthz"),
    path("readyz", readyz, name="readyz"),
    path("metrics", metrics, name="metrics"),
    path("", include("chatsite.chat.urls")),
]

handler400 = "chatsite.operator.views.bad_request"
handler500 = "chatsite.operator.views.server_error"
