"""What the page costs a browser: `python -m bench.browser`. Needs a Chromium.

An answer of 400 deltas and 2.7 KB of markdown, streamed in eight seconds into a thread that is open: script
time (Chromium's own ScriptDuration), bytes of the event stream, layout shift, DOM nodes. Besides: the size of
all scripts and style sheets, the time until the composer can be used, and the first paint of a thread of
1,000 messages and 200 tool cards.
"""

from __future__ import annotations

import argparse
import contextlib
import gzip
import shutil
import sys
import tempfile
from collections import defaultdict
from pathlib import Path
from typing import Any

from playwright.sync_api import BrowserContext, CDPSession, Page, sync_playwright

from bench.common import (
    HEALTH,
    LOOPBACK,
    PASSWORD,
    USER,
    add_user,
    free_port,
    machine,
    manage,
    module,
    print_table,
    process,
    site_environment,
    spread,
    wait_for,
)
from bench.model import ANSWER

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
ARGUMENTS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking"]
LONG = "bench-long-thread"
LAST_WORD = ANSWER.split()[-1]

BUDGETS = {
    "400-token answer: script time, s": "<= 0.3",
    "... bytes of the event stream, KB": "<= 15",
    "... layout shift": "0",
    "all JavaScript, KB gzip": "<= 60",
    "all CSS, KB gzip": "<= 20",
    "composer usable, ms": "<= 300",
    "1,000 messages, 200 tool cards: first paint, ms": "<= 1,000",
}

WATCH = """
window.shift = 0;
new PerformanceObserver((list) => {
  for (const entry of list.getEntries()) if (!entry.hadRecentInput) window.shift += entry.value;
}).observe({type: "layout-shift", buffered: true});
"""
# Functions, not expressions: the page's own policy refuses `eval`.
SHOWS = "(words) => document.querySelector('#log').textContent.includes(words)"
PAINTED = "() => performance.getEntriesByName('first-contentful-paint').length > 0"
TIMES = """() => ({
  usable: performance.getEntriesByType("navigation")[0].domContentLoadedEventEnd,
  painted: performance.getEntriesByName("first-contentful-paint")[0].startTime,
  html: performance.getEntriesByType("navigation")[0].responseEnd,
  nodes: document.querySelectorAll("*").length,
})"""
FILES = """() => [...document.querySelectorAll("script[src], link[rel=stylesheet]")]
  .map((element) => element.src || element.href)"""

Figures = dict[str, float]


class Wire:
    """Bytes that came over the event streams, as Chromium counts them.

    It counts them twice, with HTTP's framing and without; the first tends to be late, so the larger is taken.
    """

    def __init__(self, cdp: CDPSession) -> None:
        self._framed = self._plain = 0
        self._streams: set[str] = set()
        cdp.on("Network.requestWillBeSent", self._sent)
        cdp.on("Network.dataReceived", self._received)
        cdp.send("Network.enable")

    @property
    def bytes(self) -> int:
        return max(self._framed, self._plain)

    def _sent(self, event: dict[str, Any]) -> None:
        if "/events?" in event["request"]["url"]:
            self._streams.add(event["requestId"])

    def _received(self, event: dict[str, Any]) -> None:
        if event["requestId"] in self._streams:
            self._framed += event["encodedDataLength"]
            self._plain += event["dataLength"]


def metrics(cdp: CDPSession) -> Figures:
    return {each["name"]: each["value"] for each in cdp.send("Performance.getMetrics")["metrics"]}


def ask(page: Page, text: str, model: str) -> None:
    page.locator("#model").select_option(model)
    page.locator("#text").fill(text)
    page.locator("#text").press("Enter")


def answer(context: BrowserContext) -> Figures:
    """The second message of a thread, so that no page is loaded meanwhile."""
    page = context.new_page()
    cdp = context.new_cdp_session(page)
    wire = Wire(cdp)
    cdp.send("Performance.enable")
    page.add_init_script(WATCH)
    page.goto("/")
    ask(page, "Hello", "text-16")
    page.wait_for_url("**/threads/**")
    page.wait_for_function(SHOWS, arg="token token")
    page.wait_for_timeout(1000)
    before, told = metrics(cdp), wire.bytes
    page.evaluate("() => { window.shift = 0; }")
    ask(page, "Tell me about sourdough", "answer")
    page.wait_for_function(SHOWS, arg=LAST_WORD, timeout=30_000)
    page.wait_for_timeout(1000)
    after = metrics(cdp)
    figures = {
        "400-token answer: script time, s": after["ScriptDuration"] - before["ScriptDuration"],
        "... layout and style, s": sum(
            after[name] - before[name] for name in ("LayoutDuration", "RecalcStyleDuration")
        ),
        "... bytes of the event stream, KB": (wire.bytes - told) / 1000,
        "... layout shift": page.evaluate("() => window.shift"),
        "... DOM nodes it adds": after["Nodes"] - before["Nodes"],
    }
    page.close()
    return figures


def loads(context: BrowserContext) -> Figures:
    """Both pages as a browser opens them that has the files already."""
    page = context.new_page()
    times = []
    for path in ("/", f"/threads/{LONG}/"):
        page.goto(path)
        page.wait_for_function(PAINTED)
        times.append(page.evaluate(TIMES))
    page.close()
    empty, long = times
    return {
        "composer usable, ms": empty["usable"],
        "... first paint, ms": empty["painted"],
        "1,000 messages, 200 tool cards: first paint, ms": long["painted"],
        "... its HTML is there, ms": long["html"],
        "... composer usable in it, ms": long["usable"],
        "... DOM elements": long["nodes"],
    }


def sizes(context: BrowserContext) -> Figures:
    """All files that the chat page names, as gzip makes them."""
    page = context.new_page()
    page.goto("/")
    packed: dict[str, int] = defaultdict(int)
    for url in page.evaluate(FILES):
        body = context.request.get(url).body()
        packed[".js" if ".js" in url else ".css"] += len(gzip.compress(body, 9))
    page.close()
    return {"all JavaScript, KB gzip": packed[".js"] / 1000, "all CSS, KB gzip": packed[".css"] / 1000}


def sign_in(context: BrowserContext) -> None:
    page = context.new_page()
    page.goto("/accounts/login/")
    page.fill("#id_login", USER)
    page.fill("#id_password", PASSWORD)
    page.press("#id_password", "Enter")
    page.wait_for_selector("#composer")
    page.close()


def measure(url: str, repeats: int) -> dict[str, list[float]]:
    rows: dict[str, list[float]] = defaultdict(list)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        context = browser.new_context(base_url=url, viewport={"width": 1280, "height": 800})
        sign_in(context)
        for job, times in ((answer, min(repeats, 3)), (sizes, 1), (loads, repeats)):
            for _ in range(times):
                for row, figure in job(context).items():
                    rows[row].append(figure)
        browser.close()
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description="What the page costs a browser.")
    parser.add_argument("--quick", action="store_true", help="one repeat")
    options = parser.parse_args()
    if CHROMIUM is None:
        raise SystemExit("There is no Chromium on this machine.")
    repeats = 1 if options.quick else 5
    print(f"{machine()}; medians (least - most)\n", flush=True)
    with contextlib.ExitStack() as stack:
        model = stack.enter_context(module("model"))
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="threadloom-bench-"))
        port = free_port()
        models = {"OPENAI_BASE_URL": f"http://{LOOPBACK}:{model.port}", "OPENAI_MODELS": "text-16,answer"}
        env = site_environment(Path(folder), "daphne", port, **models)
        child = stack.enter_context(process("manage.py", "serve", env=env))
        wait_for(port, child, HEALTH)
        add_user(env)
        manage("shell", "-c", f"from bench.seed import seed; seed({USER!r}, {LONG!r})", env=env)
        rows = measure(f"http://{LOOPBACK}:{port}", repeats)
    print_table(
        ["", "Chromium, daphne", "budget"],
        [[row, spread(values), BUDGETS.get(row, "")] for row, values in rows.items()],
    )


if __name__ == "__main__":
    sys.exit(main())
