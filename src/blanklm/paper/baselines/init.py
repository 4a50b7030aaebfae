"""Initialise first-layer heads of RoBERTa and Marian on neighbouring positions."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from blanklm.models.encoder import frequencies
from blanklm.models.init import SLOWEST_ANGLE, back_and_forth
from blanklm.paper.baselines.roberta import RobertaMasked

AGREEMENT = 14.0  # of a query with the key it is to find, where positions are added to words


@torch.no_grad()
def init_roberta_on_neighbours(model: RobertaMasked) -> None:
    """Initialise the first layer of RoBERTa: positions are a table there, and norms come after each sub-layer.

    The table begins as sines and cosines, some of which the first layer's queries and keys read to tell how far symbols
    are apart. Its values and what it makes of them begin at full size: beside a normed vector, what is small is not
    seen.
    """
    network: Any = model.encoder.layers  # of the library
    attention, table = network.encoder.layer[0].attention, network.embeddings.position_embeddings.weight  # [P, d]
    places, width = table.shape
    angle = torch.arange(places)[:, None] * frequencies(width)  # [P, d/2]
    table.copy_(2**0.5 * table.std() * torch.cat((angle.sin(), angle.cos()), 1))
    ways = back_and_forth(attention.self.num_attention_heads)
    _begin_at(ways, attention.self.query, attention.self.key, attention.self.value, attention.output.dense)
    _leave_to_places(model.embedding, len(ways))


@torch.no_grad()
def init_marian_on_positions(network: Any, copies: bool) -> None:
    """Initialise the first layers of the library's Marian: that of the encoder reads neighbours.

    Where what it writes ``copies`` what it reads, that of the decoder reads the source at the place that it writes, or
    just before.
    """
    layer = network.model.encoder.layers[0].self_attn
    ways = back_and_forth(layer.num_heads)
    _begin_at(ways, layer.q_proj, layer.k_proj, layer.v_proj, layer.out_proj)
    if copies:
        cross = network.model.decoder.layers[0].encoder_attn
        _begin_at(torch.arange(len(ways)), cross.q_proj, cross.k_proj, cross.v_proj, cross.out_proj)
        cross.out_proj.weight.copy_(cross.v_proj.weight.T)  # words arrive as they were
    _leave_to_places(network.model.shared, len(ways))


def _read_frequencies(width: int, heads: int) -> Tensor:
    """[d/H / 2] which of the frequencies heads read; a position's sines stand in the first half of it, then cosines."""
    near = (frequencies(width) > SLOWEST_ANGLE).nonzero().squeeze(1)
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
