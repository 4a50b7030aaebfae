"""One word for each ``[MASK]`` or ``<mask>``, as the fill-mask pipeline of transformers answers."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from blanklm.core.policy import SpanScorer
from blanklm.core.special import BLANK, UNK
from blanklm.core.template import Blank, Template
from blanklm.core.texts import pad
from blanklm.core.tokenizer import Tokenizer
from blanklm.errors import BlankLMError
from blanklm.options import check_number

MASK = re.compile(r"\[MASK\]|<mask>")
EXPANDED = 8  # beginnings of words that are continued at a time
LONGEST_WORD = 4  # tokens of a word that is found; more only where a target has them
WRITTEN = 0  # words that begin in a blank for the rest of a word


@dataclass(frozen=True)
class _Part:
    """A word or its beginning, with log p of it and, where the model tells, of its being continued."""

    ids: tuple[int, ...]
    log_p: float
    log_p_more: float


class Masks:
    """The masks of one text, all of which hold one word each."""

    def __init__(self, policy: Any, tokenizer: Tokenizer, text: str, longest: int) -> None:
        self.policy, self.tokenizer = policy, tokenizer
        self.masks = [match[0] for match in MASK.finditer(text)]
        if not self.masks:
            raise BlankLMError("there is no mask in the text: write [MASK] or <mask> where a word is missing")
        self.template = Template(tuple(MASK.split(text)), (Blank.exactly(1),) * len(self.masks))
        ids, self.spaces = tokenizer.encode_template(self.template)
        if len(ids) > longest - LONGEST_WORD:
            raise BlankLMError(f"the text takes {len(ids):,} tokens, and this model takes {longest:,}: split it")
        self.ids = tuple(ids)
        self.places = [i for i, item in enumerate(ids) if item == BLANK]
        self.spans = isinstance(policy, SpanScorer) and policy.told == "spans"

    def best(self, mask: int, top_k: int) -> list[dict[str, Any]]:
        """The most probable words for a mask (from 0), and their probabilities as the only word there."""
        found: list[_Part] = []
        begun = [_Part((), 0.0, 0.0)]
        for _ in range(LONGEST_WORD if self.spans and self.tokenizer.words_have_parts else 1):
            fresh = [part for parts in self._following(mask, begun, 4 * top_k + 32) for part in parts]
            found = sorted(found + fresh, key=lambda part: -part.log_p)
            least = found[top_k - 1].log_p if len(found) >= top_k else float("-inf")
            begun = sorted((part for part in fresh if part.log_p_more > least), key=lambda part: -part.log_p_more)
            begun = begun[:EXPANDED]
            if not begun:
                break
        return [self._record(mask, part.ids, part.log_p) for part in found[:top_k]]

    def of(self, mask: int, targets: Sequence[str]) -> list[dict[str, Any]]:
        """Named words for a mask, the most probable first."""
        records = []
        for target in dict.fromkeys(targets):
            ids = tuple(self.tokenizer.encode((" " if self.spaces[mask] else "") + target.strip()))
            if not ids or UNK in ids or len(target.split()) != 1:
                raise BlankLMError(
                    f"the target {target!r} is no single word that the model knows: choose ranks phrases"
                )
            if len(ids) > 1 and not self.spans:
                raise BlankLMError(f"the target {target!r} has {len(ids)} tokens: this model scores one in a mask")
            log_p, begun = 0.0, _Part((), 0.0, 0.0)
            for n, token in enumerate(ids):
                [parts] = self._following(mask, [begun], token=token)
                begun = _Part(ids[: n + 1], parts[0].log_p_more, parts[0].log_p_more)
                log_p = parts[0].log_p
            records.append(self._record(mask, ids, log_p))
        return sorted(records, key=lambda record: -record["score"])

    @torch.inference_mode()
    def _following(
        self, mask: int, begun: Sequence[_Part], count: int = 1, token: int | None = None
    ) -> Iterator[list[_Part]]:
        """The most probable tokens after each beginning of a word, or the one ``token``."""
        place, count = self.places[mask], min(count, len(self.tokenizer))
        canvases = [(*self.ids[:place], *part.ids, *self.ids[place:]) for part in begun]
        ids, lengths = (part.to(self.policy.device) for part in pad(canvases))
        rows = torch.tensor([r * len(self.places) + mask for r in range(len(begun))], device=ids.device)  # [R]
        if self.spans:
            words = torch.where(ids == BLANK, 1, -1)  # [R, L]
            for r, part in enumerate(begun):
                words[r, place + len(part.ids)] = WRITTEN if part.ids else 1
            scores = self.policy.score_spans(ids, lengths, ids.shape[1], words)
            log_p = scores.log_p_first[rows]  # [R, V]
            sides: Tensor | None = None
        else:
            scores = self.policy.score(ids, lengths, ids.shape[1])
            log_p = scores.log_p_word[rows]
            every = torch.arange(log_p.shape[1], device=ids.device)
            sides = torch.stack([scores.log_p_sides(row.expand(len(every)), every)[:, 0] for row in rows])
            log_p = (log_p + sides).log_softmax(1)  # of words that stand alone
        for r, part in enumerate(begun):
            open_to = log_p[r]
            if token is None:
                open_to = open_to.masked_fill(~self._allowed(mask, bool(part.ids)).to(ids.device), float("-inf"))
            best = torch.tensor([token], device=ids.device) if token is not None else open_to.topk(count).indices
            own = open_to[best].double()
            ends, goes_on = torch.zeros_like(own), torch.full_like(own, float("-inf"))
            if self.spans:
                ends, goes_on = scores.log_p_more(rows[r].expand(len(best)), best).double().unbind(1)
            yield [
                _Part((*part.ids, i), part.log_p_more + p + end, part.log_p_more + p + more)
                for i, p, end, more in zip(best.tolist(), own.tolist(), ends.tolist(), goes_on.tolist(), strict=True)
                if p > float("-inf")
            ]

    def _allowed(self, mask: int, begun: bool) -> Tensor:
        """[V] tokens that may come next: one that begins a word, or one that continues it."""
        starts = torch.from_numpy(self.tokenizer.starts_word)
        allowed = torch.from_numpy(~self.tokenizer.never_written)
        if self.tokenizer.space is not None:
            allowed = allowed.index_fill(0, torch.tensor([self.tokenizer.space]), False)
        if not self.tokenizer.words_have_parts:
            return allowed
        return allowed & (starts if self.spaces[mask] and not begun else ~starts)

    def _record(self, mask: int, ids: tuple[int, ...], log_p: float) -> dict[str, Any]:
        word = self.tokenizer.span_text(ids, self.spaces[mask])
        spans = [word if n == mask else written for n, written in enumerate(self.masks)]
        return {
            "score": float(torch.tensor(log_p).exp()),
            "token": ids[0] if len(ids) == 1 else None,
            "token_str": word,
            "sequence": self.template.render(spans),
        }


def fill_mask(
    policy: Any, tokenizer: Tokenizer, longest: int, text: str, top_k: int, targets: str | Sequence[str] | None
) -> list[Any]:
    """Return a list of records for the only mask of a text, or a list of such lists for several."""
    check_number("top_k", top_k, ge=1)
    masks = Masks(policy, tokenizer, text, longest)
    wanted = [targets] if isinstance(targets, str) else targets
    if wanted is not None and not wanted:
        raise BlankLMError("at least one target must be given, or leave targets out")
    found = [
        masks.best(mask, top_k) if wanted is None else masks.of(mask, wanted)[:top_k]
        for mask in range(len(masks.masks))
    ]
    return found[0] if len(found) == 1 else found
