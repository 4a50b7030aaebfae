"""A left-to-right language model: log p(x) = sum over i of log p(x_i | x_1 ... x_{i-1}), <eos> being the last x_i.

It judges how fluent filled texts are (tasks/fluency.py). On a stream that is cut anywhere (LeftToRightStream), a chunk
has no end of its own: that is how language models are measured.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from blanklm.core.special import EOS
from blanklm.core.texts import Batch, pad
from blanklm.errors import BlankLMError
from blanklm.models.encoder import Encoder
from blanklm.models.registry import register
from blanklm.paper.baselines.predictor import Predictor, PredictorConfig, Queries, continuation
from blanklm.paper.baselines.temperature import scale_down_
from blanklm.training.epochs import split_by_budget


@register("left-to-right", PredictorConfig)
class LeftToRight(Predictor):
    reads_context = True  # texts may come with tokens that are given

    def __init__(self, config: PredictorConfig) -> None:
        super().__init__(config, causal=True)

    def queries(self, tokens: Tensor, lengths: Tensor, given: Tensor | None = None, on_gpu: bool = False) -> Queries:
        """Query the texts ``tokens`` [B, L], of which the first ``given`` [B] are known."""
        return between_ends(tokens, lengths, given, on_gpu)

    def prepare(self, batch: Batch) -> Queries:
        return self.queries(batch.tokens, batch.lengths, batch.given, batch.for_gpu)

    def apply_temperature(self, temperature: float) -> None:
        """Divide the logits of words by a ``temperature``: a model that overfits is too sure of them."""
        if not isinstance(self.encoder, Encoder):
            raise BlankLMError("only blanklm's own encoder has a temperature, not a pretrained backbone")
        scale_down_(temperature, self.encoder.norm.weight, self.encoder.norm.bias, self.word_bias)

    @torch.inference_mode()
    def log_prob(
        self, texts: Sequence[Sequence[int]], tokens_per_batch: int = 8192, given: Sequence[int] | None = None
    ) -> list[float]:
        """log p of each text, its end included where it has one; given its first tokens, where some are ``given``."""
        lengths = np.array([len(text) for text in texts])
        by_length = np.argsort(lengths, kind="stable")
        log_probs = np.zeros(len(texts))
        for group in split_by_budget(lengths[by_length] + 1, tokens_per_batch):
            members = by_length[group]
            tokens, sizes = (part.to(self.device) for part in pad([texts[i] for i in members]))
            known = None if given is None else torch.tensor([given[i] for i in members], device=self.device)
            log_probs[members] = -self.loss(self.queries(tokens, sizes, known)).double().cpu().numpy()
        return log_probs.tolist()


@register("left-to-right-stream", PredictorConfig)
class LeftToRightStream(LeftToRight):
    """The chunks of a stream: each begins as if after an <eos>, and goes on beyond its last token."""

    def queries(self, tokens: Tensor, lengths: Tensor, given: Tensor | None = None, on_gpu: bool = False) -> Queries:
        return continuation(F.pad(tokens, (1, 0), value=EOS), lengths + 1, _known(lengths, given), on_gpu)


def between_ends(tokens: Tensor, lengths: Tensor, given: Tensor | None = None, on_gpu: bool = False) -> Queries:
    """Query the texts ``tokens`` [B, L] and the <eos> that ends each; an <eos> also stands before the first token."""
    sequence = F.pad(tokens, (1, 1), value=EOS)  # [B, L + 2]
    sequence.scatter_(1, lengths[:, None] + 1, EOS)
    return continuation(sequence, lengths + 2, _known(lengths, given), on_gpu)


def _known(lengths: Tensor, given: Tensor | None) -> Tensor:
    """[B] the symbols that are not queried: the <eos> before the first token, and the tokens that are given."""
    return torch.ones_like(lengths) if given is None else 1 + given
