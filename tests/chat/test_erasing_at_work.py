"""A person is erased while an answer to them is written."""

from __future__ import annotations

import asyncio

import pytest
from django.contrib.auth.models import User

from agent.providers.scripted import Turn
from chatsite.care import erasing
from chatsite.care.lines import lines
from chatsite.chat import db
from chatsite.chat.models import RunEvent
from tests.chat.conftest import until
from tests.chat.test_runs import begin


@pytest.mark.parametrize("goes_on", [False, True], ids=["and ends by itself", "and writes on"])
async def test_a_run_at_work_leaves_nothing_behind(person, plays, settled, goes_on):
    gate = asyncio.Event()
    provider = plays(Turn("The first half, the second half.", delta_size=4, gate=gate))
    await begin(person)
    await until(lambda: provider.requests)
    erasure = await db.aside(erasing.begin, person, reason="She asked for it.")
    if goes_on:
        gate.set()
        await settled()
    assert await db.aside(erasing.run, erasure)
    gate.set()
    await settled()
    assert await db.read(lambda: [line.name for line in lines() if line.count(person.pk)]) == []
    assert not await db.read(RunEvent.objects.exists)
    assert not await db.read(User.objects.filter(pk=person.pk).exists)
