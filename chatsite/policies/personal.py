"""What policies say of people (`chatsite.care.lines`)."""

from chatsite.care.lines import Rows

LINES = (Rows("policies.UserPolicy", "user"),)
