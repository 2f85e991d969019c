from __future__ import annotations


class StreamEncoder: ...


def encode_response() -> None: ...
