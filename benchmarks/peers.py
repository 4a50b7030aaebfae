"""Filling on a CPU against what people use instead, same shape and vocabulary, in one run.

    BLANKLM_DATA=<corpora> python benchmarks/peers.py MODEL [--texts 24] [--batches 1,16] [--threads N]

MODEL is a trained word-level BLM of Yahoo documents (`blanklm reproduce infilling` makes one). It fills documents with
30 % of the words hidden: one word a pass, and all blanks at once. With `english`, the bundled model, they are held-out
texts of its corpus, and words are its tokens. Beside it, for the same documents:
  GPT-2   (Hugging Face) with its KV cache writes as many tokens as the BLM wrote, from a prompt of one token, which
          costs it nothing; a real one would have to read the document first. It has the shape and the vocabulary of
          the BLM; beside `english` it is the usual one of 124 M parameters, in float32 as it comes;
  RoBERTa (Hugging Face) fills one mask a pass, the hidden words being told to it as so many masks;
  ILM     (xlm-core's insertion model, where xlm-core and xlm-models are installed) inserts one token a pass.
Their weights are random: their speed does not depend on them. The systems take turns, document by document, so that a
neighbour's load falls on all. Writes results/benchmarks/peers-cpu.json, for `english` peers-english-cpu.json.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random

import core
import torch
from rich.console import Console
from rich.table import Table

from blanklm.api import BlankLM
from blanklm.data import MaskedText, read_corpus
from blanklm.paper.provenance import hardware, write_result
from blanklm.paper.tasks.masking import mask_corpus

RATIO, SEED = 0.3, 0
SHORTEST, LONGEST = 60, 120  # words of the texts for `english`: about as many as a document of Yahoo Answers has
Fill = Callable[[Sequence[MaskedText], int], int]  # documents, tokens to write; the tokens written


def blm(model: BlankLM, **options) -> Fill:
    def fill(masked: Sequence[MaskedText], tokens: int) -> int:
        fills = model.fill([str(m.template) for m in masked], blanks="words", **options)
        return sum(len(model.tokenizer.encode(span)) for f in fills for span in f.spans)

    return fill


def gpt2(shape: dict[str, int]) -> Fill:
    from transformers import GPT2Config, GPT2LMHeadModel

    model = GPT2LMHeadModel(GPT2Config(**shape)).eval()
    model.generation_config.pad_token_id = 0

    def write(masked: Sequence[MaskedText], tokens: int) -> int:
        each = -(-tokens // len(masked))
        with torch.inference_mode():
            prompt = torch.full((len(masked), 1), 5)
            model.generate(prompt, min_new_tokens=each, max_new_tokens=each, do_sample=False, use_cache=True)
        return each * len(masked)

    return write


def roberta(vocabulary: int, encoder, model: BlankLM) -> Fill:
    from transformers import RobertaConfig, RobertaForMaskedLM

    config = RobertaConfig(
        vocab_size=vocabulary, hidden_size=encoder.width, num_hidden_layers=encoder.layers, pad_token_id=0,
        num_attention_heads=encoder.heads, intermediate_size=encoder.feedforward, max_position_embeddings=1026,
    )  # fmt: skip
    peer = RobertaForMaskedLM(config).eval()
    mask_token = vocabulary - 1

    def fill(masked: Sequence[MaskedText], tokens: int) -> int:
        """The most confident mask of each document in every pass."""
        rows = []
        for m in masked:
            row = []
            for piece, span in zip(m.template.pieces, (*m.spans, ""), strict=True):
                row += model.tokenizer.encode(piece) + [mask_token] * len(span.split())
            rows.append(torch.tensor(row))
        lengths = torch.tensor([len(row) for row in rows])
        ids = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True)  # [B, L]
        inside = torch.arange(ids.shape[1]) < lengths[:, None]  # [B, L]
        written = 0
        with torch.inference_mode():
            while (open_ := (ids == mask_token) & inside).any():
                logits = peer(input_ids=ids, attention_mask=inside.long()).logits[:, :, :mask_token]  # [B, L, V]
                best, word = logits.log_softmax(-1).max(-1)  # [B, L] each
                place = best.masked_fill(~open_, -torch.inf).argmax(1)  # [B]
                rows_open = open_.any(1).nonzero().squeeze(1)
                ids[rows_open, place[rows_open]] = word[rows_open, place[rows_open]]
                written += len(rows_open)
        return written

    return fill


def insertion(vocabulary: int, encoder, model: BlankLM) -> Fill:
    """xlm-core's predictor on the words that are given; it has no blanks, so it may insert anywhere."""
    from ilm.model_ilm import RotaryTransformerILMModel
    from ilm.predictor_ilm import ILMPredictor
    from transformers import PreTrainedTokenizerFast

    names = ("pad", "mask", "eos", "cls", "bos")
    ids = {f"{name}_token": model.tokenizer.backend.id_to_token(i) for i, name in enumerate(names)}
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=model.tokenizer.backend, **ids)
    peer = RotaryTransformerILMModel(
        vocabulary, encoder.width, encoder.layers, encoder.heads, dim_feedforward=encoder.feedforward, dropout=0.0,
        rotary_emb_dim=encoder.width // encoder.heads,
    ).eval()  # fmt: skip

    def fill(masked: Sequence[MaskedText], tokens: int) -> int:
        each = -(-tokens // len(masked))
        rows = [torch.tensor([i for piece in m.template.pieces for i in model.tokenizer.encode(piece)]) for m in masked]
        lengths = torch.tensor([len(row) for row in rows])
        ids = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True)  # [B, L]
        inside = torch.arange(ids.shape[1]) < lengths[:, None]  # [B, L]
        predictor = ILMPredictor(
            each, max_length=1024, tokenizer=tokenizer, model=peer, sampling_method="sample_top_k", top=1
        )
        batch = {
            "input_ids": ids, "attention_mask": inside, "token_type_ids": torch.full_like(ids, 2),
            "constraint": torch.zeros_like(inside),
        }  # fmt: skip
        with torch.inference_mode():
            found = predictor.predict(batch)
        return int(found["attention_mask"].sum() - inside.sum())

    return fill


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", help="`english` or the folder of a word-level model")
    parser.add_argument("--texts", type=int, default=24)
    parser.add_argument("--batches", default="1,16")
    parser.add_argument("--threads", type=int, help="of the CPU; fewer than its cores where others use it too")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(options.threads or torch.get_num_threads())
    model = BlankLM.from_pretrained(options.model, device="cpu")
    vocabulary, encoder = len(model.tokenizer), model.model.config.encoder
    own_shape = model.tokenizer.kind == "word"
    shape = {"vocab_size": vocabulary, "n_layer": encoder.layers, "n_head": encoder.heads, "n_embd": encoder.width}
    systems = {
        "BLM, one word a pass": blm(model, order="confident"),
        "BLM, all blanks at once": blm(model, order="parallel"),
        "GPT-2, KV cache": gpt2(shape | {"n_inner": encoder.feedforward} if own_shape else {}),
    }
    if own_shape:
        documents, name = [text for text in read_corpus("yahoo", "test") if text.split()], "peers-cpu.json"
        systems["RoBERTa, one mask a pass"] = roberta(vocabulary, encoder, model)
    else:
        texts, name = read_corpus("english", "valid"), "peers-english-cpu.json"
        documents = [text for text in texts if SHORTEST <= len(text.split()) <= LONGEST]
    masked = mask_corpus(Random(SEED).sample(documents, options.texts), RATIO, SEED)
    if own_shape and importlib.util.find_spec("ilm"):
        systems["ILM of xlm-core, one token a pass"] = insertion(vocabulary, encoder, model)
    rows = {}
    for batch in map(int, options.batches.split(",")):
        seconds, tokens = Counter(), Counter()
        for start in range(0, len(masked) - batch + 1, batch):
            group, written = masked[start : start + batch], 0
            for name, fill in systems.items():
                if start == 0:
                    fill(group, written or 8)  # warm-up
                began = time.perf_counter()
                done = fill(group, written)
                seconds[name] += time.perf_counter() - began
                tokens[name] += done
                written = written or done  # what the BLM wrote, one word a pass
        speeds = {name: tokens[name] / seconds[name] for name in systems}
        rows[batch] = {
            name: {"tokens_per_second": speed, "tokens": tokens[name], "of_gpt2": speed / speeds["GPT-2, KV cache"]}
            for name, speed in speeds.items()
        }
        table = Table("system", "tokens/s", "x GPT-2", title=f"batch {batch}")
        for name, row in rows[batch].items():
            table.add_row(name, f"{row['tokens_per_second']:,.1f}", f"{row['of_gpt2']:.2f}")
        Console().print(table)
    record = {
        "benchmark": "peers", "hardware": hardware("cpu"), "threads": torch.get_num_threads(),
        "load": os.getloadavg()[0], "hidden": RATIO,
        "texts": options.texts, "mean_words": sum(len(m.text.split()) for m in masked) / len(masked), "batches": rows,
    }  # fmt: skip
    write_result(options.out or core.ROOT / "results" / "benchmarks" / name, record)


if __name__ == "__main__":
    main()
