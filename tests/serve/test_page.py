"""The web page in a real browser: type, click, replay, read."""

import json
import re
import shlex
from functools import cache
from itertools import pairwise
from urllib.parse import urlencode

import pytest
import torch
from playwright.sync_api import Page, expect

from blanklm import Blank, BlankLM, cli
from blanklm.core.tokenizer import Tokenizer
from blanklm.models.backbone import Pretrained
from tests.support.axe import violations
from tests.support.backbones import publish
from tests.support.models import make_blm
from tests.support.paths import YELP_WORDS
from tests.support.serving import CONTRAST, served

CANVAS = "they also have ___ which ___ ."


@pytest.fixture(scope="module")
def url():
    with served() as process:
        yield process.url


@pytest.fixture
def opened(browser, url):
    """Open the page in a browser of its own; whatever it says on its console is a failure."""
    contexts, said = [], []

    def open_page(fragment="", server=url, **options) -> Page:
        contexts.append(browser.new_context(**{"reduced_motion": "reduce", **options}))
        contexts[-1].set_default_timeout(10_000)
        page = contexts[-1].new_page()
        page.on("console", lambda message: said.append(message.text) if message.type in ("error", "warning") else None)
        page.on("pageerror", lambda error: said.append(str(error)))
        page.on("request", lambda request: said.append(request.url) if not request.url.startswith(server) else None)
        page.goto(f"{server}/{fragment}")
        expect(page.get_by_role("region", name="Share")).to_be_visible()  # the last of an answer
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert said == []


@pytest.fixture
def page(opened):
    return opened()


def write(page, text):
    page.get_by_label("Your text").fill(text)
    page.get_by_role("button", name="Fill", exact=True).click()


def fill(page, text):
    """Write it, and wait until it is what the page is about."""
    write(page, text)
    expect(page.locator("#command")).to_contain_text(text)


def result(page):
    return page.locator("#result")


@cache
def bundled():
    return BlankLM.from_pretrained(YELP_WORDS, device="cpu")


def filled_with(text, **options):
    """What Python fills, with the options that the page has at first."""
    return bundled().fill(text, **{"n": 4, **options})


def test_a_visitor_sees_an_example_filled_at_once(page):
    expect(result(page)).to_contain_text("She opened the")
    expect(result(page)).not_to_contain_text("_")
    assert page.locator("#result .filled").count() >= 2


def test_a_text_is_filled_as_python_fills_it(page):
    fill(page, "the ___[2] was ___ .")
    best = filled_with("the ___[2] was ___ .")
    expect(result(page)).to_have_text(best.text)
    readings = page.get_by_role("region", name="Other readings").get_by_role("button")
    assert [reading.locator("span").first.inner_text() for reading in readings.all()] == [f.text for f in best.ranked]
    for filled in page.locator("#result .filled").all():
        assert re.search(r"sure-[0-4]", filled.get_attribute("class")) and filled.get_attribute("title").startswith(
            "p ="
        )


def numbered_items(canvas):
    """The items of a canvas, with a number for each blank, as the page shows them."""
    number = iter(range(1, 100))
    return [str(next(number)) if isinstance(item, Blank) else item for item in canvas.items]


def test_the_slider_replays_the_trajectory(page):
    fill(page, CANVAS)
    steps = filled_with(CANVAS).trajectory.canvases
    expect(result(page)).to_have_text(str(steps[-1]))
    slider = page.get_by_role("slider", name="Step")
    numbered = [" ".join(numbered_items(canvas)) for canvas in steps]
    for step, canvas in enumerate(numbered):
        slider.fill(str(step))
        expect(result(page)).to_have_text(canvas)
        assert slider.get_attribute("aria-valuetext").startswith(f"Step {step} of {len(steps) - 1}")
    slider.focus()
    page.keyboard.press("ArrowLeft")
    assert result(page).locator(".blank").count() == len(steps[-2].blanks)
    page.get_by_text("Every step", exact=True).click()
    rows = page.locator("#figure tbody tr")
    assert [row.locator("td").nth(1).inner_text() for row in rows.all()] == numbered
    actions = filled_with(CANVAS).trajectory.actions
    assert [row.locator("td").nth(3).inner_text() for row in rows.all()] == [action.token for action in actions] + [""]


def test_the_replay_plays(opened):
    page = opened(reduced_motion="no-preference")
    fill(page, CANVAS)
    expect(page.locator("#caption")).to_contain_text("every blank is filled")
    page.get_by_role("button", name="Replay").click()
    expect(page.locator("#caption")).to_contain_text("Step 0")
    expect(result(page).locator(".blank")).to_have_count(2)
    expect(page.locator("#caption")).to_contain_text("every blank is filled")


def test_selected_words_become_a_blank_by_key_and_by_button(page):
    box = page.get_by_label("Your text")
    box.fill("the food was really good .")
    select = "(box, [start, end]) => { box.focus(); box.setSelectionRange(start, end); }"
    box.evaluate(select, [4, 8])
    page.keyboard.press("Control+b")
    expect(box).to_have_value("the ___ was really good .")
    box.evaluate(select, [12, 24])
    page.get_by_role("button", name="Blank", exact=True).click()
    expect(box).to_have_value("the ___ was ___ .")
    box.evaluate(select, [17, 17])
    page.keyboard.press("Control+b")
    expect(box).to_have_value("the ___ was ___ . ___")
    page.keyboard.press("Control+Enter")
    expect(result(page)).to_have_text(filled_with("the ___ was ___ . ___").text)


def test_a_click_on_a_word_blanks_it_and_fills_again(page):
    write(page, "the food was ___[1] .")
    expect(result(page)).to_have_text(filled_with("the food was ___[1] .").text)
    shown = result(page).inner_text()
    page.locator("#result .filled").click()
    expect(page.get_by_label("Your text")).to_have_value("the food was ___ .")
    expect(result(page)).to_have_text(filled_with("the food was ___ .").text)
    shown = result(page).inner_text()
    page.locator("#result .given", has_text="food").click()
    expected = shown.replace("food", "___")
    expect(page.get_by_label("Your text")).to_have_value(expected)
    expect(result(page)).to_have_text(filled_with(expected).text)
    again = result(page).inner_text()
    page.locator("#result .given", has_text="was").click()
    expect(page.get_by_label("Your text")).to_have_value(again.replace("was", "___"))
    page.go_back()
    expect(result(page)).to_have_text(again)
    page.go_back()
    expect(result(page)).to_have_text(shown)


def test_alternatives_for_a_blank_have_probabilities_and_can_be_chosen(page):
    fill(page, CANVAS)
    best = filled_with(CANVAS)
    card = page.get_by_role("list", name="Alternatives for blank 2")
    fixed = f"they also have {best.spans[0]} which ___ ."
    expected = filled_with(fixed, n=5, beam=2)
    expect(card.get_by_role("button")).to_have_count(5)
    by_probability = sorted(expected.ranked, key=lambda fill: -fill.log_prob)
    for button, other in zip(card.get_by_role("button").all(), by_probability, strict=True):
        assert button.inner_text().split("\n")[0] == other.spans[0]
        assert button.inner_text().split("\n")[-1].endswith("%")
    card.get_by_role("button").nth(1).click()
    expect(page.get_by_label("Your text")).to_have_value(f"they also have ___ which {by_probability[1].spans[0]} .")
    expect(result(page)).to_contain_text(f"which {by_probability[1].spans[0]} .")


def test_another_reading_brings_its_own_steps_and_alternatives(page):
    fill(page, CANVAS)
    second = filled_with(CANVAS).ranked[1]
    page.get_by_role("region", name="Other readings").get_by_role("button").nth(1).click()
    expect(result(page)).to_have_text(second.text)
    expect(page.locator(".cards h3").nth(0)).to_contain_text(second.spans[0])
    fixed = f"they also have ___ which {second.spans[1]} ."
    likely = page.get_by_role("list", name="Alternatives for blank 1").get_by_role("button").first
    expect(likely).to_contain_text(filled_with(fixed, n=5, beam=2).spans[0])
    chosen = page.get_by_role("region", name="Other readings").get_by_role("button", pressed=True)
    expect(chosen).to_contain_text(second.text)


@pytest.fixture(scope="module", params=["bpe", "character", "wordpiece"])
def other_tokens(request, tmp_path_factory):
    """A model of random weights whose tokens are not words, and its server."""
    lines = ["The soup was good, and so was the bread!", "Our waiter (Tom) was kind; the price wasn't."] * 3
    if request.param == "wordpiece":
        tokenizer = Pretrained.load(publish(tmp_path_factory.mktemp("bert"), "bert")).tokenizer()
    else:
        tokenizer = Tokenizer.train(request.param, lines, vocabulary=320)
    weights = make_blm(len(tokenizer), seed=1, spread=3.0, max_length=64)
    weights.sides_out.bias.data += torch.tensor([3.0, 0, 0, 0])  # it comes to an end
    model = BlankLM(weights, tokenizer)
    folder = tmp_path_factory.mktemp("model") / request.param
    model.save_pretrained(folder)
    with served("--model", str(folder)) as process:
        yield model, process.url


def test_texts_of_models_whose_tokens_are_not_words(opened, other_tokens):
    """Whatever the tokens are, the page shows the text that Python gives, in the end and at the blank's place."""
    model, url = other_tokens
    for canvas in ("The ___[3] was ___[2], (___[4]).", "___[5] soup ___[2-6]!", "___[2]___[1] ."):
        page = opened("#" + urlencode({"text": canvas}), server=url)
        best = model.fill(canvas, n=4)
        expect(result(page)).to_have_text(best.text, use_inner_text=True)
        assert page.evaluate("document.getElementById('result').textContent") == best.text
        page.get_by_role("slider", name="Step").fill("0")
        expect(result(page).locator(".blank")).to_have_count(len(best.spans))
        assert page.locator(".cards h3").all_inner_texts()[0].split()[1:] == best.spans[0].split()


@pytest.fixture(scope="module")
def url_of_two():
    with served("--model", "english-small", "--model", YELP_WORDS) as process:
        yield process.url


def test_a_model_is_chosen_and_fills_in_its_own_way_unless_an_order_is_given(opened, url_of_two):
    canvas, english = "They also have ___ which ___.", BlankLM.from_pretrained("english-small", device="cpu")
    page = opened("#" + urlencode({"text": canvas}), server=url_of_two)
    expect(result(page)).to_have_text(english.fill(canvas, n=4).text)
    page.locator("#editor").get_by_text("Options", exact=True).click()
    expect(page.get_by_label("Which blank next")).to_have_value("")
    page.get_by_label("Which blank next").select_option("confident")
    expect(result(page)).to_have_text(english.fill(canvas, n=4, order="confident").text)
    page.get_by_label("Which blank next").select_option("")
    assert page.locator("#model option").all_inner_texts() == ["english-small", "yelp-words"]
    page.locator("#model").select_option("yelp-words")
    expect(result(page)).to_have_text(filled_with(canvas).text)


@pytest.mark.parametrize(
    ("canvas", "chosen"),
    [
        ("___[1]___[1] food", "{} ___[1] food"),
        ("the ___\\[ and \\___ ___[1] .", "the {}[ and \\___ ___[1] ."),
    ],
)
def test_a_choice_is_written_into_the_text_as_the_syntax_wants_it(page, canvas, chosen):
    """Blanks that touch, a bracket after a blank, underscores that are no blank."""
    fill(page, canvas)
    first = page.get_by_role("list", name="Alternatives for blank 1").get_by_role("button").first
    word = first.locator("span").first.inner_text()
    first.click()
    expect(page.get_by_label("Your text")).to_have_value(chosen.format(word))
    expect(result(page)).to_have_text(filled_with(chosen.format(word)).text)


def test_a_length_for_each_blank(page):
    fill(page, CANVAS)
    page.get_by_label("Blank 1: at least how many words").fill("3")
    page.get_by_label("Blank 1: at least how many words").press("Enter")
    expect(page.get_by_label("Your text")).to_have_value("they also have ___[3-] which ___ .")
    page.get_by_label("Blank 1: at most how many words").fill("3")
    page.get_by_label("Blank 1: at most how many words").press("Enter")
    expect(page.get_by_label("Your text")).to_have_value("they also have ___[3] which ___ .")
    expect(result(page)).to_have_text(filled_with("they also have ___[3] which ___ .").text)


def test_the_link_reproduces_the_state_and_the_command_prints_the_same(opened, page, capsys, monkeypatch):
    page.locator("#editor").get_by_text("Options", exact=True).click()
    page.get_by_label("Which blank next").select_option("model")
    page.get_by_label("Beam width").fill("3")
    write(page, 'it\'s ___ & "<b>___</b>" .')
    expect(page.locator("#command")).to_contain_text("<b>")
    expect(result(page)).to_contain_text("<b>")
    shown, link = result(page).inner_text(), page.locator("#link").get_attribute("href")
    other = opened(link)
    expect(other.locator("#result")).to_have_text(shown)
    assert other.get_by_label("Which blank next").input_value() == "model"
    assert page.locator("#result b").count() == 0  # what looks like HTML is text
    program, *arguments = shlex.split(page.locator("#command").inner_text())
    assert arguments[arguments.index("--model") + 1] == "yelp-words"  # which is served from a folder here
    arguments[arguments.index("--model") + 1] = YELP_WORDS
    monkeypatch.setattr("sys.argv", [program, *arguments, "--json"])
    with pytest.raises(SystemExit):
        cli.main()
    assert json.loads(capsys.readouterr().out)["fills"][0]["text"] == shown


def test_an_example_is_filled_at_a_click(page):
    example = page.get_by_role("group", name="Try").get_by_role("button").nth(1)
    example.click()
    expect(page.get_by_label("Your text")).to_have_value(example.inner_text())
    expect(result(page)).to_contain_text("My ")


def test_mistakes_and_unknown_words_are_told(opened):
    page = opened("#text=the+qqqq+was+___+.")
    expect(page.get_by_role("status")).to_contain_text("does not know “qqqq”")


def test_what_is_wrong_is_said_where_a_screen_reader_hears_it(browser, url):
    page = browser.new_page(reduced_motion="reduce")  # an answer 422 is on the console, as it should be
    page.goto(url)
    expect(result(page)).not_to_contain_text("_")
    write(page, "no blank here")
    expect(page.get_by_role("status")).to_contain_text("there is no blank in the text")
    expect(page.get_by_label("Your text")).to_have_attribute("aria-invalid", "true")
    expect(page.get_by_role("region", name="Filled")).to_be_hidden()
    write(page, "the ___ .")
    expect(page.get_by_role("region", name="Filled")).to_be_visible()
    page.close()


def test_everything_can_be_done_from_the_keyboard(page):
    expect(page.get_by_role("list", name="Alternatives for blank 2").get_by_role("button").first).to_be_visible()
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to the text")).to_be_focused()
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")  # Chromium goes on from the place that was jumped to
    page.get_by_label("Your text").focus()
    page.keyboard.press("Control+a")
    page.keyboard.type("the food was ___[1] .")
    page.keyboard.press("Control+Enter")
    expect(result(page)).to_have_text(filled_with("the food was ___[1] .").text)
    reached = []
    for _ in range(40):
        page.keyboard.press("Tab")
        at = page.evaluate(
            "document.activeElement.id || document.activeElement.className || document.activeElement.tagName"
        )
        reached.append(at)
        if at.startswith("word"):
            break
    assert reached[-1].startswith("word"), reached
    page.keyboard.press("ArrowRight")  # the, food
    page.keyboard.press("Enter")
    expect(page.get_by_label("Your text")).to_have_value(re.compile(r"^the ___ was \w+ \.$"))
    style = page.evaluate("getComputedStyle(document.querySelector('#fill')).outlineStyle")
    page.get_by_role("button", name="Fill", exact=True).focus()
    page.keyboard.press("Tab")
    page.keyboard.press("Shift+Tab")
    assert page.evaluate("getComputedStyle(document.querySelector('#fill')).outlineStyle") != style  # focus is seen


def test_every_control_has_a_name_and_every_section_a_heading(page):
    expect(page.get_by_role("list", name="Alternatives for blank 2").get_by_role("button").first).to_be_visible()
    page.locator("#editor").get_by_text("Options", exact=True).click()
    controls = page.locator("button, input, select, textarea, summary, a").filter(visible=True)
    for control in controls.all():
        expect(control).to_have_accessible_name(re.compile(r"\S"))
    assert page.evaluate("document.documentElement.lang") == "en"
    levels = page.evaluate("[...document.querySelectorAll('h1,h2,h3')].map((h) => Number(h.tagName[1]))")
    assert levels[0] == 1 and levels.count(1) == 1
    assert all(b - a <= 1 for a, b in pairwise(levels))
    assert page.evaluate("new Set([...document.querySelectorAll('[id]')].map((e) => e.id)).size") == page.evaluate(
        "document.querySelectorAll('[id]').length"
    )


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_texts_stand_out_from_their_ground_in_light_and_dark(opened, scheme):
    page = opened(color_scheme=scheme)
    expect(page.get_by_role("list", name="Alternatives for blank 2").get_by_role("button").first).to_be_visible()
    ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (max(map(int, re.findall(r"\d+", ground))) < 60) == (scheme == "dark")
    assert page.evaluate(CONTRAST) == []


def test_it_fits_a_phone(opened):
    page = opened(viewport={"width": 360, "height": 740}, is_mobile=True, has_touch=True)
    expect(page.get_by_role("list", name="Alternatives for blank 2").get_by_role("button").first).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    for name in ("Fill", "Blank", "Replay"):
        box = page.get_by_role("button", name=name, exact=True).bounding_box()
        assert box["height"] >= 36 and box["x"] >= 0 and box["x"] + box["width"] <= 360
    page.locator("#result .given").first.tap()
    expect(page.get_by_label("Your text")).to_have_value(re.compile("^___ opened"))


def test_a_token_is_asked_for_and_kept(browser):
    with served("--token", "geheim") as process:
        page = browser.new_page(reduced_motion="reduce")
        page.goto(process.url)
        for token in ("falsch", "geheim"):
            page.get_by_label("Token", exact=True).fill(token)
            page.get_by_role("button", name="Continue").click()
        expect(result(page)).to_contain_text("She opened the")
        page.reload()
        expect(result(page)).to_contain_text("She opened the")
        page.close()


# --- Waiting, a lost server, and readers of screens -----------------------------------------------------------------


def test_while_an_answer_is_on_its_way_the_old_one_dims_and_it_can_be_cancelled(page):
    view, before = page.locator("#view-fill"), result(page).text_content()
    page.route("**/v1/fill", lambda route: None)  # never answers
    write(page, "the ___ was bad .")
    expect(view).to_have_class("waiting")
    expect(page.get_by_role("status")).to_have_text("Filling …")
    page.get_by_role("button", name="Cancel").click()
    expect(page.get_by_role("status")).to_have_text("Cancelled.")
    expect(view).not_to_have_class("waiting")
    expect(page.get_by_role("button", name="Cancel")).to_have_count(0)
    expect(page.get_by_label("Your text")).to_be_focused()
    assert result(page).text_content() == before
    page.unroute("**/v1/fill")
    fill(page, "the ___ was bad .")
    expect(view).not_to_have_class("waiting")


def alone(request):
    """Whether one reading is asked for, ahead of the others."""
    return json.loads(request.post_data)["n"] == 1


def test_the_first_reading_is_shown_before_the_others_and_stays_if_they_are_given_up(page):
    page.route("**/v1/fill", lambda route: route.fallback() if alone(route.request) else None)
    text = "the ___ was bad ."
    write(page, text)
    expect(result(page)).to_have_text(filled_with(text, n=1).text)
    expect(page.locator("#view-fill")).to_have_class("waiting")
    expect(page.locator("#outcome")).to_have_css("opacity", "1")
    expect(page.locator("#share")).not_to_have_css("opacity", "1")  # of the text before
    page.get_by_role("button", name="Cancel").first.click()
    expect(page.get_by_role("status")).to_have_text("Cancelled.")
    expect(page.locator("#command")).to_contain_text(text)
    expect(page.locator("#readings")).to_be_hidden()
    assert result(page).text_content() == filled_with(text, n=1).text


def test_the_other_readings_replace_the_first_where_a_wider_beam_finds_a_better_one(page):
    write(page, "the ___ was bad .")
    expect(page.locator("#readings").get_by_role("button")).to_have_count(4)
    expect(result(page)).to_have_text(filled_with("the ___ was bad .").text)
    expect(page.locator("#outcome")).not_to_have_class("early")


def test_a_newer_question_keeps_waiting_when_an_older_one_is_given_up(page):
    page.route("**/v1/fill", lambda route: None)
    write(page, "the ___ was bad .")
    write(page, "the ___ was good .")
    page.get_by_role("button", name="Cancel").wait_for()
    expect(page.locator("#view-fill")).to_have_class("waiting")
    expect(page.get_by_role("button", name="Cancel")).to_have_count(1)


def test_looking_for_alternatives_can_be_cancelled_too(page):
    page.route(
        "**/v1/fill", lambda route: route.fallback() if "trajectory" in route.request.post_data else None
    )  # alternatives are never answered
    fill(page, "the ___ was bad .")
    cancel = page.get_by_role("region", name="Blank by blank").get_by_role("button", name="Cancel")
    cancel.click()
    expect(cancel).to_have_count(0)
    expect(result(page)).to_contain_text("was bad .")  # the fill stays
    expect(page.get_by_role("button", name="Fill", exact=True)).to_be_enabled()


def test_a_lost_server_is_said_in_words_and_the_text_stays(page):
    page.evaluate("() => { window.fetch = () => Promise.reject(new TypeError('Failed to fetch')); }")
    write(page, "the ___ was bad .")
    expect(page.get_by_role("status")).to_contain_text("The server does not answer. Is it still running")
    expect(page.get_by_label("Your text")).to_have_value("the ___ was bad .")


def test_where_shorter_words_are_more_probable_as_a_whole_it_says_so(page):
    fill(page, "the food was ___[1] .")
    written = result(page).locator(".filled").text_content()
    found = [{"text": "x", "spans": [span], "log_prob": p} for span, p in ((written, -2), ("good", -1))]
    answer = {"results": [{"text": "x", "fills": found}]}
    page.route(
        "**/v1/fill",
        lambda route: route.fallback() if "trajectory" in route.request.post_data else route.fulfill(json=answer),
    )
    page.get_by_role("button", name="Fill", exact=True).click()
    expect(page.locator(".why")).to_contain_text(f"“good” is more probable as a whole, but the words of “{written}")
    shown = page.get_by_role("list", name="Alternatives for blank 1").get_by_role("button").all_inner_texts()
    assert [text.split("\n")[0] for text in shown] == ["good", written]  # the most probable first


def test_where_other_words_are_more_probable_than_those_written_it_says_why(page):
    answer = {
        "results": [
            {"text": "x", "fills": [{"text": "y", "spans": ["delicious"], "log_prob": -0.1}]},
            {"text": "x", "fills": [{"text": "y", "spans": ["delicious"], "log_prob": -0.1}]},
        ]
    }
    fill(page, CANVAS)
    page.route(
        "**/v1/fill",
        lambda route: route.fallback() if "trajectory" in route.request.post_data else route.fulfill(json=answer),
    )
    fill(page, "they have ___ and ___ .")
    written = result(page).locator(".filled").first.text_content()
    why = page.locator(".why").first
    expect(why).to_contain_text("“delicious” is more probable")
    expect(why).to_contain_text(f"“{written}")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_that_keeps_people_out(opened, scheme):
    page = opened(color_scheme=scheme)
    fill(page, CANVAS)
    expect(page.locator(".alternatives button").first).to_be_visible()
    page.get_by_text("Options", exact=True).first.click()
    page.get_by_text("Every step").click()
    assert violations(page) == []
