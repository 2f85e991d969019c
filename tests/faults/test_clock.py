"""The clock of one machine jumps by an hour, either way: no run is lost by it, and none is kept alive by it."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import pytest

from tests.faults.sites import Site
from tests.standin import Say, StandIn

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]

HOUR = 3600
BEATS = 25
"""Seconds in which each process beats, and looks for lost runs, twice at least."""
TEXT = "".join(f"word {n}, " for n in range(300))


@pytest.mark.parametrize("off", [HOUR, -HOUR])
async def test_a_process_whose_clock_is_an_hour_off_takes_no_run_for_lost(
    off: int, tmp_path: Path, standin: StandIn, database: dict[str, str], gate: threading.Event
):
    """The run's own process is right, and another one is wrong from before it looks for the first time."""
    clock = tmp_path / "clock"
    clock.write_text(str(off))
    site = Site(tmp_path, standin, database)
    with site.server() as right, site.server(PLANT_CLOCK=str(clock)) as wrong:
        site.person(right)
        standin.play(Say(TEXT, pieces=10, gate=gate))
        async with site.run(right, "Hello") as told:
            await told.hears(20)
            async with site.follow(wrong, told.thread) as there:
                await asyncio.sleep(BEATS)
                assert told.end is None
                assert there.end is None
                gate.set()
                assert (await told.ends())["type"] == "RUN_FINISHED"
                await there.ends()
        assert told.text == there.text == TEXT
        assert site.rows("SELECT state FROM chat_run") == [("finished",)]


@pytest.mark.parametrize("off", [HOUR, -HOUR])
async def test_a_clock_that_jumps_during_a_run_ends_it_nowhere(
    off: int, tmp_path: Path, standin: StandIn, database: dict[str, str], gate: threading.Event
):
    """The run's own process is the one that jumps; another looks on."""
    clock = tmp_path / "clock"
    site = Site(tmp_path, standin, database)
    with site.server(PLANT_CLOCK=str(clock)) as jumps, site.server() as looks_on:
        site.person(jumps)
        standin.play(Say(TEXT, pieces=10, gate=gate))
        async with site.run(jumps, "Hello") as told:
            await told.hears(20)
            async with site.follow(looks_on, told.thread) as there:
                clock.write_text(str(off))
                await asyncio.sleep(BEATS)
                assert there.end is None
                gate.set()
                assert (await told.ends())["type"] == "RUN_FINISHED"
                await there.ends()
        assert told.text == there.text == TEXT
        assert site.rows("SELECT state FROM chat_run") == [("finished",)]
        # A clock that is off is no clock that hides a death.
        standin.play(Say(TEXT, pieces=10, delay=0.1))
        async with site.run(jumps, "Hello") as told:
            await told.hears(20)
            async with site.follow(looks_on, told.thread, after=f"{told.run}:1") as there:
                await asyncio.to_thread(jumps.kill)
                assert (await there.ends())["type"] == "RUN_ERROR"
