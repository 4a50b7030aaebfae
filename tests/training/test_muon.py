"""Muon: the library's updates, all matrices of a shape at once; AdamW for the rest."""

import pytest
import torch
from torch import nn

from blanklm.errors import TrainingError
from blanklm.models.blm import BLM, BLMConfig
from blanklm.models.encoder import EncoderConfig
from blanklm.training.config import TrainingConfig
from blanklm.training.optimizer import Muon, hidden_matrices, orthogonal

SHAPES = [(32, 32), (96, 32), (32, 96), (32, 32), (96, 32)]


@pytest.mark.parametrize("shape", [(4, 24, 24), (2, 24, 64), (2, 64, 24)])
def test_orthogonal_keeps_singular_vectors_and_evens_out_singular_values(shape):
    matrices = torch.randn(shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    u, _, vh = torch.linalg.svd(matrices, full_matrices=False)
    core = u.mT @ orthogonal(matrices) @ vh.mT  # diagonal where the singular vectors are the same
    values = core.diagonal(dim1=1, dim2=2)
    assert torch.allclose(core, torch.diag_embed(values), atol=1e-9)
    assert ((values > 0.2) & (values < 1.3)).all()  # the smallest of a square matrix come up last


def test_ten_steps_move_matrices_as_the_librarys_muon_does():
    """Which goes matrix by matrix, and in half precision: updates differ by its rounding alone."""
    random = torch.Generator().manual_seed(0)
    first = [torch.randn(shape, generator=random) for shape in SHAPES]
    ours, theirs = ([nn.Parameter(matrix.clone()) for matrix in first] for _ in range(2))
    groups = [{"params": ours, "orthogonal": True}]
    optimizers = [
        Muon(groups, lr=0.01, weight_decay=0.1),
        torch.optim.Muon(theirs, lr=0.01, weight_decay=0.1, momentum=0.95, adjust_lr_fn="match_rms_adamw"),
    ]
    for _ in range(10):
        for mine, its, shape in zip(ours, theirs, SHAPES, strict=True):
            mine.grad = torch.randn(shape, generator=random)
            its.grad = mine.grad.clone()
        for optimizer in optimizers:
            optimizer.step()
    for mine, its, start in zip(ours, theirs, first, strict=True):
        assert (mine - its).norm() < 0.02 * (its - start).norm()


def test_all_other_parameters_are_adamws():
    random = torch.Generator().manual_seed(0)
    first = torch.randn(8, 4, generator=random)
    vector, matrix, alone = nn.Parameter(first.clone()), nn.Parameter(torch.randn(32, 32)), nn.Parameter(first.clone())
    both = Muon([{"params": [vector]}, {"params": [matrix], "orthogonal": True}], lr=0.01, betas=(0.9, 0.98))
    one = torch.optim.AdamW([alone], lr=0.01, betas=(0.9, 0.98))
    for _ in range(5):
        vector.grad = torch.randn(8, 4, generator=random)
        alone.grad, matrix.grad = vector.grad.clone(), torch.ones(32, 32)
        both.step()
        one.step()
    assert torch.equal(vector, alone)


def test_what_it_moves_of_a_blm_is_the_layers_and_not_the_words():
    model = BLM(BLMConfig(50, EncoderConfig(layers=2, heads=2, width=32, feedforward=64), sides_hidden=48))
    moved = {id(matrix) for matrix in hidden_matrices(model)}
    named = {name for name, parameter in model.named_parameters() if id(parameter) in moved}
    layers = ("queries_keys_values", "attention_out", "feedforward_in", "feedforward_out")
    expected = {f"encoder.layers.{number}.{part}.weight" for number in (0, 1) for part in layers}
    assert named == expected | {"sides_from_blank.weight", "sides_from_word.weight"}


def test_another_optimizer_is_refused():
    with pytest.raises(TrainingError, match="optimizer must be adamw or muon, not 'sgd'"):
        TrainingConfig(optimizer="sgd")
