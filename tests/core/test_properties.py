"""What holds for every canvas, text, constraint and template, tried on generated ones.

200 cases per property; ``BLANKLM_CASES=10000 pytest tests/core/test_properties.py`` is the long run.
"""

import contextlib

import torch
from hypothesis import assume, event, given
from hypothesis import strategies as st

from blanklm.core.canvas import Action, Canvas, Trajectory
from blanklm.core.canvas import conceal as conceal_slowly
from blanklm.core.conceal import conceal
from blanklm.core.orders import show_first, uniform_ranks
from blanklm.core.packing import pack
from blanklm.core.special import BLANK, PAD, SPECIAL_TOKENS
from blanklm.core.template import Blank, Template
from blanklm.core.tokenizer import _WORD, KINDS, Tokenizer
from blanklm.decoding.constraint import Constraint
from blanklm.decoding.fill import fill_in_parallel
from blanklm.errors import BlankLMError, CanvasError
from tests.support.canvases import LIKELY_TO_STOP, LINES, MODEL, ORDERS, beam_search, check_constraints, sample, text_of

TOKENIZERS = {kind: Tokenizer.train(kind, LINES, vocabulary=400) for kind in KINDS}

unicode_text = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)
marked_text = st.text(st.sampled_from("_\\[]-0123 \nab\u0301ש🙂"), max_size=40)  # what the syntax is made of
tokens = st.lists(st.integers(4, 30), min_size=1, max_size=14)
blanks = st.one_of(
    st.just(Blank()),
    st.builds(Blank, st.integers(1, 5)),
    st.integers(1, 5).flatmap(lambda least: st.builds(Blank, st.just(least), st.integers(least, 9))),
)


@st.composite
def texts_and_shown(draw):
    text = draw(tokens)
    return text, draw(st.sets(st.integers(0, len(text) - 1)))


# --- Canvas ---------------------------------------------------------------------------------------------------


@given(st.data(), tokens, st.booleans())
def test_any_order_leads_to_the_text_over_the_canvases_of_what_is_shown(data, text, lengths):
    order = data.draw(st.permutations(range(len(text))))
    trajectory = Trajectory.from_order(text, order, lengths)
    for step, canvas in enumerate(trajectory.canvases):
        assert canvas.items == conceal_slowly(text, order[:step], lengths)[0].items
    assert trajectory.canvases[-1].items == tuple(text)


@given(st.lists(st.one_of(st.integers(4, 9), blanks), max_size=6), st.data())
def test_whatever_is_done_to_a_canvas_keeps_its_given_tokens_and_its_budgets(items, data):
    canvas = Canvas(tuple(items))
    for _ in range(12):
        sides = data.draw(
            st.one_of(st.tuples(st.booleans(), st.booleans()), st.tuples(st.integers(0, 4), st.integers(0, 4)))
        )
        try:
            canvas = canvas.apply(Action(data.draw(st.integers(0, 3)), 1, *sides))
        except CanvasError:
            continue
        assert [i for i, o in zip(canvas.items, canvas.origins, strict=True) if o is None] == [
            item for item in items if not isinstance(item, Blank)
        ]
        for span, limit in zip(canvas.spans, canvas.limits, strict=True):
            still_open = [item for item in span if isinstance(item, Blank)]
            assert limit.max is None or len(span) - len(still_open) + sum(b.min for b in still_open) <= limit.max
            assert still_open or len(span) >= limit.min


# --- The text syntax ------------------------------------------------------------------------------------------


@given(st.one_of(marked_text, unicode_text))
def test_any_text_is_a_template_that_prints_and_parses_back_or_an_error_of_one_line(text):
    try:
        template = Template.parse(text)
    except CanvasError as error:
        assert "\n" not in str(error)
        return
    assert len(template.pieces) == len(template.blanks) + 1
    with contextlib.suppress(CanvasError):  # a blank right after an underscore cannot be written
        written = str(template)
        assert Template.parse(written) == template
    words = [f"<{k}>" for k in range(len(template.blanks))]
    rendered, rest = template.render(words), 0
    for piece, word in zip(template.pieces, [*words, ""], strict=True):
        assert rendered[rest:].startswith(piece + word)
        rest += len(piece + word)
    assert rest == len(rendered)


# --- Tokenizers -----------------------------------------------------------------------------------------------


@given(st.sampled_from(KINDS), unicode_text)
def test_any_text_becomes_ids_of_the_vocabulary_and_what_is_known_comes_back(kind, text):
    tokenizer = TOKENIZERS[kind]
    ids = tokenizer.encode(text)
    assert all(0 <= i < len(tokenizer) for i in ids) and not {PAD, BLANK} & set(ids)
    if kind == "bpe":
        assert tokenizer.decode(ids) == text  # every byte is known
    elif not tokenizer.unknown_words(text) and not any(special in text for special in SPECIAL_TOKENS):
        assert tokenizer.decode(ids) == (text if kind == "character" else " ".join(_WORD.findall(text)))
    if kind == "character":
        assert len(ids) == len(text)


@given(st.sampled_from(KINDS), st.one_of(marked_text, unicode_text), st.data())
def test_a_canvas_text_has_one_id_for_each_blank_and_keeps_all_else(kind, text, data):
    tokenizer = TOKENIZERS[kind]
    try:
        template = Template.parse(text)
    except CanvasError:
        assume(False)
    ids, spaces = tokenizer.encode_template(template)
    assert ids.count(BLANK) == len(template.blanks) == len(spaces)
    known = st.lists(st.integers(len(SPECIAL_TOKENS), len(tokenizer) - 1), min_size=1, max_size=4)
    spans = [tokenizer.span_text(data.draw(known), space) for space in spaces]
    rendered = tokenizer.render(template, spans)
    for piece in template.pieces:
        place = rendered.find(piece)
        assert place >= 0
        rendered = rendered[place + len(piece) :]


# --- Conceal --------------------------------------------------------------------------------------------------


@given(st.lists(texts_and_shown(), min_size=1, max_size=5), st.integers(0, 3))
def test_the_tensor_kernel_equals_the_slow_version(batch, padding):
    width = max(len(text) for text, _ in batch) + padding
    ids = torch.tensor([text + [PAD] * (width - len(text)) for text, _ in batch])  # [B, L]
    shown = torch.tensor([[i in positions for i in range(width)] for _, positions in batch])  # [B, L]
    fast = conceal(ids, torch.tensor([len(text) for text, _ in batch]), shown)
    for row, (text, positions) in enumerate(batch):
        canvas, actions = conceal_slowly(text, positions, lengths=True)
        items = [BLANK if isinstance(item, Blank) else item for item in canvas.items]
        assert fast.canvas[row, : fast.lengths[row]].tolist() == items
        assert fast.hidden[row].nonzero().flatten().tolist() == sorted(actions)
        for position, action in actions.items():
            assert fast.place[row, position] == canvas.blanks[action.blank]
            assert (fast.left[row, position], fast.right[row, position]) == (action.left, action.right)
    packed = pack(ids, fast)
    assert packed.canvas.tolist() == [
        i for row, n in zip(fast.canvas.tolist(), fast.lengths, strict=True) for i in row[:n]
    ]
    for action in range(len(packed.word)):
        text, position = int(packed.text[action]), int(packed.position[action])
        place = packed.blanks[packed.queried[packed.row[action]]] - packed.packing.starts[text]
        assert packed.word[action] == batch[text][0][position] and place == fast.place[text, position]


@given(st.lists(st.integers(1, 20), min_size=1, max_size=6), st.floats(0, 1, exclude_max=True), st.integers(0, 2**62))
def test_the_number_shown_follows_the_fraction_and_one_is_always_hidden(lengths, fraction, seed):
    sizes, width = torch.tensor(lengths), max(lengths)
    ranks = uniform_ranks(torch.arange(len(lengths)) + seed, sizes, width)
    shown = show_first(ranks, sizes, torch.full((len(lengths),), fraction, dtype=torch.double))
    for row, n in enumerate(lengths):
        assert sorted(ranks[row, :n].tolist()) == list(range(n))
        assert shown[row, :n].sum() == min(int(fraction * n), n - 1) and not shown[row, n:].any()


# --- Decoding -------------------------------------------------------------------------------------------------

WORD = st.sampled_from(["a", "b", "c"])
PHRASE = st.lists(WORD, min_size=1, max_size=3).map(" ".join)


@st.composite
def constraints_of(draw):
    least = draw(st.one_of(st.none(), st.integers(1, 4)))
    return Constraint(
        min=least,
        max=draw(st.one_of(st.none(), st.integers(least or 1, 6))),
        ban=tuple(draw(st.lists(WORD, max_size=2))),
        require=tuple(draw(st.lists(PHRASE, max_size=2))),
        only=tuple(draw(st.one_of(st.just([]), st.lists(WORD, max_size=3)))),
    )


@given(st.data(), st.sampled_from([MODEL, LIKELY_TO_STOP]), st.sampled_from([*ORDERS, "parallel", "sampling"]))
def test_every_fill_keeps_what_was_given_and_every_constraint(data, model, mode):
    canvas = " ".join(data.draw(st.lists(st.one_of(WORD, blanks.map(str)), min_size=1, max_size=5)))
    template = Template.parse(canvas)
    assume(template.blanks)
    each = [data.draw(constraints_of()) for _ in template.blanks]
    try:
        text = text_of(canvas, each, max_length=24)
        text.rules.check_room(text.first_draft())
        with torch.inference_mode():
            if mode == "parallel":
                drafts = fill_in_parallel(model, [text])
            elif mode == "sampling":
                drafts = sample(model, [text], n=2, seed=data.draw(st.integers(0, 99)))[0]
            else:
                drafts = beam_search(model, [text], beam=data.draw(st.integers(1, 3)), n=2, order=mode)[0]
    except BlankLMError as error:  # contradictory, or a dead end: said in one line
        event(f"refused: {type(error).__name__}")
        assert "\n" not in str(error)
        return
    event(f"filled: {mode}")
    for draft in drafts:
        check_constraints(mode, draft, text, template, each)
        assert len(draft.items) <= 24 and draft.log_prob <= 1e-4
