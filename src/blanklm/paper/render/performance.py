"""Speed, memory, fuzzing and the variance of the loss."""

from __future__ import annotations

from blanklm.paper.render.source import columns, lines, named, result, table

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
    return lines([f"{r['hardware']}, {r['threads']} threads", *headings], rows)


def filling_cpu() -> str:
    r = result("benchmarks/filling-cpu")
    reference = {"name": "scores left/right for the whole vocabulary", "rate": f"{r['reference_words_per_second']:.1f}"}
    ours = {"name": "ours", "rate": f"{r['words_per_second']:.0f}", "share": r["encoder_share"]}
    heading = f"{r['size']}, {r['hardware']}, threads: {r['threads']} | words/s | of it in the encoder"
    return table(heading, "{name} | {rate} | {share:.0%}", [reference, ours])


def first_fill() -> str:
    headings = "seconds | import | load the model | first fill | next fill | `blanklm fill`, whole command"
    template = "{hardware}, threads: {threads} | {median_seconds[import]:.1f} | {median_seconds[load]:.2f} | "
    template += "{median_seconds[first_fill]:.2f} | {median_seconds[fill]:.2f} | {median_seconds[command]:.1f}"
    return table(headings, template, [result("benchmarks/first-fill-cpu")])


def peers_cpu() -> str:
    r = result("benchmarks/peers-cpu")
    systems = next(iter(r["batches"].values()))
    rows = [{"name": name} | {batch: found[name] for batch, found in r["batches"].items()} for name in systems]
    heading = f"words/s, and times GPT-2; {r['hardware']}, threads: {r['threads']}"
    template = "{name} | " + columns("{@[tokens_per_second]:,.0f} ({@[of_gpt2]:.2f} x)", r["batches"])
    return table(f"{heading} | {columns('batch @', r['batches'])}", template, rows)


def training_cpu() -> str:
    r = result("benchmarks/training-cpu")
    names = {"padded": "straightforward, padded", "packed": "ours", "packed, bf16": "ours, `--precision bf16`"}
    rows = [[say, f"{r['tokens_per_second'][k]:,.0f}", f"{r['of_padded'][k]:.1f}"] for k, say in names.items()]
    return lines([f"{r['size']}, {r['hardware']}, threads: {r['threads']}", "tokens of text/s", "times"], rows)


def curve_cpu() -> str:
    """Tokens per second by length, measured and as the fitted line has it, and where attention costs half of all."""
    r = result("benchmarks/curve-cpu")
    lengths = sorted({row["length"] for rows in r["lengths"].values() for row in rows})
    table_rows = []
    for kind, rows in r["lengths"].items():
        half = r["fit"][kind]["attention_costs_as_much_at"]
        points = {
            str(x["length"]): f"{x['tokens_per_second']:,.0f} ({x['predicted_tokens_per_second']:,.0f}), "
            f"{x['megabytes']:,.0f}"
            for x in rows
        }
        table_rows.append(points | {"kind": kind, "half": f"{half:,.0f} tokens" if 0 < half < 1e5 else None})
    keys = list(map(str, lengths))
    heading = f"tokens/s (fit), MB; {r['size']}, threads: {r['threads']} | {' | '.join(keys)}"
    return table(
        f"{heading} | attention is half of the cost at", f"{{kind}} | {columns('{@}', keys)} | {{half}}", table_rows
    )


def curve_batches() -> str:
    r = result("benchmarks/curve-cpu")["batches"]
    first = next(iter(r.values()))
    headings = [f"tokens/s, texts of {first[0]['length']} tokens", *(f"{row['texts']} at once" for row in first)]
    return lines(headings, [[kind, *(f"{x['tokens_per_second']:,.0f}" for x in rows)] for kind, rows in r.items()])


def training_gpu() -> str:
    r = result("benchmarks/training-gpu")
    rows = [row | {"name": TRAINING_TEXTS[row["corpus"]], "rate": row["matrix_rate"] / 1e12} for row in r["rows"]]
    template = "{name} | {tokens_per_second:,.0f} | {share_of_matrix_rate:.1%} of {rate:.0f} TFLOP/s"
    return table(f"base, bf16, one {r['hardware']} | tokens of text/s | share of its matrix rate", template, rows)


def training_profile() -> str:
    times = {row["corpus"]: row["gpu_ms_per_step"] for row in result("benchmarks/training-gpu")["rows"]}
    kinds = sorted(times["yahoo"], key=lambda kind: -times["yahoo"][kind])
    rows = [[kind, *(f"{times[corpus][kind]:.1f}" for corpus in TRAINING_TEXTS)] for kind in kinds]
    return lines(["ms of GPU time a step of 262,144 tokens", *TRAINING_TEXTS.values()], rows)


def filling_gpu() -> str:
    r, likelihood = result("benchmarks/core-cuda"), result("benchmarks/likelihood-gpu")["rows"]
    batch, base = r["settings"]["batch"], r["sizes"]["base"]
    words = {f"filling {batch:,} texts together, one word a pass": batch, "filling one text at a time": 1}
    orders = {"Monte-Carlo likelihood of Penn Treebank lines": "lines"}
    # The run that measured this compiled something anew at 128, so that its time is not the chunks' alone.
    orders |= {f"the same, its stream in chunks of {n}": f"chunks of {n}" for n in (64, 256, 512)}
    rows = [[say, f"{base[f'filled_tokens_batch_{n}_per_second']:,.0f} words/s"] for say, n in words.items()]
    rows += [[say, f"{likelihood[name]['per_second']:,.0f} token-orders/s"] for say, name in orders.items()]
    return lines([f"base, bf16, one {r['hardware']}", "speed"], rows)


def restoring_cpu() -> str:
    headings = "each draft is read | seconds a gap | same first | same among 20 | "
    headings += "largest difference of the first's probability"
    template = "{name} | {seconds_a_gap:.2f} | {same_first:.0%} | {same_among_20:.0%} | {largest_difference:.3f}"
    return table(headings, template, named(result("benchmarks/restoring-cpu")["read"]))


def scale_cpu() -> str:
    r = result("benchmarks/scale-cpu")
    names = {"processes": "processes", "ray": "Ray actors"}
    rows = [row | {"name": names[row["on"]]} for row in r["rows"]]
    heading = f"{r['lines']:,} lines in {r['shards']} shards, {r['hardware']}, 2 cores"
    template = "{name}: {workers} | {lines_per_second:,.0f} | {seconds:.1f} | {filling_seconds:.1f}"
    return table(f"{heading} | lines/s | seconds | of them filling", template, rows)


def streaming_cpu() -> str:
    template = "{gigabytes:.0f} GB | " + columns("{megabytes_@:.0f}", ("least", "most", "last"))
    headings = "simulated corpus | memory, MB: least | most | at the end"
    return table(headings, template, [result("benchmarks/streaming-cpu")])


def serving_cpu() -> str:
    rows = []
    for size, r in result("benchmarks/serving-cpu")["sizes"].items():
        for clients, load in r["clients"].items():
            failed = sum(count for code, count in load["codes"].items() if code not in ("200", "429"))
            waits = {key: 1000 * load[f"{key}_seconds"] for key in ("p50", "p99")}
            rows.append(load | waits | {"name": f"{size}, {clients}", "failed": failed})
    template = "{name} | {texts_per_second:.0f} | {share_of_offline:.0%} | {p50:,.0f} ms | {p99:,.0f} ms | "
    template += "{requests:,} | {failed} | {crossed}"
    return table("model, clients | texts/s | of offline | p50 | p99 | requests | errors | crossed", template, rows)


def serving_memory() -> str:
    template = "{name} | {memory[requests]:,} | {memory[megabytes_after_a_tenth]:.0f} | "
    template += "{memory[megabytes_at_the_end]:.0f}"
    rows = [row for row in named(result("benchmarks/serving-cpu")["sizes"]) if "memory" in row]
    return table("model | requests | MB after a tenth of them | MB at the end", template, rows)


def fuzzing() -> str:
    template = "{target} | {inputs:,} | {seconds} | {findings}"
    return table("target | inputs tried | seconds | findings", template, result("fuzzing")["rows"])


def loss_variance() -> str:
    r = result("loss_variance")
    names = {
        "one_action_over_eq_loss": "one action per pass, against Eq. 8",
        "eq_loss_over_stratified": f"{r['canvases']} independent canvases, against as many with t stratified",
    }
    heading = f"variance, {r['texts']} validation sentences | ratio | 95 % interval"
    return table(heading, "{name} | {ratio:.1f} | {low:.1f} to {high:.1f}", named(r, names))


TABLES = [core_cpu, filling_cpu, first_fill, peers_cpu, training_cpu, curve_cpu, curve_batches, training_gpu]
TABLES += [training_profile, filling_gpu, restoring_cpu, scale_cpu, streaming_cpu, serving_cpu, serving_memory]
TABLES += [fuzzing, loss_variance]
