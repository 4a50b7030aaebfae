"""Windows attend to themselves and to what is far from them as one softmax over both would."""

import pytest
import torch
from torch.nn import functional as F

from blanklm.core.packing import Packing
from blanklm.models.attention import attend
from blanklm.models.encoder import EncoderConfig
from blanklm.models.frozen import FrozenCache, LayerFrozenCache, LayerFrozenWindow, Stretch

LENGTHS, LONGEST, HEADS, WIDTH = (9, 7), 9, 2, 8


def windows():
    """Which places of each text are in its window: all of the second."""
    inside = torch.zeros(2, LONGEST, dtype=torch.bool)
    inside[0, 3:6] = inside[1] = True
    return inside


@pytest.mark.parametrize("asked", [None, [1, 5, 6, 9, 19]])
def test_a_window_attends_to_all_keys_as_one_softmax_does(asked):
    torch.manual_seed(0)
    q, k, v = torch.randn(3, sum(LENGTHS), HEADS, WIDTH)
    layer, inside = LayerFrozenCache(is_last=False), windows()
    packing = Packing.of(torch.tensor(LENGTHS), LONGEST)
    torch.testing.assert_close(layer.attend(q, k, v, packing), attend(q, k, v, packing, causal=False))
    layer.leave_out(inside)
    stretches = [Stretch(0, 2, 3), Stretch(1, 2, 7)]
    q, k, v = torch.randn(3, 20, HEADS, WIDTH)
    window = LayerFrozenWindow(layer, stretches, None if asked is None else torch.tensor(asked))
    found = window.attend(q, k, v, Packing.of(torch.tensor([20]), 20))
    expected = []
    for start, n, text in ((0, 3, 0), (3, 3, 0), (6, 7, 1), (13, 7, 1)):
        far_k, far_v = layer.far[text]
        keys = torch.cat((far_k * WIDTH**0.5, k[start : start + n].transpose(0, 1)), 1)
        values = torch.cat((far_v.transpose(1, 2), v[start : start + n].transpose(0, 1)), 1)
        of_one = F.scaled_dot_product_attention(q[start : start + n].transpose(0, 1), keys, values)
        expected.append(of_one.transpose(0, 1))
    whole = torch.cat(expected)
    torch.testing.assert_close(found, whole if asked is None else whole[asked], atol=1e-5, rtol=1e-5)


@torch.inference_mode()
def test_what_is_asked_of_the_encoder_is_as_it_is_among_all():
    torch.manual_seed(0)
    encoder = EncoderConfig(3, HEADS, HEADS * WIDTH, 32).build().eval()
    vectors, asked = torch.randn(sum(LENGTHS), HEADS * WIDTH), torch.tensor([0, 4, 5, 11])
    packing = Packing.of(torch.tensor(LENGTHS), LONGEST)
    cache = FrozenCache(encoder)
    assert not len(encoder(vectors, packing, cache, torch.zeros(0, dtype=torch.long)))
    cache.leave_out(windows())
    stretches, changed = [Stretch(0, 1, 3), Stretch(1, 1, 7)], torch.randn(10, HEADS * WIDTH)
    within = Packing.of(torch.tensor([10]), 10)
    of_all = encoder(changed, within, cache.around(stretches, torch.arange(10)), torch.arange(10))
    of_some = encoder(changed, within, cache.around(stretches, asked[:3]), asked[:3])
    torch.testing.assert_close(of_some, of_all[asked[:3]])
