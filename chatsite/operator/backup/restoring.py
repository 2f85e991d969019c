"""`restore(file)`: a backup becomes the site. Nothing of the site is touched before all of the backup was found good.

Refused, each with a sentence: a server that runs; a place that has people, unless they are to be replaced; a file that
is no backup, is cut off or was changed (hashes); one of a newer version; one of the other kind of database.

What was there stays beside it: SQLite's file and the attached files as `....before-TIME`, PostgreSQL's tables in a
schema `before_TIME`. Attached files are only ever added, since a name is the hash of its content; upkeep removes
those that no row names.
"""

from __future__ import annotations

import fcntl
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

from django.conf import settings
from django.db import DatabaseError, connection, connections, transaction
from django.db.migrations.loader import MigrationLoader
from django.utils import timezone

from chatsite import env
from chatsite.audit import log
from chatsite.operator import prepare, schema
from chatsite.operator.backup import files, manifest, place
from chatsite.operator.backup.manifest import Manifest
from chatsite.operator.backup.unpacking import Refused, unpacked
from chatsite.operator.copying import Tell, is_sqlite, run_tool, sqlite_path, tool

STAGING = ".restore"
FRESH = timedelta(seconds=60)


def restore(file: Path, *, replace: bool = False, tell: Tell = lambda line: None) -> list[str]:
    """What there is to say besides that it is done. Raises Refused and CannotCopy."""
    with prepare.one_start_at_a_time(), _no_server():
        place.finish()
        _check_nobody_works()
        _check_place(replace)
        with _staging() as staging:
            known = unpacked(file, staging, tell)
            _check_fits(known)
            said = _put_in_place(known, staging, f"{timezone.now():%Y%m%d%H%M%S}", tell)
        return [*said, *_recorded(file, known), *_to_know(known)]


# -- who is in the way ---------------------------------------------------------------------------------------


@contextmanager
def _no_server() -> Iterator[None]:
    with prepare.serving_lock().open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise Refused("A server runs on this DATA_DIR; stop it first.") from None
        yield


def _check_nobody_works() -> None:
    """Servers on other machines, which share the database."""
    with connection.cursor() as cursor:
        if "chat_run" in connection.introspection.table_names(cursor):
            since = connection.ops.adapt_datetimefield_value(timezone.now() - FRESH)
            cursor.execute(
                "SELECT max(heartbeat_at) FROM chat_run WHERE state IN ('queued', 'running') AND heartbeat_at > %s",
                [since],
            )
            if cursor.fetchone()[0] is not None:
                raise Refused(
                    "A server was at work on this database less than a minute ago; stop it, or wait for a minute."
                )
        if not is_sqlite():
            cursor.execute(
                "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
                " AND pid <> pg_backend_pid() AND backend_type = 'client backend'"
            )
            others = cursor.fetchone()[0]
            if others:
                raise Refused(
                    f"{others} other connections use this database; stop the servers that have them first."
                )


def _check_place(replace: bool) -> None:
    if not replace and _has_people():
        raise Refused(
            "There is a site here, with people. Restore into an empty DATA_DIR and database, or say --replace: what is "
            "here is kept aside then."
        )


def _has_people() -> bool:
    with connection.cursor() as cursor:
        if "auth_user" not in connection.introspection.table_names(cursor):
            return False
        cursor.execute("SELECT 1 FROM auth_user LIMIT 1")
        return cursor.fetchone() is not None


# -- the place -----------------------------------------------------------------------------------------------


@contextmanager
def _staging() -> Iterator[Path]:
    """Beside the place of the database, on its disk. What a killed restore left there is removed."""
    folder = (sqlite_path().parent if is_sqlite() else Path(settings.DATA_DIR)) / STAGING
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(mode=0o700, parents=True)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _check_fits(known: Manifest) -> None:
    if known.database != connection.vendor:
        raise Refused(f"This is a backup of {known.database}, and DATABASE_URL names {connection.vendor}.")
    loader = MigrationLoader(None)
    unknown = [
        f"{app}.{name}"
        for app, name in known.migrations
        if app in loader.migrated_apps and (app, name) not in loader.disk_migrations
    ]
    if unknown:
        raise Refused(
            f"This backup is of a newer version ({known.threadloom}), which has migrations that this one does not know "
            f"({', '.join(unknown[:3])}). Install that version, then restore."
        )


# -- in place ------------------------------------------------------------------------------------------------


def _put_in_place(known: Manifest, staging: Path, stamp: str, tell: Tell) -> list[str]:
    said = []
    if any(files.kept_in(files.folder())):
        aside = files.folder().with_name(f"{files.folder().name}.before-{stamp}")
        files.hold_all(aside)
        said.append(f"The attached files that were here are in {aside}, too.")
    files.take_in(staging / "attachments")
    tell("Putting the database in its place ...")
    path = staging / manifest.DATABASES[known.database]
    said += _swap_sqlite(path, stamp) if is_sqlite() else _swap_postgresql(path, stamp)
    if (secret := staging / manifest.SECRET).exists():
        said += _keep_secret(secret, stamp)
    return said


def _swap_sqlite(path: Path, stamp: str) -> list[str]:
    with connection.cursor() as cursor:
        is_blank = not connection.introspection.table_names(cursor)
    connections.close_all()
    home = sqlite_path()
    if is_blank:
        place.remove(home)  # to look at it made it
    aside = home.with_name(f"{home.name}.before-{stamp}")
    place.swap(path, home, aside)
    return [f"The database that was here is {aside}."] if aside.exists() else []


def _swap_postgresql(path: Path, stamp: str) -> list[str]:
    """In one transaction of psql: the old schema gets another name, and the dump makes its own."""
    aside = f"before_{stamp}"
    with path.open(encoding="utf-8") as dump:
        makes_schema = any(line.startswith("CREATE SCHEMA public") for line in dump)
    connections.close_all()
    first = ["--command", f"ALTER SCHEMA public RENAME TO {aside}"]
    if not makes_schema:
        first += ["--command", "CREATE SCHEMA public"]
    quiet = ["--no-psqlrc", "--quiet", "--set", "ON_ERROR_STOP=1", "--single-transaction"]
    run_tool([tool("psql"), *quiet, *first, f"--file={path}"], lambda: None)
    return [f"The tables that were here are in the schema {aside}."]


def _keep_secret(secret: Path, stamp: str) -> list[str]:
    if secret.read_text("utf-8") == settings.SECRET_KEY:
        return []
    home = Path(settings.DATA_DIR) / "secret_key"
    if home.exists():
        home.replace(home.with_name(f"secret_key.before-{stamp}"))
    shutil.move(secret, home)
    home.chmod(0o600)
    if not env.text("SECRET_KEY"):
        # It is this site's from now on: the audit log is sealed with it.
        settings.SECRET_KEY = home.read_text("utf-8").strip()
    return [f"Its secret key is in {home}; a SECRET_KEY in the environment goes before it."]


# -- afterwards ----------------------------------------------------------------------------------------------


def _recorded(file: Path, known: Manifest) -> list[str]:
    """In the restored audit log; one of an older version may not have it yet."""
    try:
        with transaction.atomic():
            facts = {"made_at": known.made_at, "files": len(known.files), "threadloom": known.threadloom}
            log.record("backup.restored", subject=file.name, door="command", facts=facts)
    except DatabaseError:
        return ["The audit log of this backup is of an older version, so this is not written there."]
    finally:
        connections.close_all()
    return []


def _to_know(known: Manifest) -> Iterator[str]:
    if known.secret_key != manifest.fingerprint(settings.SECRET_KEY) and manifest.SECRET not in known.files:
        yield (
            "This site has another SECRET_KEY than the backup: people sign in anew, keys of endpoints have to be given "
            "again, and the audit log says that its seal was broken. Set the old SECRET_KEY to avoid that."
        )
    if known.missing:
        yield f"{len(known.missing)} attached files were missing when the backup was made."
    if schema.look().pending:
        yield "It is of an older version: the next start brings its tables up to date."
    connections.close_all()
