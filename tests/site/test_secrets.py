"""What is secret is compared, and looked for, in a way whose time tells nothing of it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from chatsite.accounts import keys
from tests.site.processes import ROOT
from tests.site.test_architecture import parsed

SECRET = re.compile(r"token|secret|nonce|password|seal|digest|signature|api_key", re.IGNORECASE)
HARMLESS = {
    "MOST_TOKENS": "tokens of JSON",
    "digest[:2] == shard": "the name of a file in an archive, which is the hash of its content",
    "digest_of(dump(body).encode()) == turn.digest": "of a request that whoever sees this page may read",
    "begin == SIGNATURE": "the first bytes of every ZIP file",
    "secret.read_text('utf-8') == settings.SECRET_KEY": "a command of who has both",
    "fingerprint(settings.SECRET_KEY)": "a command of who has both",
}
"""Comparisons that are none of secrets with what somebody sent, and why."""


@cache
def comparisons() -> list[tuple[Path, str]]:
    return list(_comparisons())


def _comparisons() -> Iterator[tuple[Path, str]]:
    for path in sorted([*(ROOT / "chatsite").rglob("*.py"), *(ROOT / "agent").rglob("*.py")]):
        for node in ast.walk(parsed(path)):
            if isinstance(node, ast.Compare) and any(
                isinstance(sign, ast.Eq | ast.NotEq) for sign in node.ops
            ):
                sides = [node.left, *node.comparators]
                if not any(isinstance(side, ast.Constant) for side in sides):
                    yield path, ast.unparse(node)


def test_no_secret_is_compared_letter_by_letter():
    found = [
        f"{path.relative_to(ROOT)}: {text}"
        for path, text in comparisons()
        if SECRET.search(text) and not any(harmless in text for harmless in HARMLESS)
    ]
    assert not found, "compare with hmac.compare_digest, or say in HARMLESS why not: " + "; ".join(found)


def test_what_is_said_to_be_harmless_is_there():
    texts = [text for _, text in comparisons()]
    assert not [each for each in HARMLESS if not any(each in text for text in texts)]


@pytest.mark.django_db
def test_a_key_is_looked_for_by_its_digest(django_user_model):
    """What an index's search tells by its time is then of a hash that nobody chooses."""
    key = keys.new_api_key(django_user_model.objects.create_user("ada"))
    with CaptureQueriesContext(
        connection,
    ) as asked:
        assert keys.look_up(key) is not None
        assert keys.look_up(f"{key}x") is None
    assert asked.captured_queries
    assert key not in str(asked.captured_queries)
