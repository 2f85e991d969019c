"""Settings. What an operator may want to change comes from the environment (docs/configuration.md has the table)."""

import os
import tempfile
from pathlib import Path

from chatsite import env, env_mcp
from chatsite.settings_accounts import *  # noqa: F403 - who may come in, and how
from chatsite.settings_logs import *  # noqa: F403 - what is logged, and how

BASE_DIR = Path(__file__).resolve().parent.parent

# Where things are

DATA_DIR = env.data_dir("DATA_DIR", BASE_DIR / "var")
HOST = env.text("HOST", "127.0.0.1")
PORT = env.port("PORT", 8000)
SERVER = env.choice("SERVER", ["daphne", "uvicorn"], "daphne")
MIGRATE = env.boolean("MIGRATE", True)
MIGRATE_SNAPSHOT = env.boolean("MIGRATE_SNAPSHOT", True)
DRAIN_SECONDS = env.seconds("DRAIN_SECONDS", 20)
BODY_IDLE_SECONDS = env.amount("BODY_IDLE_SECONDS", 60)

# Models and tools (read by chatsite.chat)

DEFAULT_MODEL = env.text("DEFAULT_MODEL")
OPENAI_BASE_URL = env.base_url("OPENAI_BASE_URL")
OPENAI_API_KEY = env.text("OPENAI_API_KEY")
OPENAI_MODELS = env.listing("OPENAI_MODELS")
ANTHROPIC_BASE_URL = env.base_url("ANTHROPIC_BASE_URL")
ANTHROPIC_API_KEY = env.text("ANTHROPIC_API_KEY")
ANTHROPIC_MODELS = env.listing("ANTHROPIC_MODELS")
EXAMPLE_TOOLS = env.boolean("EXAMPLE_TOOLS", True)
MCP_SERVERS = env_mcp.mcp_servers("MCP_SERVERS")
CHAT_AUTO_TITLE = env.boolean("CHAT_AUTO_TITLE", True)
RUN_MAX_TURNS = env.amount("RUN_MAX_TURNS", 5)
RUN_MAX_TOOL_CALLS = env.amount("RUN_MAX_TOOL_CALLS")
RUN_MAX_TOKENS = env.amount("RUN_MAX_TOKENS")
RUN_MAX_COST = env.amount("RUN_MAX_COST")
RUN_MAX_SECONDS = env.amount("RUN_MAX_SECONDS")
MODEL_PRICES = env.prices("MODEL_PRICES")
MODEL_PRICES_UNIT = env.text("MODEL_PRICES_UNIT", "$")
MODEL_FACTS = env.facts("MODEL_FACTS")
PRIVATE_ENDPOINTS = env.boolean("PRIVATE_ENDPOINTS", False)
EVENTS_KEEP_DAYS = env.amount("EVENTS_KEEP_DAYS", 30)
KEEP_REQUESTS = env.boolean("KEEP_REQUESTS", True)
KEEP_RESPONSES = env.boolean("KEEP_RESPONSES", True)
THREADS_KEEP_DAYS = env.amount("THREADS_KEEP_DAYS")

# The gateway (read by chatsite.gateway)

GATEWAY_MODELS = env.json_object("GATEWAY_MODELS")
GATEWAY_MAX_BODY = env.whole("GATEWAY_MAX_BODY", 32 * 1024 * 1024)
GATEWAY_CONNECT_TIMEOUT = env.amount("GATEWAY_CONNECT_TIMEOUT", 10)
GATEWAY_FIRST_BYTE_TIMEOUT = env.amount("GATEWAY_FIRST_BYTE_TIMEOUT", 120)
GATEWAY_IDLE_TIMEOUT = env.amount("GATEWAY_IDLE_TIMEOUT", 60)

# Hooks of the gateway (read by chatsite.gateway.hooks)

GATEWAY_KEEP_DAYS = env.amount("GATEWAY_KEEP_DAYS", 30)
GATEWAY_RENDERER = "chatsite.chat.render.fragments.render_messages"
GATEWAY_HOOKS = env.listing("GATEWAY_HOOKS")
GATEWAY_MAX_RERUNS = env.whole("GATEWAY_MAX_RERUNS", 3)
GATEWAY_MAX_SECONDS = env.amount("GATEWAY_MAX_SECONDS", 600)
GATEWAY_MAX_TOKENS = env.amount("GATEWAY_MAX_TOKENS")
GATEWAY_MAX_COST = env.amount("GATEWAY_MAX_COST")
GATEWAY_TOOLS = "chatsite.chat.tools.every_tool"
GATEWAY_APPROVED_TOOLS = env.listing("GATEWAY_APPROVED_TOOLS")
GATEWAY_RULES = env.text("GATEWAY_RULES")
SEARXNG_URL = env.base_url("SEARXNG_URL")
BRAVE_URL = env.base_url("BRAVE_URL") or "https://api.search.brave.com"
BRAVE_API_KEY = env.text("BRAVE_API_KEY")
TAVILY_URL = env.base_url("TAVILY_URL") or "https://api.tavily.com"
TAVILY_API_KEY = env.text("TAVILY_API_KEY")
WEB_SEARCH_NATIVE = env.boolean("WEB_SEARCH_NATIVE", False)
COMPRESSION_ABOVE = env.whole("COMPRESSION_ABOVE", 60_000)
COMPRESSION_KEEP = env.whole("COMPRESSION_KEEP", 8)

# What people attach (read by chatsite.chat); no web server may serve this folder by itself

ATTACHMENTS_DIR = DATA_DIR / "attachments"
ATTACHMENT_MAX_MB = env.amount("ATTACHMENT_MAX_MB", 20)
ATTACHMENT_TEXT_MAX_KB = env.amount("ATTACHMENT_TEXT_MAX_KB", 1000)
ATTACHMENTS_PER_MESSAGE = env.amount("ATTACHMENTS_PER_MESSAGE", 10)
ATTACHMENTS_TOTAL_MB = env.amount("ATTACHMENTS_TOTAL_MB", 1000)

# Security

DEBUG = env.boolean("DEBUG", False)
SECRET_KEY = env.secret_key("SECRET_KEY", DATA_DIR)

ANY_ADDRESS = {"0.0.0.0", "::"}  # noqa: S104 - compared with, never bound here
LOOPBACK_NAMES = ["localhost", "127.0.0.1", "[::1]"]
ALLOWED_HOSTS = env.listing(
    "ALLOWED_HOSTS", LOOPBACK_NAMES if HOST in ANY_ADDRESS else [*LOOPBACK_NAMES, HOST]
)
CSRF_TRUSTED_ORIGINS = env.origins("CSRF_TRUSTED_ORIGINS")

# HTTPS=true says: people come over https, and the proxy in front sets X-Forwarded-Proto itself.
HTTPS = env.boolean("HTTPS", False)
SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https") if HTTPS else None
SECURE_SSL_REDIRECT = HTTPS
SECURE_REDIRECT_EXEMPT = [r"^(healthz|readyz|metrics)$"]  # asked from inside, without the proxy
SECURE_HSTS_SECONDS = 30 * 24 * 3600 if HTTPS else 0
# Whether the domain's other hosts, or a browser's built-in list, are bound to https is not ours to say.
SILENCED_SYSTEM_CHECKS = ["security.W005", "security.W021"]

SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = env.boolean("SECURE_COOKIES", HTTPS)
SESSION_COOKIE_HTTPONLY = True
SESSION_COOKIE_SAMESITE = "Lax"
# Cookies do not know ports: another Django site on localhost would end our sessions, and we its.
SESSION_COOKIE_NAME = "threadloom_session"

SECURE_REFERRER_POLICY = "same-origin"
X_FRAME_OPTIONS = "DENY"
SECURE_CSP = {
    "default-src": ["'none'"],
    "script-src": ["'self'"],
    "style-src": ["'self'"],
    "img-src": ["'self'", "data:", "blob:"],
    "connect-src": ["'self'"],
    "manifest-src": ["'self'"],
    "form-action": ["'self'"],
    "base-uri": ["'none'"],
    "frame-ancestors": ["'none'"],
}
PERMISSIONS_POLICY = "camera=(), geolocation=(), microphone=(), payment=(), usb=()"

# A message may be 2 MB, which a form's encoding can triple; past the limit the view answers, not the parser.
DATA_UPLOAD_MAX_MEMORY_SIZE = 10 * 1024 * 1024

# The application

INSTALLED_APPS = [
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "channels",
    "chatsite.audit.apps.AuditConfig",
    "allauth",
    "allauth.account",
    "allauth.mfa",
    "allauth.socialaccount",
    "chatsite.care.apps.CareConfig",
    "chatsite.accounts.apps.AccountsConfig",
    "chatsite.policies.apps.PoliciesConfig",
    "chatsite.catalog.apps.CatalogConfig",
    "chatsite.usage.apps.UsageConfig",
    "chatsite.chat.apps.ChatConfig",
    "chatsite.gateway.apps.GatewayConfig",
    "chatsite.operator.apps.OperatorConfig",
]

# All of these take async requests as they are: one that does not would cost every stream a thread.
MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "chatsite.middleware.PolicyHeadersMiddleware",
    "chatsite.languages.LanguageMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "allauth.account.middleware.AccountMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
]

ROOT_URLCONF = "chatsite.urls"
ASGI_APPLICATION = "chatsite.asgi.application"

TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        # What a project that installs our apps has of its own (admin's frame), and does not get from us, is in own/.
        "DIRS": [BASE_DIR / "templates" / "own", BASE_DIR / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ],
        },
    },
]

# Data

DATABASES = {"default": env.database("DATABASE_URL", DATA_DIR / "db.sqlite3")}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

if DATABASES["default"]["ENGINE"] == "django.db.backends.sqlite3":
    DATABASES["default"] |= {
        # With the defaults, 8 writers get 10,640 lock errors in 5 s; with these, none.
        "OPTIONS": {
            "transaction_mode": "IMMEDIATE",
            "timeout": 20,
            # A run writes 140 pages, mostly the same ones again and again: carried over every 4,000 (16 MB) instead of
            # every 1,000, they are written and synced to the disk a quarter as often.
            "init_command": (
                "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL; PRAGMA foreign_keys=ON; "
                "PRAGMA wal_autocheckpoint=4000; "
                # Ten threads have a connection each, and the system keeps the same pages once for all of them.
                "PRAGMA cache_size=-512;"
            ),
        },
        # A file, since threads with connections of their own must see it; one for each test process.
        "TEST": {"NAME": Path(tempfile.gettempdir()) / f"threadloom-test-{os.getpid()}.sqlite3"},
    }
else:
    # Under ASGI a request's thread may never come again, so a connection kept open in it is a lost one.
    DATABASES["default"] |= {"CONN_MAX_AGE": 0}

REDIS_URL = env.redis_url("REDIS_URL")
CHANNEL_LAYERS = {
    "default": (
        {
            "BACKEND": "channels_redis.core.RedisChannelLayer",
            # The layer asks Redis to hold each read for 5 s, which is also when redis-py 8 gives a read up.
            "CONFIG": {
                "hosts": [{"address": REDIS_URL, "socket_timeout": 20}],
                "prefix": "threadloom",
            },
        }
        if REDIS_URL
        else {"BACKEND": "channels.layers.InMemoryChannelLayer"}
    )
}

# Static files

STATIC_URL = "/static/"
STATIC_ROOT = DATA_DIR / "static"
STATICFILES_DIRS = [BASE_DIR / "static"]
STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
    "staticfiles": {
        "BACKEND": (
            "django.contrib.staticfiles.storage.StaticFilesStorage"
            if DEBUG
            else "whitenoise.storage.CompressedManifestStaticFilesStorage"
        )
    },
}

# Language and time

LANGUAGES = [("en", "English"), ("de", "German")]
# Not called LANGUAGE: that is gettext's own, and on many a desktop it holds a list such as en_GB:en.
LANGUAGE_CODE = env.choice("DEFAULT_LANGUAGE", [code for code, _ in LANGUAGES], "en")
LOCALE_PATHS = [BASE_DIR / "locale"]
LANGUAGE_COOKIE_NAME = "threadloom_language"
LANGUAGE_COOKIE_AGE = 365 * 24 * 3600
LANGUAGE_COOKIE_HTTPONLY = True
LANGUAGE_COOKIE_SAMESITE = "Lax"
LANGUAGE_COOKIE_SECURE = SESSION_COOKIE_SECURE
USE_I18N = True
TIME_ZONE = "UTC"
USE_TZ = True

# Watching

METRICS_TOKEN = env.text("METRICS_TOKEN")
TRACES_TO = env.base_url("OTEL_EXPORTER_OTLP_ENDPOINT")
CHAT_MIDDLEWARE = ["agent.middlewares.Telemetry"] if TRACES_TO else []
