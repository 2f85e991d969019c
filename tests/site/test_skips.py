"""A test that is skipped in CI is run by another stage of it, or fails."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest

from tests.conftest import ELSEWHERE
from tests.site.processes import ROOT

ON_POSTGRESQL = re.compile(
    r'^DATABASE_URL="\$TEST_DATABASE_URL" make test\S* PYTEST_ARGS="([^"]+)"', re.MULTILINE
)
SKIPPED = """
import pytest

@pytest.mark.skip(reason="it is late")
def test_late(): ...

@pytest.mark.skip(reason="{reason}")
def test_elsewhere(): ...

@pytest.mark.xfail
def test_wrong(): assert False
"""


def test_what_is_run_on_postgresql_only_is_in_a_stage_that_is():
    stages = [
        path for paths in ON_POSTGRESQL.findall((ROOT / ".ci/run").read_text()) for path in paths.split()
    ]
    for reason, database in ELSEWHERE.items():
        files = [path for path in ROOT.glob("tests/**/test_*.py") if f'"{reason}"' in path.read_text()]
        assert files, reason
        if database == "postgresql":
            for file in files:
                assert str(file.relative_to(ROOT)).startswith(tuple(stages)), (reason, file)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("ci", "ended"), [("true", "1 skipped, 1 xfailed, 1 error"), ("", "2 skipped, 1 xfailed")]
)
def test_a_skip_that_nothing_makes_good_fails_in_ci_alone(ci, ended, tmp_path):
    on_sqlite = not os.environ.get("DATABASE_URL", "").startswith("postgres")
    wanted = "postgresql" if on_sqlite else "sqlite"
    reason = next(reason for reason, database in ELSEWHERE.items() if database == wanted)
    (tmp_path / "test_it.py").write_text(SKIPPED.format(reason=reason))
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-p",
        "tests.conftest",
        "-c",
        "pyproject.toml",
        "--rootdir",
        ".",
    ]
    told = subprocess.run(
        [*command, "-p", "no:cacheprovider", "--noconftest", str(tmp_path)],
        cwd=ROOT,
        env={**os.environ, "CI": ci},
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    ).stdout
    assert ended in told, told
    assert ("skipped (it is late), and no other stage" in told) is bool(ci)
