"""Write the numbers of README.md and docs/*.md from the JSON files under results/; ``--check`` only compares.

A passage between ``<!-- table: name -->`` (or text, caption) and ``<!-- end -->`` is replaced by what the function
of that name returns.
"""

from __future__ import annotations

import json
import math
import re
import sys
from collections import Counter
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


def trained(name: str, vocabulary: str, counted: str = "") -> str:
    """Size, and the steps, time and validation bound of each stage, of a bundled model."""
    r = result(f"models/{name}")
    encoder, stages = r["model"]["encoder"], [*r.get("before", ()), r]
    first, *more = stages
    steps = f"{first['training']['steps']:,} steps of {first['training']['tokens_per_batch']:,} tokens in {first['seconds']:.0f} s"
    steps += "".join(f", then {stage['training']['steps']:,} in {stage['seconds']:.0f} s," for stage in more)
    bounds = ", then ".join(f"{stage['valid_bound']:.3f}" for stage in stages)
    return (
        f"{r['parameters']:,} parameters ({encoder['layers']} layers, width {encoder['width']}, {vocabulary} "
        f"{r['model']['vocabulary']:,}); {steps} on one {r['hardware']}{counted}; validation bound {bounds} nats a token.\n"
    )


def yelp_words_training() -> str:
    return trained("yelp-words", "vocabulary")


def english() -> str:
    bleu = result("models/english")["valid_bleu"]
    first = next(iter(bleu.values()))
    headings = ["BLEU, share of words hidden", *(f"{float(ratio):.0%}" for ratio in first)]
    rows = [["no infill", *(f"{row['no_infill_bleu']:.1f}" for row in first.values())]]
    return table(
        headings, rows + [[name, *(f"{row['bleu']:.1f}" for row in rows.values())] for name, rows in bleu.items()]
    )


def english_training() -> str:
    return trained("english", "byte-level BPE of", ", reading the corpus and compiling included")


def english_precision() -> str:
    r = result("models/english")
    half, whole = r["half_precision_bleu"], r["valid_bleu"]["all blanks at once"]
    losses = ", ".join(f"{half[ratio]['bleu'] - whole[ratio]['bleu']:+.2f} at {float(ratio):.0%}" for ratio in half)
    return f"What int8 weights lose against half precision, all blanks at once, BLEU: {losses}.\n"


def judged(label: str, scores: dict[str, dict]) -> list[str]:
    """A row: BLEU by ratio, then the judge's perplexity."""
    found = scores.values()
    return [label, *(f"{s['bleu']:.1f}" for s in found), *(f"{s['perplexity']:.0f}" for s in found)]


def english_judged() -> str:
    """The bundled model and the one that it replaced, with the same judge."""
    models = result("models/english-judged")["models"]
    shown = [f"{float(ratio):.0%}" for ratio in models["english"]]
    return table(["BLEU, then perplexity", *shown, *shown], [judged(*each) for each in models.items()])


def english_read() -> str:
    """What a reader made of the fills of sentences such as people write."""
    rows = result("models/english-read")["rows"]
    changed = sum(row["fill"] != row["may_repeat"] for row in rows)
    told, before = (
        ", ".join(f"{count} {verdict}" for verdict, count in Counter(verdicts).most_common())
        for verdicts in ([row["verdict"] for row in rows], [row["first_stage"]["verdict"] for row in rows])
    )
    return (
        f"Of {len(rows)} fills of sentences such as people write: {told}; after the first stage of training alone: "
        f"{before}. Keeping echoes out changed {changed} of them.\n"
    )


def first_fill() -> str:
    r = result("benchmarks/first-fill-cpu")
    s = r["median_seconds"]
    return (
        f"A fresh process on a CPU ({r['hardware']}, threads: {r['threads']}) imports in {s['import']:.1f} s, loads the model in "
        f"{s['load']:.2f} s and\nfills a sentence with two blanks in {s['first_fill']:.2f} s, then in {s['fill']:.2f} s; "
        f"`blanklm fill` takes {s['command']:.1f} s from start to end.\n"
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
    headings = [f"base, bf16, one {r['hardware']}", "tokens of text/s", "share of its matrix rate"]
    names = {"ptb": "Penn Treebank lines", "yahoo": "Yahoo documents"}
    rows = [
        [
            names[x["corpus"]],
            f"{x['tokens_per_second']:,.0f}",
            f"{x['share_of_matrix_rate']:.1%} of {x['matrix_rate'] / 1e12:.0f} TFLOP/s",
        ]
        for x in r["rows"]
    ]
    return table(headings, rows)


def training_profile() -> str:
    rows = {row["corpus"]: row["gpu_ms_per_step"] for row in result("benchmarks/training-gpu")["rows"]}
    kinds = sorted(rows["yahoo"], key=lambda kind: -rows["yahoo"][kind])
    headings = ["ms of GPU time a step of 262,144 tokens", "Penn Treebank lines", "Yahoo documents"]
    return table(headings, [[kind, *(f"{rows[corpus][kind]:.1f}" for corpus in ("ptb", "yahoo"))] for kind in kinds])


def filling_gpu() -> str:
    r, likelihood = result("benchmarks/core-cuda"), result("benchmarks/likelihood-gpu")["rows"]
    orders = {name: f"{row['per_second']:,.0f} token-orders/s" for name, row in likelihood.items()}
    batch, base = r["settings"]["batch"], r["sizes"]["base"]
    rows = [
        [
            f"filling {batch:,} texts together, one word a pass",
            f"{base[f'filled_tokens_batch_{batch}_per_second']:,.0f} words/s",
        ],
        ["filling one text at a time", f"{base['filled_tokens_batch_1_per_second']:,.0f} words/s"],
        ["Monte-Carlo likelihood of Penn Treebank lines", orders["lines"]],
        # The run that measured this compiled something anew at 128, so that its time is not the chunks' alone.
        *([f"the same, its stream in chunks of {length}", orders[f"chunks of {length}"]] for length in (64, 256, 512)),
    ]
    return table([f"base, bf16, one {r['hardware']}", "speed"], rows)


def filling_cpu() -> str:
    r = result("benchmarks/filling-cpu")
    return (
        f"`python benchmarks/filling.py`, {r['size']}, one text at a time: {r['words_per_second']:.0f} words/s, {r['ratio']:.1f}\n"
        f"times a decoder that scores left/right for the whole vocabulary ({r['reference_words_per_second']:.1f}; the same fills\n"
        f"for {r['same_fills']} of {r['texts']} texts); {r['encoder_share']:.0%} of our time is the encoder's.\n"
    )


def peers_cpu() -> str:
    r = result("benchmarks/peers-cpu")
    batches = list(r["batches"])
    headings = [f"words/s, and times GPT-2; {r['hardware']}, threads: {r['threads']}"]
    headings += [f"batch {batch}" for batch in batches]
    names = list(r["batches"][batches[0]])
    rows = [
        [
            name,
            *(f"{(x := r['batches'][b][name])['tokens_per_second']:,.0f} ({x['of_gpt2']:.2f} x)" for b in batches),
        ]
        for name in names
    ]
    return table(headings, rows)


def parallel_bleu() -> str:
    """What filling all blanks at once costs in BLEU on Yahoo, against the best way to fill one word at a time."""
    rows = {
        name: result(f"infilling/yahoo-{name}")["ratios"] for name in ("blm", "blm-greedy", "blm-model", "blm-parallel")
    }
    at = {name: ratios["0.3"]["bleu"] for name, ratios in rows.items()}
    best = max(bleu for name, bleu in at.items() if name != "blm-parallel")
    texts = rows["blm-parallel"]["0.3"]["texts"]
    return (
        f"On {texts:,} test documents with 30 % hidden, filling all blanks at once scores {at['blm-parallel']:.1f} BLEU; the best of greedy, "
        f"p(b)-ordered and beam search, one word a pass, {best:.1f}.\n"
    )


def training_cpu() -> str:
    r = result("benchmarks/training-cpu")
    names = {"padded": "straightforward, padded", "packed": "ours", "packed, bf16": "ours, `--precision bf16`"}
    headings = [f"{r['size']}, {r['hardware']}, threads: {r['threads']}", "tokens of text/s", "times"]
    rows = [
        [label, f"{r['tokens_per_second'][name]:,.0f}", f"{r['of_padded'][name]:.1f}"] for name, label in names.items()
    ]
    return table(headings, rows)


def curve_cpu() -> str:
    """Tokens a second by length, measured and as the fitted line has it."""
    r = result("benchmarks/curve-cpu")
    every = {kind: {row["length"]: row for row in rows} for kind, rows in r["lengths"].items()}
    lengths = sorted({length for rows in every.values() for length in rows})
    headings = [f"tokens/s (fit), MB; {r['size']}, threads: {r['threads']}", *map(str, lengths)]
    rows = []
    for kind, by_length in every.items():
        cells = [
            f"{x['tokens_per_second']:,.0f} ({x['predicted_tokens_per_second']:,.0f}), {x['megabytes']:,.0f}"
            if (x := by_length.get(length))
            else ""
            for length in lengths
        ]
        rows.append([kind, *cells])
    bends = ", ".join(
        f"{kind} at {fit['attention_costs_as_much_at']:,.0f} tokens"
        for kind, fit in r["fit"].items()
        if 0 < fit["attention_costs_as_much_at"] < 1e5
    )
    batches = "; ".join(
        f"{kind}, texts of {rows[0]['length']} tokens: "
        + ", ".join(f"{row['tokens_per_second']:,.0f} tokens/s at {row['texts']}" for row in rows)
        for kind, rows in r["batches"].items()
    )
    return (
        table(headings, rows)
        + f"\nThe part that grows with the length costs as much as all the rest: {bends}. By batch: {batches}.\n"
    )


def scale_cpu() -> str:
    r = result("benchmarks/scale-cpu")
    headings = [
        f"{r['lines']:,} lines in {r['shards']} shards, {r['hardware']}, 2 cores",
        "lines/s",
        "seconds",
        "of them filling",
    ]
    names = {"processes": "processes", "ray": "Ray actors"}
    rows = [
        [
            f"{names[x['on']]}: {x['workers']}",
            f"{x['lines_per_second']:,.0f}",
            f"{x['seconds']:.1f}",
            f"{x['filling_seconds']:.1f}",
        ]
        for x in r["rows"]
    ]
    return table(headings, rows)


def streaming_cpu() -> str:
    r = result("benchmarks/streaming-cpu")
    return (
        f"Over a simulated corpus of {r['gigabytes']:.0f} GB (`python benchmarks/streaming.py`: texts and tokens from a generator) the process\n"
        f"stays between {r['megabytes_least']:.0f} and {r['megabytes_most']:.0f} MB of memory, and ends at {r['megabytes_last']:.0f}.\n"
    )


def thousand_gpus() -> str:
    rows = {row["corpus"]: row for row in result("benchmarks/training-gpu")["rows"]}
    training = rows["yahoo"]["tokens_per_second"]
    forward = 3 * training  # a backward pass costs two forward ones
    words, canvas = 6, 20  # of a typical text to fill
    texts = forward / (words * canvas)
    step = 65_536 / training
    gradients = 25.1e6 * 4
    exchange = 2 * gradients / 50e9
    return (
        f"**Filling** needs no exchange between workers, so 1,000 GPUs fill 1,000 times what one does until something they share\n"
        f"gives out. One H200 trains the base model on {training / 1e6:.1f} M tokens a second; at the same efficiency a forward pass alone\n"
        f"would read {forward / 1e6:.0f} M, and {words} words written one a pass into canvases of {canvas} symbols would allow {texts:,.0f} texts a second a\n"
        f"GPU: an upper bound, since decoding is held up by the host. A thousand would take {texts / 1e3:.0f} M texts a second at most, and at a\n"
        f"tenth of that a billion texts in {1e9 / (texts * 100) / 60:.0f} minutes. What breaks first:\n\n"
        f"1. The shared file system. {texts / 1e3:.0f} M texts of 100 bytes are {texts * 1e3 * 100 / 1e9:.0f} GB/s in and some three times that out as JSON; few\n"
        "   clusters give a tenth of it. Compressed shards, and results without the input, come next.\n"
        "2. The start. 1,000 workers load the same 100 MB at once, and from the Hub they would be throttled: put the model on the\n"
        "   shared file system or in the image.\n"
        "3. The tail. A shard is the unit, so the last shard decides: ten or more shards a worker, each of a few minutes.\n"
        "4. Deaths. One GPU failure in 50,000 hours is one in two days of such a job; it costs one shard of one worker.\n"
        "5. The driver plans and sums up with a few file operations a shard; a million shards take it minutes.\n\n"
        f"**Training** the base model on 1,000 GPUs would waste nearly all of them. At 65,536 tokens a GPU a step takes {step * 1e3:.0f} ms, and\n"
        f"exchanging {gradients / 1e6:.0f} MB of gradients over 50 GB/s about {exchange * 1e3:.0f} ms, mostly hidden behind the backward pass; so the\n"
        "hardware would keep up. But the batch would be 65 M tokens, far more than a model of 25 M parameters learns from: what\n"
        "breaks first is the batch size. At half a million tokens a step, eight GPUs are enough; beyond that, a larger model.\n"
        "Texts in memory are read and tokenised by every process: from a few dozen processes on, use `--from-disk`. There each\n"
        "step adds up the tokens of all processes, a small exchange that waits for the slowest reader.\n"
    )


def fuzzing() -> str:
    r = result("fuzzing")
    return table(
        ["target", "inputs tried", "seconds", "findings"],
        [[x["target"], f"{x['inputs']:,}", f"{x['seconds']}", f"{x['findings']}"] for x in r["rows"]],
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


PAPER_BLEU = {  # Table 1 of the paper, which trained on 100,000 documents
    "no infill": (75.2, 55.0, 37.4, 23.6, 13.0),
    "insertion": (84.8, 72.3, 58.9, 46.0, 33.8),
    "mlm": (83.7, 69.3, 55.5, 43.2, 32.2),
    "bert-lm": (82.8, 66.3, 50.3, 37.4, 26.2),
    "seq2seq-full": (86.3, 72.9, 59.4, 46.3, 34.0),
    "seq2seq-fill": (82.8, 67.5, 52.9, 39.9, 28.6),
    "blm": (86.5, 73.2, 59.6, 46.8, 34.8),
}
PAPER_PERPLEXITY = {
    "no infill": (98.4, 163.0, 266.3, 421.0, 647.9),
    "insertion": (48.3, 44.2, 41.8, 39.7, 37.7),
    "mlm": (58.4, 59.8, 59.8, 59.0, 56.8),
    "bert-lm": (55.1, 55.2, 54.9, 56.5, 53.6),
    "seq2seq-full": (51.3, 46.9, 41.0, 31.9, 20.6),
    "seq2seq-fill": (64.6, 71.0, 73.4, 65.6, 48.7),
    "blm": (50.2, 44.9, 39.9, 35.0, 32.7),
}  # of the original documents: 55.8
PAPER_FAILURES = {  # Table 2
    "seq2seq-full": (15.0, 22.4, 28.7, 33.3, 40.6),
    "seq2seq-fill": (31.0, 28.4, 34.5, 42.5, 47.2),
}
IN_THE_PAPER = tuple(name for name in PAPER_BLEU if name != "no infill")
OURS_ALONE = (
    "blm-greedy",
    "blm-model",
    "blm-parallel",
    "blm-minilm",
    "blm-english",
    "mlm-left-to-right",
    "mlm-one-shot",
)
INFILLED = {"yahoo": "Yahoo Answers", "yelp": "Yelp"}


def infilling_rows(corpus: str, systems: tuple[str, ...] = (*IN_THE_PAPER, *OURS_ALONE)) -> dict[str, dict]:
    """The rows there are of these systems."""
    paths = {name: ROOT / "results" / "infilling" / f"{corpus}-{name}.json" for name in systems}
    return {name: json.loads(path.read_text(encoding="utf-8")) for name, path in paths.items() if path.exists()}


def infilling_labels() -> dict[str, str]:
    return {name: row["label"] for corpus in INFILLED for name, row in infilling_rows(corpus).items()}


def by_share(first: str, ratios: dict, rows: list[list[str]]) -> str:
    return table([first, *(f"{float(ratio):.0%}" for ratio in ratios)], rows)


def infilling_bleu(corpus: str, systems: tuple[str, ...]) -> str:
    """BLEU, the best of each column in bold; a masked model, which is told the lengths, does not compete."""
    judge, found = infilling_rows(corpus, ("lm",)), infilling_rows(corpus, systems)
    if not judge or not found:
        return f"There is no run on {INFILLED[corpus]} yet.\n"
    ratios = judge["lm"]["ratios"]
    values = {name: [round(r["bleu"], 1) for r in row["ratios"].values()] for name, row in found.items()}
    best = [max(column) for column in zip(*(v for name, v in values.items() if "mlm" not in name), strict=True)]
    rows = [["no infill", *(f"{r['no_infill_bleu']:.1f}" for r in ratios.values())]]
    for name, row in found.items():
        tops = [value == top and "mlm" not in name for value, top in zip(values[name], best, strict=True)]
        cells = [f"**{value:.1f}**" if top else f"{value:.1f}" for value, top in zip(values[name], tops, strict=True)]
        rows.append([row["label"], *cells])
    return by_share("BLEU, share of words hidden", ratios, rows)


def infilling_yahoo() -> str:
    return infilling_bleu("yahoo", (*IN_THE_PAPER, *OURS_ALONE))


def infilling_yelp() -> str:
    return infilling_bleu("yelp", (*IN_THE_PAPER, *OURS_ALONE))


def infilling_readme() -> str:
    return infilling_bleu("yahoo", (*IN_THE_PAPER, "blm-minilm", "blm-english"))


def infilling_paper() -> str:
    """Table 1 of the paper, both halves."""
    labels = infilling_labels()
    shares = [f"{float(ratio):.0%}" for ratio in infilling_rows("yahoo", ("lm",))["lm"]["ratios"]]
    rows = [
        [labels.get(name, name), *(f"{value:.1f}" for value in (*bleu, *PAPER_PERPLEXITY[name]))]
        for name, bleu in PAPER_BLEU.items()
    ]
    return table(["the paper's BLEU, then perplexity", *shares, *shares], rows)


def infilling_perplexity() -> str:
    judge = infilling_rows("yahoo", ("lm",))["lm"]["ratios"]
    rows = [["no infill", *(f"{r['no_infill_perplexity']:.0f}" for r in judge.values())]]
    for row in infilling_rows("yahoo").values():
        if all("perplexity" in r for r in row["ratios"].values()):  # found by the same judge
            rows.append([row["label"], *(f"{r['perplexity']:.0f}" for r in row["ratios"].values())])
    rows.append(["original texts", *(f"{r['original_perplexity']:.0f}" for r in judge.values())])
    return by_share("perplexity, share of words hidden", judge, rows)


def infilling_failures() -> str:
    rows = []
    for corpus, title in INFILLED.items():
        for row in infilling_rows(corpus, (*IN_THE_PAPER, "insertion-free", *OURS_ALONE)).values():
            shares = row["ratios"].values()
            kinds = [(100 * r["failure_rate"], 100 * r["lost_words"], 100 * r["wrong_blanks"]) for r in shares]
            if any(rate for rate, *_ in kinds):
                rows.append([f"{title}, {row['label']}", *(f"{rate:.1f} ({a:.1f} + {b:.1f})" for rate, a, b in kinds)])
    labels = infilling_labels()
    for name, values in PAPER_FAILURES.items():
        rows.append([f"the paper's {labels.get(name, name)}", *(f"{value:.1f}" for value in values)])
    return by_share("failures, % (words lost + blanks wrong)", infilling_rows("yahoo", ("lm",))["lm"]["ratios"], rows)


def infilling_setting() -> str:
    said = []
    for corpus, title in INFILLED.items():
        for row in infilling_rows(corpus, ("blm",)).values():
            test, training = row["test"], row["training"]
            encoder = training["model"]["encoder"]
            tried = "; ".join(
                f"{name}: {', '.join(f'{bleu:.1f}' for bleu in scores.values())}"
                for name, scores in row["validation_bleu"].items()
            )
            of_them = "all" if test["texts"] == test["of"] else f"{test['texts']:,} of the"
            spread = "" if test["texts"] == test["of"] else ", spread evenly over the file"
            said.append(
                f"- **{title}**: trained on {row['trained_on']}; {of_them} {test['of']:,} test texts{spread}; mask\n"
                f"  seed {test['mask_seed']}; {encoder['layers']} layers of width {encoder['width']}, a vocabulary of {training['model']['vocabulary']:,} words. The beam of the row BLM was chosen on validation texts\n"
                f"  (BLEU at each share of words hidden: {tried}).\n"
            )
    names = {"beam 1": "one word at a time", "order parallel": "all blanks at once"}
    for row in infilling_rows("yahoo", ("blm-minilm", "blm-english")).values():
        tried = "; ".join(
            f"{names[name]}: {', '.join(f'{bleu:.1f}' for bleu in scores.values())}"
            for name, scores in row["validation_bleu"].items()
        )
        said.append(f"- **{row['label']}** was let choose in the same way: {tried}.\n")
    return "".join(said)


def infilling_training() -> str:
    rows = []
    for corpus, title in INFILLED.items():
        for row in infilling_rows(corpus, ("lm", *IN_THE_PAPER, "blm-minilm", "blm-english")).values():
            t = row["training"]
            cells = (
                f"{t['parameters'] / 1e6:.1f} M",
                f"{t['steps']:,}",
                f"{t['best_step']:,}",
                f"{t['epochs']:,}",
                f"{t['seconds']:.0f}",
            )
            rows.append([f"{title}, {row['label'].removesuffix(', greedy')}", *cells])
    return table(["system", "parameters", "steps", "best at step", "epochs", "seconds"], rows)


def infilling_speed() -> str:
    r = result("infilling/yahoo-speed")
    names = {"confident": "one word at a time", "parallel": "all blanks at once"}
    rows = [
        [names[order], *(f"{share['words_per_second']:,.0f}" for share in r["orders"][order].values())]
        for order in names
    ]
    return by_share(f"words/s, {r['texts']:,} documents, one {r['hardware']}", r["orders"]["parallel"], rows)


def figure_5() -> str:
    """The paper's example: what each system put into its blanks, in italics."""
    masks = ["when time flies , {} does it go ? {} the center of the {} to be recycled {} made into new time ."]
    masks += ["when time {} , where {} ? {} the {} of {} universe to {} recycled {} made into {} ."]
    original = [
        ["where", "to", "universe", "and"],
        ["flies", "does it go", "to", "center", "the", "be", "and", "new time"],
    ]
    rows = {name: row for name, row in infilling_rows("yahoo").items() if row.get("figure_5")}
    said = []
    for number, mask in enumerate(masks):
        blanks = mask.count("{}")
        lines = [["blanked", mask.format(*[r"\_\_\_"] * blanks)]]
        for row in rows.values():
            fill = row["figure_5"][number]
            spans = [f"*{span.replace('_', chr(92) + '_')}*" if span else "(nothing)" for span in fill["spans"]]
            lines.append([row["label"], "not a fill: " + fill["text"] if "text" in fill else mask.format(*spans)])
        lines.append(["original", mask.format(*(f"**{span}**" for span in original[number]))])
        said.append(table(["", f"{'10%' if number == 0 else '50%'} hidden"], lines).replace("| ---: |", "| --- |"))
    return "\n".join(said)


SYSTEMS = {  # the parts of recipes/restoration.py
    "greek-pythia": "Pythia",
    "greek-pythia-word": "Pythia-Word",
    "greek-lblm": "L-BLM",
    "greek-documents": "mixed L-BLM, no literature",
    "greek": "mixed L-BLM",
    "latin": "mixed L-BLM, Latin",
}
SETTINGS = {"single": "single slot", "0.25": "25%", "0.4": "40%", "0.5": "50%"}


def restored(part: str) -> dict:
    """The measurements of a part of recipes/restoration.py; none where it has not been run."""
    path = ROOT / "results" / "restoration" / f"{part}.json"
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}


def restoration() -> str:
    def row(name: str, cers: dict) -> list[str]:
        return [name, *(f"{cers[s]:.1f}" if s in cers else "" for s in SETTINGS)]

    rows = [row(f"{name} (the paper, PHI-ML)", cers) for name, cers in restored("paper")["rows"].items()]
    for part, name in SYSTEMS.items():
        measured = restored(part)
        if "single" in measured:
            rows.append(row(name, {setting: measured[setting]["cer"] for setting in SETTINGS if setting in measured}))
    return table(["CER, %", *SETTINGS.values()], rows)


def restoration_ranked() -> str:
    what = {
        "single": "single slot of 1-10 characters",
        "phi_ml": "PHI-ML excerpts",
        "papyri": "papyri",
        "editors": "editors' restorations",
    }
    rows = []
    for part, name in SYSTEMS.items():
        for setting, say in what.items():
            if "cer" in (m := restored(part).get(setting, {})):
                numbers = [f"{m[key]:.1f}" for key in ("cer", "top1", "top20", "ece")]
                rows.append([f"{name}: {say}", f"{m['gaps']:,}", *numbers])
    excerpts = [restored(part).get("phi_ml", {}) for part in SYSTEMS]
    if excerpts := [m for m in excerpts if "charbert_cer" in m]:  # its answers stand beside the excerpts
        m = max(excerpts, key=lambda m: m["gaps"])
        numbers = f"{m['gaps']:,}", f"{m['charbert_cer']:.1f}", f"{m['charbert_top1']:.1f}"
        rows.append(["char-BERT: PHI-ML excerpts", *numbers, "", ""])
    return table(["%", "gaps", "CER", "top 1", "top 20", "ECE"], rows)


def restoration_lengths() -> str:
    rows = []
    for part, name in SYSTEMS.items():
        for told in ("told", "range", "unknown"):
            if m := restored(part).get(f"single, {told}"):
                numbers = (f"{m[key]:.1f}" for key in ("cer", "top1", "length_right"))
                rows.append([f"{name}: length {told}", f"{m['gaps']:,}", *numbers])
    return table(["one slot of 1-10 characters, %", "gaps", "CER", "exact", "length right"], rows)


def megabytes_of(model: str) -> float:
    """A bundled model, without its card."""
    folder = ROOT / "src" / "blanklm" / "pretrained" / model
    return sum(path.stat().st_size for path in folder.iterdir() if path.name != "README.md") / 1e6


def restorer_training(part: str) -> str:
    r = restored(part)
    encoder, training = r["model"]["encoder"], r["training"]
    temperature = min(r["calibration"], key=r["calibration"].__getitem__)
    return (
        f"{r['parameters']:,} parameters ({encoder['layers']} layers, width {encoder['width']}, {r['model']['vocabulary']} characters), "
        f"{megabytes_of(part):.1f} MB; {training['steps']:,} steps of {training['tokens_per_batch']:,} characters in {r['seconds']:.0f} s on one "
        f"{r['hardware']} that other runs shared; validation loss {r['valid_bound']:.3f} nats a character of text. Calibrated on validation texts: "
        f"temperature {temperature}.\n"
    )


def restorer_measured(part: str) -> str:
    r = restored(part)
    what = {
        "single": "single slot of 1-10 characters",
        "0.25": "slots over 25% of a text",
        "0.4": "slots over 40%",
        "0.5": "slots over 50%",
        "phi_ml": "PHI-ML excerpts",
        "papyri": "papyri",
        "editors": "editors' restorations, any length",
    }
    measures = "cer", "top1", "top20", "ece"
    rows = [
        [say, *(f"{r[s][key]:.1f}" if key in r[s] else "" for key in measures)] for s, say in what.items() if s in r
    ]
    if editors := r.get("editors"):
        short = [f"{editors[key]:.1f}" if key in editors else "" for key in (f"short_{key}" for key in measures)]
        rows.append(["editors' restorations, texts with gaps of 1-10 alone", *short])
    for told in ("range", "unknown"):
        if m := r.get(f"single, {told}"):
            rows.append([f"single slot, length {told}", f"{m['cer']:.1f}", f"{m['top1']:.1f}", "", ""])
    return table(["test texts, %", "CER", "top 1", "top 20", "ECE"], rows)


def greek_training() -> str:
    return restorer_training("greek")


def greek_measured() -> str:
    return restorer_measured("greek")


def latin_training() -> str:
    return restorer_training("latin")


def latin_measured() -> str:
    return restorer_measured("latin")


def restoration_reach() -> str:
    """Where the mixed L-BLM stands beside Pythia-Word, the char-BERT and the published numbers, in a sentence each."""
    ours, theirs, paper = restored("greek"), restored("greek-pythia-word"), restored("greek-lblm")
    if "phi_ml" not in ours:
        return "The Greek model has been measured at a single slot alone.\n"

    def beside(setting: str) -> str:
        numbers = ours[setting]["cer"], ours[setting]["gaps"], *(r[setting]["cer"] for r in (theirs, paper))
        return "{:.1f} in {:,} gaps against {:.1f} (the paper's L-BLM {:.1f})".format(*numbers)

    settings = ", ".join(f"{say}: {beside(s)}" for s, say in SETTINGS.items() if s in ours)
    phi, published = ours["phi_ml"], restored("paper")["rows"]
    return (
        f"- The mixed L-BLM against Pythia-Word, CER: {settings}.\n"
        f"- PHI-ML excerpts: {phi['cer']:.1f} in {phi['gaps']:,} gaps against Pythia-Word's {theirs['phi_ml']['cer']:.1f} and, in the same gaps, the char-BERT's {phi['charbert_cer']:.1f}; exactly right in "
        f"{phi['top1']:.1f} % against {theirs['phi_ml']['top1']:.1f} and {phi['charbert_top1']:.1f}.\n"
        f"- The published {published['Pythia-Word']['single']} (Pythia-Word, full contexts and eight times the text) is {phi['cer'] - published['Pythia-Word']['single']:.1f} points away.\n"
    )


def restoration_words() -> str:
    """The bundled models with and without the words that their corpora attest, in the same gaps."""
    what = {"phi_ml": "PHI-ML excerpts", "single": "single slot of 1-10 characters"}
    rows = []
    for part in ("greek", "latin"):
        measured = restored(f"{part}-words")
        for setting, say in what.items():
            found = {how: m[setting] for how, m in measured.items() if setting in m}
            for how, m in found.items():
                numbers = [f"{m[key]:.1f}" for key in ("cer", "top1", "top20", "ece")]
                rows.append([f"{SYSTEMS[part]}: {say}, {how}", f"{m['gaps']:,}", *numbers])
            for m in list(found.values())[:1]:
                if "charbert_cer" in m:  # its answers stand beside the excerpts
                    theirs = f"{m['charbert_cer']:.1f}", f"{m['charbert_top1']:.1f}"
                    rows.append([f"char-BERT: {say}", f"{m['gaps']:,}", *theirs, "", ""])
    return table(["%", "gaps", "CER", "top 1", "top 20", "ECE"], rows)


def restoring_cpu() -> str:
    r = result("benchmarks/restoring-cpu")
    rows = [
        [
            say,
            f"{m['seconds_a_gap']:.2f}",
            f"{m['same_first']:.0%}",
            f"{m['same_among_20']:.0%}",
            f"{m['largest_difference']:.3f}",
        ]
        for say, m in r["read"].items()
    ]
    head = [
        "each draft is read",
        "seconds a gap",
        "same first",
        "same among 20",
        "largest difference of the first's probability",
    ]
    return table(head, rows)


PAPER_TRANSFER = {  # Table 4 of the paper: Yelp accuracy and BLEU, Amazon accuracy and BLEU
    "M&I with MLM": (41.5, 15.9, 31.2, 32.1),
    "M&I with MLM + classifier": (97.3, 14.1, 75.9, 28.5),
    "M&I with BLM": (79.6, 21.9, 52.0, 24.7),
    "M&I with BLM + classifier": (96.5, 21.5, 92.5, 23.1),
}


def transfer_cells(row: dict | None) -> list[str]:
    return [f"{row[key]:.1f}" if row and key in row else "" for key in ("accuracy", "bleu")]


def sentiment_rows(names: dict[str, str]) -> list[list[str]]:
    both = [result(f"sentiment-{corpus}")["ours"] for corpus in SENTIMENT]
    return [[say, *(cell for ours in both for cell in transfer_cells(ours.get(name)))] for name, say in names.items()]


SENTIMENT = ("yelp", "amazon")
CHOSEN_TRANSFER = {  # rows whose settings were chosen on validation sentences
    "M&I with BLM, chosen: ranking": "M&I with BLM + ranking",
    "M&I with BLM, one model, chosen: classifier": "M&I with BLM, one model + classifier",
    "M&I with BLM, one model, chosen: contrast + classifier": "M&I with BLM, one model, contrast + classifier",
    "M&I with BLM, one model, chosen: ranking": "M&I with BLM, one model, contrast + ranking",
    "bundled, chosen: contrast + classifier": "M&I with the bundled BLM, contrast + classifier",
    "bundled, chosen: ranking": "M&I with the bundled BLM, contrast + ranking",
}


def sentiment_table() -> str:
    yelp, amazon = (result(f"sentiment-{corpus}") for corpus in SENTIMENT)
    headings = ["", "Yelp ACC", "BLEU", "BLEU, 4 references", "Amazon ACC", "BLEU", "paper: Yelp", "Amazon"]
    first = ["copy of the source", "human reference"]
    published = [name for name in dict.fromkeys((*yelp["known"], *amazon["known"])) if name not in first]
    rows = []
    for name in [*first, *published, *PAPER_TRANSFER, *CHOSEN_TRANSFER]:
        row = {r["corpus"]: (r["known"] | r["ours"]).get(name, {}) for r in (yelp, amazon)}
        four = f"{row['yelp']['bleu_all_references']:.1f}" if "bleu_all_references" in row["yelp"] else ""
        paper = PAPER_TRANSFER.get(name)
        said = [f"{paper[0]} / {paper[1]}", f"{paper[2]} / {paper[3]}"] if paper else ["", ""]
        say = f"{CHOSEN_TRANSFER[name]} *" if name in CHOSEN_TRANSFER else name
        rows.append([say, *transfer_cells(row["yelp"]), four, *transfer_cells(row["amazon"]), *said])
    return table(headings, rows)


def sentiment_against_paper() -> str:
    """Each row of ours with BLM and classifier against the paper's, number by number."""
    wanted = PAPER_TRANSFER["M&I with BLM + classifier"]
    lines = []
    for name, say in {"M&I with BLM + classifier": "M&I with BLM + classifier", **CHOSEN_TRANSFER}.items():
        said = []
        for corpus, paper in zip(SENTIMENT, (wanted[:2], wanted[2:]), strict=True):
            row = result(f"sentiment-{corpus}")["ours"].get(name)
            if row:
                by = [row[key] - number for key, number in zip(("accuracy", "bleu"), paper, strict=True)]
                verdict = (
                    "at or above in both" if min(by) >= 0 else "below in both" if max(by) < 0 else "one of the two"
                )
                said.append(
                    f"{corpus.capitalize()} {row['accuracy']:.1f} / {row['bleu']:.1f} ({by[0]:+.1f} / {by[1]:+.1f}, {verdict})"
                )
        lines.append(f"- {say}: {'; '.join(said)}\n")
    return "".join(lines)


def sentiment_ablations() -> str:
    names = {
        "M&I with BLM": "two models, attention masks; no classifier",
        "M&I with BLM + classifier": "+ classifier (the paper's way)",
        "M&I with BLM, chosen: ranking": "+ ranking, smaller masks too *",
        "M&I with BLM, one model": "one model for both; no classifier",
        "M&I with BLM, one model + classifier": "+ classifier",
        "M&I with BLM, one model, chosen: classifier": "+ classifier, temperature chosen *",
        "M&I with BLM, one model, contrast": "+ contrast; no classifier",
        "M&I with BLM, one model, chosen: contrast + classifier": "+ contrast + classifier *",
        "M&I with BLM, one model, chosen: ranking, whole mask": "+ contrast + ranking, the whole mask *",
        "M&I with BLM, one model, chosen: ranking": "+ contrast + ranking, smaller masks too *",
        "M&I with BLM, frequency masks": "two models, frequency masks; no classifier",
        "M&I with BLM, frequency masks + classifier": "+ classifier ",
        "M&I with BLM, frequency masks, same ranking": "+ ranking, smaller masks too ",
    }
    return table(["", "Yelp ACC", "BLEU", "Amazon ACC", "BLEU"], sentiment_rows(names))


def sentiment_bundled() -> str:
    ours = result("sentiment-yelp")["ours"]
    names = {
        "bundled": "most probable fill of the mask, no contrast",
        "bundled + classifier": "best of ten samples by the classifier, as in the paper",
        "bundled, contrast": "most probable fill of the mask, with contrast",
        "bundled, chosen: contrast + classifier": "best of ten samples by the classifier, with contrast",
        "bundled, chosen: ranking, whole mask": "`blanklm transfer`",
        "bundled, chosen: ranking": "with the settings chosen among smaller masks and more samples too",
    }
    return table(["", "accuracy", "BLEU"], [[say, *transfer_cells(ours[name])] for name, say in names.items()])


def sentiment_choice() -> str:
    """What each temperature and contrast gives on validation sentences."""
    ways = [("yelp", "one"), ("amazon", "one"), ("yelp", "small")]
    lines = []
    for rows in zip(*(result("sentiment-choice")[corpus]["rows"][writer] for corpus, writer in ways), strict=True):
        first = rows[0]
        masks = "smaller masks too" if first["fewer"] else "the whole mask"
        name = f"{first['temperature']:g}, contrast {first['contrast']:g}, {masks}"
        cells = [
            f"{row[by]['accuracy']:.1f} / {row[by]['self_bleu']:.1f}"
            for row in rows
            for by in ("classifier", "ranking")
        ]
        lines.append([name, *cells])
    headings = ["Yelp: classifier", "ranking", "Amazon: classifier", "ranking", "bundled: classifier", "ranking"]
    return table(["temperature", *headings], lines)


def sentiment_chosen() -> str:
    lines = []
    for corpus in SENTIMENT:
        for writer, ways in result("sentiment-choice")[corpus]["chosen"].items():
            name = {"two": "two models", "one": "one model", "small": "the bundled model"}[writer]
            for way, chosen in ways.items():
                setting, weights = chosen["setting"], chosen["setting"]["weights"]
                masks = "smaller masks too" if setting["fewer"] else "the whole mask"
                by = "" if "classifier" in way else f", content {weights['content']:g}, fluency {weights['fluency']:g}"
                lines.append(
                    f"- {corpus.capitalize()}, {name}, {way}: temperature {setting['temperature']:g}, contrast {setting['contrast']:g}, {setting['samples']} samples, {masks}{by}\n"
                    f"  ({chosen['accuracy']:.1f} / {chosen['self_bleu']:.1f} on validation sentences; of {chosen['of']} settings)\n"
                )
    return "".join(lines)


def sentiment_weights() -> str:
    both = [result(f"sentiment-{corpus}")["ranked"] for corpus in SENTIMENT]
    rows = [[weight, *(cell for ranked in both for cell in transfer_cells(ranked[weight]))] for weight in both[0]]
    return table(["weight of content", "Yelp ACC", "BLEU", "Amazon ACC", "BLEU"], rows)


def sentiment_judges() -> str:
    lines = []
    for corpus, paper in (("yelp", 97.7), ("amazon", 82.2)):
        parts = result(f"sentiment-{corpus}")["parts"]
        judge, own = parts["judge"], parts["classifier"]
        lines.append(
            f"- {corpus.capitalize()}: the judge is right on {judge['test_accuracy']:.1f} % of the test sentences ({judge['valid_accuracy']:.1f} % of the validation\n"
            f"  sentences; the paper's: {paper} %), the classifier that masks and ranks on {own['test_accuracy']:.1f} % ({own['valid_accuracy']:.1f} %).\n"
        )
    return "".join(lines)


def sentiment_beyond() -> str:
    """The claim that ours are ahead of every published output, row by row and along the line of the weights."""
    from blanklm.tasks.sentiment import not_beaten

    lines = []
    for corpus in SENTIMENT:
        r = result(f"sentiment-{corpus}")
        published = {n: row for n, row in r["known"].items() if "bleu" in row and n != "copy of the source"}
        of_rows = [row for name, row in r["ours"].items() if name in CHOSEN_TRANSFER]
        for what, ours in (("a row marked *", of_rows), ("a weight of content", [*r["ranked"].values(), *of_rows])):
            behind = not_beaten(published, ours)
            rest = (
                f"all published outputs but {', '.join(behind)}"
                if behind
                else f"each of the {len(published)} published outputs"
            )
            lines.append(f"- {corpus.capitalize()}: {what} is ahead, in accuracy and BLEU alike, of {rest}.\n")
    return "".join(lines)


def sentiment_model() -> str:
    parts = result("sentiment-yelp")["parts"]
    writer, classifier = parts["blm-small"], parts["classifier"]
    encoder = writer["model"]["encoder"]
    on = "two CPU cores" if writer["hardware"] == "cpu" else f"one {writer['hardware']}"
    return (
        f"A BLM of {writer['parameters']:,} parameters ({encoder['layers']} layers, width {encoder['width']}, vocabulary {writer['model']['vocabulary']:,}) for both styles, and a\n"
        f"classifier of {classifier['parameters']:,}, right on {classifier['test_accuracy']:.1f} % of the test sentences; in int8, {megabytes_of('sentiment'):.1f} MB with the vocabulary.\n"
        f"The BLM began as yelp-words and learnt to tell the sentiments apart in {writer['steps']:,} steps of {writer['training']['tokens_per_batch']:,} tokens,\n"
        f"{writer['seconds']:.0f} s on {on}; validation bound {writer['valid_bound']:.3f} nats a token.\n"
    )


# --- Language modelling -----------------------------------------------------------------------------------------------

STREAMS = {"ptb": "PTB", "wikitext2": "WikiText-2"}
PAPER_STREAMS = {
    "LSTM (Grave et al. 2017)": ("82.3", "99.3"),
    "AWD-LSTM (Merity et al. 2017)": ("57.3", "65.8"),
    "Transformer-XL (Dai et al. 2019)": ("54.5", ""),
    "InsT": ("77.3", "91.4"),
    "BLM": ("69.2", "81.2"),
}
PAPER_TREND = {"1": "46.3", "10": "44.4", "100": "43.3", "1000": "42.5"}  # on WikiText-103


def language_models(corpus: str, tried: bool = False) -> dict[str, dict]:
    """The rows there are, in the order of the recipe; tries or what they were made for."""
    paths = (ROOT / "results" / "language-modelling").glob(f"{corpus}-*.json")
    rows = {row["system"]: row for row in (json.loads(path.read_text(encoding="utf-8")) for path in paths)}
    order = ["lm", "insertion", "blm", "lm-context", "blm-context", "blm-curriculum", "blm-lean"]
    names = sorted(rows, key=lambda name: (order.index(name) if name in order else len(order), name))
    return {name: rows[name] for name in names if name.startswith(("try-", "blm-128")) == tried}


def perplexity_of(row: dict) -> str:
    """On the whole test set, at the greatest m there is."""
    if "exact" in row:
        return f"{row['exact']['test']:.1f}"
    if "test" not in row["estimates"]:
        return ""
    estimate = row["estimates"]["test"]
    return f"{estimate['at_all']:.1f} (m = {estimate['orders']})"


def lm_table() -> str:
    ours = {corpus: {row["label"]: row for row in language_models(corpus).values()} for corpus in STREAMS}
    labels = dict.fromkeys([*PAPER_STREAMS, *(label for rows in ours.values() for label in rows)])
    rows = []
    for label in labels:
        cells = [perplexity_of(rows[label]) if label in rows else "" for rows in ours.values()]
        rows.append([label, *cells, *PAPER_STREAMS.get(label, ("", ""))])
    return table(["perplexity a token", *STREAMS.values(), "paper: PTB", "WikiText-2"], rows)


def lm_orders() -> str:
    trend = ("1", "3", "10", "30", "100", "300", "1000")
    rows = []
    for corpus, title in STREAMS.items():
        for row in language_models(corpus).values():
            some = "what begins in ten chunks" if row.get("context") else "ten chunks"
            for name, say in (("test", "all"), ("seeded", some)):
                if name not in row.get("estimates", {}):
                    continue
                estimate = row["estimates"][name]
                found = [f"{estimate['perplexity'][m]:.2f}" if m in estimate["perplexity"] else "" for m in trend]
                low, high = estimate["interval"]
                last = f"{low:.2f} to {high:.2f}, m = {estimate['orders']}"
                rows.append(
                    [
                        f"{title}, {row['label']}, {say}",
                        f"{row['bounds']['test']:.2f}" if say == "all" else "",
                        *found,
                        last,
                    ]
                )
            if "exact" in row:
                for name, say in (("test", "all"), ("seeded", some)):
                    rows.append(
                        [f"{title}, {row['label']}, {say}", f"{row['exact'][name]:.2f}", *([""] * len(trend)), "exact"]
                    )
    rows.append(["WikiText-103 in the paper, BLM", "", *(PAPER_TREND.get(m, "") for m in trend), ""])
    return table(["perplexity", "bound", *(f"m = {m}" for m in trend), "95 % interval at the greatest m"], rows)


def lm_setting() -> str:
    lines = []
    for corpus, title in STREAMS.items():
        rows = language_models(corpus)
        if "blm" not in rows:
            continue
        row, training = rows["blm"], rows["blm"]["training"]
        encoder = training["model"]["encoder"]
        lines.append(
            f"- {title}: {training['parameters']:,} parameters ({encoder['layers']} layers, width {encoder['width']}, vocabulary "
            f"{training['model']['vocabulary']:,}); {training['tokens']:,} training tokens; test: {row['test']['tokens']:,} tokens in chunks of {row['chunk']}.\n"
        )
    return "".join(lines) or "No run of ours is recorded yet: the rows below are the paper's.\n"


def lm_training() -> str:
    """How long each system learnt, several side by side on one GPU."""
    rows = []
    for corpus, title in STREAMS.items():
        found = language_models(corpus) | language_models(corpus, tried=True)
        for row in found.values():
            training = row["training"]
            before = training.get("begins_with")
            cells = (training["steps"], training["best_step"], training["epochs"], training["seconds"])
            rows.append(
                [
                    f"{title}, {row['label']}"
                    + (f" (goes on with {found[before]['label']})" if before in found else ""),
                    *(f"{cell:,.0f}" for cell in cells),
                    f"{row.get('temperature', 1.0):g}",
                ]
            )
    return table(["system", "steps", "best at step", "canvases of each text", "seconds", "temperature"], rows)


def lm_precision() -> str:
    views = [
        (f"{title}, {row['label']}", row["precision"])
        for corpus, title in STREAMS.items()
        for row in language_models(corpus).values()
        if len(row.get("precision", {})) == 2
    ]
    if not views:
        return ""
    said = "; ".join(f"{name}: {view['bfloat16']:.2f} and {view['float32']:.2f}" for name, view in views)
    return (
        f"Measured in half precision; the ten chunks at m = 10, the same orders, in bfloat16 and in float32: {said}.\n"
    )


def lm_two_sided() -> str:
    lines = []
    for corpus, title in STREAMS.items():
        view = language_models(corpus).get("blm", {}).get("two_sided", {})
        if view.get("texts"):
            low, high = view["perplexity"]
            lines.append(
                f"- {title}: {view['texts']} texts of {view['tokens'] / view['texts']:.0f} tokens on average that the BLM wrote: perplexity "
                f"between {low:.2f} and {high:.2f} at m = {view['orders']}.\n"
            )
    if not lines:
        return ""
    intro = "From both sides, on texts that the model wrote itself, where the order they were written in makes a bound from above:"
    return f"{intro}\n\n{''.join(lines)}"


PASSAGES = {
    function.__name__: function
    for function in (
        english,
        english_training,
        english_precision,
        english_judged,
        english_read,
        first_fill,
        yelp_words,
        yelp_words_training,
        loss_variance,
        core_cpu,
        filling_cpu,
        peers_cpu,
        parallel_bleu,
        training_cpu,
        curve_cpu,
        filling_gpu,
        serving_cpu,
        training_gpu,
        training_profile,
        scale_cpu,
        streaming_cpu,
        thousand_gpus,
        fuzzing,
        infilling_yahoo,
        infilling_yelp,
        infilling_readme,
        infilling_paper,
        infilling_perplexity,
        infilling_failures,
        infilling_setting,
        infilling_training,
        infilling_speed,
        figure_5,
        restoration,
        restoration_ranked,
        restoration_lengths,
        restoration_reach,
        restoration_words,
        restoring_cpu,
        greek_training,
        greek_measured,
        latin_training,
        latin_measured,
        sentiment_table,
        sentiment_ablations,
        sentiment_against_paper,
        sentiment_choice,
        sentiment_chosen,
        sentiment_weights,
        sentiment_judges,
        sentiment_beyond,
        sentiment_model,
        sentiment_bundled,
        lm_table,
        lm_orders,
        lm_setting,
        lm_two_sided,
        lm_precision,
        lm_training,
    )
}


def rendered(text: str) -> str:
    return PASSAGE.sub(lambda match: match[1] + PASSAGES[match[2]]() + match[3], text)


def main(check: bool) -> int:
    stale = 0
    cards = sorted((ROOT / "src" / "blanklm" / "pretrained").glob("*/README.md"))
    for path in [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")), *cards]:
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
