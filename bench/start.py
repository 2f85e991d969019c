"""How long a start takes, and what a site holds that does nothing: `python -m bench.start`.

From `manage.py serve` to the first 200 of /healthz: on an empty DATA_DIR (tables, static files, keys) and on
one that an earlier start left. Then the memory that the process holds, and once more behind 100 requests: 50
sign-in pages and 50 runs of the demo model over `/api/chat`, ten at once.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
import time
from collections import defaultdict
from pathlib import Path

from bench.client import ask, chat_request
from bench.common import (
    HEALTH,
    LOOPBACK,
    Server,
    add_user,
    free_port,
    machine,
    print_table,
    process,
    site_environment,
    spread,
    wait_for,
)

PAGE = f"GET /accounts/login/ HTTP/1.1\r\nHost: {LOOPBACK}\r\nConnection: close\r\n\r\n".encode()


async def hundred_requests(port: int) -> None:
    async def ask_ten() -> None:
        for _ in range(5):
            await ask(port, PAGE)
            await ask(port, chat_request("demo"))

    await asyncio.gather(*(ask_ten() for _ in range(10)))


def starts(kind: str) -> dict[str, float]:
    """One folder: its first start, its second, and the memory of the second."""
    figures: dict[str, float] = {}
    with tempfile.TemporaryDirectory(prefix="threadloom-bench-") as folder:
        for row in ("start on an empty DATA_DIR, s", "start on a prepared one, s"):
            port = free_port()
            env = site_environment(Path(folder), kind, port)
            begun = time.monotonic()
            with process("manage.py", "serve", env=env) as child:
                wait_for(port, child, HEALTH)
                figures[row] = time.monotonic() - begun
                if "empty" in row:
                    add_user(env)
                    continue
                server = Server(kind, port, child.pid)
                figures["idle: RSS, MiB"], figures["idle: PSS, MiB"] = server.memory()
                asyncio.run(hundred_requests(port))
                rss, pss = server.memory()
                figures["behind 100 requests: RSS, MiB"], figures["behind 100 requests: PSS, MiB"] = rss, pss
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description="Start-up time and idle memory.")
    parser.add_argument("--quick", action="store_true", help="one repeat")
    options = parser.parse_args()
    repeats = 1 if options.quick else 3
    print(f"{machine()}; medians of {repeats} (least-most)\n", flush=True)
    rows: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    kinds = ("daphne", "uvicorn")
    for _ in range(repeats):
        for kind in kinds:
            for row, figure in starts(kind).items():
                rows[row][kind].append(figure)
    table = [[row, *(spread(figures[kind]) for kind in kinds)] for row, figures in rows.items()]
    print_table(["", *kinds], table)


if __name__ == "__main__":
    sys.exit(main())
