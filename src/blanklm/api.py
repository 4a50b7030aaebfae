"""BlankLM: a model and its tokenizer as one object that takes text and returns text.

A string gives one result, a list gives a list.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args, overload

import torch

from blanklm import pretrained
from blanklm.arguments import list_of_texts, options_of
from blanklm.choosing.choose import Choices, rank
from blanklm.choosing.masks import fill_mask
from blanklm.choosing.options import ChooseOptions
from blanklm.choosing.question import Question
from blanklm.core import likelihood
from blanklm.core.canvas import Fill, Trajectory
from blanklm.core.texts import cut, one_stream
from blanklm.core.tokenizer import Tokenizer
from blanklm.decoding.fill import fill as search
from blanklm.decoding.fill import sample as draw
from blanklm.decoding.options import FillOptions, SampleOptions
from blanklm.decoding.request import ConstraintLike, Request
from blanklm.errors import BlankLMError, BlankLMWarning
from blanklm.models.blm import BLM
from blanklm.options import ScoreMethod, check_number
from blanklm.repairing.lexicon import Lexicon
from blanklm.repairing.options import RepairOptions
from blanklm.repairing.repair import Repair, Repairer
from blanklm.repairing.surprise import WordScore, check_units, leave_one_out
from blanklm.scoring import Score, check_draws, scores_of
from blanklm.training import checkpoint

TEXTS_AT_ONCE = {"cpu": 64, "cuda": 4096}  # texts searched together; more would only hold memory

Progress = Callable[[int], None]  # called with the number of texts just done
Watch = Callable[[Callable[[], Trajectory]], bool]  # called with a way to the trajectory so far; False: give up


class BlankLM:
    """A model and its tokenizer: fills blanks of any length, chooses among options, repairs and scores texts.

    >>> from blanklm import BlankLM
    >>> model = BlankLM.from_pretrained()  # or "english-small", a folder, an id of the Hugging Face Hub
    >>> fill = model.fill("She opened the ___ and ___.", constraints=[{"max": 2}, {"require": ["smiled"]}])
    >>> fill.text, fill.spans
    ('She opened the door and smiled.', ('door', 'smiled'))

    ``fill`` gives the best fills and ``sample`` random ones; ``choose`` ranks options for blanks; ``repair`` corrects
    texts; ``score`` and ``perplexity`` say how probable texts are, ``surprise`` how probable each word is;
    ``save_pretrained`` and ``push_to_hub`` keep the model. ``blanklm.fit`` trains one on your texts.
    """

    def __init__(self, model: BLM, tokenizer: Tokenizer, about: dict[str, Any] | None = None) -> None:
        self.model, self.tokenizer, self.about = model.eval(), tokenizer, about or {}

    def __repr__(self) -> str:
        name = self.about.get("name") or self.about.get("data") or type(self.model).__name__
        return f"<BlankLM {name}: {self.parameters / 1e6:.1f} M parameters, on {self.model.device}>"

    @classmethod
    def from_pretrained(
        cls, name_or_path: str | Path = pretrained.DEFAULT, device: str | None = None, dtype: torch.dtype | None = None
    ) -> BlankLM:
        """Load a bundled model by name, a folder, or a model of the Hugging Face Hub by its id.

        By default ``device`` is a GPU if there is one. ``dtype`` is bfloat16 on a GPU; on a CPU it is int8 for a large
        model and float32 for others. A model in int8 cannot be saved.
        """
        loaded = checkpoint.load(pretrained.locate(name_or_path))
        if not isinstance(loaded.model, BLM):
            raise BlankLMError(f"{name_or_path} does not fill blanks: use it with blanklm {loaded.model.product}")
        if loaded.about.get("untrained"):
            warnings.warn(
                f"{name_or_path} holds weights that have not been trained on its texts yet: resume its training",
                BlankLMWarning,
                stacklevel=2,
            )
        if dtype is not None and not isinstance(dtype, torch.dtype):
            raise BlankLMError(f"a dtype is one of torch's, such as torch.float32, not {dtype!r}")
        try:
            model: Any = loaded.model.to(checkpoint.device_for(device))
            torch.zeros(1, device=model.device).item()  # some devices fail only when used
            model = checkpoint.convert(model, dtype or checkpoint.dtype_for(model))
        except (RuntimeError, AssertionError, NotImplementedError) as error:
            reason = str(error).splitlines()[0]
            if reason.startswith("Expected one of"):  # all the devices that torch has ever had
                reason = "there is no device of that name; choose cpu, cuda, cuda:1 or mps"
            raise BlankLMError(f"cannot use the device {device!r}: {reason}") from None
        return cls(model, loaded.tokenizer, loaded.about)

    def save_pretrained(self, folder: str | Path) -> None:
        """Save the model and its tokenizer to a folder, which ``from_pretrained`` loads."""
        checkpoint.save(Path(folder), self.model, self.tokenizer, self.about)

    def push_to_hub(self, repository: str, **options: Any) -> str:
        """Upload the model to the Hugging Face Hub and return its address. ``options`` go to ``create_repo``."""
        return pretrained.upload(repository, self.save_pretrained, **options)

    @property
    def longest(self) -> int:
        """Return how many tokens a text may have."""
        return self.model.config.max_length

    @property
    def parameters(self) -> int:
        return self.model.parameter_count

    @property
    def texts_at_once(self) -> int:
        """Return how many texts are filled together on this device."""
        return TEXTS_AT_ONCE.get(self.model.device.type, 64)

    # --- Filling ------------------------------------------------------------------------------------------------

    def prepare(
        self,
        text: str,
        constraints: ConstraintLike | Sequence[ConstraintLike] | None = None,
        watch: Watch | None = None,
    ) -> Request:
        """Parse and check one text with blanks; a mistake in it raises here, before any work is done.

        ``watch`` is called before each pass over the text, with a function that returns the leading trajectory so far.
        If it returns False, the text is abandoned, and ``fill`` returns None for it.
        """
        self._check_by_itself()
        request = Request.parse(text, constraints, self.tokenizer, self.longest)
        if watch is None:
            return request
        return replace(request, watch=lambda so_far: watch(lambda: request.trajectory(so_far())))

    @overload
    def fill(self, texts: str | Request, options: FillOptions | None = None, **settings: Any) -> Fill: ...
    @overload
    def fill(
        self, texts: Sequence[str | Request], options: FillOptions | None = None, **settings: Any
    ) -> list[Fill]: ...

    def fill(
        self,
        texts: str | Request | Sequence[str | Request],
        options: FillOptions | None = None,
        *,
        constraints: ConstraintLike | Sequence[ConstraintLike] | None = None,
        progress: Progress | None = None,
        **settings: Any,
    ) -> Fill | list[Fill]:
        """Return the best fill of a text with blanks, or of each text of a list.

        >>> model.fill("The ___ was late, so ___[2-4].", n=3, beam=5, constraints=[{"ban": ["train"]}, {}])

        ``___`` is a blank of any length, ``___[3]`` takes three words, ``___[2-5]`` two to five. A ``Fill`` has
        ``text``, ``spans`` (what was written, one string per blank), ``log_prob``, ``alternatives`` and ``trajectory``.
        ``constraints`` is one constraint for all blanks, or a list with one per blank: a ``Constraint`` or a dict with
        any of min, max (lengths in words), ban, require and only (lists of words).

        ``settings`` are those of ``FillOptions``:
            n: how many fills, the best and n - 1 alternatives; the beam is at least as wide (1)
            beam: how many drafts the search keeps; more is slower and finds more probable fills (1: greedy)
            rerank: among how many fills of a span to choose by how well every word fits its place (4)
            order: confident, left-to-right, model or parallel; by default what suits the model
            length_penalty: rank fills by log p / steps to this power (0: by log p)
            threshold: with ``parallel``, the least probability of a word to be written (0)
            blanks: what the blanks stand for, "spans" or "words"
        """
        options = options_of(FillOptions, options, settings, "constraints")
        policy, requests = self.model.for_blanks(options.blanks), self._requests(texts, constraints)
        fills: list[Any] = [None] * len(requests)  # None where it was given up
        for members in self._groups(requests, progress):
            with torch.inference_mode():
                found = search(policy, [requests[i] for i in members], options)
            for i, drafts in zip(members, found, strict=True):
                if drafts:
                    best, *rest = (requests[i].to_fill(draft) for draft in drafts)
                    fills[i] = replace(best, alternatives=tuple(rest))
        return fills[0] if isinstance(texts, str | Request) else fills

    @overload
    def sample(
        self, texts: str | Request = "___", options: SampleOptions | None = None, **settings: Any
    ) -> list[Fill]: ...
    @overload
    def sample(
        self, texts: Sequence[str | Request], options: SampleOptions | None = None, **settings: Any
    ) -> list[list[Fill]]: ...

    def sample(
        self,
        texts: str | Request | Sequence[str | Request] = "___",
        options: SampleOptions | None = None,
        *,
        constraints: ConstraintLike | Sequence[ConstraintLike] | None = None,
        progress: Progress | None = None,
        numbers: Sequence[int] | None = None,
        **settings: Any,
    ) -> list[Fill] | list[list[Fill]]:
        """Return ``n`` random fills of a text with blanks (by default of a single blank), or of each text of a list.

        >>> model.sample("My ___ and I ___.", n=5, temperature=0.8, seed=1)

        ``settings`` are those of ``SampleOptions``: n, temperature, top_k, top_p, seed, order, blanks. A text's draws
        depend on the seed and on its number: its place in the list, unless ``numbers`` says otherwise.
        """
        options = options_of(SampleOptions, options, settings, "constraints")
        policy, requests = self.model.for_blanks(options.blanks), self._requests(texts, constraints)
        samples: list[list[Fill]] = [[] for _ in requests]
        for members in self._groups(requests, progress):
            chosen = members if numbers is None else [numbers[i] for i in members]
            with torch.inference_mode():
                found = draw(policy, [requests[i] for i in members], options, chosen)
            for i, drafts in zip(members, found, strict=True):
                samples[i] = [requests[i].to_fill(draft) for draft in drafts]
        return samples[0] if isinstance(texts, str | Request) else samples

    def _requests(self, texts: str | Request | Sequence[str | Request], constraints: Any) -> list[Request]:
        each = [texts] if isinstance(texts, str | Request) else list_of_texts(texts, Request)
        return [text if isinstance(text, Request) else self.prepare(text, constraints) for text in each]

    def _groups(self, requests: Sequence[Request], progress: Progress | None) -> Iterator[list[int]]:
        """Yield the numbers of requests to search together: of similar length, to avoid padding."""
        by_length = sorted(range(len(requests)), key=lambda i: len(requests[i].ids))
        for start in range(0, len(requests), self.texts_at_once):
            members = by_length[start : start + self.texts_at_once]
            yield members
            if progress:
                progress(len(members))

    # --- Choosing -----------------------------------------------------------------------------------------------

    def question(
        self,
        text: str | None,
        options: Sequence[str | Sequence[str]] | None = None,
        alternatives: Sequence[str | Sequence[str]] | None = None,
    ) -> Question:
        """Parse and check what ``choose`` takes; a mistake in it raises here, before any work is done."""
        self._check_by_itself()
        return Question.parse(text, options, alternatives, self.tokenizer, self.longest)

    @overload
    def choose(self, text: str | Question | None = None, *rest: Any, **settings: Any) -> Choices: ...
    @overload
    def choose(self, text: Sequence[Question], *rest: Any, **settings: Any) -> list[Choices]: ...

    def choose(
        self,
        text: str | Question | Sequence[Question] | None = None,
        options: Sequence[str | Sequence[str]] | None = None,
        *,
        alternatives: Sequence[str | Sequence[str]] | None = None,
        how: ChooseOptions | None = None,
        check: Callable[[int], None] | None = None,
        **settings: Any,
    ) -> Choices | list[Choices]:
        """Rank the options for the blanks of a text by p(options | rest); the probabilities sum to 1.

        >>> model.choose("The ___ sat on the ___.", [["cat", "old man"], ["mat", "moon"]]).text

        ``options`` has a list for each blank, and all combinations are compared; for a single blank, one list will do.
        Or give ``alternatives``: each has a string for every blank, or is a whole text if there is no ``text``.
        ``settings`` are those of ``ChooseOptions``: orders, beam, seed, temperature, per_word. ``check`` is called
        with the number of canvases just scored; an exception from it stops the work.
        """
        how = options_of(ChooseOptions, how, settings).calibrated_for(self.about.get("name", ""))
        one = text is None or isinstance(text, str | Question)
        each: Any = [text] if one else list_of_texts(text, Question)
        questions = [
            entry if isinstance(entry, Question) else self.question(entry, options, alternatives) for entry in each
        ]
        ranked = rank(self.model.for_blanks(None), questions, how, check)
        return ranked[0] if one else ranked

    def fill_mask(
        self, texts: str | Sequence[str], *, top_k: int = 5, targets: str | Sequence[str] | None = None
    ) -> list[Any]:
        """Return words for each ``[MASK]`` or ``<mask>``, as the fill-mask pipeline of transformers does.

        The result is a list of {score, token, token_str, sequence}, or a list of such lists for several masks or texts.
        A score is the probability of the word, given that there is exactly one. ``token`` is None for a word of several
        tokens.
        """
        self._check_by_itself()
        policy, each = self.model.for_blanks(None), [texts] if isinstance(texts, str) else list_of_texts(texts)
        found = [fill_mask(policy, self.tokenizer, self.longest, text, top_k, targets) for text in each]
        return found[0] if len(found) == 1 else found

    # --- Words in their places ------------------------------------------------------------------------------------

    @overload
    def surprise(  # type: ignore[overload-overlap]  # a string is a sequence of strings
        self, texts: str, check: Callable[[int], None] | None = None
    ) -> list[WordScore]: ...
    @overload
    def surprise(self, texts: Sequence[str], check: Callable[[int], None] | None = None) -> list[list[WordScore]]: ...

    def surprise(
        self, texts: str | Sequence[str], check: Callable[[int], None] | None = None
    ) -> list[WordScore] | list[list[WordScore]]:
        """Return how probable each word and punctuation mark of a text is in its place, given all the others."""
        self._check_by_itself()
        policy, each = self.model.for_blanks(None), [texts] if isinstance(texts, str) else list_of_texts(texts)
        units = [check_units(text, self.tokenizer, self.longest) for text in each]
        scores = [
            leave_one_out(policy, self.tokenizer, text, own, check) for text, own in zip(each, units, strict=True)
        ]
        return scores[0] if isinstance(texts, str) else scores

    @overload
    def repair(self, texts: str, options: RepairOptions | None = None, **settings: Any) -> Repair: ...
    @overload
    def repair(self, texts: Sequence[str], options: RepairOptions | None = None, **settings: Any) -> list[Repair]: ...

    def repair(
        self,
        texts: str | Sequence[str],
        options: RepairOptions | None = None,
        *,
        check: Callable[[int], None] | None = None,
        **settings: Any,
    ) -> Repair | list[Repair]:
        """Correct words that are improbable in context, where this makes the whole text more probable.

        >>> model.repair("The goverment has anounced a new polcy.").text

        ``settings`` are those of ``RepairOptions``: keep, most, margin, rounds. A bad text raises before any work.
        """
        self._check_by_itself()
        options = options_of(RepairOptions, options, settings).chosen_for(self.about.get("name", ""))
        each = [texts] if isinstance(texts, str) else list_of_texts(texts)
        for text in each:
            check_units(text, self.tokenizer, self.longest)
        policy, lexicon = self.model.for_blanks(None), Lexicon.of(self.about.get("language"), self.tokenizer)
        repairer = Repairer(policy, self.tokenizer, lexicon, options, check)
        repairs = [repairer.repair(text) for text in each]
        return repairs[0] if isinstance(texts, str) else repairs

    # --- Likelihood -----------------------------------------------------------------------------------------------

    @overload
    def score(self, texts: str, *settings: Any, **options: Any) -> Score: ...
    @overload
    def score(self, texts: Sequence[str], *settings: Any, **options: Any) -> list[Score]: ...

    def score(
        self,
        texts: str | Sequence[str],
        method: ScoreMethod = "monte-carlo",
        orders: int = 64,
        seed: int = 0,
        progress: Progress | None = None,
        tokens_per_batch: int | None = None,
    ) -> Score | list[Score]:
        """Return log p of a text, or of each text of a list.

        ``method`` is "exact" (short texts), "monte-carlo" over ``orders`` orders, or "bound", a lower bound.
        ``progress`` is called after each batch with the number of canvases scored; an exception from it stops the work.
        """
        if method not in get_args(ScoreMethod):
            raise BlankLMError(f"there is no method {method!r}: choose {', '.join(get_args(ScoreMethod))}")
        check_draws(orders, seed)
        each = [texts] if isinstance(texts, str) else list_of_texts(texts)
        ids = [self.to_score(text, method) for text in each]
        scores = scores_of(self.model, each, ids, method, orders, seed, progress, tokens_per_batch)
        return scores[0] if isinstance(texts, str) else scores

    def to_score(self, text: str, method: ScoreMethod = "monte-carlo") -> list[int]:
        """Check a text and return its tokens; a text that cannot be scored raises here."""
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
        if self.model.context is not None:
            raise BlankLMError("this model only scores text in context: use score --stream, or fill with another model")

    def perplexity(
        self,
        texts: str | Sequence[str],
        orders: int = 64,
        chunk: int | None = None,
        seed: int = 0,
        progress: Progress | None = None,
    ) -> likelihood.Estimate:
        """Estimate the perplexity as the paper does: one stream of all texts with <eos>, in chunks, per token.

        A model that reads context scores the stream sentence by sentence, unless a ``chunk`` length is given.
        """
        check_draws(orders, seed)
        texts = [texts] if isinstance(texts, str) else list_of_texts(texts)
        if chunk is not None:
            check_number("chunk", chunk, ge=1, le=self.longest)
        stream = one_stream(map(self.tokenizer.encode, texts))
        pieces, given = self.model.pieces(stream) if chunk is None else (cut(stream, chunk), None)
        return likelihood.monte_carlo(self.model, pieces, orders, seed, progress=progress, given=given)

    def score_work(self, texts: Sequence[str], method: ScoreMethod, orders: int) -> int:
        """Count the canvases that ``score`` scores, and reports to its ``progress``."""
        if method == "bound":
            return len(texts) * orders
        ids = self.tokenizer.encode_many(texts)
        if method == "exact":
            return sum(2 ** len(tokens) - 1 for tokens in ids)
        return orders * sum(map(len, ids))
