"""Documents with gaps in, ranked restorations out: lengths, probabilities, posteriors, abstention, normalisation."""

import json
import math
import unicodedata

import pytest
import torch

from blanklm.errors import BlankLMError
from blanklm.models.encoder import EncoderConfig
from blanklm.models.lblm import LBLM, LBLMConfig
from blanklm.restoration.restorer import (
    Candidate,
    Draft,
    Gap,
    Restorer,
    fold,
    normalise,
    normalise_with_positions,
    weighed,
    without_needless_spaces,
)
from blanklm.training import checkpoint
from tests.support.models import make_restorer
from tests.support.paths import YELP_WORDS

DOCUMENT = ["αγαθηι τυχηι ", Gap(4, 4), " η βουλη και ", Gap(2, 5), " δημοσ ", Gap(), " ετιμησεν"]


@pytest.fixture(scope="module")
def restorer():
    return make_restorer()


def test_gaps_of_every_kind_in_one_document(restorer):
    found = restorer.restore(DOCUMENT, top=7)
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
        assert all(math.isclose(sum(place.values()), 1.0, abs_tol=1e-6) for place in gap.places)
        assert all(set(c.text).isdisjoint("-#<") for c in gap.candidates)
    best = found.hypotheses[0]
    assert best.spans == tuple(gap.best for gap in found.gaps)
    assert math.isclose(best.log_prob, sum(gap.candidates[0].log_prob for gap in found.gaps), abs_tol=1e-6)
    assert [h.log_prob for h in found.hypotheses] == sorted((h.log_prob for h in found.hypotheses), reverse=True)
    assert len({h.spans for h in found.hypotheses}) == len(found.hypotheses)
    assert json.loads(json.dumps(found.to_json()))["gaps"][0]["candidates"][0]["text"] == known.best


def test_all_restorations_of_a_gap_of_approximate_length_sum_to_one():
    restorer = make_restorer("ab", spread=2.0)  # mild enough that nothing is given up on the way
    (gap,) = restorer.restore(["ab", Gap(1, 3), "ba"], top=100).gaps
    assert len(gap.candidates) == 2 + 4 + 8
    assert math.isclose(sum(c.probability for c in gap.candidates), 1.0, abs_tol=1e-3)
    by_length = {k: sum(c.probability for c in gap.candidates if len(c.text) == k) for k in (1, 2, 3)}
    assert all(math.isclose(by_length[k], gap.lengths[k], abs_tol=1e-3) for k in by_length)


def test_spaces_beside_spaces_and_at_the_ends_of_a_text_are_needless():
    candidates = [Candidate(text, math.log(p)) for text, p in (("est", 0.3), ("est ", 0.2), (" est", 0.1), (" ", 0.05))]

    def found(before, behind, least=1):
        kept = without_needless_spaces(candidates, before, behind, least)
        return {c.text: round(c.probability, 6) for c in kept}

    assert found("hic situs ", "") == {"est": 0.6, " ": 0.05}
    assert found("hic situs ", "t t l") == {"est": 0.4, "est ": 0.2, " ": 0.05}
    assert found("hic situs ", "", least=4) == {"est": 0.3, "est ": 0.2, " est": 0.1, " ": 0.05}


def test_restorations_that_gain_are_together_as_probable_as_before():
    candidates = [Candidate("ab", math.log(0.3)), Candidate("c", math.log(0.2)), Candidate("de", math.log(0.1))]
    lengths = {2: 0.6, 1: 0.25, 3: 0.15}
    found, posterior = weighed(candidates, [-2.0, 0.0, -2.0], lengths)
    assert [c.text for c in found] == ["c", "ab", "de"]
    assert math.isclose(sum(c.probability for c in found), 0.6)
    assert math.isclose(found[0].probability / found[1].probability, 0.2 / 0.3 * math.exp(2))
    assert list(posterior) == [1, 2, 3] and math.isclose(sum(posterior.values()), 1.0)
    same, unchanged = weighed(candidates, [-5.0] * 3, lengths)
    assert [c.text for c in same] == ["ab", "c", "de"] and math.isclose(unchanged[2], 0.6)


def test_the_best_does_not_depend_on_how_many_are_asked_for(restorer):
    few, many = (restorer.restore(DOCUMENT, top=top).gaps for top in (2, 20))
    assert [gap.best for gap in few] == [gap.best for gap in many] and [len(g.candidates) for g in few] == [2] * 3


def test_one_gap_is_ranked_and_restored_alike(restorer):
    document = ["αγαθηι ", Gap(3, 3), "ηι"]
    (ranked,) = restorer.rank([document], n=5)
    found = restorer.restore(document, top=5)
    assert [c.text for c in ranked[0]] == [c.text for c in found.gaps[0].candidates]


def test_many_documents_are_filled_as_one_is(restorer):
    documents = [DOCUMENT, ["α", Gap(9, 9)], [Gap(2, 2), " και ", Gap(3, 3), " το"]]
    together = restorer.fill(documents)
    assert together == [restorer.fill([document])[0] for document in documents]
    assert [len(span) for span in together[1]] == [9] and [len(span) for span in together[2]] == [2, 3]
    ranked = restorer.rank([documents[2]], n=3)
    assert [[len(c.text) for c in gap] for gap in ranked[0]] == [[2] * 3, [3] * 3]


def test_a_document_longer_than_the_model_reads_is_restored_in_windows(restorer):
    words = "αγαθηι τυχηι εδοξεν τηι βουληι και τωι δημωι " * 20
    document = [words, Gap(4, 4), words, Gap(2, 3), words[:50], Gap(60, 60), words]
    found = restorer.restore(document, top=2)
    assert [len(gap.best) for gap in found.gaps[::2]] == [4, 60]
    assert found.gaps[2].abstained and "40 characters" in found.gaps[2].reason
    assert len(restorer.fill([[Gap(1000, 1000)]])[0][0]) == 1000


def test_it_abstains_where_it_does_not_know(restorer):
    unsure = restorer.restore(["α", Gap(8, 8)], top=2, abstain_below=0.9999).gaps[0]
    assert unsure.abstained and "no restoration is as probable" in unsure.reason and unsure.candidates
    sure = restorer.restore(["α", Gap(1, 1)], top=2, abstain_below=0.0).gaps[0]
    assert not sure.abstained and sure.reason is None


def test_an_lblm_restores_gaps_whose_length_it_is_told(tmp_path):
    restorer = make_restorer()
    torch.manual_seed(0)
    model = LBLM(LBLMConfig(len(restorer.tokenizer), EncoderConfig(1, 2, 16, 32)))
    model.set_vocabulary(restorer.tokenizer)
    checkpoint.save(tmp_path / "lblm", model, restorer.tokenizer, {"language": "grc"})
    lblm = Restorer.from_pretrained(tmp_path / "lblm", device="cpu")
    assert lblm.language == "grc"
    assert [len(span) for span in lblm.fill([["α", Gap(3, 3), "β", Gap(5, 5)]])[0]] == [3, 5]
    with pytest.raises(BlankLMError, match="told the length"):
        lblm.fill([["α", Gap(), "β"]])


def test_a_saved_restorer_says_the_same(tmp_path, restorer):
    checkpoint.save(tmp_path / "greek", restorer.model, restorer.tokenizer, restorer.about)
    again = Restorer.from_pretrained(tmp_path / "greek", device="cpu")
    assert again.restore(DOCUMENT, top=3).to_json() == restorer.restore(DOCUMENT, top=3).to_json()
    with pytest.raises(BlankLMError, match="does not restore"):
        Restorer.from_pretrained(YELP_WORDS)


@pytest.mark.parametrize("gap", [(0, 0), (3, 2), (1, 1001), (5000, 5000), (-1, 4)])
def test_impossible_gaps_are_refused(gap):
    with pytest.raises(BlankLMError, match="1 to 1,000"):
        Gap(*gap)


def test_bad_documents_are_refused_in_one_line(restorer):
    with pytest.raises(BlankLMError, match="no gap"):
        restorer.restore(["και"])
    with pytest.raises(BlankLMError, match="touches"):
        restorer.restore(["και", Gap(2, 2), Gap(), "το"])
    with pytest.raises(BlankLMError, match="at least 1"):
        restorer.restore(DOCUMENT, top=0)
    with pytest.raises(BlankLMError, match="known length"):
        restorer.rank([DOCUMENT])
    spans = restorer.fill([["και", Gap(2, 2), Gap(3, 3), "το"]])[0]
    assert [len(span) for span in spans] == [2, 3]


def test_progress_counts_gaps(restorer):
    done = []
    restorer.restore(DOCUMENT, top=1, progress=done.append)
    assert done == [1, 1, 1]


# --- Normalisation ----------------------------------------------------------------------------------------------------


def test_accents_case_and_final_sigma_are_folded_and_places_are_kept():
    text = "Ἀγαθῆι τύχηι·  ὁ δῆμος,\nΑΘΗΝΑΙΩΝ"
    normalised, positions = normalise_with_positions(text)
    assert normalised == "αγαθηι τυχηι ο δημοσ αθηναιων"
    assert len(positions) == len(normalised) and positions == sorted(positions)
    for character, index in zip(normalised, positions, strict=True):
        assert character == " " or fold(text[index]) == character
    decomposed = unicodedata.normalize("NFD", text)
    assert normalise(decomposed) == normalised
    assert normalise("DIS Manibus, Jūlia — [x]") == "dis manibus iulia - x"
    assert normalise("ϲεβαϲτόϲ ϝ Ϙ") == "σεβαστοσ ϛ ϟ"
    assert normalise("α 15 β") == "α β"


def test_folding_keeps_every_character():
    assert fold("Ὑπὲρ τῆς") == "υπερ τησ" and fold("ᾳ,0") == "α,0"


def test_letters_of_another_script_are_named_with_their_place(restorer):
    assert restorer.unknown("και X τὸν") == [(4, "X")]
    assert restorer.unknown("καὶ τὸν δῆμον.") == []


@pytest.mark.parametrize(("gap", "least", "most"), [(Gap(2, None), 2, 100), (Gap(None, 5), 1, 5), (Gap(1, 30), 1, 30)])
def test_a_length_of_which_little_is_known_is_as_if_unknown_within_what_is_known(restorer, gap, least, most):
    """Models learn from ranges about as wide as the gap is long: a wider one would be taken for a hint."""
    unknown, known = (
        restorer._length_posterior(Draft.of(["αγαθηι ", g, " τυχηι"], restorer.tokenizer), 0).exp()
        for g in (Gap(), gap)
    )
    inside = unknown[least - 1 : most]
    assert known[least - 1 : most].tolist() == pytest.approx((inside / inside.sum()).tolist(), abs=1e-6)
    assert known.sum() == pytest.approx(1.0, abs=1e-5)
