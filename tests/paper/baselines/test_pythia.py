"""Pythia: slots drawn to learn from, beams that are exact when wide, one slot after another."""

import itertools
import math

import pytest
import torch

from blanklm.core.special import BLANK, PAD
from blanklm.core.template import Blank
from blanklm.core.texts import Batch, pad
from blanklm.core.tokenizer import Tokenizer
from blanklm.models.mixed_lblm import hashed_words
from blanklm.paper.baselines.pythia import SEGMENT, Pythia, PythiaConfig
from blanklm.paper.baselines.systems import SlotBySlot

TOKENIZER = Tokenizer.train("character", ["ab -"])
A, B, SPACE, LOST = (TOKENIZER.encode(character)[0] for character in "ab -")


@pytest.fixture(params=[0, 32], ids=["characters", "words"])
def model(request):
    torch.manual_seed(2)
    model = Pythia(PythiaConfig(len(TOKENIZER), embedding=8, width=12, words=request.param, training_context=100))
    model.set_vocabulary(TOKENIZER)
    with torch.no_grad():
        for parameter in model.parameters():  # far from uniform, so that every part of the model matters
            parameter.normal_(std=0.8 if parameter.dim() > 1 else 0.2)
    return model.eval()


@torch.inference_mode()
def log_p_by_hand(model, ids, start, answer):
    """log p of an answer to the slot of one text, from the formulas, character by character."""
    vectors = model.embedding(torch.tensor(ids))  # [T, e]
    if model.config.words:
        tokens = torch.tensor([ids])
        ends = torch.tensor([[token == SPACE for token in ids]])
        word = hashed_words(tokens, ends, torch.tensor([[token in (BLANK, LOST) for token in ids]]), 32)
        vectors = torch.cat((vectors, model.word_embedding(word[0])), 1)  # [T, 2 e]
    read = model.encoder(vectors)[0]  # [T, 2 d]
    first = model.first_state(torch.cat((read[start], read[start + len(answer) - 1])))
    hidden, cell = first.view(2, model.config.layers, -1)
    state, before, total = (hidden.tanh(), cell.contiguous()), BLANK, 0.0
    for step, token in enumerate(answer):
        to_come = model.to_come(torch.tensor(len(answer) - step))
        written, state = model.decoder(torch.cat((model.embedding(torch.tensor(before)), to_come))[None], state)
        weights = (model.key(read) @ written[0] / model.config.width**0.5).softmax(0)  # [T]
        combined = model.combine(torch.cat((written[0], weights @ read))).tanh()
        logits = model.out(combined)[[A, B, SPACE]]
        total += float(logits.log_softmax(0)[(A, B, SPACE).index(token)])
        before = token
    return total


def test_slots_are_whole_apart_and_as_long_as_they_should_be(model):
    texts = [TOKENIZER.encode("abba ab-ba " * 30), TOKENIZER.encode("ab " * 25), TOKENIZER.encode("a"), [LOST] * 60]
    batch = Batch(*pad(texts * 40), torch.zeros(160).double(), torch.arange(160))
    drawn = model.prepare(batch)
    assert drawn.tokens.shape[1] % SEGMENT == 0 and drawn.tokens.shape[1] == 100
    rooms = set()
    for row in range(160):
        ids, source = drawn.tokens[row].tolist(), texts[row % 4]
        slots = [(int(s), int(r)) for s, r in zip(drawn.start[row], drawn.room[row], strict=True) if r]
        open_places = {start + i for start, room in slots for i in range(room)}
        assert open_places == {i for i, token in enumerate(ids) if token == BLANK}
        assert all(second[0] > first[0] + first[1] for first, second in itertools.pairwise(slots))
        written = list(ids)
        for number, (start, room) in enumerate(torch.stack((drawn.start[row], drawn.room[row]), 1).tolist()):
            answer = drawn.answer[row, number].tolist()
            assert all(token in (A, B, SPACE) for token in answer[:room])
            assert answer[room:] == [PAD] * (10 - room)
            written[start : start + room] = answer[:room]
            rooms.add(room)
        text = written[: int(drawn.lengths[row])]
        assert any(text == source[i : i + len(text)] for i in range(len(source) - len(text) + 1))
    assert rooms == set(range(11))
    assert (drawn.room[3::4] == 0).all()


def test_the_loss_and_the_search_give_the_probability_that_the_formulas_give(model):
    """In batches with shorter and longer texts, and slots of other lengths."""
    text = TOKENIZER.encode("ab ba abab bb a ab")
    drawn = model.prepare(Batch(*pad([text, text[:9]] * 10), torch.zeros(20).double(), torch.arange(20)))
    with torch.no_grad():
        loss = model.loss(drawn)
    short = [row for row in range(20) if 1 <= drawn.room[row, 0] <= 4]
    assert len(short) > 3
    texts = [drawn.tokens[row, : int(drawn.lengths[row])].tolist() for row in short]
    starts, rooms = ([int(part[row, 0]) for row in short] for part in (drawn.start, drawn.room))
    assert len(set(rooms)) > 1 and len({len(ids) for ids in texts}) == 2
    answers = [drawn.answer[row, 0, :room].tolist() for row, room in zip(short, rooms, strict=True)]
    found = model.restore_slots(texts, starts, rooms, beam=3**4)
    by_hand = [log_p_by_hand(model, *of) for of in zip(texts, starts, answers, strict=True)]
    assert max(by_hand) - min(by_hand) > 1
    for row, answer, expected, ranked in zip(short, answers, by_hand, found, strict=True):
        assert math.isclose(-loss[row], expected, abs_tol=1e-4)
        assert math.isclose(dict((tuple(ids), log_p) for ids, log_p in ranked)[tuple(answer)], expected, abs_tol=1e-4)


def test_a_wide_beam_holds_every_answer_and_they_sum_to_one(model):
    texts = [[A, B, BLANK, BLANK, BLANK, A], [BLANK, A]]
    first, second = model.restore_slots(texts, [2, 0], [3, 1], beam=27)
    assert len(first) == 27 and len(second) == 3
    assert all(len(ids) == 3 and set(ids) <= {A, B, SPACE} for ids, _ in first)
    for found in (first, second):
        assert math.isclose(sum(math.exp(log_p) for _, log_p in found), 1.0, abs_tol=1e-4)
        assert [log_p for _, log_p in found] == sorted((log_p for _, log_p in found), reverse=True)
    (alone,) = model.restore_slots(texts[1:], [0], [1], beam=27)
    assert [ids for ids, _ in alone] == [ids for ids, _ in second]
    assert math.isclose(alone[0][1], second[0][1], abs_tol=1e-4)


def test_documents_are_restored_slot_by_slot(model):
    system = SlotBySlot(model, TOKENIZER)
    documents = [["ab ", Blank(3, 3), " ba", Blank(10, 10)], ["a", Blank(1, 1), "b"]]
    filled = system.fill(documents)
    assert [[len(span) for span in spans] for spans in filled] == [[3, 10], [1]]
    # The second slot sees what was written in the first.
    by_hand = TOKENIZER.encode("ab " + filled[0][0] + " ba") + [BLANK] * 10
    (found,) = model.restore_slots([by_hand], [9], [10])
    assert TOKENIZER.decode(found[0][0]) == filled[0][1]
    ranked = system.rank(documents, n=4)
    assert [[len(gap) for gap in gaps] for gaps in ranked] == [[4, 4], [3]]
    assert ranked[0][1][0].text == filled[0][1]
    assert len(system.fill([["a", Blank(13, 13)]])[0][0]) == 13  # longer than any slot it has learnt
