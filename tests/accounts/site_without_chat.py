"""The settings of a site that has keys (and may have the gateway), and no chat."""

from chatsite.settings import *  # noqa: F403

INSTALLED_APPS = [app for app in INSTALLED_APPS if not app.startswith("chatsite.chat.")]  # noqa: F405
ROOT_URLCONF = "tests.accounts.urls_without_chat"
