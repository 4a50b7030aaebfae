"""Speed, memory, fuzzing and the variance of the loss."""

from __future__ import annotations

from blanklm.paper.render.source import result, table

CORE = {
    "training_tokens": "training, tokens of text/s",
    "filled_tokens_batch_1": "filling one text at a time, words/s",
    "filled_tokens_batch_32": "filling 32 texts together, words/s",
    "filled_tokens_parallel_batch_32": "the same, all blanks at once, words/s",
    "likelihood_token_orders": "Monte-Carlo likelihood, token-orders/s",
}
TRAINING_TEXTS = {"ptb": "Penn Treebank lines", "yahoo": "Yahoo documents"}


def core_cpu() -> str:
    r = result("benchmarks/core-cpu")
    headings = [f"{name} ({size['parameters'] / 1e6:.1f} M)" for name, size in r["sizes"].items()]
    rows = [[say, *(f"{s[key + '_per_second']:,.0f}" for s in r["sizes"].values())] for key, say in CORE.items()]
    return table([f"{r['hardware']}, {r['threads']} threads", *headings], rows)


def filling_cpu() -> str:
    r = result("benchmarks/filling-cpu")
    rows = [
        ["scores left/right for the whole vocabulary", f"{r['reference_words_per_second']:.1f}", ""],
        ["ours", f"{r['words_per_second']:.0f}", f"{r['encoder_share']:.0%}"],
    ]
    return table([f"{r['size']}, {r['hardware']}, threads: {r['threads']}", "words/s", "of it in the encoder"], rows)


def first_fill() -> str:
    r = result("benchmarks/first-fill-cpu")
    names = ["import", "load", "first_fill", "fill", "command"]
    cells = [f"{r['median_seconds'][name]:.{1 if name in ('import', 'command') else 2}f}" for name in names]
    headings = ["import", "load the model", "first fill", "next fill", "`blanklm fill`, whole command"]
    return table(["seconds", *headings], [[f"{r['hardware']}, threads: {r['threads']}", *cells]])


def peers_cpu() -> str:
    r = result("benchmarks/peers-cpu")
    batches = list(r["batches"])
    rows = []
    for name in r["batches"][batches[0]]:
        found = [r["batches"][batch][name] for batch in batches]
        rows.append([name, *(f"{x['tokens_per_second']:,.0f} ({x['of_gpt2']:.2f} x)" for x in found)])
    first = f"words/s, and times GPT-2; {r['hardware']}, threads: {r['threads']}"
    return table([first, *(f"batch {batch}" for batch in batches)], rows)


def training_cpu() -> str:
    r = result("benchmarks/training-cpu")
    names = {"padded": "straightforward, padded", "packed": "ours", "packed, bf16": "ours, `--precision bf16`"}
    rows = [[say, f"{r['tokens_per_second'][k]:,.0f}", f"{r['of_padded'][k]:.1f}"] for k, say in names.items()]
    return table([f"{r['size']}, {r['hardware']}, threads: {r['threads']}", "tokens of text/s", "times"], rows)


def curve_cpu() -> str:
    """Tokens a second by length, measured and as the fitted line has it, and where attention costs half of all."""
    r = result("benchmarks/curve-cpu")
    every = {kind: {row["length"]: row for row in rows} for kind, rows in r["lengths"].items()}
    lengths = sorted({length for rows in every.values() for length in rows})
    rows = []
    for kind, by_length in every.items():
        cells = [
            f"{x['tokens_per_second']:,.0f} ({x['predicted_tokens_per_second']:,.0f}), {x['megabytes']:,.0f}"
            if (x := by_length.get(length))
            else ""
            for length in lengths
        ]
        half = r["fit"][kind]["attention_costs_as_much_at"]
        rows.append([kind, *cells, f"{half:,.0f} tokens" if 0 < half < 1e5 else ""])
    first = f"tokens/s (fit), MB; {r['size']}, threads: {r['threads']}"
    return table([first, *map(str, lengths), "attention is half of the cost at"], rows)


def curve_batches() -> str:
    r = result("benchmarks/curve-cpu")["batches"]
    first = next(iter(r.values()))
    headings = [f"tokens/s, texts of {first[0]['length']} tokens", *(f"{row['texts']} at once" for row in first)]
    return table(headings, [[kind, *(f"{x['tokens_per_second']:,.0f}" for x in rows)] for kind, rows in r.items()])


def training_gpu() -> str:
    r = result("benchmarks/training-gpu")
    rows = []
    for x in r["rows"]:
        share = f"{x['share_of_matrix_rate']:.1%} of {x['matrix_rate'] / 1e12:.0f} TFLOP/s"
        rows.append([TRAINING_TEXTS[x["corpus"]], f"{x['tokens_per_second']:,.0f}", share])
    return table([f"base, bf16, one {r['hardware']}", "tokens of text/s", "share of its matrix rate"], rows)


def training_profile() -> str:
    times = {row["corpus"]: row["gpu_ms_per_step"] for row in result("benchmarks/training-gpu")["rows"]}
    kinds = sorted(times["yahoo"], key=lambda kind: -times["yahoo"][kind])
    rows = [[kind, *(f"{times[corpus][kind]:.1f}" for corpus in TRAINING_TEXTS)] for kind in kinds]
    return table(["ms of GPU time a step of 262,144 tokens", *TRAINING_TEXTS.values()], rows)


def filling_gpu() -> str:
    r, likelihood = result("benchmarks/core-cuda"), result("benchmarks/likelihood-gpu")["rows"]
    batch, base = r["settings"]["batch"], r["sizes"]["base"]
    words = {f"filling {batch:,} texts together, one word a pass": batch, "filling one text at a time": 1}
    orders = {"Monte-Carlo likelihood of Penn Treebank lines": "lines"}
    # The run that measured this compiled something anew at 128, so that its time is not the chunks' alone.
    orders |= {f"the same, its stream in chunks of {n}": f"chunks of {n}" for n in (64, 256, 512)}
    rows = [[say, f"{base[f'filled_tokens_batch_{n}_per_second']:,.0f} words/s"] for say, n in words.items()]
    rows += [[say, f"{likelihood[name]['per_second']:,.0f} token-orders/s"] for say, name in orders.items()]
    return table([f"base, bf16, one {r['hardware']}", "speed"], rows)


def restoring_cpu() -> str:
    rows = [
        [
            say,
            f"{m['seconds_a_gap']:.2f}",
            f"{m['same_first']:.0%}",
            f"{m['same_among_20']:.0%}",
            f"{m['largest_difference']:.3f}",
        ]
        for say, m in result("benchmarks/restoring-cpu")["read"].items()
    ]
    headings = ["seconds a gap", "same first", "same among 20", "largest difference of the first's probability"]
    return table(["each draft is read", *headings], rows)


def scale_cpu() -> str:
    r = result("benchmarks/scale-cpu")
    names = {"processes": "processes", "ray": "Ray actors"}
    rows = []
    for x in r["rows"]:
        seconds = [f"{x['seconds']:.1f}", f"{x['filling_seconds']:.1f}"]
        rows.append([f"{names[x['on']]}: {x['workers']}", f"{x['lines_per_second']:,.0f}", *seconds])
    first = f"{r['lines']:,} lines in {r['shards']} shards, {r['hardware']}, 2 cores"
    return table([first, "lines/s", "seconds", "of them filling"], rows)


def streaming_cpu() -> str:
    r = result("benchmarks/streaming-cpu")
    cells = [f"{r[f'megabytes_{when}']:.0f}" for when in ("least", "most", "last")]
    headings = ["memory, MB: least", "most", "at the end"]
    return table(["simulated corpus", *headings], [[f"{r['gigabytes']:.0f} GB", *cells]])


def serving_cpu() -> str:
    rows = []
    for size, r in result("benchmarks/serving-cpu")["sizes"].items():
        for clients, load in r["clients"].items():
            failed = sum(count for code, count in load["codes"].items() if code not in ("200", "429"))
            speed = [f"{load['texts_per_second']:.0f}", f"{load['share_of_offline']:.0%}"]
            waits = [f"{1000 * load[key]:,.0f} ms" for key in ("p50_seconds", "p99_seconds")]
            counts = [f"{load['requests']:,}", f"{failed}", f"{load['crossed']}"]
            rows.append([f"{size}, {clients}", *speed, *waits, *counts])
    headings = ["model, clients", "texts/s", "of offline", "p50", "p99", "requests", "errors", "crossed"]
    return table(headings, rows)


def serving_memory() -> str:
    sizes = result("benchmarks/serving-cpu")["sizes"].items()
    rows = []
    for size, memory in ((size, r["memory"]) for size, r in sizes if "memory" in r):
        used = [f"{memory[f'megabytes_{when}']:.0f}" for when in ("after_a_tenth", "at_the_end")]
        rows.append([size, f"{memory['requests']:,}", *used])
    return table(["model", "requests", "MB after a tenth of them", "MB at the end"], rows)


def fuzzing() -> str:
    rows = [[x["target"], f"{x['inputs']:,}", f"{x['seconds']}", f"{x['findings']}"] for x in result("fuzzing")["rows"]]
    return table(["target", "inputs tried", "seconds", "findings"], rows)


def loss_variance() -> str:
    r = result("loss_variance")
    names = {
        "one_action_over_eq_loss": "one action per pass, against Eq. 8",
        "eq_loss_over_stratified": f"{r['canvases']} independent canvases, against as many with t stratified",
    }
    rows = [
        [say, f"{r[key]['ratio']:.1f}", f"{r[key]['low']:.1f} to {r[key]['high']:.1f}"] for key, say in names.items()
    ]
    return table([f"variance, {r['texts']} validation sentences", "ratio", "95 % interval"], rows)


TABLES = [core_cpu, filling_cpu, first_fill, peers_cpu, training_cpu, curve_cpu, curve_batches, training_gpu]
TABLES += [training_profile, filling_gpu, restoring_cpu, scale_cpu, streaming_cpu, serving_cpu, serving_memory]
TABLES += [fuzzing, loss_variance]
