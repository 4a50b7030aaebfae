"""Choosing, repair and word probabilities over HTTP, and the Repair view of the page in a real browser."""

import pytest
from playwright.sync_api import expect

from blanklm import BlankLM
from blanklm.serve.limits import Limits
from tests.support.serving import client_of, served

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


def test_edits_are_accepted_or_refused_one_by_one(browser, url):
    page, said = browser.new_page(), []
    page.on("console", lambda message: said.append(message.text) if message.type in ("error", "warning") else None)
    page.on("pageerror", lambda error: said.append(str(error)))
    page.goto(url)
    page.get_by_role("link", name="Repair", exact=True).click()
    page.get_by_label("A text with slips").fill(f"𝔄 {SLIPS}")
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
    assert not said
    page.close()
