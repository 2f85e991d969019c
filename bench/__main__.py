"""All benches, one behind the other: `make bench`, or `make bench BENCH_ARGS=--quick` for a look."""

from __future__ import annotations

import subprocess
import sys
import time

BENCHES = ("loop", "server", "start", "browser", "crowd", "lasting", "stop", "gateway")


def main() -> int:
    begun, failed = time.monotonic(), []
    for name in BENCHES:
        print(f"\n## python -m bench.{name}\n", flush=True)
        if subprocess.run([sys.executable, "-m", f"bench.{name}", *sys.argv[1:]], check=False).returncode:
            failed.append(name)
    print(f"\n{time.monotonic() - begun:.0f} s", flush=True)
    if failed:
        print(f"failed: {', '.join(failed)}", flush=True)
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
