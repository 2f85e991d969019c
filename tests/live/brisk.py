"""The site's settings, with signs of life that a test can wait for."""

from chatsite.operator import limits
from chatsite.settings import *  # noqa: F403

limits.PING_EVERY = 0.5
