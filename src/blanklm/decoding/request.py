"""One text to fill, parsed, checked and in tokens: what every decoder takes, and how its drafts become fills."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

from blanklm.core.canvas import Canvas, Fill, Trajectory
from blanklm.core.characters import check_text
from blanklm.core.special import BLANK
from blanklm.core.template import Blank, Template, how_to_write_a_blank
from blanklm.core.tokenizer import Tokenizer
from blanklm.decoding.around import as_one_line, for_sentences, quotes
from blanklm.decoding.budget import LONGEST_SPAN, Rules
from blanklm.decoding.capitals import constraint_in_small_letters, in_capitals, in_small_letters
from blanklm.decoding.constraint import SENTENCE, Constraint, Rule, compile_rules, per_blank
from blanklm.decoding.draft import Draft
from blanklm.errors import BlankLMError

ConstraintLike = Constraint | Mapping[str, Any]
Watch = Callable[[Callable[[], Draft]], bool]  # called with a way to the leading draft; False gives the text up


@dataclass(frozen=True)
class Request:
    """A text with blanks, its canvas of ids and its rules; ``watch`` is called before each pass over it."""

    template: Template
    spaces: tuple[bool, ...]  # for each blank, whether its first token carries the space before it
    ids: tuple[int, ...]
    rules: Rules
    unknown: tuple[str, ...] = ()  # given words that the vocabulary does not hold
    capitals: bool = False  # whether the text is in capitals; its ids and rules are then those of small letters
    watch: Watch | None = field(default=None, compare=False)

    @classmethod
    def parse(
        cls,
        text: str,
        constraints: ConstraintLike | Sequence[ConstraintLike] | None,
        tokenizer: Tokenizer,
        max_length: int,
    ) -> Request:
        """Parse and check one canvas text; whatever is wrong with it raises here, before any work is done."""
        template = Template.parse(check_text(text))
        if not any(piece.strip() for piece in template.pieces) and not template.blanks:
            raise BlankLMError("the text is empty: write a text with ___ where words are missing")
        if not template.blanks:
            raise BlankLMError(f"there is no blank in the text: {how_to_write_a_blank(text)}")
        capitals = tokenizer.words_have_parts and in_capitals(template)
        read = in_small_letters(template) if capitals else template
        if tokenizer.kind == "bpe":
            read = as_one_line(read)
        ids, spaces = tokenizer.encode_template(read)
        if len(ids) > max_length:
            raise BlankLMError(
                f"the text takes {len(ids):,} tokens with its {len(template.blanks):,} blanks, and this model takes at "
                f"most {max_length:,}: shorten it or split it"
            )
        each = per_blank(constraints, len(template.blanks))
        if capitals:
            each = [constraint_in_small_letters(constraint) for constraint in each]
        by_blank = compile_rules(read, each, spaces, tokenizer)
        if tokenizer.kind == "bpe":
            by_blank = _by_what_is_around(by_blank, template)
        given = any(i != BLANK for i in ids)
        rules = Rules(by_blank, max_length, tokenizer, LONGEST_SPAN if given else None)
        unknown = [word for piece in read.pieces for word in tokenizer.unknown_words(piece)]
        request = cls(template, tuple(spaces), tuple(ids), rules, tuple(dict.fromkeys(unknown)), capitals)
        rules.check_room(request.first_draft())
        return request

    def first_draft(self) -> Draft:
        return Draft.begin(self.ids, self.rules.start_of_required)

    def given_up(self, so_far: Callable[[], Draft]) -> bool:
        return self.watch is not None and not self.watch(so_far)

    def to_fill(self, draft: Draft) -> Fill:
        """The fill of a finished draft; its trajectory is made when it is asked for."""
        tokenizer = self.rules.tokenizer
        token_spans = draft.spans(len(self.template.blanks))
        spans = [tokenizer.span_text(ids, space) for ids, space in zip(token_spans, self.spaces, strict=True)]
        spans = list(map(self._as_written, spans))
        return Fill(
            text=tokenizer.render(self.template, spans),
            spans=tuple(spans),
            log_prob=draft.log_prob,
            steps=lambda: self.trajectory(draft),
            given=self.template.pieces,
        )

    def trajectory(self, draft: Draft) -> Trajectory:
        """A draft's most probable trajectory over readable tokens."""
        tokenizer = self.rules.tokenizer
        blanks = iter(() if tokenizer.words_have_parts else self.template.blanks)  # whose lengths are in words
        items = [next(blanks, Blank()) if i == BLANK else self._token_text(i) for i in self.ids]
        actions, log_probs = draft.actions()
        readable = [replace(action, token=self._token_text(cast(int, action.token))) for action in actions]
        start = Canvas(tuple(items), separator=" " if tokenizer.kind in ("word", "wordpiece") else "")
        return Trajectory.follow(start, readable, log_probs)

    def _token_text(self, token: int) -> str:
        return self._as_written(self.rules.tokenizer.token_text(token))

    def _as_written(self, text: str) -> str:
        return text.upper() if self.capitals else text


def _by_what_is_around(rules: Sequence[Rule], template: Template) -> tuple[Rule, ...]:
    return tuple(
        replace(rule, sentence=sentence and rule.max >= SENTENCE, quotes=marks)
        for rule, sentence, marks in zip(rules, for_sentences(template), quotes(template), strict=True)
    )
