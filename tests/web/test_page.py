"""The page that fills without a server of its own, in a real browser."""

import gzip
import re

import pytest
from playwright.sync_api import expect

MOST_BYTES = 15_000_000
LOADED = 60_000  # milliseconds, on a busy machine
ONE_LINE = re.compile(r"^[^\n]{1,200}$")


@pytest.fixture
def opened(browser, site):
    """Open the page in a browser of its own; whatever it says on its console is a failure unless it is ``allowed``."""
    contexts, said, allowed = [], [], []

    def open_page(fragment="", prepare=lambda page: None, allow=(), **options):
        contexts.append(browser.new_context(**options))
        contexts[-1].set_default_timeout(LOADED)
        page = contexts[-1].new_page()
        allowed.extend(allow)
        page.on("console", lambda message: said.append(message.text) if message.type in ("error", "warning") else None)
        page.on("pageerror", lambda error: said.append(str(error)))
        page.on("request", lambda request: said.append(request.url) if not is_ours(request.url, site.url) else None)
        prepare(page)
        page.goto(f"{site.url}/{fragment}")
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert [text for text in said if not any(part in text for part in allowed)] == []


def is_ours(address, url):
    return address.startswith((url, f"blob:{url}"))


def status(page):
    return page.locator("#status")


def shows(page, text):
    expect(page.locator("#result")).to_have_text(text, timeout=LOADED)


def fill(page, text):
    page.get_by_label("Your text").fill(text)
    page.get_by_role("button", name="Fill", exact=True).click()


def test_a_visitor_sees_an_example_filled_after_less_than_15_megabytes(opened, site, english):
    before = len(site.requests())
    page = opened()
    shows(page, english.fill("She opened the ___ and ___.").text)
    paths = site.requests()[before:]
    assert len(paths) == len(set(paths)) and 10_000_000 < site.size(paths) < MOST_BYTES
    assert page.locator("#result .filled[title^='p = ']").count() >= 2
    expect(page.locator("#loading")).to_be_hidden()
    expect(page.locator("footer")).to_contain_text("english-small")


def test_texts_are_filled_as_python_fills_them_and_the_address_keeps_them(opened, english):
    first, second = "I will ___ come back.", "It was ___[1-2], but we ___[2]."
    page = opened("#text=" + first.replace(" ", "%20"))
    shows(page, english.fill(first).text)
    fill(page, second)
    shows(page, english.fill(second).text)
    page.go_back()
    shows(page, english.fill(first).text)
    expect(page.get_by_label("Your text")).to_have_value(first)


def test_readings_are_shown_and_can_be_chosen(opened, english):
    page = opened("#text=My%20___%20was%20late.")
    shows(page, english.fill("My ___ was late.").text)
    page.get_by_label("Readings").fill("3")
    fill(page, "My ___ was late.")
    ranked = [own.text for own in english.fill("My ___ was late.", n=3).ranked]
    readings = page.locator("#readings button")
    expect(readings).to_have_text(ranked, timeout=LOADED)
    expect(readings.first).to_have_attribute("aria-pressed", "true")
    readings.last.click()
    shows(page, ranked[-1])
    expect(readings.last).to_have_attribute("aria-pressed", "true")
    readings.first.click()
    shows(page, ranked[0])


def test_a_later_text_stops_the_one_before(opened, english):
    page = opened("#text=It%20was%20___[1].")
    shows(page, english.fill("It was ___[1].").text)
    fill(page, "___ " * 40)  # takes minutes
    fill(page, "They ___[1] no.")
    shows(page, english.fill("They ___[1] no.").text)


def test_words_are_turned_into_a_blank_and_filled_from_the_keyboard(opened, english):
    page = opened("#text=I%20___[1]%20it.")
    shows(page, english.fill("I ___[1] it.").text)
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")  # skip to the text
    box = page.get_by_label("Your text")
    box.fill("They said no.")
    box.focus()
    page.keyboard.press("Home")
    for _ in range(5):
        page.keyboard.press("ArrowRight")
    for _ in range(4):
        page.keyboard.press("Shift+ArrowRight")
    page.keyboard.press("Control+b")
    expect(box).to_have_value("They ___ no.")
    page.keyboard.press("Control+Enter")
    shows(page, english.fill("They ___ no.").text)


def test_bad_input_gets_one_line_and_the_next_text_is_filled(opened, english):
    page = opened("#text=no%20blank")
    expect(status(page)).to_have_text(
        "there is no blank in the text: write ___ where words are missing", timeout=LOADED
    )
    expect(page.get_by_label("Your text")).to_have_attribute("aria-invalid", "true")
    expect(page.locator("#outcome")).to_be_hidden()
    fill(page, "It was ___[1].")
    shows(page, english.fill("It was ___[1].").text)
    expect(status(page)).to_be_empty()


def test_it_says_what_it_is_doing_while_it_loads(opened):
    held = []
    page = opened(prepare=lambda page: page.route("**/weights.bin.gz", lambda route: held.append(route)))
    expect(status(page)).to_have_text("Fetching the model …")
    expect(page.get_by_role("progressbar", name="The model")).to_be_visible()
    expect(page.locator("#loaded")).to_have_text(re.compile(r"^[0-9.]+ of 1[0-4]\.[0-9] MB$"))
    fill(page, "My ___[1] is here.")  # is remembered
    held[0].continue_()
    expect(page.locator("#result")).to_contain_text("is here.", timeout=LOADED)


def test_files_that_a_server_lets_the_browser_unpack_are_read_too(opened, site, english):
    def unpack(route):
        name = route.request.url.rsplit("/", 1)[1]
        route.fulfill(body=gzip.decompress((site.folder / "model" / name).read_bytes()))

    page = opened("#text=It%20was%20___[1].", prepare=lambda page: page.route("**/model.onnx.gz", unpack))
    shows(page, english.fill("It was ___[1].").text)


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        ("delete globalThis.WebAssembly", "This browser has no WebAssembly"),
        ("WebAssembly.validate = () => false", "vector instructions"),
        ("delete globalThis.DecompressionStream", "too old"),
    ],
)
def test_a_browser_that_cannot_run_the_model_gets_one_line(opened, site, script, reason):
    before = len(site.requests())
    page = opened(prepare=lambda page: page.add_init_script(script))
    expect(status(page)).to_contain_text(reason)
    expect(status(page)).to_have_text(ONE_LINE)
    expect(page.locator("#loading")).to_be_hidden()
    assert not [path for path in site.requests()[before:] if path.startswith("/model")]


def test_without_javascript_it_says_so(opened):
    page = opened(java_script_enabled=False)
    expect(status(page)).to_contain_text("which needs JavaScript")
    expect(page.locator("#loading")).to_be_hidden()


def test_opened_as_a_file_it_says_how_to_serve_it(opened, site):
    page = opened(allow=["file://", "net::ERR", "origin"])
    page.goto(f"file://{site.folder}/index.html")
    expect(status(page)).to_contain_text("python -m http.server")


def test_a_model_that_cannot_be_fetched_is_said_in_one_line(opened):
    page = opened(prepare=lambda page: page.route("**/sides.onnx.gz", lambda route: route.abort()), allow=["net::ERR"])
    expect(status(page)).to_contain_text("The model could not be loaded: sides.onnx could not be fetched: look after")
    expect(status(page)).to_have_text(ONE_LINE)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_light_and_dark_have_enough_contrast(opened, scheme):
    page = opened(prepare=lambda page: page.route("**/model/*", lambda route: None), color_scheme=scheme)
    for name in ("body", ".tagline", "#status", "#fill"):
        assert contrast(page.locator(name)) >= 4.5, name


def contrast(locator):
    """The contrast of an element's text with its ground, as WCAG 2 defines it."""
    ink, ground = (luminance(locator, key) for key in ("color", "background-color"))
    return (max(ink, ground) + 0.05) / (min(ink, ground) + 0.05)


def luminance(locator, key):
    find = """(element, key) => {
      for (let at = element; at; at = at.parentElement) {
        const value = getComputedStyle(at).getPropertyValue(key);
        if (value !== "rgba(0, 0, 0, 0)") return value;
      }
    }"""
    channels = [int(n) / 255 for n in re.findall(r"\d+", locator.evaluate(find, key))[:3]]
    linear = [c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return sum(share * c for share, c in zip((0.2126, 0.7152, 0.0722), linear, strict=True))
