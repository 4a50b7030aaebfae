"""A BLM of spans that writes in a style: p(span | rest, style), with every weight of the BLM left as it is.

A vector of the style is added to what each layer reads. Since the model knows every style, it also knows which words
distinguish them: with a contrast g > 0 it writes words by p(w | c, b, s) * (p(w | c, b, s) / p(w | c, b, other))^g,
normalised, as ``StyledBLM`` does.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass, replace
from typing import Self

import torch
from torch import Tensor

from blanklm.core.packing import Packing
from blanklm.core.regions import draw_regions
from blanklm.core.texts import Batch
from blanklm.errors import BlankLMError
from blanklm.models.attention import LayerCache
from blanklm.models.llama import LlamaEncoder
from blanklm.models.span_blm import SpanBLM, SpanScores, SpanTargets
from blanklm.models.styled_blm import contrasted


@dataclass(frozen=True)
class SteeredTargets(SpanTargets):
    """The targets of a BLM of spans with the style of each symbol of its canvases."""

    styles: Tensor  # [T]; padding at the end of a row takes the last text's style


class SteeredSpanBLM(SpanBLM):
    """A policy over the weights of another model; only ``vectors`` [layers, styles, d] are its own."""

    vectors: Tensor
    styles: Tensor | None  # [1 or T] the style of each symbol that is read; None: as the BLM by itself
    contrast: float

    @classmethod
    def steering(cls, base: SpanBLM, vectors: Tensor) -> Self:
        """Steer a model, whose weights are shared, by ``vectors`` [layers, styles, d]."""
        if not isinstance(base.encoder, LlamaEncoder):
            raise BlankLMError("only models with Llama-type layers can be steered: choose another base")
        layers, width = len(base.encoder.layers), base.config.encoder.width
        if vectors.dim() != 3 or (vectors.shape[0], vectors.shape[2]) != (layers, width):
            raise BlankLMError(f"the base has {layers} layers of width {width}: these vectors are of another model")
        steered = cls.__new__(cls)
        vars(steered).update(vars(base))
        vars(steered)["_parameters"] = dict(vars(base)["_parameters"])  # its own, to which vectors may be added
        steered.told, steered.vectors, steered.styles, steered.contrast = "spans", vectors, None, 0.0
        return steered

    def in_style(self, style: int, contrast: float = 0.0) -> Self:
        """Return a policy that writes in one style."""
        policy = copy(self)
        policy.styles, policy.contrast = torch.tensor([style], device=self.vectors.device), contrast
        return policy

    def encode_kinds(
        self, canvas: Tensor, packing: Packing, kinds: Tensor, cache: Sequence[LayerCache] | None = None
    ) -> Tensor:
        steering = None if self.styles is None else self.vectors[:, self.styles]  # [layers, 1 or T, d]
        assert isinstance(self.encoder, LlamaEncoder)
        return self.encoder(self.canvas_vectors(canvas, kinds), packing, cache, steering)

    # --- Training -------------------------------------------------------------------------------------------------

    def prepare(self, batch: Batch) -> SteeredTargets:
        """Hide regions; ``prepare_styled`` takes others than those that are drawn."""
        region = draw_regions(batch.tokens, batch.lengths, batch.seeds, self.starts_word, self.marks)  # [B, L]
        return self.prepare_styled(batch, region)

    def prepare_styled(self, batch: Batch, region: Tensor) -> SteeredTargets:
        if batch.styles is None:
            raise BlankLMError("a model of several styles is trained on texts with a style")
        targets = self.prepare_regions(batch, region, share=1.0)
        return SteeredTargets(**vars(targets), styles=batch.styles[targets.actions.packing.sequence])

    def loss(self, targets: SteeredTargets) -> Tensor:  # type: ignore[override]  # its texts come with a style
        """Return the loss of ``SpanBLM`` for each text [B], given its style."""
        policy = copy(self)
        policy.styles = targets.styles
        return SpanBLM.loss(policy, targets)

    # --- Decoding -------------------------------------------------------------------------------------------------

    @torch.inference_mode()
    def score_spans(self, canvases: Tensor, lengths: Tensor, longest: int, words: Tensor) -> SpanScores:
        scores = super().score_spans(canvases, lengths, longest, words)
        if self.styles is None or not self.contrast:
            return scores
        others = [style for style in range(self.vectors.shape[1]) if style != int(self.styles)]
        log_p = [
            self.in_style(style).score_spans(canvases, lengths, longest, words).log_p_first for style in others
        ]  # [K, V] each
        return replace(scores, log_p_first=contrasted(scores.log_p_first, log_p, self.contrast))
