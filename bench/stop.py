"""Stop, from the command to the end: `python -m bench.stop`.

A run of one client is stopped by another one's WebSocket, in four phases, on each server: before the model's first
token, in the middle of a text of 10 deltas a second, in one at full speed, and while a tool sleeps (`nap`). Told are
the milliseconds from the command until the run's client hears RUN_FINISHED with `cancelled`.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import time
import uuid

import uvloop
import websockets

from bench.client import post
from bench.common import KEY, LOOPBACK, Server, machine, module, print_table, site, spread

PHASES = {
    "before the first token": ("silent", b'"STEP_STARTED"', 0),
    "in a text of 10 deltas/s": ("paced-900", b'"STEP_STARTED"', 5),
    "in a text at full speed": ("text-900000", b'"STEP_STARTED"', 5_000),
    "while a tool is at work": ("nap", b'"STEP_FINISHED"', 0),
}
"""Phase -> the model that plays it, and what has come when Stop is pressed: an event, and so many bytes behind it."""


async def stop_once(server: Server, model: str, event: bytes, after: int) -> float:
    """Milliseconds."""
    ids = {"threadId": uuid.uuid4().hex, "runId": uuid.uuid4().hex}
    message = {"id": uuid.uuid4().hex, "role": "user", "content": "Tell me a lot."}
    body = {
        **ids,
        "state": {},
        "messages": [message],
        "tools": [],
        "context": [],
        "forwardedProps": {"model": model},
    }
    reader, writer = await asyncio.open_connection(LOOPBACK, server.port, limit=2**24)
    writer.write(post("/api/chat", json.dumps(body).encode(), f"Authorization: Bearer {KEY}"))
    heard = 0
    await reader.readuntil(event)
    while heard < after:
        heard += len(await reader.read(65536))
    url = f"ws://{LOOPBACK}:{server.port}/ws/threads/{ids['threadId']}/?after={ids['runId']}:999999"
    async with websockets.connect(url, additional_headers={"Authorization": f"Bearer {KEY}"}) as sock:
        began = time.monotonic()
        await sock.send('{"type": "stop", "id": 1}')
        await reader.readuntil(b'"RUN_FINISHED"')
        ended = time.monotonic()
    rest = await reader.read()
    writer.close()
    if b'"cancelled"' not in rest:
        raise SystemExit(f"{model}: not cancelled: {rest[-300:]!r}")
    return 1e3 * (ended - began)


async def measure(server: Server, repeats: int) -> list[str]:
    await stop_once(server, "paced-900", b'"STEP_STARTED"', 5)
    cells = []
    for phase in PHASES.values():
        cells.append(spread([await stop_once(server, *phase) for _ in range(repeats)]))
    return cells


def main() -> None:
    parser = argparse.ArgumentParser(description="How long a Stop takes.")
    parser.add_argument("--quick", action="store_true", help="three repeats: a look, no figures")
    options = parser.parse_args()
    repeats = 3 if options.quick else 20
    print(f"{machine()}; medians of {repeats} (least-most), ms\n", flush=True)
    columns = {}
    with module("model") as model:
        url = f"http://{LOOPBACK}:{model.port}"
        settings = {
            "DJANGO_SETTINGS_MODULE": "bench.napping",
            "OPENAI_BASE_URL": url,
            "OPENAI_MODELS": ",".join(name for name, *_ in PHASES.values()),
        }
        for name in ("uvicorn", "daphne"):
            with site(name, **settings) as server:
                columns[name] = uvloop.run(measure(server, repeats))
    rows = [
        [phase, *(cells[place] for cells in columns.values()), "<= 500"] for place, phase in enumerate(PHASES)
    ]
    print_table(["stopped", *columns, "goal"], rows)


if __name__ == "__main__":
    main()
