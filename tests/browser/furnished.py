"""The site's settings for `test_furnished.py`, and a rule of the server that is between its tools and its models.

It sends calls for `Secret` to Oslo, and gives the model `SHORT` in the place of what `get_weather` says.
"""

from __future__ import annotations

from dataclasses import replace

from agent import Transform
from agent.middleware import Middleware
from chatsite.settings import *  # noqa: F403

SHORT = (
    "Mild. <img src=x onerror='window.hurt = 1'><script>window.hurt = 1</script>\n"
    "</pre></details><h1 id=title>owned</h1>\n"
    "<hx-partial hx-target='#title' hx-swap='innerHTML'>owned</hx-partial> [press](javascript:window.hurt=1)\n"
    "\x1b[31mred\x1b[0m \u202edetrats"
)
CHAT_MIDDLEWARE = ["tests.browser.furnished.Shortens"]


class Shortens(Middleware):
    def on_before_tool_call(self, ctx, call):
        return Transform({"city": "Oslo"}) if "Secret" in call.part.arguments else None

    def on_after_tool_call(self, ctx, call, result):
        return replace(result, content=SHORT) if call.name == "get_weather" else None
