"""`manage.py doctor`: looks at everything an installation hangs on, and says what to do."""

import json

from django.core.management.base import BaseCommand, CommandError

from chatsite.operator.doctor import database, files, models, tool_servers
from chatsite.operator.doctor.findings import Level, run
from chatsite.operator.doctor.site import Site

INSIDE = {
    "settings": files.configuration,
    "DATA_DIR": files.data_folder,
    "disk": database.room,
    "database": database.answers,
    "migrations": database.migrations,
    "locks": database.writers,
    "sqlite": database.sqlite,
    "postgresql": database.postgres,
    "clock": database.clock,
    "runs": database.lost_runs,
    "static files": files.static_files,
    "redis": models.redis,
    "endpoints": models.chat_endpoints,
    "gateway": models.gateway_endpoints,
    "hooks": models.hooks,
    "MCP": tool_servers.tool_servers,
}


class Command(BaseCommand):
    help = "Looks at what the installation hangs on: database, files, models, and with --url the way to it."
    requires_system_checks: list[str] = []  # they are among the findings

    def add_arguments(self, parser):
        parser.add_argument("--url", help="the address people use, such as https://chat.example.org")
        parser.add_argument(
            "--insecure", action="store_true", help="do not verify that address's certificate"
        )
        parser.add_argument("--json", action="store_true", help="one JSON object a finding")

    def handle(self, *args, **options):
        checks = dict(INSIDE)
        if options["url"]:
            checks |= Site(_address(options["url"]), verify=not options["insecure"]).checks()
        counts = dict.fromkeys(Level, 0)
        for name, check in checks.items():
            for finding in run(name, check):
                counts[finding.level] += 1
                self._say(finding, as_json=options["json"])
        if not options["json"]:
            self.stdout.write(self._sum(counts, options["url"]))
        if counts[Level.WRONG]:
            raise SystemExit(1)

    def _say(self, finding, *, as_json):
        if as_json:
            self.stdout.write(json.dumps(finding.as_dict()))
        else:
            style = {
                Level.OK: self.style.SUCCESS,
                Level.LOOK: self.style.WARNING,
                Level.WRONG: self.style.ERROR,
            }
            self.stdout.write(
                f"{style[finding.level](f'{finding.level:>5}')}  {finding.about}: {finding.words}"
            )
            if finding.advice:
                self.stdout.write(f"       -> {finding.advice}")
        self.stdout.flush()

    def _sum(self, counts, url):
        rest = "" if url else " The way to it was not looked at: add --url with the address people use."
        return (
            f"\n{counts[Level.OK]} ok, {counts[Level.LOOK]} worth a look, {counts[Level.WRONG]} wrong.{rest}"
        )


def _address(given: str) -> str:
    if not given.startswith(("http://", "https://")):
        raise CommandError(f"--url is {given!r}; write it with its scheme, such as https://chat.example.org")
    scheme, _, rest = given.partition("://")
    return f"{scheme}://{rest.split('/')[0]}"
