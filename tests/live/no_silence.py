"""The site's settings, but no run is lost by its silence: found in time is only what the death of its process tells."""

from chatsite.chat.process import heartbeat
from chatsite.settings import *  # noqa: F403

heartbeat.LOST_AFTER = 3600.0
