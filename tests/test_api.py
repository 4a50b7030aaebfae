"""BlankLM as a user meets it, with the bundled model."""

import dataclasses
import html
import json
import math
import subprocess
import sys
import time
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import blanklm
import blanklm.pretrained
from blanklm import BlankLM, BlankLMError, Choices, Constraint, Fill, FillOptions, Repair
from blanklm.choosing.choose import Choice
from blanklm.core.template import Blank, Template
from blanklm.decoding.budget import TOKENS_IN_WORD
from blanklm.decoding.span_view import PARTS
from blanklm.errors import CheckpointError, ConstraintError
from blanklm.paper.tasks.masking import mask_corpus
from blanklm.repairing.repair import Edit
from tests.support.canvases import CANVAS
from tests.support.paths import YELP_WORDS

REVIEWS = [
    "the food was really good .",
    "i will never come back here !",
    "our waitress was very friendly and helpful .",
]


@pytest.fixture(scope="module")
def model():
    return BlankLM.from_pretrained(YELP_WORDS, device="cpu")


def test_a_string_gives_one_fill_with_a_span_for_each_blank(model):
    fill = model.fill(CANVAS)
    assert isinstance(fill, Fill) and len(fill.spans) == 2 and all(fill.spans)
    assert fill.text == "They also have {} which {} .".format(*fill.spans)
    assert fill.log_prob < 0


def test_a_list_gives_a_list_in_order_whatever_the_lengths(model):
    canvases = [" ".join(["good"] * k + ["___[1]"]) for k in (9, 1, 5, 3)]
    fills = model.fill(canvases)
    assert [len(fill.text.split()) for fill in fills] == [10, 2, 6, 4]
    alone = [model.fill(canvas).text for canvas in canvases]
    assert [fill.text for fill in fills] == alone


def test_more_texts_than_are_searched_at_once_keep_their_places(model):
    canvases = [f"{'very ' * (i % 7)}good {'___[1] ' * (1 + i % 3)}." for i in range(150)]
    done = []
    fills = model.fill(canvases, progress=done.append)
    assert sum(done) == 150
    for canvas, fill in zip(canvases, fills, strict=True):
        assert fill.text == Template.parse(canvas).render(fill.spans)


def test_what_the_user_wrote_comes_back_character_for_character(model):
    canvas = "  Tom's   food—was ___,\t(___)  VERY\\\\ nice…  "
    fill = model.fill(canvas)
    assert fill.text == Template.parse(canvas).render(fill.spans)


def test_alternatives_are_distinct_and_ranked(model):
    fill = model.fill(CANVAS, n=5, beam=10)
    assert len(fill.ranked) == 5 and len({f.spans for f in fill.ranked}) == 5
    assert [f.log_prob for f in fill.ranked] == sorted((f.log_prob for f in fill.ranked), reverse=True)


def test_the_trajectory_leads_from_the_canvas_to_the_text(model):
    fill = model.fill("the ___[2-4] was ___ .")
    trajectory = fill.trajectory
    assert str(trajectory.canvases[0]) == "the ___[2-4] was ___ ."
    assert str(trajectory.canvases[-1]) == fill.text
    for before, action, after in zip(trajectory.canvases, trajectory.actions, trajectory.canvases[1:], strict=False):
        assert before.apply(action) == after
    assert trajectory.log_prob == pytest.approx(fill.log_prob, abs=1e-4)


def test_the_bundled_model_has_learnt_something(model):
    """It prefers sense to nonsense, and puts back a good share of single hidden words."""
    assert model.score(REVIEWS[0]).log_prob > model.score("food the good was really .").log_prob + 10
    masked = [m for seed in range(6) for m in mask_corpus(REVIEWS, 0.1, seed)]
    right = sum(f.spans == m.spans for f, m in zip(model.fill([str(m.template) for m in masked]), masked, strict=True))
    assert right >= len(masked) // 3


def test_every_order_fills(model):
    for order in ("confident", "model", "left-to-right", "parallel"):
        assert "___" not in model.fill(CANVAS, order=order).text


def test_constraints_for_all_blanks_or_for_each(model):
    fill = model.fill(CANVAS, constraints=Constraint(max=1, ban=("the",)))
    assert all(len(span.split()) == 1 and span != "the" for span in fill.spans)
    fill = model.fill(CANVAS, constraints=[{"require": ["ice cream"], "max": 3}, {"only": ["is", "good"]}])
    assert "ice cream" in fill.spans[0] and set(fill.spans[1].split()) <= {"is", "good"}


def test_samples_are_reproducible_and_different(model):
    first, again = model.sample(n=6, seed=3), model.sample(n=6, seed=3)
    assert [f.text for f in first] == [f.text for f in again]
    assert len({f.text for f in first}) > 1
    two = model.sample(["good ___ .", "the ___[1] was bad ."], n=2)
    assert [len(drawn) for drawn in two] == [2, 2]
    assert model.sample(["x", "the ___[1] was bad ."][1:], n=2, seed=0)[0][0].text.startswith("the ")


def test_scores_agree_across_methods(model):
    exact = model.score(REVIEWS[0], method="exact")
    monte_carlo = model.score(REVIEWS[0], method="monte-carlo", orders=200)
    bound = model.score(REVIEWS[0], method="bound", orders=1000)
    assert abs(monte_carlo.log_prob - exact.log_prob) < 4 * monte_carlo.standard_error
    assert bound.log_prob == pytest.approx(exact.log_prob, abs=0.3)
    assert exact.perplexity == pytest.approx(math.exp(-exact.log_prob / 6))
    assert [s.text for s in model.score(REVIEWS, orders=2)] == REVIEWS


def test_a_score_does_not_depend_on_the_texts_around(model):
    alone = model.score(REVIEWS[1], orders=8).log_prob
    assert model.score(REVIEWS, orders=8)[1].log_prob == pytest.approx(alone, abs=1e-4)


def test_perplexity_takes_the_stream_with_eos_in_chunks(model):
    estimate = model.perplexity(REVIEWS, orders=2, chunk=10)
    words = sum(len(review.split()) + 1 for review in REVIEWS)
    assert estimate.tokens.tolist() == [10] * (words // 10) + [words % 10]
    assert estimate.perplexity > 1


def test_saved_and_loaded_it_fills_the_same(model, tmp_path):
    model.save_pretrained(tmp_path / "copy")
    assert BlankLM.from_pretrained(tmp_path / "copy", device="cpu").fill(CANVAS).text == model.fill(CANVAS).text


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "the text is empty"),
        ("   \n ", "the text is empty"),
        ("nothing to fill", "there is no blank"),
        ("___ " * 10_000, "takes 10,000 tokens with its 10,000 blanks, and this model takes at most 128"),
        ("word " * 500 + "___", "takes 501 tokens"),
        ("good ___[5000]", "must hold take 5001 tokens"),
        ("good ___[0]", "at least one token"),
    ],
)
def test_texts_that_cannot_be_filled_are_named(model, text, message):
    with pytest.raises(BlankLMError, match=message):
        model.fill(text)


def test_wrong_constraints_are_named(model):
    with pytest.raises(ConstraintError, match="2 blanks and there are 3 constraints"):
        model.fill(CANVAS, constraints=[{}] * 3)
    with pytest.raises(ConstraintError, match="a constraint is an object"):
        model.fill(CANVAS, constraints=["max", 2])
    with pytest.raises(BlankLMError, match="parallel"):
        model.fill(CANVAS, order="parallel", n=3)


def test_unknown_words_are_known_to_be_unknown(model):
    assert model.prepare("the qwertyuiop was ___ zxcv .").unknown == ("qwertyuiop", "zxcv")


def test_models_that_are_not_there_are_named(tmp_path, monkeypatch):
    with pytest.raises(CheckpointError, match="there is no model 'nonesuch': bundled are english"):
        BlankLM.from_pretrained("nonesuch")
    with pytest.raises(CheckpointError, match=r"config.json is missing"):
        BlankLM.from_pretrained(tmp_path)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(CheckpointError, match=r"no model of that id could be fetched"):
        BlankLM.from_pretrained("somebody/some-model")


def test_pushing_uploads_the_three_files(model, monkeypatch):
    calls = {}

    class Hub:
        def create_repo(self, repository, exist_ok, **options):
            calls["created"] = (repository, options)

        def upload_folder(self, repo_id, folder_path, commit_message):
            import os

            calls["uploaded"] = sorted(os.listdir(folder_path))
            return f"hub/{repo_id}"

    monkeypatch.setattr("huggingface_hub.HfApi", Hub)
    assert model.push_to_hub("me/mine", private=True) == "hub/me/mine"
    assert calls == {
        "created": ("me/mine", {"private": True}),
        "uploaded": ["config.json", "model.safetensors", "tokenizer.json"],
    }


def test_the_public_names_are_all_there_and_importing_is_cheap():
    for name in blanklm.__all__:
        assert getattr(blanklm, name).__name__ == name
    code = "import sys, blanklm; sys.exit('torch' in sys.modules or 'tokenizers' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def test_decoding_and_likelihood_know_no_model_class():
    """The contract of the design: they speak to the Policy protocol alone."""
    import inspect
    from pathlib import Path

    from blanklm import decoding
    from blanklm.core import likelihood

    sources = [Path(inspect.getfile(likelihood)), *Path(inspect.getfile(decoding)).parent.glob("*.py")]
    assert len(sources) >= 5
    for source in sources:
        assert "blanklm.models" not in source.read_text() and "BLM(" not in source.read_text()


def test_fill_records_are_json(model):
    record = model.fill("the ___ .").to_json(trace=True)
    assert json.loads(json.dumps(record)) == record
    assert record["trajectory"][-1] == {"canvas": record["text"]}


# --- English as it is written -------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def english():
    """The small one of the two; they differ in nothing that these tests are about."""
    return BlankLM.from_pretrained("english-small", device="cpu")


IN_ANY_WAY = [{}, {"blanks": "words", "order": "confident"}, {"blanks": "words", "order": "parallel"}]


@pytest.mark.parametrize(
    "canvas",
    [
        "I went to ___, then ___!",
        '"___," she said, "is ___."',
        "The unb___ story of ___.",
        "___ is ___?",
        "Dr. ___'s ___",
    ],
)
@pytest.mark.parametrize("options", IN_ANY_WAY, ids=str)
def test_spaces_and_punctuation_need_no_repair(english, canvas, options):
    fill = english.fill(canvas, **options)
    assert fill.text == Template.parse(canvas).render(fill.spans)
    assert "  " not in fill.text and " ," not in fill.text and " ." not in fill.text and ",," not in fill.text
    assert all(span.strip() == span and span for span in fill.spans)


@pytest.mark.parametrize(("options", "tokens"), [(IN_ANY_WAY[0], PARTS), (IN_ANY_WAY[1], TOKENS_IN_WORD)], ids=str)
def test_lengths_are_in_words_and_no_word_is_spelt_for_ever(english, options, tokens):
    for canvas in (
        "The ___[2] was closed, so we ___[3-6].",
        "good ___[1] ___[1] .",
        "very very good ___[1] ___[1] ___[1] .",
    ):
        fill = english.fill(canvas, **options)
        written = Counter(fill.trajectory.canvases[-1].origins)
        for k, (blank, span) in enumerate(zip(Template.parse(canvas).blanks, fill.spans, strict=True)):
            assert blank.min <= len(span.split()) <= blank.max
            assert written[k] <= tokens * blank.max


@pytest.mark.parametrize("options", [IN_ANY_WAY[0], IN_ANY_WAY[2]], ids=str)
def test_a_blank_that_would_repeat_for_ever_ends(english, options):
    fill = english.fill("___ Same question ___ Hoppyness/Hop ___", **options)
    assert all(len(english.tokenizer.encode(" " + span)) <= 66 for span in fill.spans)


def test_the_trace_of_natural_text_reads_as_text(english):
    trajectory = english.fill("They also have ___ which ___.").trajectory
    assert str(trajectory.canvases[0]) == "They also have___ which___."
    assert str(trajectory.canvases[-1]) == english.fill("They also have ___ which ___.").text


@pytest.mark.parametrize("options", [{}, {"n": 3}], ids=str)
def test_spans_are_written_from_left_to_right_blank_after_blank(english, options):
    for fill in english.fill("They also have ___ which ___, ___[2].", **options).ranked:
        actions = fill.trajectory.actions
        assert all(action.blank == 0 and not action.left for action in actions)
        assert [action.right for action in actions].count(False) == 3
        assert str(fill.trajectory.canvases[-1]) == fill.text


def test_the_first_of_n_fills_is_the_only_one_of_one_and_the_others_are_ranked_by_their_tokens(english):
    fill = english.fill("They also have ___ which ___.", n=5)
    assert fill.text == english.fill("They also have ___ which ___.").text
    assert len({other.text for other in fill.ranked}) == 5
    of_a_token = [other.log_prob / len(other.trajectory.actions) for other in fill.alternatives]
    assert of_a_token == sorted(of_a_token, reverse=True)


# --- The default model ----------------------------------------------------------------------------------------------


def test_the_default_model_fills_at_once():
    model = BlankLM.from_pretrained(device="cpu")
    assert model.about["name"] == blanklm.pretrained.DEFAULT == "english" and model.parameters > 1e8
    model.fill("I think ___ is ___.")
    started = time.perf_counter()
    fill = model.fill("I think ___ is ___.")
    assert time.perf_counter() - started < 5  # 1 s on two idle cores; tests share theirs
    assert fill.text == "I think {} is {}.".format(*fill.spans)


def test_the_default_model_is_the_first_of_the_bundled_and_none_is_large():
    assert blanklm.pretrained.bundled()[:3] == ["english", "tone", "english-small"]  # the default of transfer second
    greatest = {"english": 70e6, "english-small": 9e6}
    for name in blanklm.pretrained.bundled():
        folder = blanklm.pretrained.HERE / name
        assert sum(path.stat().st_size for path in folder.iterdir()) < greatest.get(name, 9e6)


def test_a_watch_sees_the_trajectory_grow_and_may_give_the_text_up(model):
    seen = []

    def watch(so_far):
        seen.append(so_far())
        return len(seen) < 3

    watched = model.prepare(CANVAS, watch=watch)
    given_up, filled = model.fill([watched, CANVAS])
    assert given_up is None and filled.text == model.fill(CANVAS).text
    assert [len(trajectory.actions) for trajectory in seen] == [0, 1, 2]
    assert seen[-1].actions == filled.trajectory.actions[:2]


def test_dir_lists_the_public_names_without_importing_them():
    code = "import sys, blanklm; print({*blanklm.__all__} <= {*dir(blanklm)}, 'torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "True False\n"


def test_a_model_says_its_name_its_size_and_its_device(model):
    assert repr(model) == f"<BlankLM {model.about['name']}: {model.parameters / 1e6:.1f} M parameters, on cpu>"


def test_help_of_fill_says_what_goes_in_and_what_comes_out():
    for word in ("___[2-5]", "spans", "beam", "constraints", "alternatives", "require", ">>> model.fill("):
        assert word in BlankLM.fill.__doc__
    assert ">>> model = BlankLM.from_pretrained()" in BlankLM.__doc__


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda model: model.fill(5), "a text is a string, and texts are a list of strings; not int 5"),
        (lambda model: model.fill(["a ___", None]), "text 2 of the list is a string; not NoneType None"),
        (lambda model: model.fill({"text": "a ___"}), "a text is a string, and texts are a list"),
        (lambda model: model.fill("a ___", n="3"), "n is a number, not str '3'"),
        (lambda model: model.fill("a ___", beam=2.5), "beam is a whole number, not 2.5"),
        (lambda model: model.fill("a ___", beams=2), "there is no setting 'beams': choose from n, beam"),
        (lambda model: model.fill("a ___", 3), "options are a FillOptions, not int 3: give settings by name"),
        (lambda model: model.sample("a ___", temperature="hot"), "temperature is a number, not str 'hot'"),
        (lambda model: model.score(b"good"), "a text is a string, and texts are a list of strings; not bytes b'good'"),
        (lambda model: model.choose("a ___", 3), '"options" must be a list of strings, or a list of such lists'),
        (lambda model: model.choose("a ___", ["b", 3]), '"options" must be a list of strings, or a list of such lists'),
        (lambda model: model.choose("a ___", "bc"), '"options" must be a list of strings, or a list of such lists'),
        (lambda model: model.choose(alternatives=[["a"], 3]), '"alternatives" must be a list of strings, or a list'),
        (lambda model: model.choose(5, ["a"]), "a text is a string, and texts are a list of strings; not int 5"),
        (lambda model: BlankLM.from_pretrained(5), "a model is a bundled name, a folder or a Hub id, not int 5"),
        (lambda model: blanklm.fit(3, "nowhere"), "a text is a string, and texts are a list of strings; not int 3"),
        (lambda model: model.fill("a ___", constraints=3), "constraints are one for all blanks or a list"),
        (
            lambda model: model.fill("a ___", constraints="b"),
            "constraints are one for all blanks or a list",
        ),
        (lambda model: model.fill_mask("a [MASK]", top_k="3"), "top_k must be a whole number, not '3'"),
        (lambda model: model.perplexity(3), "a text is a string, and texts are a list of strings; not int 3"),
        (
            lambda model: BlankLM.from_pretrained(device="gpu"),
            "cannot use the device 'gpu': there is no device of",
        ),
        (lambda model: BlankLM.from_pretrained(dtype="float16"), "a dtype is one of torch's, such as torch.float32"),
        (lambda model: blanklm.restore(3), "a text to restore is a string or the bytes of a file, not int"),
    ],
)
def test_a_value_of_the_wrong_type_is_one_line(model, call, message):
    with pytest.raises(BlankLMError) as error:
        call(model)
    assert str(error.value).startswith(message) and "\n" not in str(error.value)


def test_a_notebook_shows_what_was_written_marked(model):
    fill = model.fill("<b> the ___[1] was ___[1] & it", n=2, beam=3)
    assert "".join(fill.parts) == fill.text == str(fill) and fill.parts[1::2] == fill.spans
    shown = fill._repr_html_()
    for span in (*fill.spans, *fill.alternatives[0].spans):
        assert f"<mark>{html.escape(span)}</mark>" in shown
    assert "&lt;b&gt; the <mark>" in shown and shown.startswith("<table>")
    assert model.fill("good ___[1] .")._repr_html_().startswith("<p>good <mark>")


def test_help_of_fill_names_every_option():
    for option in dataclasses.fields(FillOptions):
        assert f"    {option.name}: " in BlankLM.fill.__doc__


def test_scores_and_estimates_print_in_a_line(model):
    score = model.score("the food was good .")
    assert str(score) == f"log p {score.log_prob:.2f}, perplexity {score.perplexity:.1f}: the food was good ."
    one = model.perplexity("the food was good .", orders=4)
    assert one.perplexity == model.perplexity(["the food was good ."], orders=4).perplexity
    assert repr(one).startswith(f"<Estimate: perplexity {one.perplexity:.2f} (")
    assert all(len(repr(word)) < 120 for word in model.surprise("the food was good ."))


def test_choices_and_repairs_print_as_people_read_them():
    found = Choices((Choice("a <b>", ("<b>",), 0.75, 0.0, -1.0), Choice("a c", ("c",), 0.25, 0.0, -2.0)), 2)
    assert str(found) == " 75.0%  a <b>\n 25.0%  a c"
    assert "<td>75.0 %</td>" in found._repr_html_() and "a &lt;b&gt;" in found._repr_html_()
    repair = Repair("a a <b> x", "a <b> y", (Edit(0, 3, "a a", "a", 1.0, "doubled"), Edit(8, 9, "x", "y", 1.0, "form")))
    assert str(repair) == "a <b> y"
    assert repair._repr_html_() == "<p><del>a a</del><ins>a</ins> &lt;b&gt; <del>x</del><ins>y</ins></p>"


@settings(max_examples=50)
@given(st.lists(st.text("ab ", max_size=3), min_size=2, max_size=4), st.data())
def test_parts_give_back_pieces_and_spans_whatever_they_are(pieces, data):
    spans = tuple(data.draw(st.text("ab", min_size=1, max_size=2)) for _ in pieces[1:])
    text = Template(tuple(pieces), (Blank(),) * len(spans)).render(spans)
    parts = Fill(text, spans, 0.0, given=tuple(pieces)).parts
    assert parts[1::2] == spans and parts[::2] == tuple(pieces)
