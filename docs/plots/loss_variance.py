"""How much the training loss of a text varies with the canvas that is drawn: three unbiased estimators of the bound.

    BLANKLM_DATA=<corpora> python docs/plots/loss_variance.py

For a text of n tokens, a uniform order and a uniform step t in 0..n-1, the bound of Eq. 6 is estimated by
  one action    - log n! - n log p(a_t | c_t)                         the naive algorithm of Section 3
  Eq. 8       - log n! - n/(n-t) * sum of log p of all n - t next actions of the canvas c_t
  stratified    the mean of Eq. 8 over four canvases, one t from each quarter of 0..n-1
Encoding a canvas is what costs, so all are compared at four canvases a text; independent draws have a quarter of the
variance of one. Writes results/loss_variance.json and docs/plots/loss_variance.svg; takes about a minute on a CPU.
"""

from __future__ import annotations

import math
import random
from pathlib import Path

import matplotlib
import numpy as np
import torch

from blanklm import BlankLM
from blanklm.core.orders import show_first, uniform_ranks
from blanklm.core.policy import OrderedModel
from blanklm.data import read_corpus
from blanklm.paper.provenance import ROOT, write_result

MODEL = ROOT / "tests" / "fixtures" / "yelp-words"
CORPUS, SPLIT = "yelp", "valid.0"
SENTENCES = 400
CANVASES = 4  # at which the estimators are compared
DRAWS = 32  # estimates of CANVASES canvases each, for each text, by each way to draw t
LEAST_TEXTS = 8  # lengths with fewer sentences are not plotted
COLOURS = {"one_action": "#b3501b", "eq_loss": "#1f6fb4", "stratified": "#1b7f5c"}
LABELS = {
    "one_action": "one action per canvas",
    "eq_loss": "all next actions (Eq. 8)",
    "stratified": "all next actions, stratified t",
}


def estimates(policy: OrderedModel, text: list[int], fractions: np.ndarray, seeds: np.ndarray) -> dict[str, np.ndarray]:
    """One-action and Eq. 8 estimates [D] of the bound of one text, for D draws of t/n and of the order."""
    n, draws = len(text), len(fractions)
    tokens, lengths = torch.tensor(text).expand(draws, n), torch.full((draws,), n)  # [D, n], [D]
    order_seeds = torch.from_numpy(seeds)
    shown = show_first(uniform_ranks(order_seeds, lengths, n), lengths, torch.from_numpy(fractions))  # [D, n]
    t = shown.sum(1)  # [D]
    log_p = policy.action_log_probs(tokens, lengths, shown).double()  # [D, n]
    written_next = uniform_ranks(order_seeds, lengths, n) == t[:, None]  # [D, n] a_t: one position a row
    return {
        "one_action": (-math.lgamma(n + 1) - n * log_p[written_next]).numpy(),
        "eq_loss": (-math.lgamma(n + 1) - n / (n - t) * log_p.sum(1)).numpy(),
    }


@torch.inference_mode()
def measure(policy: OrderedModel, text: list[int], rng: np.random.Generator) -> dict[str, float]:
    """The text's length, and the variance (at CANVASES canvases) and mean of each estimator."""
    uniform = rng.random((2, DRAWS, CANVASES))
    seeds = rng.integers(np.iinfo(np.int64).max, size=(2, DRAWS * CANVASES))
    one_in_each_part = (np.arange(CANVASES) + uniform[1]) / CANVASES  # [DRAWS, CANVASES]
    independent = estimates(policy, text, uniform[0].flatten(), seeds[0])  # each [DRAWS CANVASES]
    stratified = estimates(policy, text, one_in_each_part.flatten(), seeds[1])["eq_loss"]
    averages = stratified.reshape(DRAWS, CANVASES).mean(1)  # [DRAWS]
    result = {"length": len(text), "variance_stratified": averages.var(ddof=1), "mean_stratified": averages.mean()}
    for name, values in independent.items():
        result |= {f"variance_{name}": values.var(ddof=1) / CANVASES, f"mean_{name}": values.mean()}
    return result


def bound(every: dict[str, np.ndarray], name: str, tokens: int) -> dict[str, float]:
    """An estimator's mean over everything drawn, in nats per token, and the standard error left by the drawing."""
    error = math.sqrt(every[f"variance_{name}"].sum() / DRAWS) / tokens
    return {"mean": float(every[f"mean_{name}"].sum() / tokens), "standard_error": error}


def ratio(above: np.ndarray, below: np.ndarray, rng: np.random.Generator) -> dict[str, float]:
    """Mean variance over mean variance, with a 95 % interval by resampling the texts."""
    resampled = rng.integers(len(above), size=(2000, len(above)))
    low, high = np.quantile(above[resampled].mean(1) / below[resampled].mean(1), [0.025, 0.975])
    return {"ratio": float(above.mean() / below.mean()), "low": float(low), "high": float(high)}


def plot(by_length: list[dict[str, float]], path: Path) -> None:
    matplotlib.use("svg")
    import matplotlib.pyplot as plt

    plt.rcParams |= {"svg.fonttype": "none", "svg.hashsalt": "blanklm", "font.size": 9}  # text as text; same bytes
    figure, axes = plt.subplots(figsize=(5.2, 3.2), layout="constrained")
    shown = [row for row in by_length if row["texts"] >= LEAST_TEXTS]
    x = [row["length"] for row in shown]
    for (name, colour), marker in zip(COLOURS.items(), "sod", strict=True):
        y = [row[f"variance_{name}"] for row in shown]
        axes.plot(x, y, color=colour, marker=marker, markersize=4, linewidth=1.5, label=LABELS[name])
    axes.set_yscale("log")
    axes.set_xlabel("length of the text (tokens)")
    axes.set_ylabel(f"variance at {CANVASES} canvases (nats²)")
    axes.grid(color="#dddddd", linewidth=0.6)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False)
    figure.savefig(path, facecolor="white", metadata={"Date": None})


def main() -> None:
    model = BlankLM.from_pretrained(MODEL, device="cpu")
    sentences = list(dict.fromkeys(line for line in read_corpus(CORPUS, SPLIT) if line.strip()))
    chosen = model.tokenizer.encode_many(random.Random(0).sample(sentences, SENTENCES))
    rng = np.random.default_rng(0)
    measured = [measure(model.model, text, rng) for text in chosen]
    every = {name: np.array([text[name] for text in measured]) for name in measured[0]}  # each [texts]
    by_length = [
        {name: float(values[of_length].mean()) for name, values in every.items()}
        | {"length": int(n), "texts": int(of_length.sum())}
        for n in np.unique(every["length"])
        for of_length in [every["length"] == n]
    ]
    tokens = sum(len(text) for text in chosen)
    record = {
        "model": MODEL.name,
        "corpus": f"{CORPUS}, {SPLIT}",
        "texts": len(chosen),
        "canvases": CANVASES,
        "draws": DRAWS,
        "bound_nats_per_token": {name: bound(every, name, tokens) for name in COLOURS},  # they must agree
        "mean_variance": {name: float(every[f"variance_{name}"].mean()) for name in COLOURS},
        "one_action_over_eq_loss": ratio(every["variance_one_action"], every["variance_eq_loss"], rng),
        "eq_loss_over_stratified": ratio(every["variance_eq_loss"], every["variance_stratified"], rng),
        "one_action_over_stratified": ratio(every["variance_one_action"], every["variance_stratified"], rng),
        "by_length": by_length,
    }
    write_result(ROOT / "results" / "loss_variance.json", record)
    plot(by_length, Path(__file__).with_suffix(".svg"))


if __name__ == "__main__":
    main()
