"""A published Llama-type language model as a judge of fluency: what it gives whole texts, read from left to right."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import torch
from torch import Tensor
from torch.nn import functional as F

from blanklm.core.packing import Packing
from blanklm.errors import BlankLMError
from blanklm.models.backbone import hugging_face
from blanklm.models.causal_backbone import CausalPretrained
from blanklm.training.checkpoint import device_for

TOKENS_AT_ONCE = 2048  # read together
ROWS_AT_ONCE = 512  # of the vocabulary, scored together


class CausalJudge:
    """Has its own whole vocabulary. The token that ends a text also begins one."""

    def __init__(self, source: CausalPretrained, device: str = "cpu") -> None:
        if source.backend is None or source.eos is None:
            missing = "tokenizer of byte-level BPE" if source.backend is None else "token that ends a text"
            raise BlankLMError(f"this language model brings no {missing}, so it cannot judge: choose another")
        self.backend, self.eos, self.longest = source.backend, source.eos, source.config.longest
        self.encoder = source.config.build(causal=True)
        self.encoder.load_state_dict(source.weights)
        self.encoder.to(device).eval()
        self.vectors = source.vectors.to(device)  # [V, d] what it reads words as, and scores them by

    @classmethod
    def load(cls, name: str | Path, device: str | None = None) -> CausalJudge:
        """From a folder, the Hub or a .gguf file."""
        source = CausalPretrained.load(name)
        if not _scores_by_embedding(name):
            raise BlankLMError(f"{str(name)!r} scores words by other vectors than it reads: choose one whose are tied")
        return cls(source, device_for(device))

    def log_prob(self, texts: Sequence[str]) -> list[float]:
        """log p of each text, its end included. One longer than the model takes is read in stretches."""
        stretches: list[tuple[int, list[int]]] = []  # of a text, the token before it first
        for text, encoding in enumerate(self.backend.encode_batch(list(texts), add_special_tokens=False)):
            whole = [self.eos, *encoding.ids, self.eos]
            stretches += [(text, whole[i : i + self.longest + 1]) for i in range(0, len(whole) - 1, self.longest)]
        totals = [0.0] * len(texts)
        with torch.inference_mode():
            for members in _batches(stretches):
                for (text, _), log_p in zip(members, self._read([ids for _, ids in members]), strict=True):
                    totals[text] += log_p
        return totals

    def _read(self, stretches: Sequence[Sequence[int]]) -> list[float]:
        """log p of the tokens of each stretch but its first."""
        device = self.vectors.device
        lengths = torch.tensor([len(ids) - 1 for ids in stretches], device=device)  # [B]
        inputs = torch.tensor([i for ids in stretches for i in ids[:-1]], device=device)  # [T]
        targets = torch.tensor([i for ids in stretches for i in ids[1:]], device=device)  # [T]
        packing = Packing.of(lengths, int(lengths.max()))
        z = self.encoder(self.vectors[inputs], packing)  # [T, d]
        losses = [  # [T] in parts
            F.cross_entropy((part @ self.vectors.T).float(), words, reduction="none")
            for part, words in zip(z.split(ROWS_AT_ONCE), targets.split(ROWS_AT_ONCE), strict=True)
        ]
        return _sums(-torch.cat(losses), packing).tolist()


def _sums(values: Tensor, packing: Packing) -> Tensor:
    """Sum ``values`` [T] over each sequence [B]."""
    return values.new_zeros(len(packing), dtype=torch.float64).index_add(0, packing.sequence, values.double())


def _batches(stretches: Sequence[tuple[int, list[int]]]) -> Iterator[list[tuple[int, list[int]]]]:
    """Yield stretches of similar lengths, about TOKENS_AT_ONCE tokens together."""
    members: list[tuple[int, list[int]]] = []
    for stretch in sorted(stretches, key=lambda stretch: len(stretch[1])):
        if members and (len(members) + 1) * len(stretch[1]) > TOKENS_AT_ONCE:
            yield members
            members = []
        members.append(stretch)
    if members:
        yield members


def _scores_by_embedding(name: str | Path) -> bool:
    """Whether the output layer of a language model is its embedding, which is all that ``CausalPretrained`` has."""
    if str(name).endswith(".gguf"):
        from gguf import GGUFReader

        return all(tensor.name != "output.weight" for tensor in GGUFReader(name).tensors)
    return bool(hugging_face().AutoConfig.from_pretrained(str(name)).tie_word_embeddings)
