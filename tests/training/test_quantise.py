"""Weights at a few bits: what is stored comes back as it was rounded, and a run can train for it."""

import pytest
import torch
from torch import nn

from blanklm.training.quantise import (
    GROUP,
    bits_of,
    can_be_grouped,
    codes_of,
    dequantise,
    grouped_matrices,
    quantise,
    rounded,
    rounded_in_place,
    spread_in_cells,
)

EVERY = range(2, 9)


def matrices():
    """Draw matrices of ordinary weights, of very different groups, and of numbers float16 has no good scales for."""
    torch.manual_seed(0)
    ordinary = torch.randn(48, 96) * 0.02
    uneven = torch.randn(16, 4, 1) * 10.0 ** torch.arange(-6, 10)[:, None, None]
    return [ordinary, (uneven * torch.randn(16, 4, GROUP)).flatten(1), torch.zeros(3, GROUP)]


@pytest.mark.parametrize("bits", EVERY)
def test_storing_and_loading_gives_exactly_the_rounded_values(bits):
    for matrix in matrices():
        packed, scales = quantise(matrix, bits)
        loaded = dequantise(packed, scales, bits)
        assert loaded.dtype == torch.float32 and loaded.shape == matrix.shape
        assert torch.equal(loaded, rounded(matrix, bits))
        assert bits_of(packed, scales) == bits


@pytest.mark.parametrize("bits", EVERY)
def test_storing_again_changes_nothing(bits):
    for matrix in matrices():
        once = rounded(matrix, bits)
        assert torch.equal(rounded(once, bits), once)
        for first, second in zip(quantise(matrix, bits), quantise(once, bits), strict=True):
            assert torch.equal(first, second)


@pytest.mark.parametrize("bits", EVERY)
def test_weights_that_are_spread_in_their_cells_are_stored_as_before(bits):
    stored = rounded(matrices()[0], bits)
    spread = spread_in_cells(stored, bits)
    assert torch.equal(rounded(spread, bits), stored)
    codes, scales = codes_of(stored, bits)
    within = (spread.unflatten(1, (-1, GROUP)) / scales.float() - codes)[codes.abs() < 2 ** (bits - 1) - 1]
    assert within.numel() == 0 or (within.min() < 0.05 and within.max() > 0.95 and abs(within.mean() - 0.5) < 0.05)


@pytest.mark.parametrize("bits", EVERY)
def test_a_weight_changes_by_at_most_half_a_step(bits):
    matrix = matrices()[0]
    _, scales = quantise(matrix, bits)
    error = (rounded(matrix, bits) - matrix).unflatten(1, (-1, GROUP)).abs()
    assert (error <= 0.5001 * scales.float()[..., None]).all()
    levels = rounded(matrix, bits)[0, :GROUP].unique()
    assert len(levels) <= 2**bits and torch.equal(levels, rounded(-matrix, bits)[0, :GROUP].unique().neg().flip(0))


@pytest.mark.parametrize("bits", EVERY)
def test_zeros_and_huge_weights_stay_nearly_what_they_are(bits):
    assert rounded(torch.zeros(2, GROUP), bits).abs().max() < 1e-5
    huge = rounded(torch.tensor([[1e30, -1e30] * (GROUP // 2)]), bits)
    assert huge.isfinite().all() and (huge[:, ::2] > 60_000).all() and (huge[:, 1::2] < -60_000).all()


def test_a_stack_is_rounded_as_its_matrices_are():
    stack = torch.randn(3, 8, 64)
    assert torch.equal(rounded(stack, 5), torch.stack([rounded(matrix, 5) for matrix in stack]))


@pytest.mark.parametrize("bits", EVERY)
def test_packed_codes_take_their_bits_and_scales_half_a_bit(bits):
    packed, scales = quantise(torch.randn(10, 320), bits)
    assert packed.dtype == torch.uint8 and packed.numel() * 8 == 3200 * bits
    assert scales.dtype == torch.float16 and scales.shape == (10, 10)


def test_shapes_that_do_not_go_together_have_no_bits():
    packed, scales = quantise(torch.randn(4, 64), 4)
    for damaged in (
        (packed[:3], scales), (packed[:, :-1], scales), (packed, scales[:, :1].repeat(1, 33)), (packed, scales[:, :0]),
        (packed.float(), scales), (packed[0], scales), (packed, scales[0]), (packed.repeat(1, 3), scales),
    ):  # fmt: skip
        assert bits_of(*damaged) == 0


def test_matrices_of_linear_layers_are_grouped_and_embeddings_are_not():
    assert can_be_grouped(torch.zeros(2, 64)) and can_be_grouped(torch.zeros(2, 64, dtype=torch.bfloat16))
    for other in (torch.zeros(64), torch.zeros(2, 48), torch.zeros(2, 64).long(), torch.zeros(1, 2, 64)):
        assert not can_be_grouped(other)
    words, tied, narrow = nn.Embedding(5, 32), nn.Linear(32, 5), nn.Linear(16, 32)
    tied.weight = words.weight
    assert list(grouped_matrices(nn.Sequential(words, tied, narrow, nn.Linear(32, 7)))) == ["3.weight"]


def test_matrices_are_rounded_only_inside_and_gradients_are_those_of_the_rounded_weights():
    torch.manual_seed(0)
    layers = nn.Sequential(nn.Linear(32, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 64))
    weights, before = list(grouped_matrices(layers).values()), [w.detach().clone() for w in layers.parameters()]
    x = torch.randn(2, 32)
    with pytest.raises(KeyError), rounded_in_place(weights, 3):
        assert all(torch.equal(weight, rounded(before[2 * i], 3)) for i, weight in enumerate(weights))
        layers(x).square().sum().backward()
        raise KeyError
    assert all(torch.equal(*pair) for pair in zip(layers.parameters(), before, strict=True))
    found = [parameter.grad for parameter in layers.parameters()]
    with torch.no_grad():
        for weight in weights:
            weight.copy_(rounded(weight, 3))
    expected = torch.autograd.grad(layers(x).square().sum(), list(layers.parameters()))
    assert all(torch.equal(*pair) for pair in zip(found, expected, strict=True))
