"""What is vendored is what its package published."""

from __future__ import annotations

import re
from hashlib import sha256

from django.conf import settings

VENDOR = settings.BASE_DIR / "static/vendor"
ROW = re.compile(r"^\| `([^`]+)` \|.*`([0-9a-f]{64})` \|$", re.MULTILINE)


def test_every_vendored_file_has_its_hash():
    named = dict(ROW.findall((VENDOR / "README.md").read_text()))
    there = {str(path.relative_to(VENDOR)) for path in VENDOR.rglob("*") if path.is_file()} - {"README.md"}
    assert set(named) == there
    for name, digest in named.items():
        assert sha256((VENDOR / name).read_bytes()).hexdigest() == digest, name
