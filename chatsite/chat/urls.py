from django.urls import path

from chatsite.chat import api_doors, views

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
    path("api/chat", api_doors.view, name="api"),
]
