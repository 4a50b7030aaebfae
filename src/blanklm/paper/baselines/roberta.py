"""The masked model of the paper's Table 1: Hugging Face's RobertaForMaskedLM, from scratch.

``masked.py`` says what is hidden, learnt and written; this file only puts RoBERTa's layers in the place of our encoder
and its prediction head before the tied read-out.
"""

from __future__ import annotations

from torch import Tensor
from torch.nn import functional as F

from blanklm.errors import BlankLMError
from blanklm.models.backbone import BackboneConfig, hugging_face
from blanklm.models.encoder import EncoderConfig
from blanklm.models.registry import register
from blanklm.paper.baselines.masked import Masked
from blanklm.paper.baselines.predictor import PredictorConfig


@register("roberta-masked", PredictorConfig)
class RobertaMasked(Masked):
    def __init__(self, config: PredictorConfig) -> None:
        super().__init__(config)
        if not isinstance(config.encoder, BackboneConfig):
            raise BlankLMError("a RobertaMasked has the layers of RoBERTa: make its config with roberta_of")
        settings = config.encoder.settings | {"vocab_size": 1 + config.encoder.settings["pad_token_id"]}
        head = hugging_face().RobertaForMaskedLM(hugging_face().RobertaConfig(**settings)).lm_head
        self.dense, self.layer_norm = head.dense, head.layer_norm

    def word_logits(self, z: Tensor) -> Tensor:
        """[A, V] for vectors z [A, d]."""
        return super().word_logits(self.layer_norm(F.gelu(self.dense(z))))


def roberta_of(size: EncoderConfig, max_length: int) -> BackboneConfig:
    """RoBERTa's settings for as many layers, heads and so on as one of our encoders has."""
    settings = hugging_face().RobertaConfig(
        hidden_size=size.width,
        num_hidden_layers=size.layers,
        num_attention_heads=size.heads,
        intermediate_size=size.feedforward,
        hidden_dropout_prob=size.dropout,
        max_position_embeddings=max_length + 4,  # two symbols around the text; RoBERTa counts positions from 2
        type_vocab_size=1,
    )
    return BackboneConfig.of(settings, longest=max_length)
