"""Small models and texts that many tests share."""

import pytest
import torch

from blanklm.models.blm import BLM, BLMConfig
from blanklm.models.encoder import EncoderConfig

torch.set_num_threads(1)  # tests run in several processes, and small tensors gain nothing from more threads


def make_blm(vocabulary: int = 12, seed: int = 0, spread: float = 8.0, **config) -> BLM:
    """A random BLM whose weights are spread enough that its distributions are far from uniform."""
    torch.manual_seed(seed)
    model = BLM(BLMConfig(vocabulary, EncoderConfig(2, 2, 16, 32, dropout=0.0), sides_hidden=16, **config))
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() > 1:
                parameter.mul_(spread)
    return model.eval()


@pytest.fixture(scope="session")
def blm() -> BLM:
    return make_blm()
