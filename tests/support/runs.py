"""Texts, models and faults for tests of training."""

import os

import torch

from blanklm.core.texts import TokenisedTexts
from blanklm.core.tokenizer import Tokenizer
from blanklm.models.blm import BLM, BLMConfig
from blanklm.models.encoder import EncoderConfig

SENTENCES = [
    "customer service is awesome", "the food was really good", "my favorite restaurant in pittsburgh .",
    "the salsa was also my only choice .", "very poor selection , service terrible", "i also love the tom yum tea !",
    "they also have ice cream", "the owners are very friendly .", "we will not be back", "the rice was nowhere found",
]  # fmt: skip


def corpus():
    tokenizer = Tokenizer.train("word", SENTENCES)
    return tokenizer, TokenisedTexts.from_ids(tokenizer.encode_many(SENTENCES))


def new_model(tokenizer, dropout=0.0):
    torch.manual_seed(0)
    return BLM(BLMConfig(len(tokenizer), EncoderConfig.of_size("tiny", dropout), sides_hidden=64))


class Payload:
    def __init__(self, path):
        self.path = str(path)

    def __reduce__(self):
        return os.mkdir, (self.path,)
