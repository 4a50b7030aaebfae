"""Linear layers whose weights are packed once compute what they did."""

import copy

import pytest
import torch
from torch import nn

from blanklm.core.special import BLANK
from blanklm.models.packed_linear import PackedLinear, has_kernel, pack_linears, product
from tests.support.lblm import A, B, make

pytestmark = pytest.mark.skipif(not has_kernel(), reason="this build has no such kernel")


@pytest.mark.parametrize("bias", [True, False])
@torch.inference_mode()
def test_a_packed_layer_computes_the_same_product(bias):
    torch.manual_seed(0)
    linear, x = nn.Linear(96, 160, bias=bias), torch.randn(37, 96)
    torch.testing.assert_close(PackedLinear(linear)(x), linear(x), atol=1e-5, rtol=1e-5)
    assert PackedLinear(linear)(x[:0]).shape == (0, 160)
    torch.testing.assert_close(product(x, linear.weight), x @ linear.weight.T, atol=1e-5, rtol=1e-5)


def test_a_packed_model_scores_and_is_stored_as_before():
    model = make("mixed")
    packed = copy.deepcopy(model)
    pack_linears(packed)
    assert any(isinstance(module, PackedLinear) for module in packed.modules())
    assert packed.state_dict().keys() == model.state_dict().keys()
    tokens, lengths = torch.tensor([[A, BLANK, B, A, BLANK, BLANK]]), torch.tensor([6])  # [1, 6], [1]
    one, other = (m.score_positions(tokens, lengths, tokens == BLANK) for m in (model, packed))
    torch.testing.assert_close(one.log_p_word, other.log_p_word, atol=1e-4, rtol=1e-4)


def test_with_gradients_it_is_the_layer_it_was():
    linear = nn.Linear(4, 3)
    packed = PackedLinear(linear)
    packed(torch.ones(2, 4)).sum().backward()
    assert linear.weight.grad is not None
