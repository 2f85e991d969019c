"""The settings of logs: how much is said, in which form, and what is left out of it."""

from chatsite import env


def _unforeseen(record):
    """A door that says 503 said so itself (a restart, a database that is away), and whoever knows why logs it."""
    return getattr(record, "status_code", None) != 503


def _without_trace(record):
    """A wrong Host header is one line, to see what ALLOWED_HOSTS lacks: scanners send too many for more."""
    record.exc_info = None
    return True


LOG_LEVEL = env.choice("LOG_LEVEL", ["DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"], "INFO")
LOG_FORMAT = env.choice("LOG_FORMAT", ["plain", "json"], "plain")
LOGGING_CONFIG = "logging.config.dictConfig"
LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {
        "plain": {"()": "chatsite.watch.logs.Plain"},
        "json": {"()": "chatsite.watch.logs.Json"},
    },
    "handlers": {
        "stderr": {"class": "logging.StreamHandler", "formatter": LOG_FORMAT, "filters": ["with_ids"]}
    },
    "filters": {
        "with_ids": {"()": "chatsite.watch.logs.WithIds"},
        "without_trace": {"()": "django.utils.log.CallbackFilter", "callback": _without_trace},
        "unforeseen": {"()": "django.utils.log.CallbackFilter", "callback": _unforeseen},
    },
    "root": {"handlers": ["stderr"], "level": LOG_LEVEL},
    "loggers": {
        # Theirs would print each error twice, or mail it.
        "django": {"handlers": [], "level": LOG_LEVEL, "propagate": True},
        "django.request": {"filters": ["unforeseen"]},
        "django.security.DisallowedHost": {"filters": ["without_trace"]},
        # At INFO these tell of every start, socket and request to a model, with its address.
        **{
            name: {"level": "DEBUG" if LOG_LEVEL == "DEBUG" else "WARNING"}
            for name in ("asyncio", "daphne", "uvicorn", "httpx", "aiohttp")
        },
        # These tell the ids of sessions, and what was said in them. What goes wrong `agent.mcp` says in its own words.
        **{name: {"level": "CRITICAL"} for name in ("mcp", "client", "httpx2", "httpcore2")},
    },
}
