"""`manage.py serve`: from nothing to a page that opens."""

import socket

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError
from django.db import OperationalError, connections

from chatsite.chat.process import rounds
from chatsite.operator import prepare, servers, tracing
from chatsite.operator.backup import place
from chatsite.operator.setup_link import renew_link


class Command(BaseCommand):
    help = "Migrates, collects static files and serves the site on HOST and PORT with SERVER."

    def handle(self, *args, **options):
        try:
            sock = servers.bind(settings.HOST, settings.PORT)
            tracing.begin()
            token = self._prepare()
        except (servers.CannotListen, tracing.NoTracing, prepare.NotReady) as exc:
            raise CommandError(str(exc)) from None
        except OperationalError as exc:
            first_line = str(exc).strip().splitlines()[0]
            raise CommandError(f"The database cannot be used: {first_line}") from None
        except OSError as exc:
            where = f"DATA_DIR ({settings.DATA_DIR})"
            raise CommandError(f"{where} cannot be used: {exc}. See to its room and rights.") from None
        # Only now: it reads the manifest of the static files just collected.
        from chatsite.asgi import application

        self._greet(site_address(sock), token)
        connections.close_all()  # this thread's own: requests and runs have theirs
        servers.settle_memory()
        # The rounds recover what an earlier server left, also when nobody asks for a page.
        servers.SERVERS[settings.SERVER](application, sock, rounds.begin)

    def _prepare(self) -> str | None:
        with prepare.one_start_at_a_time():
            self._serving = prepare.hold_serving_lock()
            if place.finish():
                self._say("A restore that was interrupted is finished.")
            prepare.in_a_child(self._prepare_files)
            return renew_link()

    def _prepare_files(self) -> None:
        prepare.prepare_database(self._say)
        if not settings.DEBUG:
            prepare.collect_static_files()

    def _greet(self, address: str, token: str | None) -> None:
        if token:
            self._say(f"Make the first account (the link works once, for a day): {address}/setup/{token}/")
        else:
            self._say(f"Open {address}/")

    def _say(self, line: str) -> None:
        self.stdout.write(line)
        self.stdout.flush()  # into a container's log at once, where stdout is no terminal


def site_address(sock: socket.socket) -> str:
    """Where a person on this machine finds the site; behind a proxy, the first name it answers to."""
    if settings.HTTPS:
        return f"https://{settings.ALLOWED_HOSTS[0].lstrip('.')}"
    host = "127.0.0.1" if settings.HOST in settings.ANY_ADDRESS else settings.HOST
    return f"http://{f'[{host}]' if ':' in host else host}:{sock.getsockname()[1]}"
