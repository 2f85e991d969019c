"""What `manage.py check` says beyond Django's own: settings that are each right, and wrong together."""

from django.conf import settings
from django.core.checks import Tags, Warning, register


@register(Tags.security)
def open_to_others_but_answers_none(app_configs, **kwargs):
    only_loopback = set(settings.ALLOWED_HOSTS) == set(settings.LOOPBACK_NAMES)
    if settings.HOST not in settings.ANY_ADDRESS or not only_loopback:
        return []
    return [
        Warning(
            f"HOST is {settings.HOST}, so other machines reach the server, but only localhost is answered.",
            hint="Set ALLOWED_HOSTS to the names people will type, parted by commas.",
            id="threadloom.W001",
        )
    ]


@register(Tags.security, deploy=True)
def processes_that_cannot_hear_each_other(app_configs, **kwargs):
    if settings.REDIS_URL or settings.DATABASES["default"]["ENGINE"] == "django.db.backends.sqlite3":
        return []
    return [
        Warning(
            "DATABASE_URL is set, REDIS_URL is not: this is right for one process only.",
            hint="With several server processes, set REDIS_URL, or a page learns of the others' news late.",
            id="threadloom.W002",
        )
    ]
