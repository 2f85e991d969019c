"""A slow tool beside the site's own, for `bench.stop`: its settings are `bench.napping`."""

from __future__ import annotations

import asyncio
from pathlib import Path

from django.apps import AppConfig


class Nap(AppConfig):
    name = "bench"
    label = "nap"
    path = str(Path(__file__).parent)

    def ready(self) -> None:
        from agent import tool
        from chatsite.chat import tools

        @tool
        async def nap(seconds: float) -> str:
            """Sleep so long."""
            await asyncio.sleep(seconds)
            return "awake"

        tools.EXAMPLES = (*tools.EXAMPLES, nap)
