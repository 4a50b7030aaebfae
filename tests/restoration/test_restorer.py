"""Texts with gaps in, ranked restorations out: lengths, probabilities, posteriors, abstention."""

import math

import pytest
import torch

from blanklm.core.template import Blank
from blanklm.errors import BlankLMError
from blanklm.models.encoder import EncoderConfig
from blanklm.models.lblm import LBLM, LBLMConfig
from blanklm.restoration.draft import Draft
from blanklm.restoration.edition import restore
from blanklm.restoration.options import RestoreOptions
from blanklm.restoration.restorer import Restorer
from blanklm.training import checkpoint
from tests.support.models import make_restorer
from tests.support.paths import YELP_WORDS

DOCUMENT = ["αγαθηι τυχηι ", Blank(4, 4), " η βουλη και ", Blank(2, 5), " δημοσ ", Blank(), " ετιμησεν"]


def options(**settings):
    return RestoreOptions(count="characters", **settings)


@pytest.fixture(scope="module")
def restorer():
    return make_restorer()


def test_gaps_of_every_kind_in_one_document(restorer):
    found = restorer.restore(DOCUMENT, options(top=7))
    assert len(found.gaps) == 3 and 1 <= len(found.hypotheses) <= 7
    known, ranged, unknown = found.gaps
    assert known.lengths == {4: 1.0} and all(len(c.text) == 4 for c in known.candidates)
    assert set(ranged.lengths) <= {2, 3, 4, 5} and all(2 <= len(c.text) <= 5 for c in ranged.candidates)
    assert math.isclose(sum(ranged.lengths.values()), 1.0, abs_tol=0.01)
    assert max(unknown.lengths) <= 40 and sum(unknown.lengths.values()) <= 1.001
    for gap in found.gaps:
        scores = [c.log_prob for c in gap.candidates]
        assert scores == sorted(scores, reverse=True) and scores[0] <= 0
        assert len(gap.confidence) == len(gap.best) == len(gap.places)
        assert all(max(place.values()) <= sum(place.values()) <= 1.0 for place in gap.places)
        assert all(gap.candidates[0].probability <= p for p in gap.confidence)
        assert all(set(c.text).isdisjoint("-#<") for c in gap.candidates)
    best = found.hypotheses[0]
    assert best.spans == tuple(gap.best for gap in found.gaps)
    assert math.isclose(best.log_prob, sum(gap.candidates[0].log_prob for gap in found.gaps), abs_tol=1e-6)
    assert [h.log_prob for h in found.hypotheses] == sorted((h.log_prob for h in found.hypotheses), reverse=True)
    assert len({h.spans for h in found.hypotheses}) == len(found.hypotheses)


def test_all_restorations_of_a_gap_of_approximate_length_sum_to_one():
    restorer = make_restorer("ab", spread=2.0)  # mild enough that nothing is given up on the way
    (gap,) = restorer.restore(["ab", Blank(1, 3), "ba"], options(top=100)).gaps
    assert len(gap.candidates) == 2 + 4 + 8
    assert math.isclose(sum(c.probability for c in gap.candidates), 1.0, abs_tol=1e-3)
    by_length = {k: sum(c.probability for c in gap.candidates if len(c.text) == k) for k in (1, 2, 3)}
    assert all(math.isclose(by_length[k], gap.lengths[k], abs_tol=1e-3) for k in by_length)


def test_all_restorations_with_as_many_letters_as_were_lost_sum_to_one():
    restorer = make_restorer("ab ", spread=2.0)
    (gap,) = restorer.restore(["ab", Blank(2, 2), "ba"], RestoreOptions(top=100)).gaps
    assert all(len(c.text.replace(" ", "")) == 2 for c in gap.candidates)
    assert gap.lengths == pytest.approx({2: 1.0})
    assert {"ab", "b a"} <= {c.text for c in gap.candidates}
    # Lengths that are hardly probable are not searched, and how many are right is an estimate.
    assert math.isclose(sum(c.probability for c in gap.candidates), 1.0, abs_tol=0.05)


def test_letters_are_counted_by_default_where_gaps_do_not_touch(restorer):
    def letters(text):
        return len(text.replace(" ", ""))

    apart = restorer.restore(DOCUMENT, RestoreOptions(top=7)).gaps
    assert {letters(c.text) for c in apart[0].candidates} == {4} and {2, 3, 4, 5} >= set(apart[1].lengths)
    touching = restorer.restore(["α", Blank(2, 2), Blank(1, 1), "β"], RestoreOptions(top=3)).gaps
    assert [{len(c.text) for c in gap.candidates} for gap in touching] == [{2}, {1}]


def test_the_best_does_not_depend_on_how_many_are_asked_for(restorer):
    few, many = (restorer.restore(DOCUMENT, options(top=top)).gaps for top in (2, 20))
    assert [gap.best for gap in few] == [gap.best for gap in many] and [len(g.candidates) for g in few] == [2] * 3


def test_texts_are_ranked_together_as_each_is_restored(restorer):
    documents = [["αγαθηι ", Blank(3, 3), "ηι"], DOCUMENT, ["α", Blank(45, 45), " και", Blank(1, 1)]]
    for document, ranked in zip(documents, restorer.rank(documents, n=5), strict=True):
        gaps = restorer.restore(document, options(top=5)).gaps
        assert [[c.text for c in found] for found in ranked] == [[c.text for c in gap.candidates] for gap in gaps]
        for found, gap in zip(ranked, gaps, strict=True):
            expected = [c.log_prob for c in gap.candidates]
            assert [c.log_prob for c in found] == pytest.approx(expected, abs=1e-4)


def test_many_documents_are_filled_as_one_is(restorer):
    documents = [DOCUMENT, ["α", Blank(9, 9)], [Blank(2, 2), " και ", Blank(3, 3), " το"]]
    together = restorer.fill(documents)
    assert together == [restorer.fill([document])[0] for document in documents]
    assert [len(span) for span in together[1]] == [9] and [len(span) for span in together[2]] == [2, 3]
    ranked = restorer.rank([documents[2]], n=3)
    assert [[len(c.text) for c in gap] for gap in ranked[0]] == [[2] * 3, [3] * 3]


def test_a_document_longer_than_the_model_reads_is_restored_in_windows(restorer):
    words = "αγαθηι τυχηι εδοξεν τηι βουληι και τωι δημωι " * 20
    document = [words, Blank(4, 4), words, Blank(2, 3), words[:50], Blank(60, 60), words]
    found = restorer.restore(document, options(top=2))
    assert [len(gap.best) for gap in found.gaps[::2]] == [4, 60]
    assert "40 characters" in found.gaps[2].reason
    assert len(restorer.fill([[Blank(1000, 1000)]])[0][0]) == 1000


def test_it_abstains_where_it_does_not_know(restorer):
    unsure = restorer.restore(["α", Blank(8, 8)], options(top=2, abstain_below=0.9999)).gaps[0]
    assert "no restoration is as probable" in unsure.reason and unsure.candidates
    sure = restorer.restore(["α", Blank(1, 1)], options(top=2, abstain_below=0.0)).gaps[0]
    assert sure.reason is None


def test_an_lblm_restores_gaps_whose_length_it_is_told(tmp_path):
    restorer = make_restorer()
    torch.manual_seed(0)
    model = LBLM(LBLMConfig(len(restorer.tokenizer), EncoderConfig(1, 2, 16, 32)))
    model.set_vocabulary(restorer.tokenizer)
    checkpoint.save(tmp_path / "lblm", model, restorer.tokenizer, {"language": "grc"})
    lblm = Restorer.from_pretrained(tmp_path / "lblm", device="cpu")
    assert lblm.language == "grc"
    assert [len(span) for span in lblm.fill([["α", Blank(3, 3), "β", Blank(5, 5)]])[0]] == [3, 5]
    with pytest.raises(BlankLMError, match="must know the length"):
        lblm.fill([["α", Blank(), "β"]])


def test_a_saved_restorer_says_the_same(tmp_path, restorer):
    checkpoint.save(tmp_path / "greek", restorer.model, restorer.tokenizer, restorer.about)
    again = Restorer.from_pretrained(tmp_path / "greek", device="cpu")
    for one, other in zip(*(r.restore(DOCUMENT, options(top=3)).gaps for r in (again, restorer)), strict=True):
        assert [c.text for c in one.candidates] == [c.text for c in other.candidates]
        expected = [c.log_prob for c in other.candidates]
        assert [c.log_prob for c in one.candidates] == pytest.approx(expected, abs=1e-4)  # sums in another order
    with pytest.raises(BlankLMError, match="does not restore"):
        Restorer.from_pretrained(YELP_WORDS)


@pytest.mark.parametrize("gap", [Blank(1, 1001), Blank(5000, 5000), Blank(1001)])
def test_gaps_that_are_too_long_are_refused(restorer, gap):
    with pytest.raises(BlankLMError, match="1 to 1,000"):
        restorer.restore(["α", gap])


def test_bad_documents_are_refused_in_one_line(restorer):
    with pytest.raises(BlankLMError, match="no gap"):
        restorer.restore(["και"])
    with pytest.raises(BlankLMError, match="touches"):
        restorer.restore(["και", Blank(2, 2), Blank(), "το"])
    spans = restorer.fill([["και", Blank(2, 2), Blank(3, 3), "το"]])[0]
    assert [len(span) for span in spans] == [2, 3]


def test_progress_counts_gaps_and_is_asked_before_every_pass(restorer):
    done = []
    restorer.restore(DOCUMENT, options(top=1), progress=done.append)
    assert [count for count in done if count] == [1, 1, 1]
    assert done.count(0) > 20


def test_a_restoration_stops_within_a_gap_at_the_next_pass(restorer):
    class Enough(Exception):
        pass

    def stop_after(passes):
        asked = []

        def progress(done):
            asked.append(done)
            if len(asked) > passes:
                raise Enough

        return progress

    for passes in (0, 5, 20):  # in the first gap: it has hundreds
        with pytest.raises(Enough):
            restorer.restore(["και", Blank(20, 40), "το"], options(top=1), progress=stop_after(passes))


def test_letters_of_another_script_are_named_with_their_place(restorer):
    assert restorer.unknown("και X τὸν") == [(4, "X")]
    assert restorer.unknown("καὶ τὸν δῆμον.") == []


@pytest.mark.parametrize(
    ("gap", "least", "most"), [(Blank(2, None), 2, 100), (Blank(1, 12), 1, 12), (Blank(1, 30), 1, 30)]
)
def test_a_length_of_which_little_is_known_is_as_if_unknown_within_what_is_known(restorer, gap, least, most):
    """Models learn from ranges about as wide as the gap is long: a wider one would be taken for a hint."""
    unknown, known = (
        restorer.guesses.length_posterior(Draft.of(["αγαθηι ", g, " τυχηι"], restorer.tokenizer), 0).exp()
        for g in (Blank(), gap)
    )
    inside = unknown[least - 1 : most]
    assert known[least - 1 : most].tolist() == pytest.approx((inside / inside.sum()).tolist(), abs=1e-6)
    assert known.sum() == pytest.approx(1.0, abs=1e-5)


def test_an_edition_prints_as_its_text_and_a_notebook_marks_what_was_restored():
    edition = restore("<d(is)> m(anibus) s[.....] vixit an[...] xx", abstain_below=0.0)
    assert str(edition) == edition.text and repr(edition) == f"<Edition of 2 gaps: {edition.text!r}>"
    shown = edition._repr_html_()
    for gap in edition.lacunae:
        assert f"'>{gap.restorations[0].written}</mark>" in shown
    assert shown.count("<mark title='") == 2 and "&lt;d(is)&gt; m(anibus) s[<mark" in shown


def test_a_gap_that_is_left_as_it_is_is_not_marked():
    edition = restore("vixit an[...] xx", abstain_below=1.0)
    assert edition._repr_html_() == "<p style='white-space:pre-wrap'>vixit an[...] xx</p>"
