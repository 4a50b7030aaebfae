"""Rewrite a text in another style (Section 4.3): mask the words that carry its style, fill the blanks, choose.

The classifier's attention decides which words are masked; the BLM of the target style fills the blanks several times;
p(style), the words kept and the BLM's own probability rank the rewrites.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence, Set
from functools import cached_property
from pathlib import Path
from typing import Any, Self, overload

import numpy as np
import torch
from torch import Tensor

from blanklm import pretrained
from blanklm.api import BlankLM, Request
from blanklm.core.canvas import Fill
from blanklm.core.texts import pad
from blanklm.core.tokenizer import Tokenizer
from blanklm.data.masking import MaskedText
from blanklm.decoding.constraint import Constraint
from blanklm.errors import BlankLMError
from blanklm.models.classifier import AttentionClassifier, Classifier
from blanklm.models.rewriter import Rewriter
from blanklm.models.steered_span_blm import SteeredSpanBLM
from blanklm.models.styled_blm import StyledBLM
from blanklm.models.tone import Tone
from blanklm.training import checkpoint
from blanklm.training.epochs import split_by_budget
from blanklm.transfer.marking import MAX_MASKS, MarkedText, Mask, Span, check_text, mark_words
from blanklm.transfer.options import CONTRAST, SAMPLES, TransferOptions, Weights, check_contrast
from blanklm.transfer.results import Rewrite, TextRewrites, count_repetitions, overlap
from blanklm.transfer.surface import interleave, is_print, is_tokenised, to_print

DEFAULT = pretrained.DEFAULT_TRANSFER
TOKENS_PER_BATCH = 16_384  # of texts to classify

_PLACEHOLDER = re.compile(r"_\w+_")  # stands for a number or a name in a research corpus

# Of 120 validation sentences of the bundled model's corpus, one in twenty is less sure of its style, one in four has a
# best rewrite that is less fluent, and none is both.
SURE = 0.9  # p(style) of a text
FLUENT = -3.2  # log p per word written


class StyleClassifier:
    """A style classifier with its tokenizer: texts in, probabilities and attention out."""

    def __init__(self, model: Classifier, tokenizer: Tokenizer) -> None:
        self.model, self.tokenizer = model.eval(), tokenizer

    @classmethod
    def from_pretrained(cls, folder: str | Path, device: str | None = None) -> Self:
        loaded = checkpoint.load(pretrained.locate(folder))
        if not isinstance(loaded.model, Classifier):
            raise BlankLMError(f"the model in {folder} is not a style classifier: pass the folder of one")
        return cls(loaded.model.to(checkpoint.device_for(device)), loaded.tokenizer)

    def log_probs(self, texts: Sequence[str]) -> np.ndarray:
        """Return log p(style | text) [texts, styles]."""
        rows = self._read(texts, lambda tokens, lengths: self.model.logits(tokens, lengths).log_softmax(1))
        return np.array(rows).reshape(len(texts), -1)

    def attention(self, texts: Sequence[str]) -> list[list[float]]:
        """Return the attention to each word of each text."""
        if not isinstance(self.model, AttentionClassifier):
            raise BlankLMError("this classifier has no attention: mark words with an attention classifier")
        weights = self._read(texts, self.model.attention)
        return [row[: len(self.tokenizer.places(text))] for row, text in zip(weights, texts, strict=True)]

    @torch.inference_mode()
    def _read(self, texts: Sequence[str], function: Callable[[Tensor, Tensor], Tensor]) -> list[list[float]]:
        """Apply ``function(tokens, lengths)`` to batches; return its row for each text. An empty text is padding."""
        ids = self.tokenizer.encode_many(texts)
        lengths = np.array([max(1, len(text)) for text in ids])
        by_length = np.argsort(lengths, kind="stable")
        rows: list[list[float]] = [[] for _ in texts]
        for group in split_by_budget(lengths[by_length], TOKENS_PER_BATCH):
            members = by_length[group]
            tokens, sizes = (part.to(self.model.device) for part in pad([ids[i] for i in members]))  # [B, L], [B]
            for i, row in zip(members, function(tokens, sizes.clamp_min(1)).tolist(), strict=True):
                rows[i] = row
        return rows


class Transfer:
    """A classifier, and for each style a BLM that writes in it.

    ``SteeredTransfer`` (``transfer/steered.py``) has a model of the votes of words in place of the classifier.
    """

    samples, weights = SAMPLES, Weights()  # where the options give none

    def __init__(
        self,
        classifier: StyleClassifier,
        writers: Sequence[BlankLM],
        styles: Sequence[str],
        about: dict[str, Any] | None = None,
    ) -> None:
        self.classifier, self.writers, self.styles, self.about = classifier, list(writers), list(styles), about or {}

    @classmethod
    def from_pretrained(
        cls,
        name_or_path: str | Path = DEFAULT,
        device: str | None = None,
        contrast: float = CONTRAST,
        base: BlankLM | None = None,
    ) -> Transfer:
        """Load a bundled model by name, a folder, or a model of the Hugging Face Hub by its id.

        ``contrast``: how strongly the writer avoids words that other styles use too (models/styled_blm.py). ``base``:
        the model that this one stands on, where it stands on one and that is loaded already.
        """
        check_contrast(contrast)
        loaded = checkpoint.load(pretrained.locate(name_or_path))
        if isinstance(loaded.model, Tone):
            from blanklm.transfer.steered import SteeredTransfer  # which derives from this class

            return SteeredTransfer.on(base, loaded.model, loaded.tokenizer, loaded.about, device, contrast)
        if not isinstance(loaded.model, Rewriter):
            raise BlankLMError(f"{name_or_path} does not rewrite texts: train such a model with train --task transfer")
        model = loaded.model.to(checkpoint.device_for(device))
        if model.writer.device.type == "cuda":
            model.writer.to(torch.bfloat16)
        styles = range(len(model.config.styles))
        writers = [BlankLM(model.writer.in_style(style, contrast), loaded.tokenizer) for style in styles]
        return cls(StyleClassifier(model.classifier, loaded.tokenizer), writers, model.config.styles, loaded.about)

    @property
    def tokenizer(self) -> Tokenizer:
        return self.classifier.tokenizer

    @property
    def parameters(self) -> int:
        """Return the number of parameters; those that models share count once."""
        models = (self.classifier.model, *(writer.model for writer in self.writers))
        return sum({id(p): p.numel() for model in models for p in model.parameters()}.values())

    @property
    def longest(self) -> int:
        """Return how many words and punctuation marks a text may have."""
        return min([self.classifier.model.config.max_length, *(writer.longest for writer in self.writers)])

    def options(self, options: TransferOptions | None, settings: dict[str, Any]) -> TransferOptions:
        """Return the options of a call, with what suits this model where nothing was chosen."""
        return TransferOptions.of(options, settings).completed(self.samples, self.weights)

    def style_number(self, style: str) -> int:
        if style not in self.styles:
            raise BlankLMError(f"there is no style {style!r}: this model knows {' and '.join(self.styles)}")
        return self.styles.index(style)

    def mark(self, text: str, mask: Mask | None = None) -> MarkedText:
        """Mark the words with above-average attention, or those of ``mask``.

        A mask consists of words and phrases, wherever they occur, and of word numbers, counted from 0.
        """
        return self._mark([text], mask)[0]

    def _mark(self, texts: Sequence[str | MarkedText], mask: Mask | None) -> list[MarkedText]:
        """Mark the texts that are not marked yet."""
        plain = [text for text in texts if isinstance(text, str)]
        spans = [self.places(text) for text in plain]
        for text, words in zip(plain, spans, strict=True):
            check_text(text, words, self.longest)
        weights = self.weigh(plain) if plain else []
        parts = zip(plain, spans, weights, strict=True)
        marked = (mark_words(text, words, shares, mask, carrying) for text, words, (shares, carrying) in parts)
        return [next(marked) if isinstance(text, str) else text for text in texts]

    # --- What another kind of model does in its own way ---------------------------------------------------------

    def unconvincing(self, sure: float, rewrites: Sequence[Rewrite]) -> bool:
        """Whether a text has no style to speak of, and nothing fluent was found in place of it either."""
        return sure < SURE and max(rewrite.fluency for rewrite in rewrites) < FLUENT

    def places(self, text: str) -> list[Span]:
        """Where the words of a text begin and end."""
        return self.tokenizer.places(text)

    def weigh(self, texts: Sequence[str]) -> list[tuple[list[float], Set[int] | None]]:
        """Return the share of each word in the style of its text; and the words that carry it, if not by the shares."""
        return [(weights, None) for weights in self.classifier.attention(texts)]

    def masks(self, marked: MarkedText, smaller: bool) -> list[MaskedText]:
        """Return the masks to try, at most ``MAX_MASKS``."""
        return marked.nested_masks() if smaller else [marked.masked]

    def log_probs(self, texts: Sequence[str]) -> np.ndarray:
        """Return log p(style | text) [texts, styles]."""
        return self.classifier.log_probs(texts)

    def overlaps(self, source: str, texts: Sequence[str]) -> list[float]:
        """Return the share of words that each text has in common with the source."""
        source_ids, *ids = self.tokenizer.encode_many([source, *texts])
        return [overlap(source_ids, own) for own in ids]

    def fluencies(self, fills: Sequence[Fill]) -> list[float]:
        """Return log p per word written of each fill."""
        return [fill.log_prob / max(1, sum(len(span.split()) for span in fill.spans)) for fill in fills]

    def parts(self, source: str, mask: MaskedText, fill: Fill) -> tuple[str, ...]:
        """Return what was kept and what was written, alternately, as a text like the source has it."""
        if is_print(source, self.tokenizer):
            return to_print(mask, fill.spans)
        return interleave(mask.template.pieces, fill.spans)

    @overload
    def rewrite(
        self,
        texts: str | MarkedText,
        to: str,
        mask: Mask | None = None,
        options: TransferOptions | None = None,
        **settings: Any,
    ) -> TextRewrites: ...
    @overload
    def rewrite(
        self,
        texts: Sequence[str | MarkedText],
        to: str,
        mask: Mask | None = None,
        options: TransferOptions | None = None,
        **settings: Any,
    ) -> list[TextRewrites | None]: ...

    def rewrite(
        self,
        texts: str | MarkedText | Sequence[str | MarkedText],
        to: str,
        mask: Mask | None = None,
        options: TransferOptions | None = None,
        *,
        progress: Callable[[int], None] | None = None,
        numbers: Sequence[int] | None = None,
        wanted: Sequence[Callable[[], bool]] | None = None,
        **settings: Any,
    ) -> TextRewrites | list[TextRewrites | None] | None:
        """Rewrite each text in the style ``to``, in at most ``n`` ways, best first.

        ``mask``: words or phrases to replace, instead of those the classifier marks. ``settings`` are those of
        ``TransferOptions``: n, samples, temperature, contrast, content, fluency, repetition, try_smaller_masks,
        abstain, seed; ``weights`` sets the three weights at once.

        The samples of a text depend on the seed and on its number: its
        place in the list, unless ``numbers`` says otherwise. ``wanted`` is called now and then for each text; if it
        returns False, the text is given up and its result is None.
        """
        options = self.options(options, settings)
        style = self.style_number(to)
        single = isinstance(texts, str | MarkedText)
        marked = self._mark([texts] if isinstance(texts, str | MarkedText) else texts, mask)
        pools = self.candidates(marked, style, options, progress=progress, numbers=numbers, wanted=wanted)
        log_p_styles = self.log_probs([m.text for m in marked])  # [texts, styles]
        weights = options.weights
        results: list[TextRewrites | None] = []
        for m, pool, log_p in zip(marked, pools, log_p_styles, strict=True):
            rewrites = tuple(self.rank(m.text, pool, style, weights)[: options.n])
            if options.abstain and rewrites and self.unconvincing(float(np.exp(log_p.max())), rewrites):
                kept = float(np.exp(log_p[style]))
                score = weights.score(float(log_p[style]), 1.0, 0.0, 0)
                rewrites = (Rewrite(m.text, (m.text,), m.text, kept, 1.0, 0.0, score),)
            likeliest, unknown = int(log_p.argmax()), tuple(self.tokenizer.unknown_words(m.text))
            result = TextRewrites(m, to, self.styles[likeliest], float(np.exp(log_p[likeliest])), rewrites, unknown)
            results.append(result if rewrites else None)
        return results[0] if single else results

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
        """Sample fills of each mask of each text, smaller masks first; the arguments are those of ``rewrite``."""
        options = self.options(options, settings)
        writer = self._writer(style, options.contrast)
        masks = [self.masks(m, options.try_smaller_masks) for m in marked]
        requests: list[Request] = []
        mask_numbers: list[int] = []
        for i, group in enumerate(masks):
            requests += [self._request(writer, mask, wanted[i] if wanted else None) for mask in group]
            first = (numbers[i] if numbers else i) * MAX_MASKS
            mask_numbers += range(first, first + len(group))
        fills = iter(writer.sample(requests, options.sampling, progress=progress, numbers=mask_numbers))
        return [[(mask, fill) for mask in group for fill in next(fills)] for group in masks]

    def _writer(self, style: int, contrast: float | None) -> BlankLM:
        writer = self.writers[style]
        if contrast is None:
            return writer
        if not isinstance(writer.model, StyledBLM | SteeredSpanBLM):
            raise BlankLMError("the writers of this model know one style each: leave out the contrast")
        return BlankLM(writer.model.in_style(style, contrast), writer.tokenizer)

    def _request(self, writer: BlankLM, mask: MaskedText, wanted: Callable[[], bool] | None = None) -> Request:
        """Prepare a mask for the writer; only tokenised text, such as that of the corpus, may contain placeholders."""
        tokenised = is_tokenised(mask.text, self.tokenizer)
        constraint = None if tokenised else Constraint(ban=self.placeholders)
        return writer.prepare(str(mask.template), constraint, wanted and (lambda so_far: wanted()))

    @cached_property
    def placeholders(self) -> tuple[str, ...]:
        words = self.tokenizer.backend.get_vocab()
        return tuple(sorted(word for word in words if _PLACEHOLDER.fullmatch(word)))

    def rank(self, source: str, pool: Sequence[tuple[MaskedText, Fill]], style: int, weights: Weights) -> list[Rewrite]:
        """Rank the fills of a text's masks, best first; of equal texts, keep that of the first mask."""
        pool = list({fill.text: (mask, fill) for mask, fill in reversed(pool)}.values())
        if not pool:
            return []
        fills = [fill for _, fill in pool]
        texts = [fill.text for fill in fills]
        log_p_style, overlaps, fluencies = (
            self.log_probs(texts)[:, style],
            self.overlaps(source, texts),
            self.fluencies(fills),
        )
        source_words = self._words(source)
        rewrites = []
        for (mask, fill), log_p, content, fluency in zip(pool, log_p_style, overlaps, fluencies, strict=True):
            repetitions = count_repetitions(source_words, self._words(fill.text))
            score = weights.score(float(log_p), content, fluency, repetitions)
            parts = self.parts(source, mask, fill)
            style_p = float(np.exp(log_p))
            rewrites.append(Rewrite("".join(parts), parts, str(mask.template), style_p, content, fluency, score))
        return sorted(rewrites, key=lambda rewrite: -rewrite.score)

    def _words(self, text: str) -> list[str]:
        return [text[start:end].lower() for start, end in self.places(text)]
