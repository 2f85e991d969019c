from django.urls import path

from chatsite.chat.api import doors
from chatsite.chat.files import upload_doors
from chatsite.chat.views import attachments, choosing, installing, organizing, steering, threads

app_name = "chat"

urlpatterns = [
    path("", threads.home, name="home"),
    path("threads/", threads.create, name="create"),
    path("threads/<str:thread_id>/", threads.thread, name="thread"),
    path("threads/<str:thread_id>/send", threads.send, name="send"),
    path("threads/<str:thread_id>/stop", threads.stop, name="stop"),
    path("threads/<str:thread_id>/retry", threads.retry, name="retry"),
    path("threads/<str:thread_id>/continue", threads.resume, name="continue"),
    path("threads/<str:thread_id>/answer", threads.answer, name="answer"),
    path("threads/<str:thread_id>/forget", threads.forget, name="forget"),
    path("threads/<str:thread_id>/events", threads.events, name="events"),
    path("threads/<str:thread_id>/branch", steering.branch, name="branch"),
    path("threads/<str:thread_id>/fork", steering.fork, name="fork"),
    path("threads/<str:thread_id>/remove", steering.remove, name="remove"),
    path("threads/<str:thread_id>/take-back", steering.take_back, name="take_back"),
    path("threads/<str:thread_id>/organize", organizing.organize, name="organize"),
    path("threads/<str:thread_id>/restore", organizing.restore, name="restore"),
    path("threads/<str:thread_id>/share", organizing.share, name="share"),
    path("threads/<str:thread_id>/export.json", organizing.export, {"kind": "json"}, name="export_json"),
    path("threads/<str:thread_id>/export.md", organizing.export, {"kind": "md"}, name="export_markdown"),
    path("tour", organizing.tour, name="tour"),
    path("threads/<str:thread_id>/settings", choosing.settings, name="settings"),
    path("presets", choosing.presets, name="presets"),
    path("import", organizing.take_in, name="import"),
    path("search", organizing.find, name="search"),
    path("archive", organizing.archive, name="archive"),
    path("s/<str:token>/", organizing.shared, name="shared"),
    path("threads/<str:thread_id>/attachments/<str:id>", attachments.attachment, name="attachment"),
    path("s/<str:token>/attachments/<str:id>", attachments.shared_attachment, name="shared_attachment"),
    path("api/attachments", upload_doors.upload_view, name="upload"),
    path("manifest.webmanifest", installing.manifest, name="manifest"),
    path("api/chat", doors.view, name="api"),
]
