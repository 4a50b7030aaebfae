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
    naive, independent = r["one_action_over_eq_loss"]["ratio"], r["eq_loss_over_stratified"]["ratio"]
    return (
        f"On {r['texts']} validation sentences, Eq. 8 varies {naive:.1f} times less than the naive estimator, which scores\n"
        f"one action a pass; stratifying t over {r['canvases']} canvases of a text gains a further {independent:.1f} times over\n"
        "as many independent ones. This is the variance of one text's loss over the canvases drawn for it, at equal numbers\n"
        "of encoder passes; training draws one canvas a text and stratifies t over the texts, which is not measured here.\n"
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


def training_gpu() -> str:
    r = result("benchmarks/training-gpu")
    headings = [
        f"base, bf16, one {r['hardware']}",
        "tokens of text/s",
        f"share of {r['matrix_rate'] / 1e12:.0f} TFLOP/s",
    ]
    names = {"ptb": "Penn Treebank lines", "yahoo": "Yahoo documents"}
    rows = [
        [names[x["corpus"]], f"{x['tokens_per_second']:,.0f}", f"{x['share_of_matrix_rate']:.0%}"] for x in r["rows"]
    ]
    return table(headings, rows)


def training_profile() -> str:
    r = result("benchmarks/training-profile")
    yahoo, ptb = r["yahoo"], r["ptb"]
    gain = yahoo["tokens_per_second_at_131072"] / yahoo["tokens_per_second"]
    return (
        f"- Yahoo documents: the GPU is busy for {yahoo['gpu_busy']:.0f} ms of a {yahoo['step']:.0f} ms step, so the host is the\n"
        f"  limit: with one prepared batch repeated a step takes {yahoo['one_batch_repeated']:.0f} ms, and batches of 131,072 tokens\n"
        f"  bring {gain:.1f} times the throughput. Of the GPU's time, layer norms and dropout take\n"
        f"  {yahoo['layer_norm_and_dropout']:.1f} ms, attention {yahoo['attention']:.1f}, and the rotary angles, which the compiler\n"
        f"  computes anew in every layer, {yahoo['rotary']:.1f}.\n"
        f"- Penn Treebank lines: {ptb['gpu_busy']:.0f} ms of GPU time, of which {ptb['attention']:.0f} are attention: the packed\n"
        "  kernel works in tiles of 128, and these canvases have about 14 symbols. Laying several short canvases into one row\n"
        "  with a block-diagonal mask is the way.\n"
    )


def filling_cpu() -> str:
    r = result("benchmarks/filling-cpu")
    return (
        f"`python benchmarks/filling.py`, {r['size']}, one text at a time: {r['words_per_second']:.0f} words/s, {r['ratio']:.1f}\n"
        f"times a decoder that scores left/right for the whole vocabulary ({r['reference_words_per_second']:.1f}; the same fills\n"
        f"for {r['same_fills']} of {r['texts']} texts); {r['encoder_share']:.0%} of our time is the encoder's.\n"
    )


def serving_cpu() -> str:
    rows, notes = [], []
    for size, r in result("benchmarks/serving-cpu")["sizes"].items():
        for clients, load in r["clients"].items():
            failed = sum(count for code, count in load["codes"].items() if code not in ("200", "429"))
            rows.append(
                [
                    f"{size}, {clients}",
                    f"{load['texts_per_second']:.0f}",
                    f"{load['share_of_offline']:.0%}",
                    f"{1000 * load['p50_seconds']:,.0f} ms",
                    f"{1000 * load['p99_seconds']:,.0f} ms",
                    f"{load['requests']:,}",
                    f"{failed}",
                    f"{load['crossed']}",
                ]
            )
        if "memory" in r:
            m = r["memory"]
            notes.append(
                f"Memory of the {size} model's server: {m['megabytes_after_a_tenth']:.0f} MB after a tenth of "
                f"{m['requests']:,} requests, {m['megabytes_at_the_end']:.0f} MB after all.\n"
            )
        hardware, threads = r["hardware"], r["threads"]
    headings = ["model, clients", "texts/s", "of offline", "p50", "p99", "requests", "errors", "crossed"]
    return (
        f"`python benchmarks/serving.py` on one {hardware}, torch threads: {threads}, the clients on the same machine, each with one text at\n"
        "a time; *offline* is filling the same texts in one call, measured before and after each load. Errors are all answers but\n"
        "200 and 429; a crossed answer is one to another client's text.\n\n"
        + table(headings, rows)
        + "\n"
        + "".join(notes)
    )


PASSAGES = {
    function.__name__: function
    for function in (
        yelp_words,
        yelp_words_training,
        loss_variance,
        core_cpu,
        filling_cpu,
        serving_cpu,
        training_gpu,
        training_profile,
    )
}


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
