"""Transfer by a model that is steered: votes of words tell the style, and the base writes in the other one.

Each word contributes a known part to the style of its text; those near the weightiest carry the style.
Rewrites are ranked by p(style) and by how probable all their words are in their places to the base, which knows nothing
of styles.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set
from typing import Any, Self

import numpy as np
import torch

from blanklm import pretrained
from blanklm.api import BlankLM, Request
from blanklm.core.canvas import Fill
from blanklm.core.texts import pad
from blanklm.core.tokenizer import Tokenizer
from blanklm.data.masking import MaskedText, blank_out
from blanklm.decoding.constraint import Constraint
from blanklm.errors import BlankLMError, CheckpointError
from blanklm.models.span_blm import SpanBLM
from blanklm.models.steered_span_blm import SteeredSpanBLM
from blanklm.models.tone import Tone
from blanklm.repairing.surprise import mean_in_place
from blanklm.repairing.units import units_of
from blanklm.training import sums
from blanklm.transfer.marking import MAX_MASKS, MarkedText, Span, carriers, grown
from blanklm.transfer.options import CONTRAST, TransferOptions, Weights
from blanklm.transfer.results import Rewrite, overlap
from blanklm.transfer.surface import interleave
from blanklm.transfer.transfer import Transfer

FEWER, MORE = 0.75, 0.15  # of the greatest weight: for words of masks that are tried besides
SURE = 0.8  # p(style) of a text: of 44 everyday sentences written in one of the styles, two had less
MORE_WORDS = 1  # that may be written in place of those of a blank


class SteeredTransfer(Transfer):
    """The votes of words, and one model that writes in every style."""

    samples, weights = 20, Weights(content=1.5, fluency=0.5)

    def __init__(
        self, tone: Tone, base: BlankLM, contrast: float = CONTRAST, about: dict[str, Any] | None = None
    ) -> None:
        model = base.model
        if not isinstance(model, SpanBLM):
            raise BlankLMError("what is steered must be a model of spans: choose another base")
        self.tone, self.base, self.styles, self.about = tone, base, list(tone.config.styles), about or {}
        steered = SteeredSpanBLM.steering(model, tone.vectors.detach())
        numbers = range(len(self.styles))
        self.writers = [BlankLM(steered.in_style(style, contrast), base.tokenizer) for style in numbers]

    @classmethod
    def on(
        cls,
        base: BlankLM | None,
        tone: Tone,
        tokenizer: Tokenizer,
        about: dict[str, Any],
        device: str | None = None,
        contrast: float = CONTRAST,
    ) -> Self:
        """Let a model of styles stand on its base, which is loaded unless it is given."""
        name = tone.config.base
        if sums.written_in(pretrained.locate(name)).get(sums.TENSORS) != tone.config.base_sum:
            raise CheckpointError(
                f"this model was made for other weights of {name}: make it again, or install both anew"
            )
        if base is None:
            base = BlankLM.from_pretrained(name, device)
        if base.tokenizer.backend.to_str() != tokenizer.backend.to_str():
            raise CheckpointError(f"this model does not fit {name}: install both anew")
        return cls(tone.to(base.model.device), base, contrast, about)

    @property
    def tokenizer(self) -> Tokenizer:
        return self.base.tokenizer

    @property
    def parameters(self) -> int:
        return self.base.parameters + self.tone.parameter_count

    @property
    def longest(self) -> int:
        """Return how many words and punctuation marks a text may have; tokens are counted when it is rewritten."""
        return self.base.longest

    # --- Styles ---------------------------------------------------------------------------------------------------

    def places(self, text: str) -> list[Span]:
        return [(unit.start, unit.end) for unit in units_of(text)]

    def weigh(self, texts: Sequence[str]) -> list[tuple[list[float], Set[int] | None]]:
        return [self._weigh(text, votes) for text, votes in zip(texts, self._votes(texts), strict=True)]

    def _weigh(self, text: str, votes: np.ndarray) -> tuple[list[float], Set[int]]:
        style = int(votes.sum(0).argmax())
        others = np.delete(votes, style, axis=1).mean(1)  # [L]
        units = units_of(text)
        weights = np.zeros(len(units))
        for (start, end), vote in zip(self.tokenizer.places(text), votes[:, style] - others, strict=True):
            within = [i for i, unit in enumerate(units) if unit.start < end and start < unit.end]
            if within:
                weights[within[0]] += vote
        weights = np.where([unit.is_word for unit in units], weights.clip(min=0), 0.0)  # marks stay
        return (weights / max(weights.sum(), 1e-9)).tolist(), carriers(weights.tolist())

    def masks(self, marked: MarkedText, smaller: bool) -> list[MaskedText]:
        """Try the mask; and, unless a user chose it, fewer words, more words, and each blank with the word after it."""
        found = marked.nested_masks() if smaller else [marked.masked]
        if not marked.by_user:
            chosen = {i for i, word in enumerate(marked.words) if word.masked}
            weights = [word.weight for word in marked.words]
            after = {i + 1 for i in chosen if i + 1 < len(weights) and marked.words[i + 1].text[:1].isalnum()}
            sets = [carriers(weights, FEWER), grown(chosen, carriers(weights, MORE)), chosen | after]
            found += [blank_out(marked.text, marked.spans, some) for some in sets if 0 < len(some) < len(weights)]
        return list({str(mask.template): mask for mask in found}.values())[:MAX_MASKS]

    def log_probs(self, texts: Sequence[str]) -> np.ndarray:
        logits = np.array([votes.sum(0) for votes in self._votes(texts)])  # [texts, styles]
        return logits - np.logaddexp.reduce(logits, axis=1, keepdims=True)

    def _votes(self, texts: Sequence[str]) -> list[np.ndarray]:
        """The votes [L, styles] of the tokens of each text, read by itself: what else is read makes no difference."""
        base, found = self.base.model, []
        assert isinstance(base, SpanBLM)
        for ids in self.tokenizer.encode_many(texts):
            tokens, lengths = pad([ids])  # [1, L], [1]
            (votes,) = self.tone.votes_on(base, tokens.to(base.device), lengths.to(base.device))  # [L, styles]
            found.append(votes.double().cpu().numpy())
        return found

    # --- Rewrites -------------------------------------------------------------------------------------------------

    def candidates(
        self,
        marked: Sequence[MarkedText],
        style: int,
        options: TransferOptions | None = None,
        *,
        progress: Callable[[int], None] | None = None,
        numbers: Sequence[int] | None = None,
        wanted: Sequence[Callable[[], bool]] | None = None,
        **settings: Any,
    ) -> list[list[tuple[MaskedText, Fill]]]:
        """Sample fills text by text: in 8 bits a draw depends a little on what else is in its batch."""
        pools = []
        for i, text in enumerate(marked):
            number, asked = [numbers[i] if numbers else i], wanted and wanted[i : i + 1]
            pools += super().candidates(
                [text], style, options, progress=progress, numbers=number, wanted=asked, **settings
            )
        return pools

    def _request(self, writer: BlankLM, mask: MaskedText, wanted: Callable[[], bool] | None = None) -> Request:
        """Ask for about as many words as were there: style is to change, not what is said."""
        lengths = [Constraint(max=len(units_of(span)) + MORE_WORDS) for span in mask.spans]
        return writer.prepare(str(mask.template), lengths, wanted and (lambda so_far: wanted()))

    def overlaps(self, source: str, texts: Sequence[str]) -> list[float]:
        words = self._words(source)
        return [overlap(words, self._words(text)) for text in texts]

    def unconvincing(self, sure: float, rewrites: Sequence[Rewrite]) -> bool:
        """Whether a text has no style to speak of, or nothing was found that has the one asked for."""
        return sure < SURE or rewrites[0].style < 0.5

    @torch.inference_mode()
    def fluencies(self, fills: Sequence[Fill]) -> list[float]:
        """Return the mean log p of the words of each whole text in their places."""
        policy = self.base.model.for_blanks(None)
        return mean_in_place(policy, self.tokenizer, [fill.text for fill in fills])

    def parts(self, source: str, mask: MaskedText, fill: Fill) -> tuple[str, ...]:
        return interleave(mask.template.pieces, fill.spans)
