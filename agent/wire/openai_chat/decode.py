from __future__ import annotations


def decode_request() -> None: ...
