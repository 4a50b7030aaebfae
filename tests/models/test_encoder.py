"""The packed encoder against a readable reference: one sequence at a time, attention spelt out."""

import math

import pytest
import torch

from blanklm.core.packing import Packing
from blanklm.core.rotation import rotate
from blanklm.core.special import PAD
from blanklm.models.attention import _attend_padded, attend
from blanklm.models.encoder import Encoder, EncoderConfig, drop_by_bits, drop_by_hash, initialise
from blanklm.models.init import init_heads_on_neighbours
from blanklm.paper.baselines.init import init_marian_on_positions, init_roberta_on_neighbours
from blanklm.paper.baselines.predictor import PredictorConfig
from blanklm.paper.baselines.roberta import RobertaMasked, roberta_of
from blanklm.paper.baselines.seq2seq import Seq2Seq, Seq2SeqConfig
from tests.support.oracles import reference


@pytest.mark.parametrize("causal", [False, True])
def test_packed_sequences_equal_the_reference_one_by_one(causal):
    torch.manual_seed(0)
    encoder = Encoder(EncoderConfig(2, 2, 16, 32, dropout=0.0), causal).eval()
    lengths = [5, 1, 9, 3]
    sequences = [torch.randn(n, 16) for n in lengths]
    packed = encoder(torch.cat(sequences), Packing.of(torch.tensor(lengths), 9))
    for vectors, z in zip(sequences, packed.split(lengths), strict=True):
        torch.testing.assert_close(z, reference(encoder, vectors, causal), atol=1e-5, rtol=1e-4)
        alone = encoder(vectors, Packing.of(torch.tensor([len(vectors)]), len(vectors)))
        torch.testing.assert_close(z, alone, atol=1e-5, rtol=1e-4)


def test_a_bound_on_the_longest_sequence_may_be_loose():
    torch.manual_seed(0)
    q, k, v = torch.randn(3, 7, 2, 8)
    tight, loose = (Packing.of(torch.tensor([4, 3]), longest) for longest in (4, 11))
    torch.testing.assert_close(attend(q, k, v, tight, False), _attend_padded(q, k, v, loose, False))


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("groups", [2, 6])
def test_sequences_read_one_by_one_equal_padded_ones(groups, causal, monkeypatch):
    torch.manual_seed(0)
    packing = Packing.of(torch.tensor([40, 1, 3]), 40)
    q, k, v = (torch.randn(44, heads, 8) for heads in (6, groups, groups))
    found = []
    for cost in (0, 10**9):
        monkeypatch.setattr("blanklm.models.attention.A_CALL", cost)
        found.append(attend(q, k, v, packing, causal))
    torch.testing.assert_close(*found)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("longest", [1, 7, 64])
def test_rows_of_short_sequences_equal_sequences_end_to_end(causal, longest):
    torch.manual_seed(0)
    encoder = Encoder(EncoderConfig(2, 2, 16, 32, dropout=0.0), causal).eval()
    lengths = torch.cat((torch.randint(1, longest + 1, (60,)), torch.tensor([longest])))
    end_to_end, rows = Packing.of(lengths, longest), Packing.in_rows(lengths, longest, 64)
    ids = torch.randint(2, 9, (len(lengths), longest))
    embedding = torch.randn(9, 16)
    symbols = torch.arange(longest) < lengths[:, None]
    laid = rows.lay(ids)
    assert (laid == PAD).sum() == len(laid) - lengths.sum() and len(laid) % 64 == 0
    assert torch.equal(laid[rows.places(symbols)], end_to_end.lay(ids))
    z = encoder(embedding[laid], rows)[rows.places(symbols)]
    torch.testing.assert_close(z, encoder(embedding[end_to_end.lay(ids)], end_to_end), atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize(("longest", "row"), [(20, 64), (32, 64), (64, 128), (110, 128)])
def test_rows_waste_little(longest, row):
    torch.manual_seed(0)
    lengths = torch.randint(1, longest + 1, (3000,))
    packing = Packing.in_rows(lengths, longest, row)
    assert lengths.sum() > 0.97 * len(packing.sequence)


def test_no_sequence_crosses_the_end_of_a_row_and_an_empty_one_takes_no_place():
    lengths = torch.tensor([5, 0, 64, 33, 31, 1, 0, 64, 2])
    packing = Packing.in_rows(lengths, 64, 64)
    for number, length in enumerate(lengths.tolist()):
        places = (packing.sequence == number).nonzero().squeeze(1)
        assert places.tolist() == list(range(packing.starts[number], packing.starts[number] + length))
        assert len(set((places // 64).tolist())) <= 1 and packing.position[places].tolist() == list(range(length))
    assert len(packing.sequence) == 64 * 4


def test_positions_beyond_the_table_are_turned_alike(monkeypatch):
    torch.manual_seed(0)
    encoder = Encoder(EncoderConfig(1, 2, 16, 32, dropout=0.0)).eval()
    vectors, packing = torch.randn(6, 16), Packing.of(torch.tensor([6]), 6)
    tabulated = encoder(vectors, packing)
    monkeypatch.setattr("blanklm.models.encoder.TABULATED", 5)
    torch.testing.assert_close(encoder(vectors, packing), tabulated)


@pytest.mark.parametrize(("heads", "width"), [(2, 64), (4, 96), (6, 384)])
def test_heads_that_begin_at_neighbours_read_the_symbol_before_or_after(heads, width):
    torch.manual_seed(0)
    encoder = Encoder(EncoderConfig(2, heads, width, width)).apply(initialise)
    layer, length = encoder.layers[0], 12
    init_heads_on_neighbours(layer)
    z = layer.attention_norm(torch.randn(length, width))
    q, k, _ = layer.queries_keys_values(z).view(length, 3, heads, -1).unbind(1)
    rotary = encoder.rotary.angles(torch.arange(length))
    scores = torch.einsum("ihd,jhd->hij", rotate(q, rotary), rotate(k, rotary)) / math.sqrt(width // heads)
    for head, weights in enumerate(scores.softmax(-1)):
        way, inner = (-1 if head % 2 == 0 else 1), torch.arange(1, length - 1)
        assert torch.equal(weights.argmax(1)[inner], inner + way)
        assert (weights[inner, inner + way] > 0.5).all()
    assert not encoder.layers[1].queries_keys_values.bias.any()


@torch.no_grad()
@pytest.mark.parametrize(("heads", "width"), [(4, 128), (8, 512)])
def test_heads_of_a_roberta_can_begin_at_neighbours_too(heads, width):
    """Whatever words stand there."""
    torch.manual_seed(0)
    encoder = roberta_of(EncoderConfig(2, heads, width, width), 20)
    model, length = RobertaMasked(PredictorConfig(50, encoder, 20)).eval(), 12
    init_roberta_on_neighbours(model)
    network = model.encoder.layers
    z = network.embeddings(inputs_embeds=model.embedding(torch.randint(5, 50, (1, length))))[0]
    attention = network.encoder.layer[0].attention.self
    assert where_heads_read(attention.query(z), attention.key(z), heads) == [-1, 1] * (heads // 2)


@torch.no_grad()
@pytest.mark.parametrize("copies", [False, True])
def test_heads_of_a_seq2seq_model_can_begin_at_neighbours_and_at_what_they_copy(copies):
    torch.manual_seed(0)
    model = Seq2Seq(Seq2SeqConfig(50, "full", layers=2, heads=4, width=128, feedforward=64, max_length=20)).eval()
    init_marian_on_positions(model.network, copies)
    encoder, decoder = model.network.get_encoder(), model.network.model.decoder
    source = torch.randint(5, 50, (1, 12))
    states = encoder(input_ids=source, attention_mask=torch.ones_like(source)).last_hidden_state[0]
    z = (encoder.embed_tokens(source) * encoder.embed_scale + encoder.embed_positions(source.shape))[0]
    layer = encoder.layers[0].self_attn
    assert where_heads_read(layer.q_proj(z), layer.k_proj(z), 4) == [-1, 1, -1, 1]
    cross = decoder.layers[0].encoder_attn
    own = decoder.layers[0].self_attn_layer_norm(z)
    read = where_heads_read(cross.q_proj(own), cross.k_proj(states), 4)
    assert (read == [0, -1, -2, -3]) == copies


def where_heads_read(q: torch.Tensor, k: torch.Tensor, heads: int) -> list[int]:
    """Of each head, how far off the symbols are that have most of its attention, if they have two fifths of it."""
    length, width = q.shape
    q, k = (z.view(length, heads, -1) for z in (q, k))
    inner, found = torch.arange(3, length - 3), []
    for weights in (torch.einsum("ihd,jhd->hij", q, k) / math.sqrt(width // heads)).softmax(-1):
        read = {offset: float(weights[inner, inner + offset].mean()) for offset in range(-3, 4)}
        best = max(read, key=read.get)
        found.append(best if read[best] > 0.4 else None)
    return found


def hashed(x: torch.Tensor, share: float, seed: int) -> torch.Tensor:
    return drop_by_hash(x, share, torch.tensor([seed], dtype=torch.int32))


def by_bits(x: torch.Tensor, share: float, seed: int) -> torch.Tensor:
    torch.manual_seed(seed)
    return drop_by_bits(x, share)


@pytest.mark.parametrize("drop", [hashed, by_bits])
def test_dropout_drops_each_place_alike_and_anew_with_each_seed(drop):
    """Sums of (dropped - share) over rows, columns, neighbours and pairs of seeds stay within what chance gives."""
    share, x = 0.1, torch.ones(1000, 255)
    dropped = []
    for seed in (0, 1, 2**31 - 1, 12345):
        kept = drop(x, share, seed)
        assert kept.unique().tolist() == pytest.approx([0.0, 1 / (1 - share)], abs=2e-5)
        dropped.append((kept == 0).double() - share)
    spread = share * (1 - share)
    for d in dropped:
        assert abs(d.mean()) < 4 * (spread / d.numel()) ** 0.5
        for side in (0, 1):
            assert d.mean(side).std() == pytest.approx((spread / d.shape[side]) ** 0.5, rel=0.15)
    pairs = [(dropped[i], dropped[j]) for i in range(4) for j in range(i)]
    pairs += [(d[:, step:], d[:, :-step]) for d in dropped for step in (1, 2, 16)]
    pairs += [(d[step:], d[:-step]) for d in dropped for step in (1, 2, 16)]
    for one, other in pairs:
        assert abs((one * other).mean()) < 4.5 * spread / one.numel() ** 0.5
