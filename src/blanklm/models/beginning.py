"""What a model begins from, where small random numbers would keep it at the frequencies of words for long.

A BLM learns little else until two things are there together: words as probable as they are frequent, and heads that
read what stands beside a blank (``benchmarks/plateau.py``).
"""

from __future__ import annotations

import numpy as np
import torch
from torch import nn

from blanklm.models.encoder import EncoderLayer

SHARPNESS = 3.0  # of heads that begin at a neighbour: it has some 0.6 of their attention then
NEAR = 0.1  # radians a symbol: slower angles are alike for all that is near
AGREEMENT = 14.0  # of a RoBERTa's query with its neighbour's key


@torch.no_grad()
def begin_at_frequencies(model: nn.Module, tokens: np.ndarray) -> None:
    """Have each word begin as probable as it is frequent in ``tokens``; what is not there, as half as frequent as once.

    A bias moves by no more than the learning rate a step and has some ten nats to go. Until then frequencies are told
    by the vectors, which become alike for all rare words and which dropout makes noise of.
    """
    counts = np.bincount(tokens, minlength=len(model.word_bias)).astype(float)
    counts[counts == 0] = min(0.5, counts.mean()) or 1.0  # few tokens say little of what is rare
    model.word_bias.copy_(torch.from_numpy(np.log(counts / counts.sum())))


@torch.no_grad()
def begin_at_neighbours(layer: EncoderLayer) -> None:
    """Have the heads of a layer begin by reading the symbol before, or, every other one, the symbol after.

    A blank holds nothing of what stands around it. From random weights, heads have to find out where to look and what
    to take from there, and neither is of use without the other. Here biases alone make queries and keys at first, and
    say where: turned by their positions, they agree best at a distance of one symbol.
    """
    width = layer.attention_out.weight.shape[0]
    layer.queries_keys_values.weight[: 2 * width] = 0.0
    biases = layer.queries_keys_values.bias.view(3, layer.heads, -1)  # [3, H, d/H]
    frequency = 10000.0 ** (-torch.arange(0, biases.shape[2], 2, device=biases.device) / biases.shape[2])  # [d/H / 2]
    strength = SHARPNESS * (frequency > NEAR)
    way = 1 - 2 * (torch.arange(layer.heads, device=biases.device) % 2)  # [H] back: 1, on: -1
    angle = way[:, None] * frequency  # [H, d/H / 2] by which a key turns while it comes from there
    biases[0] = torch.cat((strength, torch.zeros_like(strength)))
    biases[1] = torch.cat((strength * angle.cos(), strength * angle.sin()), 1)


@torch.no_grad()
def begin_roberta_at_neighbours(model: nn.Module) -> None:
    """The same for a model on the library's RoBERTa: positions are a table there, norms come after each sub-layer.

    The table begins as sines and cosines, some of which the first layer's queries and keys read to tell how far symbols
    are apart; words have nothing in their places. Its values and what it makes of them begin at full size: beside a
    normed vector, what is small is not seen.
    """
    network = model.encoder.layers
    attention, table = network.encoder.layer[0].attention, network.embeddings.position_embeddings.weight  # [P, d]
    heads, (places, width) = attention.self.num_attention_heads, table.shape
    frequency = 10000.0 ** (-torch.arange(0, width, 2) / width)  # [d/2]
    angle = torch.arange(places)[:, None] * frequency  # [P, d/2]
    table.copy_(2**0.5 * table.std() * torch.cat((angle.sin(), angle.cos()), 1))
    pairs = width // heads // 2  # of a sine and a cosine, that a head reads
    near = (frequency > NEAR).nonzero().squeeze(1)
    chosen = near[torch.linspace(0, len(near) - 1, pairs).long()]  # [d/H / 2]
    sine, cosine = (nn.functional.one_hot(chosen + first, width).float() for first in (0, width // 2))  # [d/H / 2, d]
    way = 1 - 2 * (torch.arange(heads) % 2)  # [H] back: 1, on: -1
    turn = (way[:, None] * frequency[chosen])[
        :, :, None
    ]  # [H, d/H / 2, 1] by which a key turns while it comes from there
    strength = (AGREEMENT * (width // heads) ** 0.5 / pairs) ** 0.5
    queries = torch.stack((sine, cosine)).expand(heads, -1, -1, -1)  # [H, 2, d/H / 2, d]
    keys = torch.stack((turn.cos() * sine + turn.sin() * cosine, turn.cos() * cosine - turn.sin() * sine), 1)
    attention.self.query.weight.copy_(strength * queries.reshape(width, width))
    attention.self.key.weight.copy_(strength * keys.reshape(width, width))
    model.embedding.weight[:, torch.cat((chosen, chosen + width // 2))] = 0.0
    nn.init.orthogonal_(attention.self.value.weight)
    nn.init.orthogonal_(attention.output.dense.weight)
