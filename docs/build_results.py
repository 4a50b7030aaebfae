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


def trained(name: str, vocabulary: str, counted: str = "") -> str:
    """Size, steps, time and validation bound of a bundled model."""
    r = result(f"models/{name}")
    encoder, training = r["model"]["encoder"], r["training"]
    return (
        f"{r['parameters']:,} parameters ({encoder['layers']} layers, width {encoder['width']}, {vocabulary} "
        f"{r['model']['vocabulary']:,}); {training['steps']:,} steps of {training['tokens_per_batch']:,} tokens in "
        f"{r['seconds']:.0f} s on one {r['hardware']}{counted}; validation bound {r['valid_bound']:.3f} nats a token.\n"
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
    rows = {row["corpus"]: row["gpu_ms_per_step"] for row in result("benchmarks/training-gpu")["rows"]}
    kinds = sorted(rows["yahoo"], key=lambda kind: -rows["yahoo"][kind])
    headings = ["ms of GPU time a step of 262,144 tokens", "Penn Treebank lines", "Yahoo documents"]
    return table(headings, [[kind, *(f"{rows[corpus][kind]:.1f}" for corpus in ("ptb", "yahoo"))] for kind in kinds])


def filling_gpu() -> str:
    r, lines = result("benchmarks/core-cuda"), result("benchmarks/likelihood-gpu")["rows"]["lines"]
    batch, base = r["settings"]["batch"], r["sizes"]["base"]
    rows = [
        [
            f"filling {batch:,} texts together, one word a pass",
            f"{base[f'filled_tokens_batch_{batch}_per_second']:,.0f} words/s",
        ],
        ["filling one text at a time", f"{base['filled_tokens_batch_1_per_second']:,.0f} words/s"],
        ["Monte-Carlo likelihood of Penn Treebank lines", f"{lines['per_second']:,.0f} token-orders/s"],
    ]
    return table([f"base, bf16, one {r['hardware']}", "speed"], rows)


def filling_cpu() -> str:
    r = result("benchmarks/filling-cpu")
    return (
        f"`python benchmarks/filling.py`, {r['size']}, one text at a time: {r['words_per_second']:.0f} words/s, {r['ratio']:.1f}\n"
        f"times a decoder that scores left/right for the whole vocabulary ({r['reference_words_per_second']:.1f}; the same fills\n"
        f"for {r['same_fills']} of {r['texts']} texts); {r['encoder_share']:.0%} of our time is the encoder's.\n"
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


SYSTEMS = {  # the parts of recipes/restoration.py
    "greek-pythia": "Pythia",
    "greek-pythia-word": "Pythia-Word",
    "greek-lblm": "L-BLM",
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
            rows.append(row(name, {setting: measured[setting]["cer"] for setting in SETTINGS}))
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
            if setting in (measured := restored(part)):
                m = measured[setting]
                numbers = [f"{m[key]:.1f}" for key in ("cer", "top1", "top20", "ece")]
                rows.append([f"{name}: {say}", f"{m['gaps']:,}", *numbers])
        if "charbert_cer" in (m := restored(part).get("phi_ml", {})) and part == "greek":
            rows.append(
                [
                    "char-BERT: PHI-ML excerpts",
                    f"{m['gaps']:,}",
                    f"{m['charbert_cer']:.1f}",
                    f"{m['charbert_top1']:.1f}",
                    "",
                    "",
                ]
            )
    return table(["%", "gaps", "CER", "top 1", "top 20", "ECE"], rows)


def restoration_lengths() -> str:
    rows = []
    for part, name in SYSTEMS.items():
        for told in ("told", "range", "unknown"):
            if m := restored(part).get(f"single, {told}"):
                rows.append(
                    [f"{name}: length {told}", f"{m['cer']:.1f}", f"{m['top1']:.1f}", f"{m['length_right']:.1f}"]
                )
    return table(["one slot of 1-10 characters, %", "CER", "exact", "length right"], rows)


def latin_training() -> str:
    r = restored("latin")
    encoder, training = r["model"]["encoder"], r["training"]
    return (
        f"{r['parameters']:,} parameters ({encoder['layers']} layers, width {encoder['width']}, {r['model']['vocabulary']} characters), "
        f"{r['model_bytes'] / 1e6:.1f} MB; {training['steps']:,} steps of {training['tokens_per_batch']:,} characters in {r['seconds']:.0f} s on one "
        f"{r['hardware']} that other runs shared; validation loss {r['valid_bound']:.3f} nats a character of text.\n"
    )


def latin_measured() -> str:
    r = restored("latin")
    what = {
        "single": "single slot of 1-10 characters",
        "0.25": "slots over 25% of a text",
        "0.4": "slots over 40%",
        "0.5": "slots over 50%",
        "editors": "editors' restorations, any length",
    }
    rows = [
        [say, *(f"{r[s][key]:.1f}" if key in r[s] else "" for key in ("cer", "top1", "top20", "ece"))]
        for s, say in what.items()
    ]
    short = {key: r["editors"][f"short_{key}"] for key in ("cer", "top1", "top20", "ece")}
    rows.append(["editors' restorations, texts with gaps of 1-10 alone", *(f"{value:.1f}" for value in short.values())])
    return table(["EDH test texts, %", "CER", "top 1", "top 20", "ECE"], rows)


PASSAGES = {
    function.__name__: function
    for function in (
        english,
        english_training,
        english_precision,
        yelp_words,
        yelp_words_training,
        loss_variance,
        core_cpu,
        filling_cpu,
        filling_gpu,
        serving_cpu,
        training_gpu,
        training_profile,
        scale_cpu,
        streaming_cpu,
        thousand_gpus,
        fuzzing,
        restoration,
        restoration_ranked,
        restoration_lengths,
        latin_training,
        latin_measured,
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
