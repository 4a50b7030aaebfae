"""Initialisation that shortens the first plateau of training from scratch.

A BLM learns little more than word frequencies until it has two things together: output biases at the log frequencies of
words, and heads that read the neighbours of a blank. Both are given to it at the start.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from blanklm.models.encoder import EncoderLayer, frequencies

SHARPNESS = 3.0  # of heads on a neighbour, which then has some 0.6 of their attention
SLOWEST_ANGLE = 0.1  # radians per position: slower angles hardly tell neighbours apart


@torch.no_grad()
def init_bias_from_frequencies(model: Any, tokens: np.ndarray) -> None:
    """Set output biases to the log frequencies of words in ``tokens``; a word that is not there counts half.

    A bias moves by at most the learning rate per step and has some ten nats to go. Until then frequencies are encoded
    in the vectors, which makes those of rare words similar and exposes them to dropout.
    """
    bias: Tensor = model.word_bias  # [V]
    counts = np.bincount(tokens, minlength=len(bias)).astype(float)
    counts[counts == 0] = min(0.5, counts.mean()) or 1.0  # few tokens say little of what is rare
    bias.copy_(torch.from_numpy(np.log(counts / counts.sum())))


@torch.no_grad()
def init_heads_on_neighbours(layer: EncoderLayer) -> None:
    """Initialise the heads of a layer to read the previous symbol or, every other head, the next one.

    A blank's vector says nothing about its surroundings. From random weights, heads must learn both where to look and
    what to read there, and neither is of use without the other. Here biases alone make the first queries and keys:
    rotated by their positions, they agree best at a distance of one symbol.
    """
    width = layer.attention_out.weight.shape[0]
    layer.queries_keys_values.weight[: 2 * width] = 0.0
    biases = layer.queries_keys_values.bias.view(3, layer.heads, -1)  # [3, H, d/H]
    frequency = frequencies(biases.shape[2]).to(biases.device)  # [d/H / 2]
    strength = SHARPNESS * (frequency > SLOWEST_ANGLE)
    ways = back_and_forth(layer.heads).to(biases.device)
    angle = ways[:, None] * frequency  # [H, d/H / 2] by which a key turns while it comes from there
    biases[0] = torch.cat((strength, torch.zeros_like(strength)))
    biases[1] = torch.cat((strength * angle.cos(), strength * angle.sin()), 1)


def back_and_forth(heads: int) -> Tensor:
    return 1 - 2 * (torch.arange(heads) % 2)  # [H] back: 1, on: -1
