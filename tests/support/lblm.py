"""A tiny L-BLM over three letters."""

import torch

from blanklm.core.special import SPECIAL_TOKENS
from blanklm.models.encoder import EncoderConfig
from blanklm.models.lblm import LBLM, LBLMConfig
from blanklm.models.mixed_lblm import MixedConfig, MixedLBLM

A, B, C = range(len(SPECIAL_TOKENS), len(SPECIAL_TOKENS) + 3)  # an alphabet of three, of which two are written
TEXT = [A, B, B, A]


def make(kind, spread=8.0, letters=2):
    torch.manual_seed(3)
    encoder = EncoderConfig(2, 2, 16, 32, dropout=0.0)
    if kind == "lblm":
        model = LBLM(LBLMConfig(C + 1, encoder, left_hidden=16))
    else:
        model = MixedLBLM(MixedConfig(C + 1, encoder, longest_blank=20, words=16, word_width=4))
    model.writable[A + letters :] = False
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() > 1:
                parameter.mul_(spread)
    return model.eval()
