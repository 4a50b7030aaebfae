"""Tiny baselines and batches for their tests."""

import random

import numpy as np
import torch

from blanklm.core.special import SPECIAL_TOKENS
from blanklm.core.texts import Batch, pad
from blanklm.models.encoder import EncoderConfig
from blanklm.paper.baselines.predictor import PredictorConfig

LINES = ["The food was really good, and we liked it.", "I will never come back (to this place)!", "It was fine."]


def make(kind, vocabulary=12, max_length=512):
    """A random model whose distributions are far from uniform; every other token of the vocabulary starts a word."""
    torch.manual_seed(0)
    model = kind(PredictorConfig(vocabulary, EncoderConfig(2, 2, 16, 32, dropout=0.0), max_length))
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() > 1:
                parameter.mul_(8.0)
    if hasattr(model, "starts_word"):
        model.starts_word.copy_(torch.arange(vocabulary) % 2 == 0)
    return model.eval()


def random_texts(count, vocabulary=12, longest=9):
    rng = random.Random(0)
    return [[rng.randrange(4, vocabulary) for _ in range(rng.randrange(1, longest))] for _ in range(count)]


def batch_of(texts):
    rng = np.random.default_rng(0)
    return Batch(*pad(texts), torch.from_numpy(rng.random(len(texts))), torch.arange(len(texts)))


def allow_all(model):
    bans = torch.zeros(3, model.config.vocabulary)
    bans[:, : len(SPECIAL_TOKENS)] = -torch.inf
    return bans
