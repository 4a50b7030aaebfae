"""Speed by length, and the load of a server."""

from __future__ import annotations

from blanklm.paper.render.source import origin, result, table

SERVED = {"bundled": "yelp-words"}  # the small model that the records call so


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
        table_rows.append(
            origin(r) | points | {"kind": kind, "half": f"{half:,.0f} tokens" if 0 < half < 1e5 else None}
        )
    headings = f"tokens/s (fit), MB; {r['size']}, threads: {r['threads']} | @ | attention is half of the cost at"
    return table(headings, "{kind} | {@} | {half}", table_rows, list(map(str, lengths)))


def serving_cpu() -> str:
    rows = []
    measured = result("benchmarks/serving-cpu")
    for size, r in measured["sizes"].items():
        for clients, load in r["clients"].items():
            failed = sum(count for code, count in load["codes"].items() if code not in ("200", "429"))
            waits = {key: 1000 * load[f"{key}_seconds"] for key in ("p50", "p99")}
            rows.append(
                origin(measured) | load | waits | {"name": f"{SERVED.get(size, size)}, {clients}", "failed": failed}
            )
    template = "{name} | {texts_per_second:.0f} | {share_of_offline:.0%} | {p50:,.0f} ms | {p99:,.0f} ms | "
    template += "{requests:,} | {failed} | {crossed}"
    return table("model, clients | texts/s | of offline | p50 | p99 | requests | errors | crossed", template, rows)


TABLES = [curve_cpu, serving_cpu]
