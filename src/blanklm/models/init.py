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
AGREEMENT = 14.0  # of a query with the key it is to find, where positions are added to words


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
    frequency = frequencies(biases.shape[2], biases.device)  # [d/H / 2]
    strength = SHARPNESS * (frequency > NEAR)
    ways = _back_and_on(layer.heads).to(biases.device)
    angle = ways[:, None] * frequency  # [H, d/H / 2] by which a key turns while it comes from there
    biases[0] = torch.cat((strength, torch.zeros_like(strength)))
    biases[1] = torch.cat((strength * angle.cos(), strength * angle.sin()), 1)


@torch.no_grad()
def begin_roberta_at_neighbours(model: nn.Module) -> None:
    """The same for a model on the library's RoBERTa: positions are a table there, norms come after each sub-layer.

    The table begins as sines and cosines, some of which the first layer's queries and keys read to tell how far symbols
    are apart. Its values and what it makes of them begin at full size: beside a normed vector, what is small is not
    seen.
    """
    network = model.encoder.layers
    attention, table = network.encoder.layer[0].attention, network.embeddings.position_embeddings.weight  # [P, d]
    places, width = table.shape
    angle = torch.arange(places)[:, None] * frequencies(width)  # [P, d/2]
    table.copy_(2**0.5 * table.std() * torch.cat((angle.sin(), angle.cos()), 1))
    ways = _back_and_on(attention.self.num_attention_heads)
    _begin_at(ways, attention.self.query, attention.self.key, attention.self.value, attention.output.dense)
    _leave_to_places(model.embedding, len(ways))


@torch.no_grad()
def begin_marian_at_places(network: nn.Module, copies: bool) -> None:
    """The same for the library's Marian. The first layer of its encoder reads neighbours; where what it writes
    ``copies`` what it reads, the first of its decoder reads the source at the place that it writes, or just before.
    """
    layer = network.model.encoder.layers[0].self_attn
    ways = _back_and_on(layer.num_heads)
    _begin_at(ways, layer.q_proj, layer.k_proj, layer.v_proj, layer.out_proj)
    if copies:
        cross = network.model.decoder.layers[0].encoder_attn
        _begin_at(torch.arange(len(ways)), cross.q_proj, cross.k_proj, cross.v_proj, cross.out_proj)
        cross.out_proj.weight.copy_(cross.v_proj.weight.T)  # words arrive as they were
    _leave_to_places(network.model.shared, len(ways))


def _back_and_on(heads: int) -> Tensor:
    return 1 - 2 * (torch.arange(heads) % 2)  # [H] back: 1, on: -1


def _read_frequencies(width: int, heads: int) -> Tensor:
    """[d/H / 2] which of the frequencies heads read; a position's sines stand in the first half of it, then cosines."""
    near = (frequencies(width) > NEAR).nonzero().squeeze(1)
    return near[torch.linspace(0, len(near) - 1, width // heads // 2).long()]


def _begin_at(ways: Tensor, query: nn.Linear, key: nn.Linear, value: nn.Linear, out: nn.Linear) -> None:
    """Have each head read what stands so many places before, by the sines and cosines of positions alone."""
    heads, width = len(ways), query.in_features
    read = _read_frequencies(width, heads)
    sine, cosine = (nn.functional.one_hot(read + first, width).float() for first in (0, width // 2))  # [d/H / 2, d]
    turn = (ways[:, None] * frequencies(width)[read])[:, :, None]  # [H, d/H / 2, 1] of a key that comes from there
    strength = (AGREEMENT * (width // heads) ** 0.5 / len(read)) ** 0.5
    queries = torch.stack((sine, cosine)).expand(heads, -1, -1, -1)  # [H, 2, d/H / 2, d]
    keys = torch.stack((turn.cos() * sine + turn.sin() * cosine, turn.cos() * cosine - turn.sin() * sine), 1)
    query.weight.copy_(strength * queries.reshape(width, width))
    key.weight.copy_(strength * keys.reshape(width, width))
    nn.init.orthogonal_(value.weight)
    nn.init.orthogonal_(out.weight)


def _leave_to_places(words: nn.Embedding, heads: int) -> None:
    """Words begin with nothing where heads read positions."""
    width = words.embedding_dim
    read = _read_frequencies(width, heads)
    words.weight[:, torch.cat((read, read + width // 2))] = 0.0
