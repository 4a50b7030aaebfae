"""Training on any two styles."""

from itertools import product

import pytest
from safetensors.torch import load_file


@pytest.mark.slow
def test_any_two_styles_can_be_trained_resumed_and_used(blanklm, tmp_path):
    things = ("the food", "the service", "my waiter", "this place", "the room", "our table")
    for style, words in (("grumpy", ("awful", "rude", "cold")), ("cheerful", ("great", "friendly", "warm"))):
        lines = [" ".join(line) for line in product(things, ("was", "is"), words, (".", "!", "today ."))]
        (tmp_path / f"{style}.txt").write_text("\n".join(lines), encoding="utf-8")
    out, files = tmp_path / "run", ("--style0", tmp_path / "grumpy.txt", "--style1", tmp_path / "cheerful.txt")
    small = ("--size", "tiny", "--steps", 150, "--tokens-per-batch", 1024, "--learning-rate", 0.01)
    command = ("train", "--task", "transfer", *files, "--out", out, *small)
    assert blanklm(*command)[0] == 0
    code, lines, _ = blanklm("transfer", "-m", out, "--to", "grumpy", "--show-mask", "the food was friendly today .")
    assert code == 0 and lines[0] == "the food was [friendly] today ."
    assert set(lines[1].split()) & {"awful", "rude", "cold"}
    weights = load_file(out / "model.safetensors")
    assert blanklm(*command, "--resume")[0] == 0  # there is nothing left to do
    again = load_file(out / "model.safetensors")
    assert weights.keys() == again.keys() and all(weights[name].equal(again[name]) for name in weights)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--task", "transfer", "--style0", "a.txt"), "give --style0 and --style1"),
        (("a.txt", "--task", "transfer", "--style0", "a.txt", "--style1", "b.txt"), "leave out TEXTS"),
        (("a.txt", "--style0", "b.txt"), "need --task transfer"),
        (("--task", "transfer", "--style0", "a.txt", "--style1", "x/a.txt"), "different names"),
        ((), "no texts"),
    ],
)
def test_what_does_not_go_together_is_one_line(blanklm, tmp_path, arguments, message):
    code, _, said = blanklm("train", *arguments, "--out", tmp_path / "run")
    assert code == 1 and message in said and said.count("\n") == 1
