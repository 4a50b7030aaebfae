"""The model of style transfer on disk: a classifier that marks and ranks, and a BLM that writes.

The two are trained separately, each on its own objective; this only stores them together with the names of the styles.
"""

from __future__ import annotations

from dataclasses import dataclass

from blanklm.errors import BlankLMError
from blanklm.models.classifier import AttentionClassifier, AttentionClassifierConfig
from blanklm.models.model import Model
from blanklm.models.registry import register
from blanklm.models.settings import Settings
from blanklm.models.styled_blm import StyledBLM, StyledBLMConfig


@dataclass(frozen=True)
class RewriterConfig(Settings):
    styles: list[str]  # their names, in order of their numbers
    classifier: AttentionClassifierConfig
    writer: StyledBLMConfig

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(set(self.styles)) != self.writer.styles or self.writer.styles != self.classifier.styles:
            raise BlankLMError(
                f"the names {self.styles} do not match the {self.classifier.styles} styles of the classifier and the "
                f"{self.writer.styles} of the writer: give each style one distinct name"
            )

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
