"""Write the numbers of README.md and docs/*.md from the JSON files under results/; ``--check`` only compares.

A passage between ``<!-- table: name -->`` (or text, caption) and ``<!-- end -->`` is replaced by what the function
of that name returns.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PASSAGE = re.compile(r"(<!-- (?:table|text|caption): (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)


def result(name: str) -> dict:
    return json.loads((ROOT / "results" / f"{name}.json").read_text(encoding="utf-8"))


def table(headings: list[str], rows: list[list[str]]) -> str:
    lines = [headings, ["---"] + ["---:"] * (len(headings) - 1), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def yelp_words() -> str:
    bleu = result("models/yelp-words")["valid_bleu"]
    ratios = list(bleu["no infill"])
    headings = ["BLEU, share of words hidden", *(f"{float(ratio):.0%}" for ratio in ratios)]
    return table(headings, [[name, *(f"{scores[r]:.1f}" for r in ratios)] for name, scores in bleu.items()])


def yelp_words_training() -> str:
    r = result("models/yelp-words")
    encoder, training = r["model"]["encoder"], r["training"]
    return (
        f"{r['parameters']:,} parameters ({encoder['layers']} layers, width {encoder['width']}, vocabulary "
        f"{r['model']['vocabulary']:,}); {training['steps']:,} steps of {training['tokens_per_batch']:,} tokens in "
        f"{r['seconds']:.0f} s on one {r['hardware']}; validation bound {r['valid_bound']:.3f} nats a token.\n"
    )


def loss_variance() -> str:
    r = result("loss_variance")
    return (
        f"On {r['texts']} validation sentences, eq:loss varies {r['one_action_over_eq_loss']['ratio']:.1f} times less than\n"
        f"the naive estimator, which scores one action a pass; stratifying t over {r['canvases']} canvases of a text gains a\n"
        f"further {r['eq_loss_over_stratified']['ratio']:.1f} times over as many independent ones.\n"
    )


CORE = {
    "training_tokens": "training, tokens of text/s",
    "filled_tokens_batch_1": "filling one text at a time, words/s",
    "filled_tokens_batch_32": "filling 32 texts together, words/s",
    "filled_tokens_parallel_batch_32": "the same, all blanks at once, words/s",
    "likelihood_token_orders": "Monte-Carlo likelihood, token-orders/s",
}


def core_cpu() -> str:
    r = result("benchmarks/core-cpu")
    sizes = r["sizes"]
    headings = [
        f"{r['hardware']}, {r['threads']} threads",
        *(f"{n} ({s['parameters'] / 1e6:.1f} M)" for n, s in sizes.items()),
    ]
    return table(
        headings, [[say, *(f"{s[key + '_per_second']:,.0f}" for s in sizes.values())] for key, say in CORE.items()]
    )


PASSAGES = {f.__name__: f for f in (yelp_words, yelp_words_training, loss_variance, core_cpu)}


def rendered(text: str) -> str:
    return PASSAGE.sub(lambda match: match[1] + PASSAGES[match[2]]() + match[3], text)


def main(check: bool) -> int:
    stale = 0
    for path in [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]:
        before = path.read_text(encoding="utf-8")
        after = rendered(before)
        if after == before:
            continue
        stale += 1
        if check:
            print(f"{path.relative_to(ROOT)} does not say what results/ says: run python docs/build_results.py")
        else:
            path.write_text(after, encoding="utf-8")
    return int(check and stale > 0)


if __name__ == "__main__":
    sys.exit(main("--check" in sys.argv[1:]))
