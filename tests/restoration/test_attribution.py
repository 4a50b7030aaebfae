"""Where and when: what is read of an edition, what is said of it, and that the numbers of the card hold."""

import json
from itertools import combinations_with_replacement

import pytest
import torch

from blanklm.errors import BlankLMError
from blanklm.paper.bundled.attribution_recipe import as_preserved
from blanklm.paper.tasks.attribution import Inscription, measure_attributor
from blanklm.pretrained import HERE
from blanklm.restoration import attribution
from blanklm.restoration.attribution import Attributor, median, preserved, range_named, readable, shortest_range
from blanklm.restoration.edition import restore
from blanklm.restoration.notation import parse
from tests.support.models import make_restorer
from tests.support.paths import FIXTURES, ROOT

EPITAPH = "D(is) M(anibus) | Aureliae [Maxim]ae qu[ae vi]xit [.] annis X[---] | Aurelius ma[ritus posuit]"
EPIDOC = (
    '<ab>Dis Manibus <lb n="2"/>Aureliae <supplied reason="lost">Maxim</supplied>ae qu<supplied reason="lost">ae vi'
    '</supplied>xit <gap reason="lost" quantity="1" unit="character"/> annis X<gap reason="lost" extent="unknown" '
    'unit="character"/> <lb n="3"/>Aurelius ma<supplied reason="lost">ritus posuit</supplied></ab>'
)
READ = " dis manibus aureliae #ae qu#xit # annis x# aurelius ma# "


@pytest.fixture(scope="module")
def latin():
    return Attributor.of("latin")


@pytest.mark.parametrize("source", [EPITAPH, EPIDOC])
def test_what_is_lost_or_restored_by_the_editor_is_not_read(source):
    assert readable(preserved(parse(source).passages[0])) == READ


def test_what_was_erased_resolved_or_corrected_is_read():
    (passage,) = parse("[[Getae]] C(aio) <e=I>t {x} [[[Plau]tiano]] vixi[t]").passages
    assert readable(preserved(passage)) == " getae caio et #tiano vixi# "


def test_a_text_is_read_in_the_normal_form_of_the_training_texts():
    assert readable("D.M.  IVLIAE--- Félix 12 - # -") == " d m ivliae# felix # "
    assert readable("") == "  " and readable("#") == " # "
    assert readable("ab-c - # -- d.e") == " ab#c # d e "


def test_probabilities_sum_to_one_and_the_range_holds_its_share(latin):
    for record in latin.attribute_all([EPITAPH, "", "dis manibus", "votum solvit libens laetus merito " * 20]):
        assert sum(place.probability for place in record.places) == pytest.approx(1, abs=1e-4)
        assert sum(record.dates.values()) == pytest.approx(1, abs=1e-4)
        held = sum(p for year, p in record.dates.items() if record.first <= year <= record.last)
        assert held == pytest.approx(record.share) and record.share >= attribution.SHARE
        assert record.first <= record.median <= record.last + 1
        assert [p.probability for p in record.places] == sorted((p.probability for p in record.places), reverse=True)


def test_formulae_of_one_province_and_time_are_placed_and_dated(latin):
    record = latin.attribute("deabus aufaniabus marcus pompeius potens votum solvit libens laetus merito")
    assert record.places[0].name == "Germania inferior" and 100 < record.median < 260 and record.note is None
    record = latin.attribute("imperator caesar divi nervae filius nerva traianus augustus germanicus dacicus pontifex "
                             "maximus tribunicia potestate pater patriae consul v")  # fmt: skip
    assert 95 <= record.median <= 125 and record.last - record.first < 60


def test_little_text_says_little_more_than_what_is_frequent(latin):
    nothing, little = latin.attribute(""), latin.attribute("dis ma")
    assert "only 0 letters are preserved" in nothing.note and "only 5 letters" in little.note
    assert max(place.probability for place in nothing.places) < 0.3 and nothing.last - nothing.first > 150
    assert {place.name for place in nothing.places[:8]} & {"Dalmatia", "Roma", "Africa Proconsularis"}


def test_a_restored_text_has_it_beside_its_gaps_and_a_whole_text_alone():
    model = make_restorer("abcdefghijklmnopqrstuvwxyz .-#", seed=1)
    edition = restore("dis manibus [...]xit annis", model=model, attribute=True, parallels=0)
    assert edition.passages[0].attribution == Attributor.of("latin").attribute("dis manibus #xit annis")
    assert edition.to_json()["passages"][0]["attribution"]["places"][0].keys() == {"name", "probability"}
    assert restore("dis manibus [...]xit annis", model=model, parallels=0).passages[0].attribution is None
    whole = restore("dis manibus vixit annis", model=model, attribute=True)
    assert whole.text == "dis manibus vixit annis" and not whole.lacunae and whole.passages[0].attribution.places
    with pytest.raises(BlankLMError, match="there is no gap to restore"):
        restore("dis manibus vixit annis", model=model)


def test_each_passage_is_placed_by_the_model_of_its_language():
    delphi, vow = "ἁ πόλις τῶν Δελφῶν ἔδωκεν προξενίαν", "votum solvit libens merito"
    greek, latin = restore(f"<div><div><ab>{delphi}</ab></div><div><ab>{vow}</ab></div></div>", attribute=True).passages
    assert greek.attribution.places[0].name == "Delphi" and greek.attribution.median < 100
    assert latin.attribution == Attributor.of("latin").attribute(vow)


def test_parts_of_a_file_that_have_no_letters_are_passed_over():
    edition = restore("<div><div><ab>12</ab></div><div><ab>votum solvit libens merito</ab></div></div>", attribute=True)
    assert [passage.parts for passage in edition.passages] == [["votum solvit libens merito"]]


def test_another_model_is_refused(tmp_path):
    with pytest.raises(BlankLMError, match="latin does not say where and when: give a model such as latin-attribution"):
        Attributor.from_pretrained("latin")


# --- Ranges and years -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(20))
def test_the_range_is_the_shortest_that_holds_the_share(seed):
    generator = torch.Generator().manual_seed(seed)
    probabilities = torch.rand(9, generator=generator).pow(4)
    probabilities = (probabilities / probabilities.sum()).tolist()
    runs = [
        (last - first, -sum(probabilities[first : last + 1]), first, last)
        for first, last in combinations_with_replacement(range(9), 2)
        if sum(probabilities[first : last + 1]) >= 0.8
    ]
    assert shortest_range(probabilities, 0.8) == min(runs)[2:]


def test_a_median_lies_within_its_bin_and_years_have_names():
    assert median([0.5, 0.5], 0, 25) == 25 and median([0.25, 0.5, 0.25], -100, 100) == 50
    assert median([0.0, 1.0, 0.0], 0, 10) == 15
    assert [range_named(-50, -26), range_named(-25, 24), range_named(0, 49)] == [
        "50 to 26 BC", "25 BC to AD 24", "AD 1 to 49",
    ]  # fmt: skip


# --- The card ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("language", ["latin", "greek"])
def test_the_numbers_of_the_card_hold_on_the_sample(language):
    lines = (FIXTURES / "attribution" / f"{language}.jsonl").read_text(encoding="utf-8").splitlines()
    records = [json.loads(line) for line in lines]
    sample = [Inscription(**record | {"years": record["years"] and tuple(record["years"])}) for record in records]
    scores = json.loads((ROOT / "results" / "restoration" / f"{language}-attribution.json").read_text())["scores"]
    measured = measure_attributor(Attributor.of(language), as_preserved(sample), sample)
    assert len(sample) >= 100 and measured == pytest.approx(scores["sample"], abs=0.5)
    like = scores["EDH" if language == "latin" else "papyri"]  # what most of the sample is of
    assert measured["years"] == pytest.approx(like["years"], abs=8) and measured["held"] == pytest.approx(
        like["held"], abs=6
    )
    card = (HERE / f"{language}-attribution" / "README.md").read_text(encoding="utf-8")
    assert f"| {like['dated']:,} | {like['years']:.1f} | {like['claimed']:.0f} | {like['held']:.0f} |" in card


def test_the_alphabets_are_letters_and_the_space(latin):
    assert set("".join(latin.tokenizer.token_texts[4:])) == set(" abcdefghijklmnopqrstuvwxyz") - {"j"}
    assert set("".join(Attributor.of("greek").tokenizer.token_texts[4:])) == set(" αβγδεζηθικλμνξοπρστυφχψωϛϟϡ")
