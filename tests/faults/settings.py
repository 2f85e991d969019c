"""The site's settings, and what the fault tests plant beside it (`planted.py`)."""

from chatsite.settings import *  # noqa: F403

INSTALLED_APPS += ["tests.faults.planted.Planted"]  # noqa: F405
