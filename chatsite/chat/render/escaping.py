"""Text as HTML text."""

_ESCAPES = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "\r": None, "\0": "\ufffd"})


def escape(text: str) -> str:
    """Text as HTML text. Apostrophes stay, since attribute values here are always in double quotes."""
    return text.translate(_ESCAPES)
