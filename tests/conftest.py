"""Of all tests: a law is looked for as long as it takes, however busy the machine is, and in CI at the same examples
each time (whoever runs the tests elsewhere looks at others); what a process remembers of policies and of wrong keys
ends with the test; no rows of endpoints are looked for, unless a test is about them (`catalog_rows`); and tables can be
emptied.

In CI a skip fails, unless another stage runs that test (`ELSEWHERE`).
"""

import gc
import os
import threading
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile(
    "steady",
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    derandomize=bool(os.environ.get("CI")),
)
settings.load_profile("steady")

ELSEWHERE = {
    "SQLite has one writer, and nobody to wait for": "postgresql",
    "the disk is SQLite's; PostgreSQL has its own": "sqlite",
    "it reads the restored file; PostgreSQL has a test in tests/site": "sqlite",
    "its twin below is for PostgreSQL": "sqlite",
    "runs on PostgreSQL": "sqlite",
}
"""Why a test may be skipped in CI -> the database on which a stage of .ci/run has it run."""


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    report = yield
    if os.environ.get("CI") and report.skipped and not hasattr(report, "wasxfail"):
        from django.db import connection

        reason = report.longrepr[2].removeprefix("Skipped: ")
        if ELSEWHERE.get(reason, connection.vendor) == connection.vendor:
            report.outcome = "failed"
            report.longrepr = (
                f"skipped ({reason}), and no other stage of .ci/run has it run: see tests/conftest.py"
            )
    return report


@pytest.hookimpl(wrapper=True)
def pytest_collection():
    """What is loaded now stays: to look through it again and again for garbage took a third of the time of loading."""
    gc.disable()
    yield
    gc.enable()
    gc.freeze()


@pytest.fixture(autouse=True)
def no_policy_of_another_test():
    yield
    from chatsite.policies import rules

    rules.forget()


@pytest.fixture(autouse=True)
def no_wrong_key_of_another_test():
    from chatsite.accounts import failed_keys

    failed_keys.forget()


@pytest.fixture(autouse=True)
def no_catalog():
    from chatsite.catalog import entries

    entries.use_entries(entries.NONE)


@pytest.fixture
def catalog_rows(no_catalog):
    """Endpoints and models of the database count."""
    from chatsite.catalog import entries

    entries.use_entries(None)
    yield
    entries.use_entries(entries.NONE)


@pytest.fixture
def gate() -> Iterator[threading.Event]:
    """Of an answer that waits in its middle. Who still waits when the test is over, because it failed, goes on then."""
    shut = threading.Event()
    yield shut
    shut.set()


@pytest.fixture(scope="session")
def django_db_setup(django_db_setup, django_db_blocker):
    """The database, without the guards of the audit log: tests empty its tables behind them.

    The tests of the guards make them again. A site in a process of its own has them always.
    """
    from django.db import connection
    from django.test import TransactionTestCase

    from chatsite.audit import guards
    from tests import emptying

    with django_db_blocker.unblock():
        guards.remove(connection)
        empty = emptying.teardown(emptying.Emptying(connection))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(TransactionTestCase, "_fixture_teardown", empty)
        yield
    # What threads still hold open would keep the database from being dropped.
    from chatsite.chat import db
    from chatsite.gateway import auth

    db.close_connections()
    auth.close_connections()
    with django_db_blocker.unblock():
        end_other_sessions(connection)


def end_other_sessions(connection):
    """What a thread of a finished event loop left open ends here: nobody can close it any more, and PostgreSQL drops no
    database that has a session."""
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute(
                "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity "
                "WHERE datname = current_database() AND pid <> pg_backend_pid()"
            )
