"""The site's settings, with a slow tool."""

from chatsite.settings import *  # noqa: F403 - all of them

INSTALLED_APPS += ["bench.nap.Nap"]  # noqa: F405 - they have it
