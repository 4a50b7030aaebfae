"""Restore a damaged text as its editor wrote it: Leiden notation or EpiDoc in, the same out, with its evidence.

``restore("ἔδοξεν τῆι βουλῆι κα[. . 4 . .] δήμωι").text`` should be the text with ``[ὶ τῶι]`` in the place of the gap.
"""

from __future__ import annotations

import html
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from blanklm.errors import BlankLMError
from blanklm.records import to_json
from blanklm.restoration.notation import Document, Letters, Passage, parse
from blanklm.restoration.notation.language import has_letters, language_of
from blanklm.restoration.options import RestoreOptions
from blanklm.restoration.passages import PassageRestorer
from blanklm.restoration.records import GapRecord, PassageRecord

if TYPE_CHECKING:
    from blanklm.restoration.restorer import Restorer

HINTS = {
    "leiden": "write [...] for three lost letters, [c. 5] for about five, [---] for an unknown number",
    "epidoc": 'mark it as <gap reason="lost" quantity="3" unit="character"/>, or extent="unknown"',
}


def restore(
    source: str | bytes, *, model: str | Path | Restorer | None = None, device: str | None = None, **options: Any
) -> Edition:
    """Restore the lacunae of a text, with the ``options`` of ``RestoreOptions``.

    ``model`` is the bundled one of the language by default.
    """
    if not isinstance(source, str | bytes):
        raise BlankLMError(f"a text to restore is a string or the bytes of a file, not {type(source).__name__}")
    chosen = RestoreOptions.of(**options)
    document = parse(source, chosen.notation)
    return restore_document(document, restorers_for(document, chosen, model, device), chosen)


def restore_document(
    document: Document,
    restorers: Mapping[str, Restorer],
    options: RestoreOptions,
    progress: Callable[[int], None] = lambda done: None,
    ready: Callable[[GapRecord], None] = lambda gap: None,
) -> Edition:
    """Restore a document with the restorer of each language; ``progress``: see ``search.Progress``.

    ``ready`` is called with each gap as soon as it is restored, but for its parallels: they are sought at the end,
    with the other gaps restored.
    """
    passages: list[PassageRecord] = []
    lacunae: list[GapRecord] = []
    for passage, language in passages_to_read(document, options):
        if passage.lacunae:
            reader = PassageRestorer(document.source, passage, language, restorers[language])
            restored, of_passage = reader.restore(options, len(lacunae) + 1, progress, ready)
            lacunae += of_passage
        else:
            texts: list[str | int] = [part.text for part in passage.parts if isinstance(part, Letters)]
            restored = PassageRecord(language, texts, [], [])
        if options.attribute:
            from blanklm.restoration.attribution import attribution_of

            restored = replace(restored, attribution=attribution_of(passage, language))
        passages.append(restored)
    return Edition(document, tuple(passages), tuple(lacunae))


def passages_to_read(document: Document, options: RestoreOptions) -> list[tuple[Passage, str]]:
    """Return the passages with lacunae and their languages; refuse a document that has none, or unknown letters.

    Where and when can be asked of any text: then all passages with letters are returned.
    """
    passages = [one for one in document.passages if one.lacunae or (options.attribute and has_letters(one))]
    if not passages:
        raise BlankLMError(f"there is no gap to restore in this text: {HINTS[document.notation]}")
    return [(passage, language_of(document.source, passage, options.language)) for passage in passages]


def restorers_for(
    document: Document, options: RestoreOptions, model: str | Path | Restorer | None, device: str | None
) -> dict[str, Restorer]:
    """Load the restorer of each language of a document: the ``model``, or else the bundled one of the language."""
    languages = {language for passage, language in passages_to_read(document, options) if passage.lacunae}
    if model is None or isinstance(model, str | Path):
        return {language: load_restorer(str(model or bundled_model(language)), device) for language in languages}
    return dict.fromkeys(languages, model)


@lru_cache(maxsize=4)  # a model of each language, and of two for comparison
def load_restorer(name: str, device: str | None = None) -> Restorer:
    from blanklm.restoration.restorer import Restorer

    return Restorer.from_pretrained(name, device)


def bundled_model(language: str) -> str:
    """Return the name of the bundled model of a language."""
    from blanklm.pretrained import bundled

    if language not in bundled():
        raise BlankLMError(f"no model for {language.capitalize()} is bundled: name one, a folder or a Hub id")
    return language


@dataclass(frozen=True, repr=False)
class Edition:
    """A document with its lacunae restored, in the order of the source."""

    document: Document
    passages: tuple[PassageRecord, ...]
    lacunae: tuple[GapRecord, ...]

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return f"<Edition of {len(self.lacunae)} gaps: {self.text!r}>"

    def _repr_html_(self) -> str:
        """Show the text in a notebook, with what was restored marked; its probability shows under the pointer."""
        shown, rest = "", 0
        for gap in self.lacunae:
            if gap.restorations and not gap.abstained:
                best = gap.restorations[0]
                shown += html.escape(self.document.source[rest : gap.start])
                shown += f"<mark title='{100 * best.probability:.0f} %'>{html.escape(best.written)}</mark>"
                rest = gap.end
        return f"<p style='white-space:pre-wrap'>{shown}{html.escape(self.document.source[rest:])}</p>"

    @property
    def text(self) -> str:
        """The document with the best restoration of each lacuna, and those where the model abstains as they were."""
        return self.written({})

    def written(self, choices: Mapping[int, int]) -> str:
        """Return the document with other candidates, ``{lacuna: candidate}``, from 0, even where the model abstains."""
        return self.document.replaced(
            {
                number: gap.restorations[choices.get(number, 0)].written
                for number, gap in enumerate(self.lacunae)
                if gap.restorations and (number in choices or not gap.abstained)
            }
        )

    def to_json(self) -> dict[str, Any]:
        """Return everything that is known of the edition, probabilities with six digits."""
        parts = {"passages": self.passages, "gaps": self.lacunae}
        return {"notation": self.document.notation, "text": self.text, **to_json(parts, 6)}
