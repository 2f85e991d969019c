"""What each process does beside its requests, and how processes hear of each other.

rounds     the task of every second        heartbeat  who owns a run, and whether that process lives
news       "look at the rows", between processes
draining   whether this process still takes runs and keeps readers        departure  how it goes
"""
