"""What this app itself has of people."""

from chatsite.care.lines import Stays

LINES = (Stays("care.Hold", "user", "whoever has a hold is not erased"),)
