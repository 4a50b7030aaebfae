"""What a model begins from, where small random numbers would keep it at the frequencies of words for long.

A BLM learns little else until two things are there together: words as probable as they are frequent, and heads that
read what stands beside a blank.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn

from blanklm.models.encoder import EncoderLayer, frequencies

SHARPNESS = 3.0  # of heads that begin at a neighbour: it has some 0.6 of their attention then
NEAR = 0.1  # radians a symbol: slower angles are alike for all that is near


@torch.no_grad()
def init_bias_from_frequencies(model: nn.Module, tokens: np.ndarray) -> None:
    """Have each word begin as probable as it is frequent in ``tokens``; what is not there, as half as frequent as once.

    A bias moves by no more than the learning rate a step and has some ten nats to go. Until then frequencies are told
    by the vectors, which become alike for all rare words and which dropout makes noise of.
    """
    counts = np.bincount(tokens, minlength=len(model.word_bias)).astype(float)
    counts[counts == 0] = min(0.5, counts.mean()) or 1.0  # few tokens say little of what is rare
    model.word_bias.copy_(torch.from_numpy(np.log(counts / counts.sum())))


@torch.no_grad()
def init_heads_on_neighbours(layer: EncoderLayer) -> None:
    """Have the heads of a layer begin by reading the symbol before, or, every other one, the symbol after.

    A blank holds nothing of what stands around it. From random weights, heads have to find out where to look and what
    to take from there, and neither is of use without the other. Here biases alone make queries and keys at first, and
    say where: turned by their positions, they agree best at a distance of one symbol.
    """
    width = layer.attention_out.weight.shape[0]
    layer.queries_keys_values.weight[: 2 * width] = 0.0
    biases = layer.queries_keys_values.bias.view(3, layer.heads, -1)  # [3, H, d/H]
    frequency = frequencies(biases.shape[2], biases.device)  # [d/H / 2]
    strength = SHARPNESS * (frequency > NEAR)
    ways = back_and_forth(layer.heads).to(biases.device)
    angle = ways[:, None] * frequency  # [H, d/H / 2] by which a key turns while it comes from there
    biases[0] = torch.cat((strength, torch.zeros_like(strength)))
    biases[1] = torch.cat((strength * angle.cos(), strength * angle.sin()), 1)


def back_and_forth(heads: int) -> Tensor:
    return 1 - 2 * (torch.arange(heads) % 2)  # [H] back: 1, on: -1
