"""The site's settings, with a slow tool."""

from chatsite.settings import *  # noqa: F403

INSTALLED_APPS += ["bench.nap.Nap"]  # noqa: F405
