"""What axe-core, the accessibility checker, finds on a page."""

from tests.support.paths import ROOT

AXE = ROOT / "tests" / "fixtures" / "axe-core" / "axe.min.js"


def violations(page) -> list[tuple[str, list]]:
    """Return the rules that the page breaks, and where."""
    page.evaluate(AXE.read_text(encoding="utf-8"))
    found = page.evaluate("axe.run().then(({ violations }) => violations)")
    return [(each["id"], [node["target"] for node in each["nodes"]]) for each in found]
