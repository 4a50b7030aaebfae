"""Take the picture of the page that fills in the browser, for docs/browser.md.

PYTHONPATH=src python docs/plots/browser.py
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from playwright.sync_api import sync_playwright

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))
from tests.support.browser import chromium  # noqa: E402
from tests.support.site import build_script, served  # noqa: E402

TEXT = "She opened the ___ and ___."


def main() -> None:
    with tempfile.TemporaryDirectory() as name, sync_playwright() as playwright:
        build_script().build(Path(name) / "page")
        browser = playwright.chromium.launch(executable_path=chromium(), args=["--no-sandbox", "--disable-gpu"])
        with served(Path(name) / "page", Path(name) / "log") as site:
            page = browser.new_page(viewport={"width": 760, "height": 600}, device_scale_factor=1)
            page.set_default_timeout(120_000)
            page.goto(f"{site.url}/#text={TEXT}")
            page.locator("#result .filled").first.wait_for()
            page.get_by_label("Readings").fill("4")
            page.get_by_role("button", name="Fill", exact=True).click()
            page.locator("#readings button").first.wait_for()
            page.screenshot(path=ROOT / "docs" / "browser.png", full_page=True)
        browser.close()


if __name__ == "__main__":
    main()
