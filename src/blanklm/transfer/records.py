"""The JSON form of results, which the command line prints and the server documents in its schema.

The server's schema takes the docstring below a field as its description.
"""

from __future__ import annotations

from typing_extensions import TypedDict  # pydantic refuses that of ``typing`` before Python 3.12


class WordRecord(TypedDict):
    text: str
    weight: float
    """Its share of the classifier's attention; the shares of a text add up to 1."""
    masked: bool


class MarkedRecord(TypedDict):
    canvas: str
    words: list[WordRecord]


class ReadsAs(TypedDict):
    style: str
    p: float


class RewriteRecord(TypedDict):
    text: str
    parts: list[str]
    """What was kept and what was written, alternately."""
    canvas: str
    style: float
    """p(target style)."""
    content: float
    """The share of words that the two texts have in common."""
    fluency: float
    """log p per word written."""
    score: float


class TransferResult(MarkedRecord):
    input: str
    to: str
    reads_as: ReadsAs
    unknown: list[str]
    """Words that the model does not know."""
    rewrites: list[RewriteRecord]
    """Best first."""
