"""BlankLM as a model of EleutherAI's lm-evaluation-harness (pip install lm-eval), for tasks of its own or of yours.

    python -m blanklm.paper.lm_eval run --model blanklm --model_args pretrained=english-small --tasks blimp --limit 10

or, from Python, ``lm_eval.simple_evaluate(model=Harness("english-small"), tasks=[...])``.

log p(continuation | context) is that of the continuation in a blank after its context, as ``choose`` compares options:
exact where few orders lead to it, else by Monte Carlo with the same ``orders`` for all. Without a context it is that
of the whole text. With ``in_place`` a continuation goes into the ``___`` of its context instead, so that what follows
is read as well. A context that is too long loses its beginning, as it does with other models.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from blanklm.api import BlankLM
from blanklm.choosing.choose import weigh
from blanklm.core import likelihood
from blanklm.core.in_place import Alternative, words_of
from blanklm.core.special import BLANK
from blanklm.core.template import Blank, Template
from blanklm.core.texts import cut
from blanklm.errors import BlankLMError

try:
    from lm_eval.api.model import LM
    from lm_eval.api.registry import register_model
    from tqdm import tqdm
except ImportError:
    raise BlankLMError("this needs the lm-evaluation-harness: pip install lm-eval") from None

ORDERS = 16
AT_ONCE = 32  # requests
MOST_WORDS = 64  # that are generated, unless a task asks for fewer
TOKENS_OF_A_WORD = 2  # for which there is to be room

Requests = Sequence[Any]  # the harness's Instance, of which only ``args`` matter


@register_model("blanklm")
class Harness(LM):
    """A bundled model, a folder or an id of the Hub, as the harness asks it."""

    def __init__(
        self,
        pretrained: str = "english",
        device: str | None = None,
        orders: int | str = ORDERS,
        seed: int | str = 0,
        in_place: bool | str = False,
        batch_size: Any = None,
        max_batch_size: Any = None,
    ) -> None:
        """Load a model. The harness tells every model the sizes of batches, which it does not need, and a GPU."""
        super().__init__()
        if device and device.startswith("cuda") and not torch.cuda.is_available():
            device = None
        self.model = BlankLM.from_pretrained(pretrained, device)
        self.orders, self.seed, self.in_place = int(orders), int(seed), str(in_place).lower() in ("true", "1")

    def loglikelihood(self, requests: Requests, disable_tqdm: bool = False) -> list[tuple[float, bool]]:
        """Return log p of each continuation, and whether greedy search writes it when told how many words it has."""
        found: list[tuple[float, bool]] = []
        with tqdm(total=len(requests), disable=disable_tqdm) as bar:
            for start in range(0, len(requests), AT_ONCE):
                group = requests[start : start + AT_ONCE]
                asked = [self._place(str(context), str(written)) for context, written in (each.args for each in group)]
                answers = list(zip(self._log_probs(asked), self._greedy(asked), strict=True))
                for request, answer in zip(group, answers, strict=True):
                    self.cache_hook.add_partial("loglikelihood", request.args, answer)
                found += answers
                bar.update(len(group))
        return found

    def loglikelihood_rolling(self, requests: Requests, disable_tqdm: bool = False) -> list[float]:
        """Return log p of each text, cut into pieces that the model takes, each by itself."""
        found: list[float] = []
        for request in tqdm(requests, disable=disable_tqdm):
            pieces = cut(self.model.tokenizer.encode(str(request.args[0])), self.model.longest)
            estimate = likelihood.monte_carlo(self.model.model, pieces, self.orders, self.seed)
            found.append(float(estimate.log_likelihoods.sum()))
            self.cache_hook.add_partial("loglikelihood_rolling", request.args, found[-1])
        return found

    def generate_until(self, requests: Requests, disable_tqdm: bool = False) -> list[str]:
        """Return the fill of a blank after each context, up to the first of the strings that end it."""
        found: list[str] = []
        for request in tqdm(requests, disable=disable_tqdm):
            context, settings = request.args
            most = min(MOST_WORDS, int(settings.get("max_gen_toks") or MOST_WORDS))
            template = self._cut(self._open(str(context)), TOKENS_OF_A_WORD * most)
            (written,) = self.model.fill(str(Template(template.pieces, (Blank(1, most),)))).spans
            ends = settings.get("until") or []
            for end in filter(None, [ends] if isinstance(ends, str) else ends):
                written = written.split(end)[0]
            found.append(written)
            self.cache_hook.add_partial("generate_until", request.args, written)
        return found

    # --- Continuations ----------------------------------------------------------------------------------------------

    def _place(self, context: str, continuation: str) -> tuple[Template, str]:
        """The text with one blank, and what stands there; a space between them is the text's."""
        if not continuation.strip():
            raise BlankLMError("a continuation is empty: there is nothing to score")
        apart = not self.in_place and continuation.startswith(" ")
        template, written = self._open(context, apart), continuation.strip(" ")
        tokens = len(self.model.tokenizer.encode(f" {written}"))
        return self._cut(template, max(tokens, TOKENS_OF_A_WORD * len(written.split()))), written

    def _open(self, context: str, apart: bool = True) -> Template:
        """The context with a blank after it, or with its own."""
        if not self.in_place:
            bare = context.rstrip(" ")
            space = " " if bare and (apart or bare != context) else ""
            return Template((bare + space, ""), (Blank(),))
        template = Template.parse(context)
        if len(template.blanks) != 1:
            raise BlankLMError(f"with in_place a context has one ___, not {len(template.blanks)}: {context!r}")
        return template

    def _cut(self, template: Template, room: int) -> Template:
        """Take away what there is too much of before the blank, if it is to have so many tokens."""
        tokenizer = self.model.tokenizer
        ids, _ = tokenizer.encode_template(template)
        before, after = template.pieces
        if (over := len(ids) - 1 + room - self.model.longest) > 0:
            kept = ids[over : ids.index(BLANK)]
            before = tokenizer.decode(kept) + (" " if before.endswith(" ") else "") if kept else ""
        return Template((before, after), template.blanks)

    def _log_probs(self, asked: Sequence[tuple[Template, str]]) -> list[float]:
        """Whole texts are scored as blanks of words, as ``score`` does it, and the others as ``choose`` does."""
        model, found = self.model, np.zeros(len(asked))
        alternatives = [self._alternative(*pair) for pair in asked]
        whole = [len(each.hidden) == len(each.tokens) for each in alternatives]
        for policy, kind in ((model.model, True), (model.model.for_blanks(None), False)):
            members = [number for number, is_whole in enumerate(whole) if is_whole is kind]
            words = words_of(policy, [alternatives[number] for number in members])
            for number, weights in zip(members, weigh(policy, words, self.orders, self.seed), strict=True):
                found[number] = np.logaddexp.reduce(weights) - math.log(len(weights))
        return found.tolist()

    def _alternative(self, template: Template, written: str) -> Alternative:
        ids, (space,) = self.model.tokenizer.encode_template(template)
        place, tokens = ids.index(BLANK), self.model.tokenizer.encode(" " * space + written)
        text = (*ids[:place], *tokens, *ids[place + 1 :])
        if len(text) > self.model.longest:
            raise BlankLMError(f"a text has {len(text):,} tokens, and this model takes at most {self.model.longest:,}")
        return Alternative(text, tuple(range(place, place + len(tokens))))

    def _greedy(self, asked: Sequence[tuple[Template, str]]) -> list[bool]:
        """Whether greedy search writes each continuation; a text that several have in common is filled once."""
        canvases: dict[str, list[int]] = defaultdict(list)
        for number, (template, written) in enumerate(asked):
            canvases[str(Template(template.pieces, (Blank.exactly(len(written.split())),)))].append(number)
        found = [False] * len(asked)
        for fill, numbers in zip(self.model.fill(list(canvases), rerank=1), canvases.values(), strict=True):
            for number in numbers:
                found[number] = fill.spans[0].split() == asked[number][1].split()
        return found


if __name__ == "__main__":
    from lm_eval.__main__ import cli_evaluate

    cli_evaluate()
