"""Small random models that many tests share."""

import torch

from blanklm.core.tokenizer import Tokenizer
from blanklm.models.blm import BLM, BLMConfig
from blanklm.models.encoder import EncoderConfig
from blanklm.models.mixed_lblm import MixedConfig, MixedLBLM
from blanklm.models.span_blm import SpanBLM
from blanklm.models.span_writer import SpanWriter
from blanklm.restoration.restorer import Restorer
from blanklm.training.quantise import can_be_grouped, dequantise, quantise


def make_blm(vocabulary: int = 12, seed: int = 0, spread: float = 8.0, **config) -> BLM:
    """A random BLM whose weights are spread enough that its distributions are far from uniform."""
    torch.manual_seed(seed)
    model = BLM(BLMConfig(vocabulary, EncoderConfig(2, 2, 16, 32, dropout=0.0), sides_hidden=16, **config))
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() > 1:
                parameter.mul_(spread)
    return model.eval()


def make_span_blm(
    spans: float = 0.5, seed: int = 0, vocabulary: int = 12, kind=SpanBLM, encoder=None, **config
) -> SpanBLM:
    torch.manual_seed(seed)
    encoder = encoder or EncoderConfig(2, 2, 16, 32, dropout=0.0)
    model = kind(kind.config_class(vocabulary, encoder, sides_hidden=16, spans=spans, **config))
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() > 1:
                parameter.mul_(8.0)
        for weight in (model.kind_vectors.weight, model.length_of_blank.weight, model.first_out.weight):
            weight.normal_(std=2.0)  # which are zero at first
    return model.eval()


def make_span_writer(vocabulary: int = 12, written: float = 0.5, **config) -> SpanWriter:
    return make_span_blm(vocabulary=vocabulary, kind=SpanWriter, written=written, **config)


def at_four_bits(model: BLM) -> BLM:
    """The model as it is when it was stored at 4 bits per weight, where its matrices can be."""
    with torch.no_grad():
        for parameter in model.parameters():
            if can_be_grouped(parameter):
                parameter.copy_(dequantise(*quantise(parameter, 4), 4))
    return model


GREEK = "αβγδεζηθικλμνξοπρστυφχψωϛϟϡ .-#"


def make_restorer(alphabet: str = GREEK, seed: int = 0, spread: float = 8.0, **config) -> Restorer:
    """A restorer with a random mixed L-BLM, whose restorations are nonsense of the right length."""
    torch.manual_seed(seed)
    tokenizer = Tokenizer.train("character", [alphabet])
    settings = {"max_length": 200, "longest_blank": 40} | config
    model = MixedLBLM(MixedConfig(len(tokenizer), EncoderConfig(1, 2, 16, 32, dropout=0.0), **settings))
    model.set_vocabulary(tokenizer)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() > 1:
                parameter.mul_(spread)
    return Restorer(model, tokenizer, {"name": "random"})
