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

import torch
from torch import Tensor

from blanklm.api import BlankLM
from blanklm.core.packing import Packing
from blanklm.core.template import Blank, Template
from blanklm.paper.provenance import Row, write_result
from blanklm.paper.tasks.canvases import CANVASES, read_rows
from blanklm.paper.tasks.causal_judge import CausalJudge

EVERY = 10
CONTINUED, ANSWERED = 16, 80  # tokens at most of a continuation, of an answer
SAMPLES, TEMPERATURE = 16, 0.8
END_OF_PHRASE = re.compile(r"[.,;:!?()\"\n]")
BEGIN, TURN, END_OF_TURN = "<|endoftext|>", "<|im_start|>", "<|im_end|>"
REQUEST = "Fill in each blank (___) in this text with suitable words. Reply with the complete text and nothing else."

Fills = list[Row]  # of each canvas: its "text", and "spans" where they are known


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


def left_to_right(judge: CausalJudge, templates: Sequence[Template], samples: int = 0) -> Fills:
    """Continue the text before each blank to the end of a phrase, without sight of what follows.

    Of several ``samples``, that one is taken with which the text up to the next blank is most probable per token.
    """
    fills = []
    for template in templates:
        text, spans = template.pieces[0], []
        for blank, after in zip(template.blanks, template.pieces[1:], strict=True):
            found = [_phrase(words, blank) for words in _continued(judge, text, CONTINUED, samples)]
            span = max(found, key=lambda words: _per_token(judge, f"{text}{words}{after}")) if samples else found[0]
            spans.append(span)
            text += span + after
        fills.append({"text": text, "spans": spans})
    return fills


def asked(judge: CausalJudge, templates: Sequence[Template]) -> Fills:
    """Ask in a chat for the whole text with its blanks filled; the most probable answer, as it comes."""
    turns = (f"{TURN}user\n{REQUEST}\n\n{template}{END_OF_TURN}\n{TURN}assistant\n" for template in templates)
    return [{"text": _continued(judge, turn, ANSWERED)[0].strip()} for turn in turns]


def _rows(model: BlankLM, canvases: Sequence[str], **options: str) -> Fills:
    return [{"text": fill.text, "spans": list(fill.spans)} for fill in model.fill(canvases, **options)]


def _phrase(words: str, blank: Blank) -> str:
    """Cut a continuation at the end of its first phrase, and to as many words as the blank takes."""
    words = words if words[:1].isspace() else f" {words}"  # a space begins the first word if none was written
    lead = re.match(r"\s*", words)
    begin = lead.end() if lead else 0
    mark = END_OF_PHRASE.search(words, begin + 1)
    kept = words[begin : mark.start() if mark else None].split()[: blank.max]
    return " ".join(kept)


def _per_token(judge: CausalJudge, text: str) -> float:
    return judge.log_prob([text])[0] / (len(judge.backend.encode(text, add_special_tokens=False).ids) + 1)


@torch.inference_mode()
def _continued(judge: CausalJudge, text: str, tokens: int, samples: int = 0) -> list[str]:
    """Continue a text by the most probable token each time, or by ``samples`` drawn at TEMPERATURE."""
    ids = torch.tensor([_encoded(judge, text.rstrip(" "))] * max(1, samples))  # [S, L]
    draw, begun = torch.Generator().manual_seed(0), ids.shape[1]
    for _ in range(tokens):
        logits = _next(judge, ids)  # [S, V]
        chosen = (
            torch.multinomial((logits / TEMPERATURE).softmax(-1), 1, generator=draw)
            if samples
            else logits.argmax(-1, keepdim=True)
        )  # [S, 1]
        ids = torch.cat([ids, chosen], 1)  # [S, L + 1]
        if (ids[:, begun:] == judge.eos).any(1).all():
            break
    return [_decoded(judge, row[begun:].tolist()) for row in ids]


def _next(judge: CausalJudge, ids: Tensor) -> Tensor:
    """Score the token after each of ``ids`` [S, L]: logits [S, V]."""
    rows, length = ids.shape
    packing = Packing.of(torch.full((rows,), length), length)
    z = judge.encoder(judge.vectors[ids.flatten()], packing)  # [S L, d]
    return (z.unflatten(0, (rows, length))[:, -1] @ judge.vectors.T).float()


def _encoded(judge: CausalJudge, text: str) -> list[int]:
    """Encode a text; marks of turns are tokens of their own."""
    ids = [] if text.startswith(TURN) else [judge.backend.token_to_id(BEGIN)]
    for part in re.split(f"({re.escape(TURN)}|{re.escape(END_OF_TURN)})", text):
        mark = judge.backend.token_to_id(part) if part in (TURN, END_OF_TURN) else None
        ids += judge.backend.encode(part, add_special_tokens=False).ids if mark is None else [mark]
    return ids


def _decoded(judge: CausalJudge, ids: list[int]) -> str:
    return judge.backend.decode(ids[: ids.index(judge.eos)] if judge.eos in ids else ids)


def measure(model: BlankLM, judge: CausalJudge, canvases: Sequence[Row]) -> Row:
    """Fill the canvases in every way."""
    templates = [Template.parse(canvas["text"]) for canvas in canvases]
    own = _rows(model, [canvas["text"] for canvas in canvases])
    ways = {
        "blanklm": own,
        "mask": in_one_pass(model, templates),
        "diffusion": place_by_place(model, templates, [row["spans"] for row in own]),
        "continued": left_to_right(judge, templates),
        "chosen": left_to_right(judge, templates, SAMPLES),
        "asked": asked(judge, templates),
    }
    filled = [
        {"id": canvas["id"], "canvas": canvas["text"], "fills": {way: rows[place] for way, rows in ways.items()}}
        for place, canvas in enumerate(canvases)
    ]
    return {"samples": SAMPLES, "temperature": TEMPERATURE, "request": REQUEST, "canvases": filled}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--causal", required=True, help="SmolLM2-135M-Instruct as a .gguf file or a folder")
    options = parser.parse_args()
    tenth = [canvas for canvas in read_rows(CANVASES) if canvas["id"] % EVERY == 0]
    write_result(options.out, measure(BlankLM.from_pretrained("english"), CausalJudge.load(options.causal), tenth))
