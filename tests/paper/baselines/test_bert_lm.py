"""The cache of BERT+LM's decoder."""

import torch

from blanklm.core.packing import Packing
from blanklm.models.encoder import Encoder, EncoderConfig
from blanklm.paper.baselines.bert_lm import LayerKVCache, one_token_step


def test_reading_on_with_a_cache_equals_reading_at_once():
    torch.manual_seed(0)
    encoder = Encoder(EncoderConfig(2, 2, 16, 32, dropout=0.0), causal=True).eval()
    sequences = [torch.randn(n, 16) for n in (7, 6, 9)]
    whole = [encoder(vectors, Packing.of(torch.tensor([len(vectors)]), len(vectors))) for vectors in sequences]
    cache, known = [LayerKVCache(3, 9) for _ in encoder.layers], [4, 1, 5]
    first = torch.cat([vectors[:n] for vectors, n in zip(sequences, known, strict=True)])
    encoder(first, Packing.of(torch.tensor(known), 5), cache)
    for step in range(5):
        rows = [row for row in range(3) if known[row] + step < len(sequences[row])]
        position = torch.tensor([known[row] + step for row in rows])
        packing = one_token_step(torch.tensor(rows), position, 6 + step)
        vectors = torch.stack([sequences[row][known[row] + step] for row in rows])
        expected = torch.stack([whole[row][known[row] + step] for row in rows])
        torch.testing.assert_close(encoder(vectors, packing, cache), expected, atol=1e-5, rtol=1e-4)
