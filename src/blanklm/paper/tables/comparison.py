"""Fill ten canvases in the ways in which other kinds of models fill, with the models at hand.

    python -m blanklm.paper.tables.comparison OUT.json --causal smollm2.gguf

The canvases are every tenth of ``results/english/canvases.jsonl``. Three ways use ``english``: its own, one word per
blank in a single pass as a fill-mask model does, and one place at a time, the most confident first, as masked
diffusion does. Three use a published left-to-right chat model: it continues the text before each blank, it continues it
several times and the text after the blank helps to choose, or it is asked to fill in the blanks.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from blanklm.api import BlankLM
from blanklm.core.template import Blank, Template
from blanklm.models.backbone import hugging_face
from blanklm.paper.provenance import Row, write_result
from blanklm.paper.tasks.canvases import CANVASES, read_rows

EVERY = 10
CONTINUED, ANSWERED = 16, 80  # tokens at most of a continuation, of an answer
SAMPLES, TEMPERATURE = 16, 0.8
END_OF_PHRASE = re.compile(r"[.,;:!?()\"\n]")
REQUEST = "Fill in each blank (___) in this text with suitable words. Reply with the complete text and nothing else."

Fills = list[Row]  # of each canvas: its "text", and "spans" where they are known


class Continuing:
    """A published left-to-right language model that continues texts and answers requests."""

    def __init__(self, model: Any, tokenizer: Any) -> None:
        self.model, self.tokenizer = model.eval(), tokenizer

    @classmethod
    def load(cls, name: Path) -> Continuing:
        """From a folder or a .gguf file."""
        library = hugging_face()
        file = {"gguf_file": name.name} if name.suffix == ".gguf" else {}
        folder = str(name.parent if file else name)
        model = library.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, **file)
        return cls(model, library.AutoTokenizer.from_pretrained(folder, **file))

    def continuations(self, text: str, samples: int = 0) -> list[str]:
        """Continue a text by its most probable words, or by several ``samples``."""
        drawn = {"do_sample": True, "temperature": TEMPERATURE, "num_return_sequences": samples, "top_k": 0}
        torch.manual_seed(0)
        begin = self.tokenizer.bos_token or self.tokenizer.eos_token
        ids = self.tokenizer(text or begin, return_tensors="pt").input_ids  # [1, L]
        return self._written(ids, CONTINUED, **(drawn if samples else {"do_sample": False}))

    def answer(self, request: str) -> str:
        """Answer a request in a chat by its most probable words."""
        turn = [{"role": "user", "content": request}]
        chat = self.tokenizer.apply_chat_template(turn, add_generation_prompt=True, tokenize=False)
        ids = self.tokenizer(chat, return_tensors="pt").input_ids  # [1, L]
        return self._written(ids, ANSWERED, do_sample=False)[0].strip()

    def _written(self, ids: torch.Tensor, tokens: int, **how: Any) -> list[str]:
        with torch.inference_mode():
            rows = self.model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=tokens, **how)  # [S, L]
        return self.tokenizer.batch_decode(rows[:, ids.shape[1] :], skip_special_tokens=True)

    def log_prob_per_token(self, text: str) -> float:
        ids = self.tokenizer(text, return_tensors="pt").input_ids  # [1, L]
        with torch.inference_mode():
            return -float(self.model(input_ids=ids, labels=ids).loss)


def in_one_pass(model: BlankLM, templates: Sequence[Template]) -> Fills:
    """Put one word into each blank, all of them at once: each is chosen without sight of the others."""
    canvases = [str(Template(each.pieces, (Blank.exactly(1),) * len(each.blanks))) for each in templates]
    return _rows(model, canvases, order="parallel", blanks="words")


def place_by_place(model: BlankLM, templates: Sequence[Template], spans: Sequence[Sequence[str]]) -> Fills:
    """Fill as many places as the ``spans`` have words, the place with the most confident word first."""
    canvases = [
        str(Template(each.pieces, tuple(Blank.exactly(max(1, len(span.split()))) for span in written)))
        for each, written in zip(templates, spans, strict=True)
    ]
    return _rows(model, canvases, order="confident", blanks="words")


def left_to_right(writer: Continuing, templates: Sequence[Template], samples: int = 0) -> Fills:
    """Continue the text before each blank to the end of a phrase, without sight of what follows.

    Of several ``samples``, that one is taken with which the text up to the next blank is most probable per token.
    """
    fills = []
    for template in templates:
        text, spans = template.pieces[0], []
        for blank, after in zip(template.blanks, template.pieces[1:], strict=True):
            phrases = [phrase(words, blank) for words in writer.continuations(text.rstrip(" "), samples)]
            fitting = {words: writer.log_prob_per_token(f"{text}{words}{after}") for words in phrases if words}
            spans.append(max(fitting, key=fitting.__getitem__) if fitting else "")
            text += spans[-1] + after
        fills.append({"text": text, "spans": spans})
    return fills


def phrase(words: str, blank: Blank) -> str:
    """Cut a continuation at the end of its first phrase, or else before its last word, which may be cut off itself."""
    words = words.lstrip()
    mark = END_OF_PHRASE.search(words, 1)
    kept = words[: mark.start()].split() if mark else words.split()[:-1]
    return " ".join(kept[: blank.max])


def _rows(model: BlankLM, canvases: Sequence[str], **options: Any) -> Fills:
    return [{"text": fill.text, "spans": list(fill.spans)} for fill in model.fill(canvases, **options)]


def measure(model: BlankLM, writer: Continuing, canvases: Sequence[Row]) -> Row:
    """Fill the canvases in every way."""
    templates = [Template.parse(canvas["text"]) for canvas in canvases]
    own = _rows(model, [canvas["text"] for canvas in canvases])
    ways = {
        "blanklm": own,
        "mask": in_one_pass(model, templates),
        "diffusion": place_by_place(model, templates, [row["spans"] for row in own]),
        "continued": left_to_right(writer, templates),
        "chosen": left_to_right(writer, templates, SAMPLES),
        "asked": [{"text": writer.answer(f"{REQUEST}\n\n{canvas['text']}")} for canvas in canvases],
    }
    filled = [
        {"id": canvas["id"], "canvas": canvas["text"], "fills": {way: rows[place] for way, rows in ways.items()}}
        for place, canvas in enumerate(canvases)
    ]
    return {"samples": SAMPLES, "temperature": TEMPERATURE, "request": REQUEST, "canvases": filled}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--causal", type=Path, required=True, help="SmolLM2-135M-Instruct, a .gguf file or a folder")
    options = parser.parse_args()
    tenth = [canvas for canvas in read_rows(CANVASES) if canvas["id"] % EVERY == 0]
    write_result(options.out, measure(BlankLM.from_pretrained("english"), Continuing.load(options.causal), tenth))
