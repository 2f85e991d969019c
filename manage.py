#!/usr/bin/env python3
"""The site's command line. A wrong setting ends it with one sentence and exit code 2, with no trace."""

import os
import sys


def main() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "chatsite.settings")
    # httpx loads its command line where it can (with rich 4 MiB); without it, as if that were not installed.
    sys.modules["httpx._main"] = None
    # Compiled, it brings C++'s library along (1 MiB), for the lists of aiohttp's tracing, which nobody here uses.
    sys.modules["frozenlist._frozenlist"] = None
    from django.conf import settings
    from django.core.exceptions import ImproperlyConfigured
    from django.core.management import execute_from_command_line

    try:
        # Read before any command: Django itself puts the error aside, and some commands never look at it.
        settings.INSTALLED_APPS  # noqa: B018 - to be asked is what reads them
        execute_from_command_line(sys.argv)
    except ImproperlyConfigured as exc:
        sys.stderr.write(f"{exc}\n")
        sys.exit(2)


if __name__ == "__main__":
    main()
