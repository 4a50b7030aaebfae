"""BlankLM: a model and its tokenizer as one object that takes text and gives text.

A string in gives one result, a list in gives a list.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, overload

import numpy as np
import torch
from torch import nn

from blanklm import pretrained
from blanklm.core import likelihood
from blanklm.core.canvas import Action, Canvas, Fill, Trajectory
from blanklm.core.special import BLANK
from blanklm.core.template import Blank, Template
from blanklm.core.texts import cut, one_stream
from blanklm.core.tokenizer import Tokenizer
from blanklm.decoding.beam import Sampling, beam_search, sample
from blanklm.decoding.constraint import LONGEST_SPAN, Constraint, Constraints, Text, compile_rules
from blanklm.decoding.draft import Draft
from blanklm.decoding.parallel import fill_in_parallel
from blanklm.errors import BlankLMError, CheckpointError, ConstraintError
from blanklm.training import checkpoint

TEXTS_AT_ONCE = {"cpu": 64, "cuda": 4096}  # texts searched together; more would only hold memory
SCORE_METHODS = ("exact", "monte-carlo", "bound")

ConstraintLike = Constraint | Mapping[str, Any]
Progress = Callable[[int], None]  # called with the number of texts just done
Watch = Callable[[Callable[[], Trajectory]], bool]  # called with the way to the trajectory so far; False: give up


@dataclass(frozen=True)
class Request:
    """A text that has been parsed, checked and turned into tokens: ready to fill."""

    template: Template
    spaces: tuple[bool, ...]
    text: Text
    unknown: tuple[str, ...]  # given words that the vocabulary does not hold


@dataclass(frozen=True)
class Score:
    """log p(text) and how it was found; ``perplexity`` is per token, with the text's tokens counted."""

    text: str
    log_prob: float
    tokens: int
    method: str
    standard_error: float | None = None

    @property
    def perplexity(self) -> float:
        return float(np.exp(-self.log_prob / max(1, self.tokens)))

    def to_json(self) -> dict[str, Any]:
        record = {"input": self.text, "log_prob": self.log_prob, "tokens": self.tokens, "perplexity": self.perplexity}
        record["method"] = self.method
        if self.standard_error is not None:
            record["standard_error"] = self.standard_error
        return record


class BlankLM:
    def __init__(self, model: nn.Module, tokenizer: Tokenizer, about: dict[str, Any] | None = None) -> None:
        self.model, self.tokenizer, self.about = model.eval(), tokenizer, about or {}

    @classmethod
    def from_pretrained(
        cls, name_or_path: str | Path = pretrained.DEFAULT, device: str | None = None, dtype: torch.dtype | None = None
    ) -> BlankLM:
        """A bundled model by name, a folder, or a model of the Hugging Face Hub by its id.

        ``device`` is a GPU if there is one, ``dtype`` bfloat16 there and float32 elsewhere, unless you say otherwise.
        """
        loaded = checkpoint.load(pretrained.locate(name_or_path))
        if loaded.model.product != "fill":
            raise BlankLMError(f"{name_or_path} does not fill blanks: use it with blanklm {loaded.model.product}")
        try:
            model = loaded.model.to(checkpoint.device_for(device))
            torch.zeros(1, device=model.device).item()  # some devices fail only when used
            model = model.to(dtype or (torch.bfloat16 if model.device.type == "cuda" else torch.float32))
        except (RuntimeError, AssertionError, NotImplementedError) as error:
            raise BlankLMError(f"cannot use the device {device!r}: {str(error).splitlines()[0]}") from None
        return cls(model, loaded.tokenizer, loaded.about)

    def save_pretrained(self, folder: str | Path) -> None:
        checkpoint.save(Path(folder), self.model, self.tokenizer, self.about)

    def push_to_hub(self, repository: str, **options: Any) -> str:
        """Upload the model to the Hugging Face Hub; returns its address. ``options`` go to ``create_repo``."""
        import tempfile

        from huggingface_hub import HfApi

        api = HfApi()
        try:
            api.create_repo(repository, exist_ok=True, **options)
            with tempfile.TemporaryDirectory() as folder:
                self.save_pretrained(folder)
                return str(
                    api.upload_folder(repo_id=repository, folder_path=folder, commit_message="Upload a blanklm model")
                )
        except Exception as error:  # network, login and permission errors share no narrower base
            raise CheckpointError(f"cannot push to {repository!r}: {str(error).splitlines()[0]}") from None

    @property
    def longest(self) -> int:
        """How many tokens a text may have."""
        return self.model.config.max_length

    @property
    def parameters(self) -> int:
        return sum(parameter.numel() for parameter in self.model.parameters())

    @property
    def texts_at_once(self) -> int:
        """How many texts are filled together where this model runs."""
        return TEXTS_AT_ONCE.get(self.model.device.type, 64)

    # --- Filling ------------------------------------------------------------------------------------------------

    def prepare(
        self,
        text: str,
        constraints: ConstraintLike | Sequence[ConstraintLike] | None = None,
        watch: Watch | None = None,
    ) -> Request:
        """Parse and check one canvas text; whatever is wrong with it raises here, before any work is done.

        ``watch`` is called before each pass over the text, with a function that gives the leading trajectory so far;
        if it returns False the text is given up, and ``fill`` gives None for it.
        """
        self._check_by_itself()
        template = Template.parse(text)
        if not any(piece.strip() for piece in template.pieces) and not template.blanks:
            raise BlankLMError("the text is empty: write a text with ___ where words are missing")
        if not template.blanks:
            raise BlankLMError("there is no blank in the text: write ___ where words are missing")
        ids, spaces = self.tokenizer.encode_template(template)
        longest = self.model.config.max_length
        if len(ids) > longest:
            raise BlankLMError(
                f"the text takes {len(ids):,} tokens with its {len(template.blanks):,} blanks, and this model takes at "
                f"most {longest:,}: shorten it or split it"
            )
        each = per_blank(constraints, len(template.blanks))
        rules = compile_rules(template, each, spaces, self.tokenizer)
        given = any(i != BLANK for i in ids)
        prepared = Text(tuple(ids), Constraints(rules, longest, self.tokenizer, LONGEST_SPAN if given else None))
        prepared.constraints.check_room(prepared.begin())
        unknown = [word for piece in template.pieces for word in self.tokenizer.unknown_words(piece)]
        request = Request(template, tuple(spaces), prepared, tuple(dict.fromkeys(unknown)))
        if watch is None:
            return request
        watched = replace(prepared, watch=lambda so_far: watch(lambda: self._trajectory(request, so_far())))
        return replace(request, text=watched)

    @overload
    def fill(self, texts: str | Request, **options: Any) -> Fill: ...
    @overload
    def fill(self, texts: Sequence[str | Request], **options: Any) -> list[Fill]: ...

    def fill(
        self,
        texts,
        n: int = 1,
        beam: int = 1,
        order: str = "confident",
        length_penalty: float = 0.0,
        threshold: float = 0.0,
        constraints: ConstraintLike | Sequence[ConstraintLike] | None = None,
        progress: Progress | None = None,
    ):
        """The best fill of each canvas text, with ``n - 1`` alternatives.

        ``order``: which blank next: "confident" (default), "model", "left-to-right", or "parallel": all blanks at once
        whose best action has a probability of at least ``threshold``.
        ``constraints``: one for every blank, or a list with one per blank.
        """

        def search(group: list[Request], places: list[int]) -> list[list[Draft]]:
            if order == "parallel":
                if n != 1 or beam != 1:
                    raise BlankLMError("order 'parallel' gives one fill: leave out the beam and the number of fills")
                texts = [request.text for request in group]
                drafts = fill_in_parallel(self.model, texts, threshold)
                return [[draft] if draft.finished else [] for draft in drafts]
            if threshold:
                raise BlankLMError("a threshold says which blanks act at once: it goes with the order 'parallel'")
            return beam_search(self.model, [request.text for request in group], beam, n, order, length_penalty)

        fills = [_with_alternatives(ranked) for ranked in self._search(texts, constraints, search, progress)]
        return fills[0] if isinstance(texts, str | Request) else fills

    def sample(
        self,
        texts: str | Request | Sequence[str | Request] = "___",
        n: int = 1,
        temperature: float = 1.0,
        top_k: int = 0,
        top_p: float = 1.0,
        seed: int = 0,
        order: str = "model",
        constraints: ConstraintLike | Sequence[ConstraintLike] | None = None,
        progress: Progress | None = None,
        numbers: Sequence[int] | None = None,
    ) -> list[Fill] | list[list[Fill]]:
        """``n`` random fills of each canvas text; of nothing but a blank by default. A list of n fills a text.

        A text's draws depend on ``seed`` and on its number: its place in the list, unless ``numbers`` says otherwise.
        """
        if n < 1:
            raise BlankLMError("the number of samples must be at least 1")
        sampling = Sampling(temperature, top_k, top_p, seed)

        def search(group: list[Request], places: list[int]) -> list[list[Draft]]:
            chosen = places if numbers is None else [numbers[place] for place in places]
            return sample(self.model, [request.text for request in group], n, order, sampling, chosen)

        drawn = self._search(texts, constraints, search, progress)
        return drawn[0] if isinstance(texts, str | Request) else drawn

    def _search(self, texts, constraints, search, progress: Progress | None) -> list[list[Fill]]:
        """Run ``search`` over the texts, a group at a time, and turn its drafts into fills."""
        single = isinstance(texts, str | Request)
        requests = [
            text if isinstance(text, Request) else self.prepare(text, constraints)
            for text in ([texts] if single else texts)
        ]
        # Texts of like length are searched together, so that little of a pass is padding; results keep their places.
        by_length = sorted(range(len(requests)), key=lambda i: len(requests[i].text.ids))
        results: list[list[Fill]] = [[] for _ in requests]
        at_once = self.texts_at_once
        for start in range(0, len(requests), at_once):
            members = by_length[start : start + at_once]
            with torch.inference_mode():
                found = search([requests[i] for i in members], members)
            for i, drafts in zip(members, found, strict=True):
                results[i] = [self._to_fill(requests[i], draft) for draft in drafts]
            if progress:
                progress(len(members))
        return results

    def _to_fill(self, request: Request, draft: Draft) -> Fill:
        token_spans = draft.spans(len(request.template.blanks))
        spans = [self.tokenizer.span_text(ids, space) for ids, space in zip(token_spans, request.spaces, strict=True)]
        return Fill(
            text=self.tokenizer.render(request.template, spans),
            spans=tuple(spans),
            log_prob=draft.log_prob,
            steps=lambda: self._trajectory(request, draft),
        )

    def _trajectory(self, request: Request, draft: Draft) -> Trajectory:
        """The draft's trajectory over readable tokens."""
        blanks = iter(() if self.tokenizer.words_have_parts else request.template.blanks)  # whose lengths are in words
        items = [next(blanks, Blank()) if i == BLANK else self.tokenizer.token_text(i) for i in request.text.ids]
        actions, log_probs = draft.actions()
        readable = [Action(a.blank, self.tokenizer.token_text(a.token), a.left, a.right) for a in actions]
        start = Canvas(tuple(items), separator=" " if self.tokenizer.kind in ("word", "wordpiece") else "")
        return Trajectory.follow(start, readable, log_probs)

    # --- Likelihood -----------------------------------------------------------------------------------------------

    def score(
        self,
        texts: str | Sequence[str],
        method: str = "monte-carlo",
        orders: int = 64,
        seed: int = 0,
        progress: Progress | None = None,
        tokens_per_batch: int | None = None,
    ) -> Score | list[Score]:
        """log p(text): "exact" (short texts), "monte-carlo" over ``orders`` orders, "bound" over as many canvases.

        ``progress`` is called after each batch with the number of canvases scored; what it raises stops the work.
        """
        if method not in SCORE_METHODS:
            raise BlankLMError(f"there is no method {method!r}: choose {', '.join(SCORE_METHODS)}")
        if orders < 1:
            raise BlankLMError("the number of orders must be at least 1")
        if seed < 0:
            raise BlankLMError(f"a seed is 0 or more, not {seed}")
        single = isinstance(texts, str)
        texts = [texts] if single else list(texts)
        ids = [self.to_score(text, method) for text in texts]
        errors: Iterable[float | None] = [None] * len(texts)
        if method == "exact":
            log_probs = [likelihood.exact(self.model, tokens, tokens_per_batch, progress) for tokens in ids]
        elif method == "bound":
            log_probs = likelihood.bound(self.model, ids, orders, seed, tokens_per_batch, progress)
        else:
            estimate = likelihood.monte_carlo(self.model, ids, orders, seed, tokens_per_batch, progress)
            log_probs, errors = estimate.log_likelihoods, estimate.standard_errors
        scores = [
            Score(text, float(log_prob), len(tokens), method, None if error is None else float(error))
            for text, tokens, log_prob, error in zip(texts, ids, log_probs, errors, strict=True)
        ]
        return scores[0] if single else scores

    def to_score(self, text: str, method: str = "monte-carlo") -> list[int]:
        """The tokens of a text, checked: whatever keeps it from being scored raises here."""
        self._check_by_itself()
        tokens = self.tokenizer.encode(text)
        if not tokens:
            raise BlankLMError("the text is empty: there is nothing to score")
        longest = likelihood.LONGEST_EXACT if method == "exact" else self.model.config.max_length
        if len(tokens) > longest:
            what = "the exact sum takes" if method == "exact" else "this model takes"
            raise BlankLMError(f"the text has {len(tokens):,} tokens, and {what} at most {longest:,}: split it")
        return tokens

    def _check_by_itself(self) -> None:
        if self.model.needs_context:
            raise BlankLMError("this model only scores text in context: use score --stream, or fill with another model")

    def perplexity(
        self,
        texts: Sequence[str],
        orders: int = 64,
        chunk: int | None = None,
        seed: int = 0,
        progress: Progress | None = None,
    ) -> likelihood.Estimate:
        """The paper's convention: one stream of all texts with <eos>, in chunks; perplexity per token with <eos>.

        A model that reads a context goes through the stream sentence by sentence, unless a ``chunk`` is asked for.
        """
        stream = one_stream(map(self.tokenizer.encode, texts))
        pieces, given = self.model.pieces(stream) if chunk is None else (cut(stream, chunk), None)
        return likelihood.monte_carlo(self.model, pieces, orders, seed, progress=progress, given=given)

    def score_work(self, texts: Sequence[str], method: str, orders: int) -> int:
        """How many canvases ``score`` looks at, and reports to its ``progress``."""
        if method == "bound":
            return len(texts) * orders
        ids = self.tokenizer.encode_many(texts)
        if method == "exact":
            return sum(2 ** len(tokens) - 1 for tokens in ids)
        return likelihood.canvas_count(ids, orders)


def _with_alternatives(ranked: list[Fill]) -> Fill | None:
    if not ranked:  # given up
        return None
    best, *rest = ranked
    return replace(best, alternatives=tuple(rest))


def per_blank(constraints, blanks: int) -> list[Constraint]:
    """One constraint for each blank, from one for all or a list of one each."""
    if constraints is None or isinstance(constraints, Constraint | Mapping):
        constraints = [constraints or Constraint()] * blanks
    constraints = list(constraints)
    if len(constraints) != blanks:
        raise ConstraintError(f"the text has {blanks} blanks and there are {len(constraints)} constraints")
    wrong = [c for c in constraints if not isinstance(c, Constraint | Mapping | None)]
    if wrong:
        raise ConstraintError(f"a constraint is an object with min, max, ban, require, only; not {wrong[0]!r}")
    return [c if isinstance(c, Constraint) else Constraint.from_json(c or {}) for c in constraints]
