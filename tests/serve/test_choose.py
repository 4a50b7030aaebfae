"""Choosing, repair and word probabilities over HTTP, and the views Choose and Repair in a real browser."""

import json
import shlex

import pytest
from playwright.sync_api import expect

from blanklm import BlankLM, cli
from blanklm.serve.limits import Limits
from tests.support.axe import violations
from tests.support.serving import CONTRAST, client_of, served

CANVAS = "The ___ sat on the ___."
OPTIONS = [["cat", "old man"], ["mat", "moon"]]
PATIENCE = 60_000  # milliseconds, on a busy machine
SLIPS = "The goverment has anounced a new polcy."


@pytest.fixture(scope="module")
def small():
    return BlankLM.from_pretrained("english-small", device="cpu")


@pytest.fixture(scope="module")
def client(small):
    with client_of(small, Limits(canvases=3000, texts=8, deadline=600)) as client:
        yield client


def test_choices_are_those_of_python(client, small):
    own = {"text": "Paris is the ___ of France.", "options": ["capital", "city"]}
    body = {"texts": [CANVAS, own], "options": OPTIONS, "top": 3}
    first, second = client.post("/v1/choose", json=body).json()["results"]
    assert first["combinations"] == 4 and len(first["choices"]) == 3 and first["input"] == CANVAS
    best = small.choose(CANVAS, OPTIONS).best
    assert first["choices"][0]["text"] == best.text
    assert first["choices"][0]["probability"] == pytest.approx(best.probability, abs=1e-3)
    assert second["choices"][0]["spans"] == ["capital"]


@pytest.mark.parametrize(
    ("task", "body", "code", "field"),
    [
        ("choose", {"texts": [CANVAS], "options": [["a"]]}, "bad_text", "texts[0]"),
        ("choose", {"texts": [CANVAS]}, "bad_text", "texts[0]"),
        ("choose", {"texts": [CANVAS], "options": [list("abc")] * 2, "beam": 1000}, "too_many_candidates", "beam"),
        ("choose", {"texts": ["___ " * 5], "options": [list("abcdefgh")] * 5}, "too_many_canvases", "texts[0]"),
        ("repair", {"texts": [" "]}, "bad_text", "texts[0]"),
        ("repair", {"texts": ["word " * 100]}, "too_many_canvases", "texts[0]"),
        ("repair", {"texts": ["word"], "most": 2}, "invalid", "most"),
        ("words", {"texts": [""]}, "bad_text", "texts[0]"),
    ],
)
def test_what_is_wrong_is_named_with_its_field(client, task, body, code, field):
    answer = client.post(f"/v1/{task}", json=body)
    assert answer.status_code == 422
    assert answer.json()["error"]["code"] == code and field in answer.json()["error"]["field"]


def test_repairs_and_words_are_those_of_python(client, small):
    body = {"texts": [SLIPS], "keep": ["goverment"]}
    [result] = client.post("/v1/repair", json=body).json()["results"]
    assert result == small.repair(SLIPS, keep=("goverment",)).to_json()
    [result] = client.post("/v1/words", json={"texts": [SLIPS]}).json()["results"]
    assert [word["text"] for word in result["words"]] == [word.text for word in small.surprise(SLIPS)]


def test_a_deadline_stops_the_work(client):
    for task in ("choose", "repair", "words"):
        options = {"options": OPTIONS} if task == "choose" else {}
        body = {"texts": [CANVAS if task == "choose" else SLIPS], "deadline": 1e-6, **options}
        assert client.post(f"/v1/{task}", json=body).status_code == 504


# --- The page -------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def url():
    with served("--model", "english-small") as process:
        yield process.url


@pytest.fixture
def opened(browser, url):
    """Open a view of the page; whatever it says on its console is a failure."""
    contexts, said = [], []

    def open_view(fragment, **options):
        contexts.append(browser.new_context(**options))
        contexts[-1].set_default_timeout(PATIENCE)
        page = contexts[-1].new_page()
        page.on("console", lambda message: said.append(message.text) if message.type in ("error", "warning") else None)
        page.on("pageerror", lambda error: said.append(str(error)))
        page.goto(f"{url}/{fragment}")
        return page

    yield open_view
    for context in contexts:
        context.close()
    assert said == []


def ranked(page):
    """The sentences that the view Choose shows, the most probable first."""
    page.locator("#view-choose:not(.waiting) #choices li").first.wait_for()
    return page.locator("#choices .rewrite").all_text_contents()


def test_options_are_ranked_as_python_ranks_them(opened, small):
    page = opened("#view=choose")
    found = small.choose("Paris is the ___ of France.", ["capital", "largest city", "river"])
    assert ranked(page) == [choice.text for choice in found.choices]  # the first example, at once
    assert page.locator("#choices li").first.locator("mark").all_text_contents() == list(found.best.spans)
    expect(page.locator("#choices .p").first).to_have_text(f"{100 * found.best.probability:.0f} %")
    page.get_by_label("A text with ___").fill("She is a ___, ___.")
    expect(page.get_by_role("textbox", name="Options for blank")).to_have_count(2)  # a box for each blank
    page.get_by_label("A text with ___").fill("She is a ___.")
    expect(page.get_by_role("textbox", name="Options for blank")).to_have_count(1)
    page.get_by_label("Options for blank 1").fill("doctor | fire fighter |")
    page.get_by_label("Options for blank 1").press("Control+Enter")
    expect(page.locator("#choose-command")).to_contain_text("fire fighter")
    assert sorted(ranked(page)) == ["She is a doctor.", "She is a fire fighter."]


def test_the_link_and_the_command_of_a_choice_give_the_same(opened, monkeypatch, capsys):
    page = opened("#view=choose&text=I+___+it%27s+a+___.&options=think%7Csay&options=cat%7Ca%5C%7Cb")
    shown = ranked(page)
    assert "I think it's a cat." in shown and "I say it's a a|b." in shown
    other = opened(page.locator("#choose-link").get_attribute("href").removeprefix(page.url.split("#")[0]))
    assert ranked(other) == shown
    monkeypatch.setattr("sys.argv", [*shlex.split(page.locator("#choose-command").text_content()), "--json"])
    with pytest.raises(SystemExit):
        cli.main()
    assert [choice["text"] for choice in json.loads(capsys.readouterr().out)["choices"]] == shown


def test_a_blank_without_options_and_a_text_without_blanks_are_told(browser, url):
    page = browser.new_page()  # an answer 422 is on the console, as it should be
    page.goto(f"{url}/#view=choose")
    page.get_by_role("button", name="I am looking forward").click()
    page.get_by_label("Options for blank 2").fill(" | ")
    page.get_by_role("button", name="Choose").click()
    expect(page.get_by_role("status").filter(has_text="Blank 2 has no options")).to_be_visible()
    expect(page.get_by_label("Options for blank 2")).to_be_focused()
    page.get_by_label("A text with ___").fill("no blank here")
    page.get_by_role("button", name="Choose").click()
    expect(page.get_by_role("status").filter(has_text="there is no blank in the text")).to_be_visible()
    expect(page.get_by_role("region", name="Most probable first")).to_be_hidden()
    page.close()


@pytest.mark.parametrize(("view", "does"), [("choose", "Choose"), ("repair", "Repair")])
def test_a_wait_can_be_cancelled_in_these_views_too(opened, view, does):
    page = opened(f"#view={view}")
    if view == "choose":
        ranked(page)
    page.route(f"**/v1/{view}", lambda route: None)  # never answers
    page.get_by_role("button", name=does, exact=True).click()
    expect(page.locator(f"#view-{view}")).to_have_class("waiting")
    page.get_by_role("button", name="Cancel").click()
    expect(page.get_by_role("status").filter(has_text="Cancelled.")).to_be_visible()
    expect(page.locator(f"#view-{view}")).not_to_have_class("waiting")
    expect(page.locator(f"#{view}-text")).to_be_focused()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_that_keeps_people_out_of_these_views(opened, scheme):
    page = opened("#view=choose", color_scheme=scheme)
    ranked(page)
    assert violations(page) == [] and page.evaluate(CONTRAST) == []
    page = opened("#view=repair&text=He+has+a+a+cat.", color_scheme=scheme)
    expect(page.locator("#repair-map .word").first).to_be_visible(timeout=PATIENCE)
    assert violations(page) == [] and page.evaluate(CONTRAST) == []


def test_edits_are_accepted_or_refused_one_by_one(opened):
    page = opened("")
    page.get_by_role("link", name="Repair", exact=True).click()
    page.get_by_label("A text with mistakes").fill(f"𝔄 {SLIPS}")
    page.get_by_role("button", name="Repair").click()
    repaired = page.locator("#repaired")
    mended = "𝔄 The government has announced a new policy."
    expect(repaired).to_have_text(mended, timeout=PATIENCE)
    page.get_by_role("button", name="goverment becomes government: spelling").click()
    expect(repaired).to_have_text("𝔄 The goverment has announced a new policy.")
    page.get_by_role("button", name="Refuse all").click()
    expect(repaired).to_have_text(f"𝔄 {SLIPS}")
    page.get_by_role("button", name="Accept all").click()
    expect(repaired).to_have_text(mended)
    expect(page.locator("#repair-map .word").nth(2)).to_have_text("goverment", timeout=PATIENCE)
    expect(page.locator("#repair-map .word").nth(2)).to_have_class("word filled sure-0")
    page.reload()  # the address holds the text
    expect(repaired).to_have_text(mended, timeout=PATIENCE)
    assert f"'𝔄 {SLIPS}'" in page.locator("#repair-command").text_content()
