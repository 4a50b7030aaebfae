"""Take the pictures of the page that README.md and docs/ show; it needs Chromium and the extra dev.

python docs/build_pictures.py [light dark phone restore transfer choose]
"""

from __future__ import annotations

import io
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from PIL import Image
from playwright.sync_api import Page, expect, sync_playwright

HERE = Path(__file__).resolve().parent
TEXT = "She opened the ___ and ___."
DAMAGED = "dis mani[---] sacrum iuliae felici vixit an[...] xx coniux [......]ssimae fecit"
CLEAR = 240_000  # milliseconds to wait for an answer


@dataclass(frozen=True)
class Picture:
    width: int
    height: int
    state: dict[str, str]
    seen: str  # the region that shows the answer
    look: dict[str, Any] = field(default_factory=dict)
    step_back: bool = False
    scrolled: bool = False  # to the answer


PICTURES = {
    "light": Picture(820, 1330, {"text": TEXT}, "Filled"),
    "dark": Picture(820, 1180, {"text": TEXT}, "Filled", {"color_scheme": "dark"}, step_back=True),
    "phone": Picture(390, 844, {"text": TEXT}, "Filled", {"device_scale_factor": 1.5}, scrolled=True),
    "restore": Picture(820, 1180, {"view": "restore", "text": DAMAGED}, "Restored"),
    "transfer": Picture(820, 1020, {"view": "transfer"}, "Rewritten"),
    "choose": Picture(820, 1020, {"view": "choose"}, "Most probable first"),
}


@contextmanager
def server() -> Iterator[str]:
    """Serve the bundled models; yield the address."""
    command = [sys.executable, "-m", "blanklm", "serve", "--port", "0"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        assert process.stdout is not None
        for line in process.stdout:
            if found := re.search(r"http://\S+", line):
                yield found[0]
                return
        raise SystemExit("the server did not start")
    finally:
        process.terminate()
        process.wait()


def take(page: Page, address: str, name: str, picture: Picture) -> None:
    page.goto(f"{address}#{urlencode(picture.state)}")
    expect(page.get_by_role("region", name=picture.seen, exact=True)).to_be_visible(timeout=CLEAR)
    if picture.seen == "Filled":
        expect(page.locator(".alternatives button")).not_to_have_count(0, timeout=CLEAR)
    if picture.step_back:
        page.get_by_role("slider", name="Step").press("ArrowLeft")
    if picture.scrolled:
        page.get_by_role("region", name=picture.seen, exact=True).evaluate("region => region.scrollIntoView()")
    taken = Image.open(io.BytesIO(page.screenshot())).convert("RGB")
    taken.quantize(256).save(HERE / f"page-{name}.png", optimize=True)  # a third of the size


def main(names: list[str]) -> None:
    browser_path = next((path for name in ("chromium", "google-chrome") if (path := shutil.which(name))), None)
    with server() as address, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=browser_path, args=["--no-sandbox", "--disable-gpu"])
        for name in names or PICTURES:
            picture = PICTURES[name]
            size: Any = {"width": picture.width, "height": picture.height}
            page = browser.new_page(viewport=size, reduced_motion="reduce", **picture.look)
            take(page, address, name, picture)
            page.close()
        browser.close()


if __name__ == "__main__":
    main(sys.argv[1:])
