"""Restoring over HTTP and on the page: the same as in Python, whatever is sent."""

import json
import re
import shlex
import time
from pathlib import Path
from urllib.parse import parse_qs, urlencode

import pytest
import schemathesis
from fastapi.testclient import TestClient
from hypothesis import HealthCheck, given, settings
from playwright.sync_api import expect
from schemathesis import GenerationMode

from blanklm import cli
from blanklm.records import to_json
from blanklm.restoration import edition as editions
from blanklm.restoration.attribution import Attributor, range_named
from blanklm.restoration.restorer import Restorer
from blanklm.serve.app import create_app
from blanklm.serve.limits import Limits
from blanklm.training import checkpoint
from tests.support.axe import violations
from tests.support.models import make_restorer
from tests.support.paths import EDITIONS as FILES
from tests.support.paths import YELP_WORDS
from tests.support.serving import CHECKS, CONTRAST, served

LEIDEN = "ἔδοξεν τῆι βουλῆι κα[. . . .] δήμωι [---]"
RESTORERS = {"greek": make_restorer(), "latin": make_restorer("abcdefghijklmnopqrstuvwxyz .-#", seed=1)}
RESTORERS["greek"].about["language"], RESTORERS["latin"].about["language"] = "grc", "la"
EASY = {"abstain_below": 0.0, "parallels": 0}  # random models are never sure


def in_python(text, **options):
    """What Python restores, as the server says it."""
    edition = editions.restore(text, model=RESTORERS["greek"], **{**EASY, **options})
    record = {"input": text, **edition.to_json()}
    for passage in record["passages"]:
        passage["model"] = "greek"
    return json.loads(json.dumps(record))


# --- The API ----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def client(model):
    with TestClient(create_app({"words": model, **RESTORERS}), raise_server_exceptions=False) as client:
        yield client


def answer(client, text, **options):
    return client.post("/v1/restore", json={"texts": [text], **EASY, **options})


def test_an_answer_is_what_python_restores(client):
    response = answer(client, LEIDEN, top=3)
    assert response.status_code == 200 and response.json()["model"] == "greek"
    assert response.json()["results"] == [in_python(LEIDEN, top=3)]


def events_of(response):
    """(name, data) of each server-sent event; of Playwright's responses, ``text`` is a method."""
    text = response.text() if callable(response.text) else response.text
    blocks = [dict(line.split(": ", 1) for line in block.split("\n")) for block in text.strip().split("\n\n")]
    return [(block["event"], json.loads(block["data"])) for block in blocks]


def test_a_stream_has_each_gap_and_then_the_answer(client):
    events = events_of(client.post("/v1/restore", json={"texts": [LEIDEN, "α [..] β"], **EASY, "stream": True}))
    assert sorted(name for name, _ in events) == ["done", "gap", "gap", "restore", "restore"]
    assert events[-1] == ("done", {})
    for place, text in enumerate((LEIDEN, "α [..] β")):
        *gaps, (name, last) = [(name, data) for name, data in events[:-1] if data["text"] == place]
        assert name == "restore" and last["result"] == in_python(text)
        assert [data["gap"] for _, data in gaps] == (last["result"]["gaps"] if place == 0 else [])


def test_a_gap_is_sent_while_others_are_sought():
    begun = []

    class Waiting(Restorer):
        def _restore_gaps(self, *arguments):
            begun.append(time.sleep(0.3))
            return super()._restore_gaps(*arguments)

    slow = Waiting(RESTORERS["greek"].model, RESTORERS["greek"].tokenizer, {"language": "grc"})
    with (
        TestClient(create_app({"greek": slow})) as client,
        client.stream("POST", "/v1/restore", json={"texts": ["α [.] β" * 6], **EASY, "stream": True}) as response,
    ):
        lines = response.iter_lines()
        assert next(lines) == "event: gap" and len(begun) < 6
        assert sum(line == "event: gap" for line in lines) == 5 and len(begun) == 6


def test_each_text_and_each_passage_has_the_model_of_its_language(client):
    gap = '<gap reason="lost" quantity="2" unit="character"/>'
    both = f"<div><div><ab>κα{gap}</ab></div><div><ab>et {gap}</ab></div></div>"
    response = client.post("/v1/restore", json={"texts": [both, "et [..]", LEIDEN], **EASY}).json()
    assert response["model"] == "greek, latin"
    assert [[p["model"] for p in r["passages"]] for r in response["results"]] == [
        ["greek", "latin"],
        ["latin"],
        ["greek"],
    ]
    assert response["results"][2] == in_python(LEIDEN)


def test_where_and_when_are_said_if_asked(client):
    text = "dis manibus s[...] aureliae maximae [vixit]"
    (result,) = answer(client, text, attribute=True).json()["results"]
    said = result["passages"][0]["attribution"]
    assert said == json.loads(
        json.dumps(to_json(Attributor.of("latin").attribute("dis manibus s# aureliae maximae #"), 6))
    )
    assert answer(client, text).json()["results"][0]["passages"][0]["attribution"] is None
    (whole,) = answer(client, "votum solvit libens merito", attribute=True).json()["results"]
    assert whole["gaps"] == [] and whole["passages"][0]["attribution"]["letters"] == 23


def test_a_real_file_comes_back(client):
    source = (FILES / "papyrus.xml").read_text(encoding="utf-8")
    (result,) = answer(client, source).json()["results"]
    assert result["text"] == in_python(source)["text"] and "<gap" not in result["text"]


def test_models_say_what_they_do(client):
    records = {record["name"]: record for record in client.get("/v1/models").json()["models"]}
    assert records["greek"]["tasks"] == ["restore"] and records["greek"]["language"] == "grc"
    assert "restore" not in records["words"]["tasks"]


def test_without_a_restorer_there_is_no_endpoint(model):
    with TestClient(create_app({"words": model})) as client:
        assert client.post("/v1/restore", json={"texts": [LEIDEN]}).status_code == 404
        assert "/v1/restore" not in client.get("/openapi.json").json()["paths"]


@pytest.mark.parametrize(
    ("body", "status", "code", "message"),
    [
        ({"texts": ["α\nβ[γ"]}, 422, "bad_text", "line 2, column 2: this [ is never closed"),
        ({"texts": ["<ab>"], "notation": "epidoc"}, 422, "bad_text", "line 1, column 5: not well-formed XML"),
        ({"texts": ["α"]}, 422, "bad_text", "there is no gap to restore"),
        ({"texts": ["α b [...]"]}, 422, "bad_text", "line 1, column 3: the Latin letter 'b'"),
        ({"texts": ["et [...]"], "model": "greek"}, 422, "no_model", "no model for Latin is served"),
        ({"texts": [LEIDEN], "model": "words"}, 404, "no_such_model", "there is no model 'words' for this"),
        ({"texts": [LEIDEN], "top": 65}, 422, "too_many_candidates", "top is 65"),
        ({"texts": ["α [...]" * 201]}, 422, "too_many_gaps", "the text has 201 gaps"),
        ({"texts": ["α" * 10_001 + " [...]"]}, 422, "text_too_long", "the text has 10,002 letters"),
        ({"texts": ["a" * 200_001]}, 422, "text_too_long", "the text has 200,001 characters"),
        ({"texts": [LEIDEN], "sure": 2}, 422, "invalid", "Input should be less than or equal to 1"),
    ],
)
def test_what_is_wrong_is_said(client, body, status, code, message):
    response = client.post("/v1/restore", json=body)
    assert response.status_code == status
    error = response.json()["error"]
    assert error["code"] == code and error["message"].startswith(message)


def test_a_deadline_stops_the_work():
    class Slow(Restorer):
        restored = 0

        def _restore_gaps(self, *arguments):
            time.sleep(0.3)
            Slow.restored += 1
            return super()._restore_gaps(*arguments)

    slow = Slow(RESTORERS["greek"].model, RESTORERS["greek"].tokenizer, {"language": "grc"})
    with TestClient(create_app({"greek": slow}, Limits(deadline=0.5))) as client:
        response = answer(client, "α [.] β" * 20)
        assert response.status_code == 504 and response.json()["error"]["code"] == "deadline"
        time.sleep(0.5)
        assert Slow.restored < 5


# --- The server and its page ------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    made = {}
    for name, restorer in RESTORERS.items():
        made[name] = tmp_path_factory.mktemp("models") / name
        checkpoint.save(made[name], restorer.model, restorer.tokenizer, restorer.about)
    return made


@pytest.fixture(scope="module")
def url(folders):
    models = [YELP_WORDS, *map(str, folders.values())]
    with served(*(part for name in models for part in ("--model", name)), "--limit", "deadline=120") as process:
        yield process.url


@pytest.mark.parametrize("mode", [GenerationMode.POSITIVE, GenerationMode.NEGATIVE], ids=str)
@pytest.mark.slow
def test_every_answer_is_as_documented(url, mode):
    schema = schemathesis.openapi.from_url(f"{url}/openapi.json")

    @schema.hook
    def map_body(context, body):
        """Texts with gaps, known models and small numbers are rare: without them nothing is restored."""
        if isinstance(body, dict):
            body.pop("deadline", None)
            if len(repr(body)) % 4:
                for name in ("model", "notation", "language"):
                    body.pop(name, None)
                if isinstance(body.get("texts"), list):
                    body["texts"] = [
                        f"αβ {text[:20]} [..]" if isinstance(text, str) else text for text in body["texts"][:2]
                    ]
                if type(body.get("top")) is int:
                    body["top"] = min(body["top"], 4)
        return body

    answered = set()

    @settings(max_examples=40, suppress_health_check=list(HealthCheck))
    @given(case=schema["/v1/restore"]["POST"].as_strategy(generation_mode=mode))
    def fuzz(case):
        answered.add(case.call_and_validate(checks=CHECKS).status_code)

    fuzz()
    assert answered <= {200, 400, 404, 415, 422}
    assert answered & ({200} if mode is GenerationMode.POSITIVE else {400, 415, 422})  # it got that far


@pytest.fixture
def opened(browser, url):
    """Open the view in a browser of its own; whatever the page says on its console is a failure."""
    contexts, said = [], []

    def open_page(state, **options):
        contexts.append(browser.new_context(accept_downloads=True, **options))
        contexts[-1].set_default_timeout(10_000)
        page = contexts[-1].new_page()
        page.on("console", lambda message: said.append(message.text) if message.type in ("error", "warning") else None)
        page.on("pageerror", lambda error: said.append(str(error)))
        page.goto(f"{url}/#{urlencode({'view': 'restore', 'abstain': '0', **state})}" if state is not None else url)
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert said == []


def result(page):
    return page.locator("#restore-result")


def test_the_view_is_reached_from_the_page_and_shows_an_example(opened):
    page = opened(None)
    expect(page.get_by_role("region", name="Filled")).to_be_visible()
    page.get_by_role("navigation").get_by_role("link", name="Restore").click()
    expect(page.get_by_role("region", name="Restored", exact=True)).to_be_visible()
    expect(page.get_by_role("region", name="Filled")).to_be_hidden()
    page.go_back()
    expect(page.get_by_role("region", name="Filled")).to_be_visible()


def test_axe_finds_nothing_that_keeps_people_out(opened):
    page = opened({"text": "dis mani[---] sacrum [....]ae felici"})
    expect(page.get_by_role("region", name="Restored", exact=True)).to_be_visible()
    assert violations(page) == []


def test_without_a_restorer_there_is_no_view(browser):
    with served() as process:
        page = browser.new_page()
        page.goto(process.url)
        expect(page.get_by_role("region", name="Filled")).to_be_visible()
        expect(page.get_by_role("navigation")).not_to_contain_text("Restore")
        page.close()


def test_a_server_that_only_restores_shows_only_that(browser, folders):
    with served("--model", str(folders["latin"])) as process:
        page = browser.new_page()
        page.goto(process.url)
        expect(page.get_by_label("A damaged Greek or Latin text")).to_be_visible()
        expect(page.locator("#view-fill")).to_be_hidden()
        assert page.get_by_role("group", name="Try").get_by_role("button").first.get_attribute("lang") == "la"
        page.close()


def test_a_text_is_restored_as_python_restores_it(opened):
    page = opened({"text": LEIDEN})
    expected = in_python(LEIDEN)
    expect(result(page)).to_have_text(expected["text"])
    assert page.locator("#restored-text").text_content() == "ἔδοξεν τῆι βουλῆι κα[{}] δήμωι [{}]".format(
        *(gap["restorations"][0]["text"] for gap in expected["gaps"])
    )
    letters = page.locator("#restored-text .lacuna").first.locator(".filled")
    assert letters.count() == len(expected["gaps"][0]["restorations"][0]["text"]) and all(
        re.search(r"sure-[0-4]", letter.get_attribute("class")) for letter in letters.all()
    )
    listed = page.get_by_role("list", name="Restorations of gap 1").locator("button > span:first-child")
    shown = [f"[{restoration['text']}]" for restoration in expected["gaps"][0]["restorations"]]
    expect(page.locator("#gap-1")).to_contain_text("formula: τηι βουληι και τωι δημωι")
    assert [row.text_content() for row in listed.all()[: len(shown)]] == shown
    bars = page.get_by_role("list", name="How long gap 2 may be").get_by_role("listitem")
    likely = max(expected["gaps"][1]["lengths"].values())
    assert bars.count() == sum(p >= likely / 100 for p in expected["gaps"][1]["lengths"].values()) > 1
    page.get_by_text("Letter by letter").first.click()
    columns = page.get_by_role("list", name="The letters of gap 1").get_by_role("listitem")
    assert columns.count() == letters.count()


def test_where_and_when_stand_under_the_restored_text(opened):
    text = "ἁ πόλις τῶν Δελφῶν ἔδωκεν [...] προξενίαν"
    page = opened({"text": text})
    said = Attributor.of("greek").attribute("ἁ πόλις τῶν Δελφῶν ἔδωκεν # προξενίαν")
    part = page.locator("#attribution")
    expect(part.get_by_role("heading", name="Where and when")).to_be_visible()
    expect(part).to_contain_text(f"By the {said.letters} letters that are preserved")
    places = part.get_by_role("list", name="Places").get_by_role("listitem")
    assert places.count() == 5 and places.first.text_content().startswith(said.places[0].name)
    expect(part).to_contain_text(range_named(said.first, said.last))
    bars = part.get_by_role("list", name="Dates, 25 years each").get_by_role("listitem")
    highest = max(said.dates.values())
    worth = [i for i, p in enumerate(said.dates.values()) if p >= 0.05 * highest]
    assert bars.count() == worth[-1] - worth[0] + 1
    expect(page.locator("#restore-command")).to_contain_text(" --attribute")
    page.get_by_text("Options").locator("visible=true").click()
    page.get_by_label("Say where and when it was written").select_option("no")
    expect(part).to_be_hidden()
    expect(page.locator("#restore-command")).not_to_contain_text("--attribute")


def test_a_text_without_gaps_is_placed_and_dated_all_the_same(opened):
    page = opened({"text": "votum solvit libens merito"})
    expect(page.locator("#restore-status")).to_have_text("There is no gap to restore in this text.")
    expect(page.locator("#attribution").get_by_role("list", name="Places")).to_be_visible()
    expect(page.locator("#gaps")).to_be_hidden()


def test_each_gap_is_shown_when_it_is_restored(opened):
    """The server's answer is put together here, so that it can be seen between two of its events."""
    page = opened({"text": "α [.] β"})
    expect(result(page)).to_contain_text("α [")
    page.evaluate("""() => { window.fetch = async () => new Response(new ReadableStream({ start(to) {
        window.send = (name, data) => to.enqueue(new TextEncoder().encode(
            `event: ${name}\\ndata: ${JSON.stringify({ text: 0, ...data })}\\n\\n`));
        window.done = () => to.close();
    } })) }""")
    answer = in_python(LEIDEN)
    send = "([name, data]) => window.send(name, data)"
    page.get_by_label("A damaged Greek or Latin text").fill(LEIDEN)
    page.locator("#restore-editor").get_by_role("button", name="Restore").click()
    page.evaluate(send, ["gap", {"gap": answer["gaps"][0]}])
    expect(page.locator("#gaps .card")).to_have_count(1)
    expect(page.locator("#restore-result")).to_contain_text(answer["gaps"][0]["restorations"][0]["written"])
    expect(page.locator("#restore-result")).to_contain_text("[---]")
    page.evaluate(send, ["gap", {"gap": answer["gaps"][1]}])
    expect(page.locator("#gaps .card")).to_have_count(2)
    page.evaluate(send, ["restore", {"result": answer}])
    page.evaluate("window.done()")
    expect(result(page)).to_have_text(answer["text"])
    expect(page.locator("#gaps .card")).to_have_count(2)


def test_another_restoration_can_be_chosen_and_the_link_keeps_it(opened):
    page = opened({"text": LEIDEN})
    second = in_python(LEIDEN)["gaps"][0]["restorations"][1]["text"]
    page.get_by_role("list", name="Restorations of gap 1").get_by_role("button").nth(1).click()
    expect(result(page)).to_contain_text(f"κα[{second}] δήμωι")
    expect(page.get_by_role("list", name="Restorations of gap 1").get_by_role("button", pressed=True)).to_contain_text(
        second
    )
    chosen, link = result(page).text_content(), page.locator("#restore-link").get_attribute("href")
    other = opened({name: values[0] for name, values in parse_qs(link[1:]).items()})
    expect(result(other)).to_have_text(chosen)
    page.go_back()
    expect(result(page)).to_have_text(in_python(LEIDEN)["text"])


def test_the_gaps_can_be_restored_together(opened):
    page = opened({"text": LEIDEN})
    hypothesis = in_python(LEIDEN)["passages"][0]["hypotheses"][1]
    page.locator(".together button").nth(1).click()
    spans = hypothesis["restorations"]
    expect(result(page)).to_have_text("ἔδοξεν τῆι βουλῆι κα[{}] δήμωι [{}]".format(*spans))


def test_epidoc_is_pasted_and_downloaded_restored(opened):
    source = (FILES / "papyrus.xml").read_text(encoding="utf-8")
    page = opened({"text": "α [...]"})
    expect(result(page)).to_contain_text("α [")
    page.get_by_label("A damaged Greek or Latin text").fill(source)
    page.get_by_role("button", name="Restore", exact=True).click()
    expect(result(page)).to_contain_text("TEI.2")
    with page.expect_download() as download:
        page.get_by_role("button", name="Download").click()
    assert download.value.suggested_filename == "restored.xml"
    assert Path(download.value.path()).read_text(encoding="utf-8") == in_python(source)["text"]
    expect(page.locator("#restore-command")).to_contain_text("blanklm restore --file damaged.xml")


def test_the_command_line_restores_the_same(opened, capsys, monkeypatch, folders):
    text = "it's [...] et 'x' [c. 3]"
    page = opened({"text": text, "top": "4"})
    expect(page.locator("#restore-command")).to_contain_text("--top 4")
    program, *arguments = shlex.split(page.locator("#restore-command").inner_text())
    monkeypatch.setattr("sys.argv", [program, *arguments, "--model", str(folders["latin"]), "--json"])
    with pytest.raises(SystemExit):
        cli.main()
    assert json.loads(capsys.readouterr().out)["text"] == result(page).text_content()


def test_a_gap_that_the_model_leaves_is_shown_and_can_be_restored_all_the_same(opened):
    text = "ψζξ ξξ[. . . .]ψψ ζξψ"  # no formula has this
    page = opened({"text": text, "abstain": "0.5"})
    expect(result(page)).to_have_text(text)
    expect(page.locator("#gap-1")).to_contain_text("Left as it is: no restoration is as probable as 50%")
    page.get_by_role("list", name="Restorations of gap 1").get_by_role("button").first.click()
    restored = in_python(text)["gaps"][0]["restorations"][0]["written"]
    expect(result(page)).to_contain_text(f"ξξ[{restored}]")


def test_an_example_is_restored_at_a_click(opened):
    page = opened({})
    example = page.locator("#restore-examples button").nth(1)
    example.click()
    expect(page.get_by_label("A damaged Greek or Latin text")).to_have_value(example.inner_text())
    expect(page.locator("#restored-text .lacuna")).to_have_count(3)


def test_what_is_wrong_is_said_with_its_place(browser, url):
    page = browser.new_page()  # an answer 422 is on the console, as it should be
    page.goto(f"{url}/#view=restore&text=%CE%B1+%5B%CE%B2")
    expect(page.get_by_role("status")).to_contain_text("line 1, column 3: this [ is never closed")
    expect(page.get_by_label("A damaged Greek or Latin text")).to_have_attribute("aria-invalid", "true")
    expect(page.get_by_role("region", name="Restored", exact=True)).to_be_hidden()
    page.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_everything_has_a_name_and_stands_out(opened, scheme):
    page = opened({"text": LEIDEN}, color_scheme=scheme)
    expect(result(page)).to_contain_text("δήμωι")
    page.locator("#restore-editor").get_by_text("Options", exact=True).click()
    for control in page.locator("button, input, select, textarea, summary, a").filter(visible=True).all():
        expect(control).to_have_accessible_name(re.compile(r"\S"))
    assert page.evaluate(CONTRAST) == []
    ids = page.evaluate("[...document.querySelectorAll('[id]')].map((e) => e.id)")
    assert len(ids) == len(set(ids))


def test_it_fits_a_phone_with_parallels_and_all(opened):
    """Random models restore nothing that has a parallel: one is put into the answer on its way."""
    parallel = {"words": "και τωι δημωι " * 3, "texts": 1234, "before": "α" * 40, "behind": "β" * 40}
    parallel["examples"] = ["HD000001", "I.PHI, unpronounceable place, -322±5", "ISic000001"]

    def with_parallels(route):
        (*_, (_, last), done) = events_of(route.fetch())
        for gap in last["result"]["gaps"]:
            gap["parallels"] = [parallel] * 3
        assert done == ("done", {})
        route.fulfill(body=f"event: restore\ndata: {json.dumps(last)}\n\n", content_type="text/event-stream")

    page = opened(None, viewport={"width": 360, "height": 740}, is_mobile=True, has_touch=True)
    page.route("**/v1/restore", with_parallels)
    page.evaluate("location.hash = '#view=restore&abstain=0'")
    expect(page.get_by_text("1234 texts: HD000001").first).to_be_visible()
    page.get_by_text("Letter by letter").first.click()
    assert page.evaluate("document.documentElement.scrollWidth") <= 360


def test_the_keyboard_is_enough(opened):
    page = opened({"text": LEIDEN})
    expect(result(page)).to_contain_text("δήμωι")
    page.get_by_label("A damaged Greek or Latin text").focus()
    page.keyboard.press("Control+a")
    page.keyboard.type("α [..] β")
    page.keyboard.press("Control+Enter")
    expect(result(page)).to_have_text(in_python("α [..] β")["text"])
    page.locator("#restored-text .lacuna").focus()
    page.keyboard.press("Enter")
    expect(page.locator("#gap-1")).to_be_focused()
