"""Makes `static/chat/code.css`, the colours of code in both themes:

python -m chatsite.chat.render.code_css > static/chat/code.css
"""

from __future__ import annotations

import re
import sys

from pygments.formatters import HtmlFormatter

from chatsite.chat.render.code import PLAIN

LIGHT, DARK = "xcode", "github-dark"
SCOPES = (".code", ".call pre")


def rules(style: str) -> list[str]:
    """The style's rules for token classes, without grounds and comments: the page has its own ground."""
    made = []
    for line in HtmlFormatter(style=style).get_style_defs("@").splitlines():
        match = re.match(r"@ (\.\w+) \{ ([^}]*) \}", line)
        if match is None or match[1].removeprefix(".") in PLAIN:
            continue
        kept = [part.strip() for part in match[2].split(";") if part.strip()]
        kept = [part for part in kept if not part.startswith(("background", "border"))]
        if kept:
            made.append(f"{','.join(f'{scope} {match[1]}' for scope in SCOPES)}{{{';'.join(kept)}}}")
    return made


def css() -> str:
    light, dark = "\n".join(rules(LIGHT)), "\n".join(rules(DARK))
    return (
        "/* Made by: python -m chatsite.chat.render.code_css > static/chat/code.css */\n"
        f"{light}\n@media (prefers-color-scheme:dark){{\n{dark}\n}}\n"
    )


if __name__ == "__main__":
    sys.stdout.write(css())
