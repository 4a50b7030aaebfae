"""Slow, obvious versions that tests compare the fast ones with."""

import math
from collections import Counter

import torch

from blanklm.core.packing import Packing
from blanklm.core.special import EOS, PAD
from blanklm.paper.baselines.insertion import STOP


@torch.inference_mode()
def log_joint(model, text, order, first=0):
    """Fast: all canvases of an order in one batch, through the log-probabilities that training uses.

    From step ``first`` on: what was written before that is given.
    """
    n = len(text)
    rank, step = torch.tensor(order).argsort(), torch.arange(first, n)[:, None]
    tokens, lengths = torch.tensor([text] * len(step)), torch.full((len(step),), n)
    return float(model.action_log_probs(tokens, lengths, rank < step, wanted=rank == step).sum())


def reference(encoder, vectors, causal):
    """The Transformer of one sequence [C, d], in plain matrix products; rotation as multiplication by e^{i angle}."""
    length, width = vectors.shape
    z = vectors
    for layer in encoder.layers:
        heads, size = layer.heads, width // layer.heads
        q, k, v = layer.queries_keys_values(layer.attention_norm(z)).view(length, 3, heads, size).unbind(1)
        frequency = 10000.0 ** (-torch.arange(0, size, 2) / size)
        turn = torch.polar(torch.ones(length, size // 2), torch.arange(length)[:, None] * frequency)[:, None]

        def rotated(x, turn=turn, size=size):
            turned = torch.complex(x[..., : size // 2], x[..., size // 2 :]) * turn
            return torch.cat((turned.real, turned.imag), -1)

        scores = torch.einsum("ihd,jhd->hij", rotated(q), rotated(k)) / math.sqrt(size)
        if causal:
            scores = scores.masked_fill(torch.ones(length, length).triu(1).bool(), -math.inf)
        attended = torch.einsum("hij,jhd->ihd", scores.softmax(-1), v).reshape(length, width)
        z = z + layer.attention_out(attended)
        z = z + layer.feedforward_out(torch.nn.functional.gelu(layer.feedforward_in(layer.feedforward_norm(z))))
    return encoder.norm(z)


@torch.inference_mode()
def joint(model, canvas):
    """log p(slot, w | canvas) [slots, V], STOP among the words, of one canvas."""
    sequence = torch.tensor([EOS, *canvas, EOS])
    z = model.encoder(model.embedding(sequence), Packing.of(torch.tensor([len(sequence)]), len(sequence)))
    slots = model.join(torch.cat((z[:-1], z[1:]), 1))
    log_p_slot = model.choose(slots).squeeze(1).log_softmax(0)
    logits = slots @ model.embedding.weight.T + model.word_bias
    logits[:, PAD] = -math.inf
    if not canvas:
        logits[:, STOP] = -math.inf
    return log_p_slot[:, None] + logits.log_softmax(1)


def log_p_of_order(model, text, order):
    """log of the product of the actions that write ``text`` in this order, and of the stop."""
    total, shown = 0.0, []
    for position in order:
        slot = sum(s < position for s in shown)
        total += float(joint(model, [text[s] for s in shown])[slot, text[position]])
        shown = sorted([*shown, position])
    return total + float(joint(model, text)[:, STOP].logsumexp(0))


def slow_bleu(outputs, references):
    """Papineni et al. 2002, on whitespace words: clipped n-gram precisions of the corpus and the brevity penalty."""
    found, possible = [0] * 4, [0] * 4
    for output, reference in zip(outputs, references, strict=True):
        for n in range(4):
            ngrams = [Counter(zip(*(t.split()[i:] for i in range(n + 1)), strict=False)) for t in (output, reference)]
            found[n] += sum((ngrams[0] & ngrams[1]).values())
            possible[n] += sum(ngrams[0].values())
    written, wanted = (sum(len(text.split()) for text in texts) for texts in (outputs, references))
    precision = sum(math.log(f / p) for f, p in zip(found, possible, strict=True)) / 4
    return 100 * math.exp(precision + min(0.0, 1 - wanted / written))
