"""Transfer over HTTP, and its view of the page in a real browser."""

import json
import shlex

import pytest
from fastapi.testclient import TestClient
from playwright.sync_api import expect

from blanklm import Transfer, cli
from blanklm.serve.app import create_app
from blanklm.serve.limits import Limits
from tests.support.axe import violations
from tests.support.paths import YELP_WORDS
from tests.support.serving import served

NICE = "The employees were super nice and efficient!"


@pytest.fixture(scope="module")
def transfer() -> Transfer:
    return Transfer.from_pretrained("sentiment", device="cpu")


@pytest.fixture(scope="module")
def client(transfer, model):
    app = create_app({"words": model, "sentiment": transfer}, Limits(candidates=20))
    with TestClient(app, raise_server_exceptions=False) as client:
        yield client


@pytest.fixture(scope="module")
def model():
    from blanklm import BlankLM

    return BlankLM.from_pretrained(YELP_WORDS, device="cpu")


def test_a_text_is_rewritten_as_python_rewrites_it(client, transfer):
    texts = [NICE, "the food was great ."]
    answer = client.post("/v1/transfer", json={"texts": texts, "to": "negative", "n": 2}).json()
    assert answer["model"] == "sentiment"
    assert answer["results"] == [r.to_json() for r in transfer.rewrite(texts, "negative", n=2)]


def test_options_are_those_of_python_by_their_new_and_old_names(client, transfer):
    body = {"texts": [NICE], "to": "negative", "n": 5, "samples": 4, "contrast": 0, "content": 0.1, "repetition": 0.5}
    options = {"n": 5, "samples": 4, "contrast": 0, "content": 0.1, "repetition": 0.5, "try_smaller_masks": True}
    expected = [transfer.rewrite(NICE, "negative", **options).to_json()]
    for name in ("try_smaller_masks", "fewer"):
        assert client.post("/v1/transfer", json=body | {name: True}).json()["results"] == expected


def test_a_text_may_have_a_mask_of_its_own(client):
    body = {"texts": [{"text": NICE, "mask": [3, "nice"]}, NICE], "to": "negative", "mask": ["efficient"]}
    first, second = client.post("/v1/transfer", json=body).json()["results"]
    assert first["canvas"] == "The employees were ___ and efficient!"
    assert second["canvas"] == "The employees were super nice and ___!"


@pytest.mark.parametrize(
    ("body", "code", "field"),
    [
        ({"texts": [NICE], "to": "angry"}, "no_such_style", "to"),
        ({"texts": ["fine", ""], "to": "negative"}, "bad_text", "texts[0]"),
        ({"texts": [{"text": NICE, "mask": ["slow"]}], "to": "negative"}, "bad_text", "texts[0]"),
        ({"texts": [NICE], "to": "negative", "samples": 21}, "too_many_candidates", "samples"),
        ({"texts": [NICE]}, "invalid", "to"),
        ({"texts": [NICE], "to": "negative", "temperature": 0}, "invalid", "temperature"),
        ({"texts": [NICE], "to": "negative", "contrast": 11}, "invalid", "contrast"),
    ],
)
def test_what_is_wrong_is_named_with_its_field(client, body, code, field):
    answer = client.post("/v1/transfer", json=body)
    assert answer.status_code == 422
    assert (answer.json()["error"]["code"], answer.json()["error"]["field"]) == (code, field)


def test_each_task_has_its_own_models(client):
    tasks = {model["name"]: (model["tasks"], model["styles"]) for model in client.get("/v1/models").json()["models"]}
    assert tasks["sentiment"] == (["transfer"], ["negative", "positive"])
    assert "transfer" not in tasks["words"][0] and tasks["words"][1] == []
    refused = client.post("/v1/fill", json={"texts": ["a ___"], "model": "sentiment"})
    assert refused.status_code == 404


def test_a_deadline_stops_the_work(client):
    answer = client.post("/v1/transfer", json={"texts": [NICE] * 20, "to": "negative", "samples": 20, "deadline": 0.01})
    assert (answer.status_code, answer.json()["error"]["code"]) == (504, "deadline")


# --- The page -----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def url():
    with served("--model", YELP_WORDS, "--model", "sentiment") as process:
        yield process.url


@pytest.fixture
def page(browser, url):
    """The Transfer view; whatever the page says on its console is a failure."""
    context = browser.new_context(reduced_motion="reduce")
    context.set_default_timeout(10_000)
    page, said = context.new_page(), []
    page.on("console", lambda message: said.append(message.text) if message.type in ("error", "warning") else None)
    page.on("pageerror", lambda error: said.append(str(error)))
    page.goto(url)
    page.get_by_role("link", name="Transfer", exact=True).click()
    expect(page.get_by_role("region", name="Rewritten")).to_be_visible()
    yield page
    context.close()
    assert [
        line for line in said if "422 (Unprocessable Entity)" not in line
    ] == []  # the browser's own note of a refusal


def write(page, text, to="negative"):
    page.get_by_label("A sentence to rewrite").fill(text)
    page.locator("#transfer-to").select_option(to)
    page.get_by_role("button", name="Rewrite").click()
    expect(page.locator("#transfer-command")).to_contain_text(shlex.quote(text)[:20])
    expect(page.locator("#transfer-command")).to_contain_text(f"--to {to}")


def rewrites(page):
    return page.locator("#rewrites .rewrite").all_text_contents()


def pressed(page):
    return page.locator("#marked button[aria-pressed=true]").all_text_contents()


def test_the_views_are_links_and_only_one_is_shown(page):
    expect(page.get_by_role("link", name="Transfer", exact=True)).to_have_attribute("aria-current", "page")
    expect(page.get_by_label("Your text")).to_be_hidden()
    page.get_by_role("link", name="Fill", exact=True).click()
    expect(page.get_by_role("region", name="Filled")).to_be_visible()
    expect(page.get_by_label("A sentence to rewrite")).to_be_hidden()
    page.go_back()
    expect(page.get_by_role("region", name="Rewritten")).to_be_visible()


def test_a_sentence_is_marked_and_rewritten_as_python_does_it(page, transfer):
    write(page, "the food was great and the staff was friendly .")
    expected = transfer.rewrite("the food was great and the staff was friendly .", "negative", n=5)
    expect(page.locator("#rewrites li")).to_have_count(len(expected.rewrites))
    assert rewrites(page) == [r.text for r in expected.rewrites]
    assert pressed(page) == [word.text for word in expected.marked.words if word.masked]
    assert page.locator("#rewrites li").first.locator("mark").all_text_contents() == list(
        expected.rewrites[0].parts[1::2]
    )


def test_a_click_on_a_word_changes_what_is_replaced(page):
    write(page, NICE)
    page.locator("#marked").get_by_role("button", name="employees").click()
    expect(page.locator("#marked").get_by_role("button", name="employees")).to_have_attribute("aria-pressed", "true")
    expect(page.locator("#marked").get_by_role("button", name="employees")).to_be_focused()
    assert "employees" in pressed(page)
    page.get_by_role("button", name="Use the model's marks").click()
    expect(page.locator("#marked").get_by_role("button", name="employees")).to_have_attribute("aria-pressed", "false")


def test_the_last_mark_cannot_be_taken_away(page):
    write(page, NICE)
    while len(pressed(page)) > 1:
        count = len(pressed(page))
        page.locator("#marked button[aria-pressed=true]").first.click()
        expect(page.locator("#marked button[aria-pressed=true]")).to_have_count(count - 1)
    page.locator("#marked button[aria-pressed=true]").first.click()
    expect(page.get_by_role("status").filter(has_text="Keep at least one word marked")).to_be_visible()


def test_the_link_reproduces_the_state_and_the_command_prints_the_same(page, capsys, monkeypatch):
    write(page, NICE)
    page.locator("#marked").get_by_role("button", name="employees").click()
    expect(page.locator("#transfer-command")).to_contain_text("--mask")
    shown, marked = rewrites(page), pressed(page)
    link, command = (page.locator(f"#transfer-{what}").text_content() for what in ("link", "command"))
    other = page.context.new_page()
    other.goto(link)
    expect(other.get_by_role("region", name="Rewritten")).to_be_visible()
    assert (rewrites(other), pressed(other)) == (shown, marked)
    monkeypatch.setattr("sys.argv", [*shlex.split(command), "--json"])
    with pytest.raises(SystemExit):
        cli.main()
    assert [r["text"] for r in json.loads(capsys.readouterr().out)["rewrites"]] == shown


def test_an_example_and_a_mistake(page):
    page.get_by_role("button", name="The meeting was a complete waste of time.").click()
    expect(page.locator("#transfer-to")).to_have_value("positive")
    expect(page.locator("#transfer-command")).to_contain_text("complete waste")
    page.get_by_label("A sentence to rewrite").fill("")
    page.get_by_role("button", name="Rewrite").click()
    expect(page.get_by_role("status").filter(has_text="the text is empty")).to_be_visible()


def test_axe_finds_nothing_that_keeps_people_out(page):
    assert violations(page) == []
