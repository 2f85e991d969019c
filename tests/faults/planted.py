"""What the fault tests plant into a server's process: tools that count themselves, a death at one place, a clock.

Each is asked for by an environment variable that the product does not know.

    PLANT_COUNTS=path     each tool writes a line there when it begins, outside the database
    PLANT_DEATH=place     SIGKILL once, at `before_commit` or `after_commit` of a batch that holds a tool's result;
                          PLANT_DIED=path says that it happened, so that the next process lives
    PLANT_CLOCK=path      the wall clock is as many seconds off as that file says, from when it is there on
"""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path

from django.apps import AppConfig


class Planted(AppConfig):
    name = "tests.faults"
    label = "planted"
    path = str(Path(__file__).parent)

    def ready(self) -> None:
        plant_tools()
        if os.environ.get("PLANT_DEATH"):
            plant_death(os.environ["PLANT_DEATH"])
        if os.environ.get("PLANT_CLOCK"):
            plant_clock(Path(os.environ["PLANT_CLOCK"]))


def count(what: str) -> None:
    """One whole line, whoever else writes, also when this process dies at once."""
    file = os.open(os.environ["PLANT_COUNTS"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(file, f"{what}\n".encode())
    os.close(file)


def plant_tools() -> None:
    from agent import tool
    from chatsite.chat import tools

    @tool
    async def post_letter(to: str, seconds: float = 0.0) -> dict[str, str]:
        """Post a letter. A letter that was posted twice cannot be taken back."""
        count(f"post_letter {to}")
        await asyncio.sleep(seconds)
        return {"posted": to}

    @tool(idempotent=True)
    async def look_up(word: str, seconds: float = 0.0) -> dict[str, str]:
        """Look a word up, as often as you like."""
        count(f"look_up {word}")
        await asyncio.sleep(seconds)
        return {"found": word}

    @tool(needs_approval=True)
    async def sign(paper: str) -> dict[str, str]:
        """Sign a paper, when a person agrees."""
        count(f"sign {paper}")
        return {"signed": paper}

    tools.EXAMPLES = (*tools.EXAMPLES, post_letter, look_up, sign)


def plant_death(place: str) -> None:
    from django.db import transaction

    from agent.events import ToolCallResult
    from chatsite.chat.runs import keeping

    keep = keeping.keep

    def keep_and_die(batches: Sequence[keeping.Batch]) -> list[int | None]:
        events = [event for batch in batches for event in batch.events]
        fatal = any(isinstance(event, ToolCallResult) for event in events) and not died()
        if fatal and place == "before_commit":
            die()
        if fatal and place == "after_commit":
            transaction.on_commit(die)
        return keep(batches)

    keeping.keep = keep_and_die


def died() -> bool:
    return Path(os.environ["PLANT_DIED"]).exists()


def die() -> None:
    Path(os.environ["PLANT_DIED"]).touch()
    os.kill(os.getpid(), signal.SIGKILL)


def plant_clock(file: Path) -> None:
    """Time itself: what Python and Django say of it. The monotonic clock knows no jumps."""
    from django.utils import timezone

    def off() -> float:
        return float(file.read_text()) if file.exists() else 0.0

    now, seconds, nanoseconds = timezone.now, time.time, time.time_ns
    timezone.now = lambda: now() + timedelta(seconds=off())
    time.time = lambda: seconds() + off()
    time.time_ns = lambda: nanoseconds() + int(off() * 1e9)
