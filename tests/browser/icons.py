"""The icons of the installed page, as PNG from our own drawing: `python -m tests.browser.icons`.

The drawing (static/chat/icon.svg) has round corners of its own. Systems that cut icons themselves get one whose
ground goes to the edge and whose lines stay within the middle.
"""

from __future__ import annotations

from pathlib import Path

from playwright.sync_api import Browser, sync_playwright

from tests.browser.conftest import ARGUMENTS, CHROMIUM
from tests.site.processes import ROOT

FOLDER = ROOT / "static" / "chat"
SIZES = {"icon-192.png": 192, "icon-512.png": 512}
FULL = {"icon-full-180.png": 180, "icon-full-512.png": 512}
MARGIN = 0.13


def draw(browser: Browser, path: Path, size: int, *, full: bool) -> None:
    drawing = (FOLDER / "icon.svg").read_text()
    margin = round(size * MARGIN) if full else 0
    ground = "#12645c" if full else "transparent"
    page = browser.new_page(viewport={"width": size, "height": size})
    page.set_content(
        f"<style>html, body {{ margin: 0; background: {ground}; }}"
        f"svg {{ display: block; width: {size - 2 * margin}px; margin: {margin}px; }}</style>{drawing}"
    )
    page.screenshot(path=path, omit_background=True)
    page.close()


def main() -> None:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        for full, names in ((False, SIZES), (True, FULL)):
            for name, size in names.items():
                draw(browser, FOLDER / name, size, full=full)
        browser.close()


if __name__ == "__main__":
    main()
