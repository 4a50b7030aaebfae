"""What rewrites a text in another style, as one model on disk: a classifier that marks and ranks, a BLM that writes.

The two are trained apart, each by its own objective; this only keeps them together with the names of the styles.
"""

from __future__ import annotations

from dataclasses import dataclass

from blanklm.errors import BlankLMError
from blanklm.models.classifier import AttentionClassifier, AttentionClassifierConfig
from blanklm.models.model import Model
from blanklm.models.registry import register
from blanklm.models.styled_blm import StyledBLM, StyledBLMConfig


@dataclass(frozen=True)
class RewriterConfig:
    styles: list[str]  # their names, by number
    classifier: AttentionClassifierConfig
    writer: StyledBLMConfig

    def __post_init__(self) -> None:
        if len(set(self.styles)) != self.writer.styles or self.writer.styles != self.classifier.styles:
            raise BlankLMError("a rewriter's classifier and writer know the same styles, each by a name of its own")

    @property
    def vocabulary(self) -> int:
        return self.writer.vocabulary

    @property
    def max_length(self) -> int:
        return min(self.writer.max_length, self.classifier.max_length)


@register("rewriter", RewriterConfig)
class Rewriter(Model):
    product = "transfer"

    def __init__(self, config: RewriterConfig) -> None:
        super().__init__()
        self.config = config
        self.classifier = AttentionClassifier(config.classifier)
        self.writer = StyledBLM(config.writer)
