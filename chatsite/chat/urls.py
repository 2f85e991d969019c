from django.urls import path

from chatsite.chat import (
    api_doors,
    upload_doors,
    views,
    views_attachments,
    views_choosing,
    views_installing,
    views_organizing,
    views_steering,
)

app_name = "chat"

urlpatterns = [
    path("", views.home, name="home"),
    path("threads/", views.create, name="create"),
    path("threads/<str:thread_id>/", views.thread, name="thread"),
    path("threads/<str:thread_id>/send", views.send, name="send"),
    path("threads/<str:thread_id>/stop", views.stop, name="stop"),
    path("threads/<str:thread_id>/retry", views.retry, name="retry"),
    path("threads/<str:thread_id>/continue", views.resume, name="continue"),
    path("threads/<str:thread_id>/answer", views.answer, name="answer"),
    path("threads/<str:thread_id>/forget", views.forget, name="forget"),
    path("threads/<str:thread_id>/events", views.events, name="events"),
    path("threads/<str:thread_id>/branch", views_steering.branch, name="branch"),
    path("threads/<str:thread_id>/fork", views_steering.fork, name="fork"),
    path("threads/<str:thread_id>/remove", views_steering.remove, name="remove"),
    path("threads/<str:thread_id>/take-back", views_steering.take_back, name="take_back"),
    path("threads/<str:thread_id>/organize", views_organizing.organize, name="organize"),
    path("threads/<str:thread_id>/restore", views_organizing.restore, name="restore"),
    path("threads/<str:thread_id>/share", views_organizing.share, name="share"),
    path(
        "threads/<str:thread_id>/export.json", views_organizing.export, {"kind": "json"}, name="export_json"
    ),
    path(
        "threads/<str:thread_id>/export.md", views_organizing.export, {"kind": "md"}, name="export_markdown"
    ),
    path("tour", views_organizing.tour, name="tour"),
    path("threads/<str:thread_id>/settings", views_choosing.settings, name="settings"),
    path("presets", views_choosing.presets, name="presets"),
    path("import", views_organizing.take_in, name="import"),
    path("search", views_organizing.find, name="search"),
    path("archive", views_organizing.archive, name="archive"),
    path("s/<str:token>/", views_organizing.shared, name="shared"),
    path("threads/<str:thread_id>/attachments/<str:id>", views_attachments.attachment, name="attachment"),
    path("s/<str:token>/attachments/<str:id>", views_attachments.shared_attachment, name="shared_attachment"),
    path("api/attachments", upload_doors.upload_view, name="upload"),
    path("manifest.webmanifest", views_installing.manifest, name="manifest"),
    path("api/chat", api_doors.view, name="api"),
]
