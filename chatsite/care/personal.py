"""What this app itself has of people."""

from chatsite.care.exporting import audit_of
from chatsite.care.lines import Rows, Stays

LINES = (
    Stays("care.Hold", "user", "whoever has a hold is not erased"),
    Rows("care.Download", "user"),
)
EXPORTS = (audit_of,)
