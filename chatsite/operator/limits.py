"""What one connection may cost, on both servers."""

MAX_HEAD = 64 * 1024
"""Bytes of a request's head behind its first piece, or of its trailers, after which it is refused.

uvicorn's; daphne takes 16 KiB of a head and 64 KiB of trailers.
"""

MAX_FRAME = 1024 * 1024
"""Bytes of a WebSocket's frame."""

MAX_PENDING = 16 * 1024
"""Bytes written and not taken by the client after which whoever writes has to wait."""

MAX_UNSENT = 32 * 1024
"""Bytes that the system holds besides, before they are on their way."""

STUCK_AFTER = 120
"""Seconds after which a client that does not take what is pending is cut off."""

PING_EVERY = 15
"""Seconds between two signs of life on a WebSocket."""
