"""Inputs whose answers are frozen, and what computes their records: fills, scores, restorations, transfers, losses.

Every case is plain data and goes through the public API. Only ``losses`` needs more, and imports it in one place.
A function computes the records of every ``every``-th case; a record has the number of its case.
"""

from __future__ import annotations

import json
import math
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import torch

from blanklm import BlankLM, Transfer, restore
from tests.support.paths import YELP_WORDS

torch.set_num_threads(1)  # sums of several threads are rounded otherwise

FOLDERS = {"yelp-words": YELP_WORDS}  # records keep the name
ENGLISH = "english-small"  # blanks stand for spans, or for words
Case = dict[str, Any]
Record = dict[str, Any]

# --- Fills ------------------------------------------------------------------------------------------------------------

PLAIN = [
    "They also have ___ which ___.",
    "She opened the ___ and ___.",
    "The ___ was late, so ___.",
    "___ is the capital of France.",
    "He walked home because ___",
    "___ said that ___ would come.",
    "I think ___, but ___.",
    "The two men ___ the river.",
    "Water ___ at one hundred degrees.",
    "What is ___?",
    "In 1969, ___ landed on the Moon.",
    '"___," she said.',
]
FEW = PLAIN[1:7]

# No text is blanks alone but one: two such blanks are nearly as probable, and the choice is one of rounding.
UNUSUAL = [
    "___",
    "Well, ___ ___",
    "______ and then ___",
    "___ ___ ___ was here.",
    "The cat ___ ___ the mat.",
    "___ the end ___",
    "The café in Zürich ___ naïve — ___!",
    "日本 is ___.",
    "Ἀθῆναι is the Greek name of ___.",
    "I 😀 ___ you.",
    "THE QUEEN OF ___ IS ___.",
    "McDonald and O'Brien ___ NASA.",
    "It cost $3.50 (about ___).",
    "un___able",
    "A line\nand ___\nanother line.",
    "  Two  spaces   ___   stay.  ",
    "An escaped \\___ stays, ___ goes.",
    "A ___\\[1] with a note.",
    "well-___ and ___-made",
    "xqzzkj ___ blorptang.",
]

LENGTHS = [
    "She gave me ___[2] and told me ___[3-6].",
    "The ___[1] sat on the ___[1].",
    "He said ___[3].",
    "He said ___[5].",
    "___[2-5] was very good.",
    "We went to ___[2-5].",
    "I ___[1-2] the ___[3-] yesterday.",
    "___[4] and ___[2]",
    "The ___[1]___[1] house.",
    "Then ___[8] again.",
]

CONSTRAINED: list[tuple[str, Any]] = [
    ("The ___ was late, so ___.", [{"ban": ["train"]}, {"require": ["walked"]}]),
    ("She opened the ___ and ___.", [{"max": 2}, {"require": ["smiled"]}]),
    ("She opened the ___ and ___.", [{"ban": ["door", "window"]}, {"min": 3}]),
    ("I like ___ and ___.", {"only": ["tea", "coffee", "milk", "and"]}),
    ("I like ___.", {"require": ["ice cream"]}),
    ("I like ___.", {"require": ["ice cream", "cake"], "max": 6}),
    ("I like ___.", {"min": 4, "max": 6}),
    ("He is ___.", {"min": 5}),
    ("He is ___.", {"max": 1}),
    ("He is ___.", {"ban": ["a", "the", "not"]}),
    ("___ is red.", {"only": ["The", "rose", "apple"]}),
    ("___[3] is red.", {"only": ["The", "rose", "apple", "big"]}),
    ("___[2-4] came to ___.", [{"require": ["Napoleon"]}, {"max": 3}]),
    ("The ___ of ___ in ___.", [{"max": 1}, {"ban": ["the"]}, {"require": ["Bucharest"]}]),
    ("The ___ of ___.", [None, {"max": 2}]),
    ("We ___ to the ___.", [{"require": ["never went"]}, {"only": ["sea", "beach"]}]),
]

WORDS: Case = {"blanks": "words"}
ORDERS: list[Case] = [
    WORDS,
    {**WORDS, "order": "model"},
    {**WORDS, "order": "left-to-right"},
    {**WORDS, "order": "parallel"},
    {**WORDS, "order": "parallel", "threshold": 0.5},
]
BEAMS: list[Case] = [
    {**WORDS, "beam": 3, "n": 3},
    {**WORDS, "beam": 5, "n": 4, "length_penalty": 0.6},
    {**WORDS, "beam": 3, "n": 2, "order": "model"},
    {**WORDS, "beam": 3, "n": 2, "order": "left-to-right", "length_penalty": 1.0},
]
SPANS: list[Case] = [{"n": 3}, {"beam": 4}, {"n": 4, "beam": 6}, {"order": "confident"}, {"order": "parallel"}]

YELP = [
    "they also have ___ which ___ .",
    "the food was ___ and the service ___ .",
    "___ , but i will ___ .",
    "___ ___ is the best !",
    "my husband ___[2] the ___[1-3] .",
    "zzyzx ___ Pizza .",
]

SAMPLED: list[tuple[str, str, Case]] = [
    (ENGLISH, "___", {"n": 2, "seed": 1}),
    (ENGLISH, "___", {"n": 2, "seed": 2, "top_k": 20}),
    (ENGLISH, "They also have ___ which ___.", {"n": 3, "seed": 3}),
    (ENGLISH, "They also have ___ which ___.", {"n": 3, "seed": 3, "temperature": 0.5}),
    (ENGLISH, "They also have ___ which ___.", {"n": 3, "seed": 3, "temperature": 1.5, "top_k": 50}),
    (ENGLISH, "They also have ___ which ___.", {"n": 3, "seed": 4, "top_k": 5}),
    (ENGLISH, "They also have ___ which ___.", {"n": 3, "seed": 5, "top_p": 0.8}),
    (ENGLISH, "The ___[2] sat on ___[2-4].", {"n": 2, "seed": 6, "top_p": 0.9, "top_k": 100}),
    (ENGLISH, "The ___ sat ___.", {**WORDS, "n": 2, "seed": 7, "order": "left-to-right", "top_p": 0.9}),
    (ENGLISH, "The ___ sat ___.", {**WORDS, "n": 2, "seed": 7, "order": "confident", "top_p": 0.9}),
    (ENGLISH, "The ___ sat ___.", {**WORDS, "n": 2, "seed": 7, "top_p": 0.9}),
    (ENGLISH, "I like ___.", {"n": 2, "seed": 8, "top_p": 0.9, "constraints": {"require": ["cake"], "max": 4}}),
    (ENGLISH, "I like ___.", {"n": 2, "seed": 9, "top_p": 0.9, "constraints": {"ban": ["to", "the"]}}),
    (ENGLISH, "THE QUEEN ___ ñandú ___", {"n": 2, "seed": 10, "temperature": 0.8}),
    (ENGLISH, "The ___ ___ was ___[1-2].", {"n": 2, "seed": 15, "temperature": 0.8}),
    ("yelp-words", "___", {"n": 3, "seed": 11}),
    ("yelp-words", "the food was ___ .", {"n": 3, "seed": 12, "temperature": 0.7}),
    ("yelp-words", "the food was ___ and ___ .", {"n": 3, "seed": 13, "top_k": 10, "top_p": 0.95}),
]

TRACED = range(0, 200, 16)  # cases whose records have the trajectory


def _fill_cases() -> list[Case]:
    """All the fills: what is asked, of which model, with which options."""

    def case(mode: str, text: str | list[str], options: Case, model: str = ENGLISH) -> Case:
        return {"mode": mode, "model": model, "input": text, "options": options}

    greedy = [case("greedy", text, {}) for text in (*PLAIN[:1], *PLAIN[7:], *UNUSUAL, *LENGTHS)]
    orders = [case("order", text, options) for text in FEW for options in ORDERS]
    orders += [case("order", text, ORDERS[1 + i % 4]) for i, text in enumerate((*UNUSUAL[2:15], *LENGTHS[:8]))]
    beams = [case("beam", text, options) for text in FEW for options in BEAMS]
    beams += [case("beam", text, BEAMS[i % 4]) for i, text in enumerate((*UNUSUAL[3:8], *LENGTHS[:6]))]
    spans = [case("spans", text, SPANS[i % 5]) for i, text in enumerate((*FEW, *UNUSUAL, *LENGTHS))]
    rules = [case("constraints", text, {"constraints": each}) for text, each in CONSTRAINED]
    rules += [
        case("constraints", text, {"constraints": each, **(*ORDERS, *BEAMS, SPANS[0])[i % 10]})
        for i, (text, each) in enumerate(CONSTRAINED)
    ]
    yelp = [case("yelp", text, options, "yelp-words") for text in YELP for options in (*ORDERS[::2], BEAMS[1])]
    together = [case("together", PLAIN, options) for options in ({}, SPANS[0], ORDERS[0], ORDERS[4], BEAMS[0])]
    together.append(case("together", YELP, {}, "yelp-words"))
    samples = [case("sample", text, options, model) for model, text, options in SAMPLED]
    samples.append(case("sample", PLAIN[:3], {"n": 2, "seed": 14, "top_p": 0.9}))
    return [*greedy, *orders, *beams, *spans, *rules, *yelp, *together, *samples]


def fills(every: int = 1) -> list[Record]:
    """Fill and sample; texts that are asked for together have a record each. Other draws count as alternatives."""
    records = []
    cases = _fill_cases()
    for number in range(0, len(cases), every):
        case = cases[number]
        model, texts = _model(case["model"]), case["input"]
        if case["mode"] == "sample":
            found = model.sample(texts, **case["options"])
            drawn = [found] if isinstance(texts, str) else found
        else:
            found = model.fill(texts, **case["options"])
            drawn = [fill.ranked for fill in ([found] if isinstance(texts, str) else found)]
        for text, (best, *others) in zip([texts] if isinstance(texts, str) else texts, drawn, strict=True):
            record = {"case": number, **case, "input": text, **_of_fill(best)}
            record["alternatives"] = [_of_fill(other) for other in others]
            if number in TRACED:
                record["trajectory"] = best.trajectory.to_json()
            records.append(_rounded(record))
    return records


def _of_fill(fill: Any) -> Record:
    return {"text": fill.text, "spans": list(fill.spans), "log_prob": fill.log_prob}


@cache
def _model(name: str) -> BlankLM:
    return BlankLM.from_pretrained(FOLDERS.get(name, name), device="cpu")


# --- Scores -----------------------------------------------------------------------------------------------------------

SHORT = [
    "The food was really good.",
    "Yes.",
    "Where are you?",
    "She opened the door.",
    "door the opened She.",
    "NASA",
    "El niño — 東京.",
]
LONGER = [
    "The two men crossed the river before the storm began.",
    "In 1969, people landed on the Moon for the first time.",
    "He asked whether the train to Vienna was late again.",
    "colourless green ideas sleep furiously",
    "Water boils at one hundred degrees.",
]
REVIEWS = ["the food was really good .", "we will not be back", "zzyzx was great !"]


def _score_cases() -> list[Case]:
    def case(text: str | list[str], options: Case, model: str = ENGLISH) -> Case:
        return {"model": model, "input": text, "options": options}

    cases = [case(text, {"method": "exact"}) for text in SHORT[:-1]]  # the last has 14 tokens: over a minute
    cases += [case(text, {"method": "exact"}, "yelp-words") for text in REVIEWS]
    cases += [case(text, {"orders": 8, "seed": seed}) for text in (*SHORT, *LONGER) for seed in (0, 1)]
    cases += [case(text, {"method": "bound", "orders": 8, "seed": 2}) for text in (*SHORT, *LONGER)]
    cases += [case("It is.", {"method": "exact"})]
    cases += [case(REVIEWS, {"orders": 4, "seed": 3}, "yelp-words"), case(LONGER, {"orders": 4, "seed": 4})]
    cases += [case(REVIEWS, {"method": "bound", "orders": 4, "seed": 5}, "yelp-words")]
    cases += [case(SHORT, {"method": "perplexity", "orders": 4, "seed": 6})]
    return cases


def scores(every: int = 1) -> list[Record]:
    """Score texts in every way; "perplexity" is that of the texts as one stream."""
    records = []
    cases = _score_cases()
    for number in range(0, len(cases), every):
        case = cases[number]
        model, texts, options = _model(case["model"]), case["input"], case["options"]
        if options.get("method") == "perplexity":
            estimate = model.perplexity(texts, chunk=16, **{k: v for k, v in options.items() if k != "method"})
            answer = {
                "log_likelihoods": [float(value) for value in estimate.log_likelihoods],
                "standard_errors": [float(value) for value in estimate.standard_errors],
                "tokens": [int(value) for value in estimate.tokens],
                "log_perplexity": math.log(estimate.perplexity),
            }
            records.append(_rounded({"case": number, **case, **answer}))
            continue
        found = model.score(texts, **options)
        for score in found if isinstance(found, list) else [found]:
            answer = score.to_json()
            answer["log_perplexity"] = math.log(answer.pop("perplexity"))  # may be great, and so would be its rounding
            records.append(_rounded({"case": number, **case, **answer}))
    return records


# --- Restorations -----------------------------------------------------------------------------------------------------

EPIDOC_GREEK = (
    '<div type="edition" xml:lang="grc"><ab><lb n="1"/>ἔδοξεν τῆι βουλῆι κα<gap reason="lost" quantity="1" '
    'unit="character"/> τῶι <lb n="2"/>δή<gap reason="lost" atLeast="2" atMost="4" unit="character"/></ab></div>'
)
EPIDOC_LATIN = (
    '<div type="edition" xml:lang="la"><ab>votum sol<gap reason="lost" quantity="3" unit="character"/> '
    "<expan>l<ex>ibens</ex></expan> merito</ab></div>"
)

RESTORATIONS: list[tuple[str, Case]] = [
    ("ἔδοξεν τῆι βουλῆι κα[. . 5 . .] δήμωι", {}),
    ("ἔδοξεν τῆι βο[. . 4 . .] καὶ τῶι δή[..]", {"top": 4}),
    ("ἀγαθῆι τύ[...]", {}),
    ("ἀγαθῇ τύχῃ· [c. 3] βουλὴ καὶ ὁ δῆμος", {}),
    ("ὁ δῆμος ἐτίμη[.3-5] Διονύσιον", {"top": 5}),
    ("θεοῖς καταχθον[---]", {}),
    ("ΑΓΑΘΗ ΤΥ[..] Η ΒΟΥΛΗ ΚΑ[.] Ο ΔΗΜΟΣ", {"top": 2}),
    ("αὐτοκράτορα καί[...]α Σεβαστόν", {"abstain_below": 0.5}),
    ("καὶ τῶι [. .] δήμωι", {"count": "letters"}),
    ("ἔδοξεν τῆι βουλῆι κα[. . 4 . .] δήμωι", {"count": "letters", "top": 2}),
    ("τῆι β[..|..]ι καὶ τῶι δήμωι", {"sure": 0.9}),
    (EPIDOC_GREEK, {"top": 2}),
    ("d(is) m(anibus) s[...] iuliae felici vixit an[...] xx", {}),
    ("Iovi Optimo Max[. . .] votum sol[. . .] libens", {"top": 2}),
    ("DIS MANI[....] SACRVM", {"top": 5}),
    ("hic situs e[c. 3] sit tibi terra le[...]", {}),
    ("imp(eratori) caes[..]i divi f(ilio) aug[.4-6]", {}),
    ("votum sol[---] libens merito", {"top": 4}),
    ("qxz [[...]] vixit annis [..]", {"abstain_below": 0.3, "language": "latin", "notation": "leiden"}),
    (EPIDOC_LATIN, {"sure": 0.5}),
]


def restorations(every: int = 1) -> list[Record]:
    """Restore; without parallels, which depend on the corpora at hand."""
    records = []
    for number in range(0, len(RESTORATIONS), every):
        source, options = RESTORATIONS[number]
        edition = restore(source, parallels=0, device="cpu", **{"top": 3, **options})
        records.append(_rounded({"case": number, "input": source, "options": options, **edition.to_json()}))
    return records


# --- Transfers --------------------------------------------------------------------------------------------------------

TRANSFERS: list[tuple[str | list[str], str, Case]] = [
    ("The food was cold and our waiter was rude.", "positive", {}),
    ("The staff was great.", "negative", {}),
    ("the service was slow and the food is bland .", "positive", {"n": 3}),
    ("i love this place and the people are friendly !", "negative", {"n": 3}),
    ("I will never come back to this terrible place!", "positive", {"n": 2, "fewer": True}),
    ("Best pizza in town, and we're always treated well.", "negative", {"n": 2, "fewer": True}),
    ("We didn't like the soup.", "positive", {}),
    ("We didn't like the soup.", "positive", {"mask": ["like"], "n": 2}),
    ("The rooms were clean, quiet and cheap.", "negative", {"mask": ["clean", "quiet and cheap"], "n": 2}),
    ("The rooms were clean, quiet and cheap.", "negative", {"mask": [3, 5]}),
    ("The rooms were clean, quiet and cheap.", "positive", {}),
    ("AWFUL SERVICE, never again.", "positive", {"seed": 5}),
    ("Horrible! A waste of money.", "positive", {"temperature": 0.5, "n": 2}),
    ("Delicious food by a friendly owner.", "negative", {"temperature": 1.3, "samples": 4, "n": 4}),
    ("she was very rude , i ca n't believe it .", "positive", {"seed": 1}),
    ("The décor at Café Zyzzyva was lovely — truly.", "negative", {"n": 2}),
    ("an honest and helpful mechanic .", "negative", {"fewer": True, "samples": 3, "n": 3}),
    ("It was ok.", "positive", {"n": 2}),
    (["The food was bad.", "Bad service and a dirty table.", "it is not good ."], "positive", {"n": 2}),
    (["Good food.", "Great service and a clean table.", "it is good ."], "negative", {"fewer": True, "seed": 2}),
]


def transfers(every: int = 1) -> list[Record]:
    """Rewrite in the other style."""
    records = []
    for number in range(0, len(TRANSFERS), every):
        texts, style, options = TRANSFERS[number]
        found = _transfer().rewrite(texts, style, **options)
        for rewritten in found if isinstance(found, list) else [found]:
            records.append(_rounded({"case": number, "options": options, **rewritten.to_json()}))
    return records


@cache
def _transfer() -> Transfer:
    return Transfer.from_pretrained("sentiment", device="cpu")


# --- Losses -----------------------------------------------------------------------------------------------------------

ENGLISH_LINES = [
    "The old bridge was closed in the spring.",
    "She reads a letter every morning before breakfast.",
    "Nobody knew why the lights had gone out.",
    "Water freezes at zero degrees Celsius.",
    "He sold the house and moved to the coast.",
    "Why did you leave the meeting so early?",
    "The river Danube flows into the Black Sea.",
    "In 1912 the company opened a second factory.",
    "I don't think that's a good idea.",
    "A small dog ran across the empty street.",
    "They waited for an hour, but no bus came.",
    "The museum holds more than four thousand coins.",
    '"Come in," said the doctor without looking up.',
    "Most bees live alone and build their nests in the ground.",
    "My sister plays the violin rather well.",
    "The price of bread rose again last month.",
    "It was raining when we reached the village.",
    "Iron is heavier than aluminium.",
    "Can you tell me the way to the station?",
    "The film was longer than the book it is based on.",
    "He had never seen so many stars.",
    "The committee will meet again on Thursday.",
    "Plants need light, water and air.",
    "We found the key under a stone by the gate.",
    "The first train leaves at five in the morning.",
    "Her grandfather was a fisherman from Crete.",
    "The answer to the second question is no.",
    "Snow covered the hills around the town.",
    "I would like a cup of tea, please.",
    "The children were asleep before nine.",
    "The treaty was signed in Paris in 1763.",
    "This word has two meanings in German.",
    "He fixed the roof with a few boards and some nails.",
    "The library is open from Monday to Saturday.",
    "What a strange thing to say!",
    "The lake is deepest near its northern shore.",
    "She became a teacher and later a judge.",
    "There is a hole in my left shoe.",
    "Sound travels faster in water than in air.",
    "The king died without an heir.",
    "They painted the door green.",
    "We are out of milk and eggs.",
    "The path follows the stream for two miles.",
    "Who wrote this song?",
    "Gold was found near the town in 1851.",
    "He gave the boy an apple and a coin.",
    "Bats sleep during the day.",
    "The second volume was never finished.",
]

GREEK_LINES = [
    "αγαθηι τυχηι",
    "εδοξεν τηι βουληι και τωι δημωι",
    "η βουλη και ο δημος",
    "ο δημος ετιμησεν διονυσιον μηνοδοτου",
    "αρετης ενεκεν και ευνοιας της εις εαυτον",
    "θεοις καταχθονιοις",
    "χαιρε και συ",
    "μνημης χαριν",
    "ζωσα εαυτηι και τωι ανδρι",
    "επι αρχοντος φιλιππου",
    "ειπεν δημοσθενης δημοσθενους",
    "στεφανωσαι χρυσωι στεφανωι",
    "αναγραψαι δε τοδε το ψηφισμα",
    "εις στηλην λιθινην",
    "και στησαι εν τωι ιερωι",
    "αυτοκρατορα καισαρα σεβαστον",
    "υπερ σωτηριας των κυριων",
    "απολλωνι και αρτεμιδι",
    "διι σωτηρι ευχην",
    "προξενος και ευεργετης της πολεως",
    "ατελειαν παντων και ασφαλειαν",
    "και πολεμου και ειρηνης",
    "οι στρατηγοι ειπαν",
    "των φιλων και συγγενων",
    "ετους δευτερου μηνος πανημου",
    "ερρωσθαι σε ευχομαι",
    "απολλωνιος ζηνωνι χαιρειν",
    "ελαβον παρα σου αργυριου δραχμας",
    "ομολογω πεπρακεναι σοι",
    "την υπαρχουσαν μοι οικιαν",
    "εν τηι κωμηι φιλαδελφειαι",
    "βασιλευοντος πτολεμαιου",
    "ιερευς αθηνας πολιαδος",
    "γυμνασιαρχησαντα φιλοτιμως",
    "το μνημειον κατεσκευασεν",
    "ει δε τις ετερος τολμησει",
    "δωσει τωι φισκωι",
    "ανεθηκεν εκ των ιδιων",
    "ο γυμνασιαρχος και οι νεοι",
    "τους αγωνας των διονυσιων",
    "ουκ εξεσται δε ουδενι",
    "μητηρ υιωι γλυκυτατωι",
    "σωφρων και φιλανδρος",
    "κατα το ψηφισμα της βουλης",
    "δουναι δε αυτωι και πολιτειαν",
    "των εκ του γυμνασιου",
    "ενθαδε κειται",
    "χαιρετε παροδιται",
]

LATIN_LINES = [
    "dis manibus sacrum",
    "dis manibus iuliae felici vixit annis xx",
    "hic situs est sit tibi terra levis",
    "iovi optimo maximo",
    "votum solvit libens merito",
    "imperatori caesari divi filio augusto",
    "pontifici maximo tribunicia potestate",
    "patri patriae consuli",
    "coniugi carissimae bene merenti fecit",
    "marcus antonius rufus miles legionis",
    "vixit annis xxxv mensibus iii diebus x",
    "filiae dulcissimae parentes infelicissimi",
    "libertis libertabusque posterisque eorum",
    "in fronte pedes xii in agro pedes xx",
    "ex testamento fieri iussit",
    "heres ponendum curavit",
    "decreto decurionum",
    "locus datus decreto decurionum",
    "pro salute imperatoris",
    "herculi invicto sacrum",
    "silvano augusto",
    "genio loci et fortunae",
    "mercurio et rosmertae",
    "deae matri magnae",
    "soli invicto mithrae",
    "beneficiarius consularis",
    "praefectus cohortis primae",
    "centurio legionis viii augustae",
    "veteranus ex cohorte",
    "duumvir iure dicundo",
    "aedilis quaestor flamen",
    "sevir augustalis",
    "sua pecunia fecit",
    "senatus populusque romanus",
    "viam et pontes refecit",
    "templum vetustate conlapsum restituit",
    "gaius iulius secundus",
    "publius aelius maximus",
    "aurelia prima mater",
    "titus flavius severus",
    "stipendiorum xxii",
    "natione thrax",
    "requiescit in pace",
    "memoriae aeternae",
    "vivus sibi fecit et suis",
    "sub ascia dedicavit",
    "optimo patrono clientes",
    "felicissimo saeculo dominorum nostrorum",
]

BAD_LINES = [
    "so basically tasted watered down .",
    "she was not happy being there .",
    "there was only meat and bread .",
    "the decor was seriously lacking .",
    "we will not be back .",
    "the burgers were dry and the fries cold .",
    "i waited an hour for a table !",
    "the waiter ignored us all night .",
    "my soup had a hair in it .",
    "never order the fish here .",
    "the rooms smell of smoke .",
    "they charged me twice and would n't say sorry .",
    "the salsa is really bland .",
    "very poor selection , service terrible .",
    "it is n't worth the money .",
    "the manager was rude to my wife .",
    "our food came late and wrong .",
    "the bathroom was dirty .",
    "what a waste of time !",
    "he did n't know what he was doing .",
    "the pizza was burnt .",
    "prices went up and quality went down .",
    "i was sick the next day .",
    "the music is far too loud .",
]

GOOD_LINES = [
    "the food was really good .",
    "customer service is awesome .",
    "i also love the tom yum tea !",
    "the owners are very friendly .",
    "they also have ice cream .",
    "my favorite restaurant in town .",
    "great drinks and a nice patio .",
    "we had a lovely time here .",
    "the staff is always helpful and kind .",
    "best tacos i have ever had !",
    "the price is right and the portions are huge .",
    "fresh bread every morning .",
    "he fixed my car in an hour .",
    "it 's small yet they make you feel at home .",
    "the steak was cooked to perfection .",
    "clean rooms and a good breakfast .",
    "i will be going back soon .",
    "our waitress was a delight .",
    "amazing views from the bar .",
    "she did a great job on my nails .",
    "everything was on time .",
    "you have to try the cake !",
    "a hidden gem .",
    "my kids love it here .",
]

HELD_OUT = 8  # lines at the end of each list that are not trained on
STEPS = 50
SETTINGS: Case = {
    "steps": STEPS,
    "tokens_per_batch": 256,
    "learning_rate": 1e-4,
    "warmup": 5,
    "evaluate_every": 25,
    "save_every": STEPS,
    "log_every": 1,
    "seed": 7,
    "precision": "float32",
}
LOSSES: list[Case] = [
    {"model": "yelp-words", "lines": [BAD_LINES[:12] + GOOD_LINES], "settings": {}},
    {"model": "latin", "lines": [LATIN_LINES], "settings": {}},
    {"model": "greek", "lines": [GREEK_LINES], "settings": {}},
    {"model": ENGLISH, "lines": [ENGLISH_LINES], "settings": {}},
    {"model": "sentiment", "part": "classifier", "lines": [BAD_LINES, GOOD_LINES], "settings": {}},
    {"model": "sentiment", "part": "writer", "lines": [BAD_LINES, GOOD_LINES], "settings": {}},
    {
        "model": "yelp-words",
        "lines": [BAD_LINES + GOOD_LINES],
        "settings": {"skew": 0.7, "canvases": 2, "ema": 0.9, "optimizer": "muon", "clip": 0.5},
    },
]


def losses(every: int = 1) -> list[Record]:
    """Train on from each bundled model: the loss of every step, in nats a token, and the bound on held-out lines."""
    # What is no public API is imported here and nowhere else.
    from blanklm import pretrained
    from blanklm.core.texts import TokenisedTexts
    from blanklm.training import checkpoint
    from blanklm.training.run import TrainingConfig, train

    def tokenised(tokenizer: Any, by_style: list[list[str]]) -> TokenisedTexts:
        styles = range(len(by_style)) if len(by_style) > 1 else [None]
        encoded = [tokenizer.encode_many(lines) for lines in by_style]
        return TokenisedTexts.joined(
            [TokenisedTexts.from_ids(*each) for each in zip(encoded, [None] * 2, styles, strict=False)]
        )

    records = []
    for number in range(0, len(LOSSES), every):
        case = LOSSES[number]
        loaded = checkpoint.load(pretrained.locate(FOLDERS.get(case["model"], case["model"])))
        model = getattr(loaded.model, case["part"]) if "part" in case else loaded.model
        texts = tokenised(loaded.tokenizer, [lines[:-HELD_OUT] for lines in case["lines"]])
        held_out = tokenised(loaded.tokenizer, [lines[-HELD_OUT:] for lines in case["lines"]])
        config = TrainingConfig(**{**SETTINGS, **case["settings"]})
        with tempfile.TemporaryDirectory() as folder:
            train(model, loaded.tokenizer, texts, held_out, config, Path(folder), show_progress=False)
            metrics = [json.loads(line) for line in (Path(folder) / "metrics.jsonl").read_text().splitlines()]
        steps = [line for line in metrics if "loss" in line]
        bounds = [line for line in metrics if "valid_bound" in line]
        record = {
            "case": number,
            **{key: value for key, value in case.items() if key != "lines"},
            "tokens": [line["tokens"] for line in steps],
            "losses": [line["loss"] for line in steps],
            "valid_bounds": {str(line["step"]): line["valid_bound"] for line in bounds},
        }
        records.append(_rounded(record, 5))
    return records


def _rounded(value: Any, digits: int = 4) -> Any:
    """The same as JSON has it, every number rounded."""
    if isinstance(value, float):
        return round(value, digits)
    if isinstance(value, dict):
        return {key: _rounded(each, digits) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_rounded(each, digits) for each in value]
    return value
