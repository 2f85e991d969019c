"""Whoever follows a thread: from a cursor on, wherever its run is or was.

cursors        a place in a thread's logs
following      its events behind a cursor, its state now or as it was
screens        what open pages show: rendered once for all of them who read one language
stream         its log as Server-Sent Events
thread_events  `GET /threads/<id>/events`, in whichever way events get through
"""
