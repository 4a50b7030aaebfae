"""The recipe of where and when: from inscriptions to a calibrated model and its scores."""

import json
import math
from dataclasses import replace
from random import Random

import pytest
import torch

from blanklm.models.attribution import AttributionConfig, AttributionModel, Bags, Labelled
from blanklm.paper.bundled import attribution_recipe, greek_attribution, latin_attribution
from blanklm.paper.bundled.attribution_recipe import (
    Corpus,
    Recipe,
    Schedule,
    as_preserved,
    as_shown,
    by_length,
    calibrate,
    temperatures_of,
    without_repeats,
)
from blanklm.paper.tasks.attribution import Inscription, best_year, majority, measure, share_within, years_off
from blanklm.restoration.attribution import Attributor
from blanklm.restoration.records import AttributionRecord, PlaceRecord

WORDS = {
    "Asia": (["ephesiorum", "dianae", "asiarchae"], (-50, -1)),
    "Dacia": (["sarmizegetusae", "deae", "nemesi"], (150, 170)),
    "Baetica": (["hispalensis", "coloniae", "baetis"], (60, 70)),
}


def written(number, seed):
    """Inscriptions whose words tell where and when they are from."""
    rng = Random(seed)
    for i in range(number):
        place, (words, years) = rng.choice(list(WORDS.items()))
        text = " ".join(
            ["votum", *rng.choices(words, k=3), f"[{rng.choice(words)}]", "merito", *rng.choices("abc", k=2)]
        )
        yield Inscription(f"{seed}:{i}", text, place if i % 7 else None, years if i % 5 else None)


def test_a_toy_corpus_is_learnt_and_measured(tmp_path):
    corpus = Corpus(
        *(list(written(n, seed)) for seed, n in enumerate((400, 100, 100))), by_length, list(written(30, 3))
    )
    recipe = Recipe("toy", 100, 25, 16, {"name": "toy", "language": "la"}, width=32, schedule=Schedule(6, 16))
    result = recipe.make(tmp_path, corpus, say=lambda _: None)
    assert json.loads((tmp_path / "result.json").read_text()) == result
    scores = result["scores"]
    assert scores["test"]["top1"] > 95 and scores["test"]["years"] < 5 and scores["test"]["ece"] < 5
    assert scores["majority"]["top1"] < 60 and scores["majority"]["years"] > 30
    assert len((tmp_path / "sample.jsonl").read_text().splitlines()) == 30
    found = Attributor.from_pretrained(tmp_path / "model").attribute("dianae ephesiorum")
    assert found.places[0].name == "Asia" and found.median < 0 and found.places[0].probability > 0.9


def test_texts_held_out_calibrate_a_model_that_has_not_read_them(monkeypatch, tmp_path):
    train, validation, test = (list(written(n, seed)) for seed, n in enumerate((60, 20, 20)))
    learnt, calibrated = [], []
    learn, find = Recipe.learn, attribution_recipe.temperatures_of
    monkeypatch.setattr(Recipe, "learn", lambda self, known, say: learnt.append(known) or learn(self, known, say))
    counted = lambda model, texts: calibrated.append(len(texts.places)) or find(model, texts)  # noqa: E731
    monkeypatch.setattr(attribution_recipe, "temperatures_of", counted)
    recipe = Recipe("toy", 100, 25, 16, {"name": "toy", "language": "la"}, width=8, schedule=Schedule(1, 16))
    recipe.make(tmp_path, Corpus(train, validation, test, by_length, test, train[::4]), say=lambda _: None)
    assert learnt == [train, [one for one in train if one not in train[::4]]] and calibrated == [20 + 15]


def labelled_at_random(model, temperature, texts=4000):
    """Texts whose labels are drawn from the model's own distributions at a temperature."""
    torch.manual_seed(1)
    entries = torch.randint(model.config.ngrams, (texts, 3))
    bags = Bags(entries.flatten(), torch.arange(texts) * 3)
    places, dates = (logits.detach() / temperature for logits in model.logits(bags))
    bins = torch.multinomial(dates.softmax(1), 1)[:, 0]
    return Labelled(bags, torch.multinomial(places.softmax(1), 1)[:, 0], torch.eye(model.config.bins)[bins])


@pytest.mark.parametrize("temperature", [0.7, 1.0, 1.6])
def test_calibration_finds_the_temperature_that_labels_were_drawn_at(temperature):
    torch.manual_seed(0)
    model = AttributionModel(AttributionConfig(8, 4, 50, ("Asia", "Dacia", "Baetica"), 0, 25, 5, width=32)).eval()
    with torch.no_grad():
        model.place.weight *= 6
        model.date.weight *= 6
    texts = labelled_at_random(model, temperature)
    before = [logits.detach() for logits in model.logits(texts.bags)]
    found = temperatures_of(model, texts)
    calibrate(model, found)
    assert found == pytest.approx({"place": temperature, "date": temperature}, abs=0.11)
    for one, two, heat in zip(before, model.logits(texts.bags), found.values(), strict=True):
        torch.testing.assert_close(one / heat, two, atol=1e-4, rtol=1e-4)


# --- Scores -----------------------------------------------------------------------------------------------------------


def answer(place, probability, median, first, last):
    places = [PlaceRecord(place, probability), PlaceRecord("Roma", 1 - probability)]
    return AttributionRecord(30, places, first, last, 0.8, median, median + 10, {}, None)


def test_scores_are_those_counted_by_hand():
    texts = [
        Inscription("1", "", "Asia", (101, 200)),
        Inscription("2", "", "Roma", (51, 60)),
        Inscription("3", "", "Dacia", None),
        Inscription("4", "", None, (1, 1)),
    ]
    answers = [
        answer("Asia", 0.9, 150, 101, 150),
        answer("Asia", 0.6, 70, 56, 100),
        answer("Asia", 0.5, 1, 1, 1),
        answer("Asia", 0.5, -9, -20, 1),
    ]
    found = measure(answers, texts)
    assert found["top1"] == pytest.approx(100 / 3) and found["top3"] == pytest.approx(200 / 3)
    assert found["ece"] == pytest.approx(100 * (0.1 + 0.6 + 0.5) / 3)
    assert found["years"] == pytest.approx((0 + 10 + 10) / 3) and found["held"] == pytest.approx(
        100 * (0.5 + 0.5 + 1) / 3
    )
    assert measure(answers[3:], texts[3:]).keys() == found.keys() - {"top1", "top3", "ece"}
    assert (years_off(70, (51, 60)), years_off(41, (51, 60)), years_off(55, (51, 60))) == (10, 10, 0)
    assert share_within((101, 200), 0, 50) == 0 and share_within((1, 1), 1, 1) == 1


def test_the_same_answer_to_every_text_is_the_best_there_is():
    ranges = [(0, 100), (50, 60), (200, 300), (90, 95)]
    cost = {year: sum(years_off(year, years) for years in ranges) for year in range(-10, 310)}
    assert cost[best_year(ranges)] == min(cost.values())
    known = [Inscription(str(i), "", "Asia" if i < 3 else "Roma", years) for i, years in enumerate(ranges)]
    found = majority(known, known)
    assert found["top1"] == 75 and found["top3"] == 100 and found["years"] == pytest.approx(min(cost.values()) / 4)


def test_restorations_are_read_only_where_they_are_to_be_shown():
    (inscription,) = [Inscription("1", "dis man[ibus sa]crum # [v]ixit -- annos", None, None)]
    assert as_shown([inscription]) == [" dis manibus sacrum # vixit # annos "]
    assert as_preserved([inscription]) == [" dis man#crum #ixit # annos "]


def test_texts_with_the_letters_of_a_training_text_are_left_out():
    known = [Inscription("1", "dis [manibus]", None, None)]
    some = [Inscription("2", "DIS. manibus", None, None), Inscription("3", "dis manibus s", None, None)]
    assert without_repeats(some, known) == some[1:]
    assert [len(part) for part in by_length([replace(some[0], text="a" * n) for n in (19, 20, 99, 100)]).values()] == [
        1,
        2,
        1,
    ]


# --- What the corpora say ---------------------------------------------------------------------------------------------


def test_provinces_of_both_databases_have_one_name():
    names = ["Umbria / Regio VI", "Umbria (Regio VI)?", "Lugudunensis", "unbekannt?", "Italia", "Dacia | Asia", None]
    found = [latin_attribution.province_of({"province": name}) for name in names]
    assert found == ["Umbria (Regio VI)", "Umbria (Regio VI)", "Lugdunensis", None, None, None, None]


def test_a_stone_of_both_databases_is_learnt_once_with_the_province_that_either_has():
    ours = [Inscription("HD1", "dis", None, (1, 2)), Inscription("HD3", "vixit", "Asia", None)]
    ours.append(Inscription("HD5", "a", None, None))
    others = [
        ("HD1", Inscription("EDCS-1", "dis", "Dacia", None)),
        ("HD3", Inscription("EDCS-3", "vixit", "Dacia", (1, 2))),
        ("", Inscription("EDCS-4", "votum", "Baetica", None)),
        ("HD9", Inscription("EDCS-9", "solvit", "Dacia", None)),
    ]
    found = latin_attribution.joined(ours, others)
    assert [one.name for one in found] == ["HD1", "HD3", "HD5", "EDCS-4", "EDCS-9"]
    assert [one.place for one in found] == ["Dacia", "Asia", None, "Baetica", "Dacia"] and found[0].years == (1, 2)


def test_dates_are_read_in_the_forms_that_the_corpora_have():
    latin = [("0171-07-13", None), ("-0054", "0012"), ("0300", "0201"), (None, None), (101, 200)]
    found = [latin_attribution.years_of({"not_before": one, "not_after": two}) for one, two in latin]
    assert found == [(171, 171), (-54, 12), (201, 300), None, (101, 200)]
    greek = [greek_attribution.years_of({"date": date}) for date in ("-276±24", "16±2", "551+", None)]
    assert greek == [(-300, -252), (14, 18), None, None]
    assert math.isclose(share_within((-300, -252), -300, -252), 1)
