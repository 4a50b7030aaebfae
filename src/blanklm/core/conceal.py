"""The tensor kernel: hide positions of a batch of texts and get the canvases and every target action at once.

``blanklm.core.canvas.conceal`` says the same for one text in plain Python; the tests hold the two equal.
Nothing here loops over texts or positions, and nothing leaves the device.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from blanklm.core.special import BLANK, PAD


@dataclass(frozen=True)
class Concealed:
    """Canvases [B, C] of texts [B, L], and for each text position where and how its action applies."""

    canvas: Tensor  # [B, C] token ids, BLANK where a run is hidden, PAD after the end
    lengths: Tensor  # [B] symbols on each canvas
    place: Tensor  # [B, L] where on the canvas a position stands; for a hidden one, where its blank stands
    hidden: Tensor  # [B, L] true for hidden positions (false on padding)
    left: Tensor  # [B, L] for a hidden position, how many hidden ones adjoin on its left; 0 elsewhere
    right: Tensor  # [B, L] the same on its right
    emits: Tensor  # [B, L] true for positions that put a symbol on the canvas


def conceal(tokens: Tensor, lengths: Tensor, shown: Tensor, spread: Tensor | None = None) -> Concealed:
    """Show only the positions ``shown`` [B, L] of ``tokens`` [B, L]; each hidden run becomes one blank.

    Hidden positions of ``spread`` [B, L] put a blank symbol each on the canvas, one a place; a run of them ends where
    hidden positions follow that are not spread.
    """
    batch, width = tokens.shape
    position = torch.arange(width, device=tokens.device).expand(batch, width)  # [B, L]
    inside = position < lengths[:, None]  # [B, L]
    hidden = inside & ~shown
    spread = torch.zeros_like(hidden) if spread is None else spread & hidden
    alike = [_neighbour(hidden, side) & (_neighbour(spread, side) == spread) for side in (+1, -1)]  # of the same run
    starts = hidden & ~alike[0]  # [B, L] first position of each hidden run
    ends = hidden & ~alike[1]  # [B, L] last position of each hidden run

    # A shown position emits itself; the first position of a hidden run emits the blank, or each of them does.
    emits = (inside & shown) | starts | spread  # [B, L]
    place = emits.cumsum(1) - 1  # [B, L]
    symbols = torch.where(hidden, BLANK, tokens)  # [B, L]
    canvas = tokens.new_full((batch, width + 1), PAD)
    canvas.scatter_(1, torch.where(emits, place, width), symbols)  # the last column takes what emits nothing

    run_start = torch.where(starts, position, -1).cummax(1).values  # [B, L]
    run_end = torch.where(ends, position, width).flip(1).cummin(1).values.flip(1)  # [B, L]
    return Concealed(
        canvas=canvas[:, :width],
        lengths=emits.sum(1),
        place=place.clamp_min(0),
        hidden=hidden,
        left=torch.where(hidden, position - run_start, 0),
        right=torch.where(hidden, run_end - position, 0),
        emits=emits,
    )


def _neighbour(mask: Tensor, shift: int) -> Tensor:
    """``mask`` of the left (+1) or right (-1) neighbour; false beyond the ends."""
    moved = mask.roll(shift, dims=1)
    moved[:, 0 if shift > 0 else -1] = False
    return moved


# --- Packed: little or no padding ---------------------------------------------------------------------------------

ROWS = (64, 128)  # symbols of the rows that short sequences are laid into on a GPU


@dataclass(frozen=True)
class Packing:
    """Sequences laid out in one dimension, T symbols in all: end to end, or several to a row of ``row`` symbols."""

    starts: Tensor  # [B + 1] int32: where each sequence begins, and T
    lengths: Tensor  # [B]
    sequence: Tensor  # [T] which sequence a symbol belongs to; -1 for what is left over in a row
    position: Tensor  # [T] its place there
    longest: int
    row: int = 0  # 0: end to end

    def __len__(self) -> int:
        return len(self.lengths)

    @classmethod
    def of(cls, lengths: Tensor, longest: int) -> Packing:
        """Sequences of these ``lengths`` [B] end to end."""
        sequence = torch.repeat_interleave(torch.arange(len(lengths), device=lengths.device), lengths)  # [T]
        starts = torch.nn.functional.pad(lengths.cumsum(0), (1, 0))  # [B + 1]
        position = torch.arange(len(sequence), device=lengths.device) - starts[sequence]  # [T]
        return cls(starts.to(torch.int32), lengths, sequence, position, longest)

    @classmethod
    def in_rows(cls, lengths: Tensor, longest: int, row: int) -> Packing:
        """Short sequences in rows that no sequence crosses: attention is then one small square a row."""
        device, order = lengths.device, lengths.argsort()
        fillings = _fillings(torch.bincount(lengths, minlength=row + 1).tolist(), row)
        # Stretches of the order: ``number`` sequences of ``length``, ``abreast`` to a row from column ``start`` on.
        length, number, abreast, start, first_row = torch.tensor(fillings, device=device).view(-1, 5).T
        stretch = torch.arange(len(number), device=device).repeat_interleave(number)  # [B] of each, in the order
        rank = torch.arange(len(order), device=device) - (number.cumsum(0) - number)[stretch]  # [B] in its stretch
        rows = first_row[stretch] + rank // abreast[stretch]  # [B]
        starts = torch.empty_like(lengths)
        starts[order] = rows * row + start[stretch] + rank % abreast[stretch] * length[stretch]  # [B]
        total = (int(rows.max()) + 1) * row if len(rows) else 0
        sequence = torch.full((total,), -1, device=device)
        position = torch.zeros_like(sequence)
        column = torch.arange(longest, device=device)  # [L]
        inside = column < lengths[:, None]  # [B, L]
        place = (starts[:, None] + column)[inside]  # [symbols]
        sequence[place] = torch.arange(len(lengths), device=device).repeat_interleave(lengths)
        position[place] = column.expand(len(lengths), -1)[inside]
        starts = torch.nn.functional.pad(starts, (0, 1), value=total).to(torch.int32)
        return cls(starts, lengths, sequence, position, longest, row)

    @classmethod
    def best_for(cls, lengths: Tensor, longest: int, on_gpu: bool) -> Packing:
        """In rows where a GPU would give each short sequence a tile of its own, else end to end."""
        if on_gpu and 2 * longest <= ROWS[-1]:
            return cls.in_rows(lengths, longest, next(row for row in ROWS if 2 * longest <= row))
        return cls.of(lengths, longest)

    def lay(self, sequences: Tensor) -> Tensor:
        """Padded ids [B, L] -> packed ids [T]."""
        packed = sequences[self.sequence.clamp_min(0), self.position]  # [T]
        return torch.where(self.sequence < 0, PAD, packed) if self.row else packed

    def padded(self, packed: Tensor) -> Tensor:
        """Ids or vectors [T, ...], packed end to end -> [B, L, ...], 0 (which is PAD) after each sequence's end."""
        padded = packed.new_zeros(len(self), self.longest, *packed.shape[1:])
        padded[self.sequence, self.position] = packed
        return padded

    def places(self, where: Tensor) -> Tensor:
        """The packed places of the true positions of ``where`` [B, L], sequence by sequence."""
        sequence, position = where.nonzero(as_tuple=True)
        return self.starts[sequence] + position


@dataclass(frozen=True, kw_only=True)
class ContextPacking(Packing):
    """Contexts, then sequences that each come after one of them, all end to end.

    A sequence reads its context and itself. A context reads itself alone: it may have many sequences after it.
    """

    contexts: Packing
    after: Packing  # the sequences, counted from 0
    read: Packing  # what each of them reads, end to end
    source: Tensor  # [S] where that stands among all symbols

    @classmethod
    def of_both(cls, contexts: Packing, after: Packing, of: Tensor) -> ContextPacking:
        """``after``: sequences end to end, ``of`` [B] the contexts of these numbers."""
        before, first = contexts.lengths[of], len(contexts.sequence)  # [B] symbols before each; where the first begins
        read = Packing.of(before + after.lengths, contexts.longest + after.longest)
        own = read.position - before[read.sequence]  # [S] below 0 in the context
        in_context = contexts.starts[of[read.sequence]] + read.position  # [S]
        source = torch.where(own < 0, in_context, first + after.starts[read.sequence] + own)
        return cls(
            starts=torch.cat((contexts.starts, first + after.starts[1:])),
            lengths=torch.cat((contexts.lengths, after.lengths)),
            sequence=torch.cat((contexts.sequence, len(contexts) + after.sequence)),
            position=torch.cat((contexts.position, before[after.sequence] + after.position)),
            longest=read.longest,
            contexts=contexts,
            after=after,
            read=read,
            source=source,
        )


def _fillings(counts: list[int], row: int) -> list[tuple[int, int, int, int, int]]:
    """How to fill rows with ``counts[n]`` sequences of each length n: the longest first, then the longest that fit.

    Rows that are filled alike come together. Returns (length, number, abreast, start, first row) by rising length.
    """
    left, rows, found = list(counts), 0, []
    left[0] = 0  # what is empty takes no place
    while any(left):
        alike, space = [], row  # (length, abreast) of one row
        for n in range(row, 0, -1):
            if abreast := min(left[n], space // n):
                alike.append((n, abreast))
                space -= n * abreast
        times, start = min(left[n] // abreast for n, abreast in alike), 0
        for n, abreast in alike:
            found.append((n, times * abreast, abreast, start, rows))
            left[n] -= times * abreast
            start += n * abreast
        rows += times
    found.sort(key=lambda filling: filling[0])
    return [(0, counts[0], 1, 0, 0), *found] if counts[0] else found


@dataclass(frozen=True)
class PackedActions:
    """Packed canvases, their blanks, and the actions to score on them. A counts the actions, K the blanks."""

    canvas: Tensor  # [T] token ids
    packing: Packing
    blanks: Tensor  # [K] where on the packed canvas the blanks stand, canvas by canvas
    asked: Tensor  # [Q] which of the blanks are filled by some action: only they need a row of the vocabulary
    row: Tensor  # [A] which of the asked blanks an action fills
    word: Tensor  # [A] the token it writes
    left: Tensor  # [A] how many hidden positions adjoin on its left
    right: Tensor  # [A] and on its right
    text: Tensor  # [A] the text it belongs to
    position: Tensor  # [A] the position of the text that it writes


def pack(tokens: Tensor, concealed: Concealed, wanted: Tensor | None = None, on_gpu: bool = False) -> PackedActions:
    """The concealed canvases packed, and the actions of the ``wanted`` [B, L] hidden positions (default: all)."""
    packing = Packing.best_for(concealed.lengths, int(concealed.lengths.max()), on_gpu)
    is_blank = concealed.canvas == BLANK  # [B, L]
    text, position = (concealed.hidden if wanted is None else concealed.hidden & wanted).nonzero(as_tuple=True)  # [A]
    number = is_blank.flatten().cumsum(0).view_as(is_blank) - 1  # [B, L] of each blank among all
    blank = number[text, concealed.place[text, position]]  # [A]
    blanks = packing.places(is_blank)  # [K]
    is_asked = torch.zeros(len(blanks), dtype=torch.bool, device=tokens.device)
    is_asked[blank] = True
    return PackedActions(
        canvas=packing.lay(concealed.canvas),
        packing=packing,
        blanks=blanks,
        asked=is_asked.nonzero().squeeze(1),
        row=(is_asked.cumsum(0) - 1)[blank],
        word=tokens[text, position],
        left=concealed.left[text, position],
        right=concealed.right[text, position],
        text=text,
        position=position,
    )


def log_softmax_of_each(logits: Tensor, group: Tensor, groups: int) -> Tensor:
    """Log-softmax [K] of ``logits`` [K] within each group; ``group`` [K] says whose they are."""
    highest = logits.new_full((groups,), -torch.inf).scatter_reduce(0, group, logits.detach(), "amax")  # [groups]
    total = logits.new_zeros(groups).index_add(0, group, (logits - highest[group]).exp())  # [groups]
    return logits - (highest + total.log())[group]


def one_of_each(key: Tensor) -> tuple[Tensor, Tensor]:
    """Where one of each kind of ``key`` [B] stands [U], whichever, and the kind [B] of each."""
    kinds, kind = key.unique(return_inverse=True)  # [U], [B]
    index = torch.arange(len(kind), device=key.device)
    return index.new_zeros(len(kinds)).scatter_(0, kind, index), kind


# --- Which positions are shown ------------------------------------------------------------------------------


def random_keys(seeds: Tensor, width: int) -> Tensor:
    """Pseudo-random int64 keys [B, width], a function of each text's own seed [B] alone.

    A text's canvas must not depend on the batch it stands in or on the number of processes, and a resumed run
    must draw what the unbroken run would have drawn; so the keys are hashed (splitmix64), not drawn in turn.
    """
    position = torch.arange(1, width + 1, device=seeds.device, dtype=torch.int64)
    key = seeds.to(torch.int64)[:, None] * _signed(0xD1342543DE82EF95) + position * _signed(0x9E3779B97F4A7C15)
    key = (key ^ _shift_right(key, 30)) * _signed(0xBF58476D1CE4E5B9)
    key = (key ^ _shift_right(key, 27)) * _signed(0x94D049BB133111EB)
    return key ^ _shift_right(key, 31)  # [B, width]


def _signed(constant: int) -> int:
    return constant - (1 << 64) if constant >= 1 << 63 else constant


def _shift_right(value: Tensor, bits: int) -> Tensor:
    return (value >> bits) & ((1 << (64 - bits)) - 1)


def uniform(seeds: Tensor, width: int) -> Tensor:
    """[B, width] numbers in [0, 1), hashed from each text's seed as ``random_keys`` are."""
    return _shift_right(random_keys(seeds, width), 11).to(torch.float64) / 2**53


def random_ranks(seeds: Tensor, lengths: Tensor, width: int) -> Tensor:
    """The rank [B, L] of each position in a random order of its text: 0 is written first."""
    keys = random_keys(seeds, width)  # [B, L]
    inside = torch.arange(width, device=keys.device) < lengths[:, None]
    keys = keys.masked_fill(~inside, torch.iinfo(torch.int64).max)
    return keys.argsort(1).argsort(1)


def random_orders(seeds: Tensor, lengths: Tensor, width: int, given: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """``random_ranks`` [B, L], all n! orders being alike, and log n! [B].

    Of texts whose first ``given`` [B] positions are known, the order of the n others; ranks of the known are below 0.
    """
    ranks = random_ranks(seeds, lengths, width)
    if given is not None:
        position, lengths = torch.arange(width, device=ranks.device), lengths - given
        ranks = ranks.masked_fill(position < given[:, None], -1).argsort(1).argsort(1) - given[:, None]
    return ranks, torch.lgamma(lengths + 1.0)


def random_word_ranks(seeds: Tensor, lengths: Tensor, word: Tensor) -> Tensor:
    """The same for an order in which the tokens of each word come from left to right, words being interleaved.

    ``word`` [B, L] numbers the word of its text that each position belongs to. Every such order is equally likely:
    it is an order of all positions in which each word's places have been sorted.
    """
    width = word.shape[1]
    ranks = random_ranks(seeds, lengths, width)  # [B, L]
    return (word * width + ranks).sort(1).values % width  # words stay where they are, each word's ranks rise


def words_of(tokens: Tensor, edges: Tensor) -> Tensor:
    """The number of the word [B, L] each position belongs to: a run of letters, of digits or of marks.

    ``edges`` [V, 2] says what a token begins and ends with (``Tokenizer.edges``); a space (0) begins a new word.
    """
    first, last = edges[tokens].unbind(-1)  # [B, L] each
    starts = torch.ones_like(tokens, dtype=torch.bool)
    first, before = first[:, 1:], last[:, :-1]
    starts[:, 1:] = (first == 0) | ((first != before) & (before != 0))  # a token of mere space belongs to what follows
    return starts.cumsum(1) - 1


def hashed_words(symbols: Tensor, ends: Tensor, lost: Tensor, buckets: int) -> Tensor:
    """[B, C] a number of 1 ... buckets - 1 for the word that each of the ``symbols`` [B, C] stands in, by its spelling.

    Words lie between the symbols that ``ends`` [B, C] marks. A word with a ``lost`` [B, C] symbol has 0, as have ends.
    """
    number = ends.cumsum(1)  # [B, C] of the word; an end has that of the word after it
    place = torch.arange(symbols.shape[1], device=symbols.device).expand_as(symbols)
    begin = torch.where(ends, place, -1).cummax(1).values  # [B, C] the end before the word
    powers = [_signed(pow(0x5851F42D4C957F2D, i, 1 << 64)) for i in range(64)]
    power = torch.tensor(powers, device=symbols.device)[(place - begin).clamp_max(63)]  # [B, C]
    zeros = torch.nn.functional.pad(torch.zeros_like(symbols), (0, 1))  # [B, C + 1]
    letters = torch.where(ends, 0, (symbols + 1) * power)  # wraps around, as hashes may
    total = zeros.scatter_add(1, number, letters).gather(1, number)  # [B, C]
    broken = zeros.scatter_add(1, number, (lost & ~ends).long()).gather(1, number)  # [B, C]
    mixed = (total ^ _shift_right(total, 29)) * _signed(0xBF58476D1CE4E5B9)
    bucket = 1 + _shift_right(mixed, 20).remainder(buckets - 1)
    return torch.where(ends | (broken > 0), 0, bucket)


def next_of_words(hidden: Tensor, word: Tensor) -> Tensor:
    """[B, L] for the next token of each word, how many tokens of the word are ``hidden`` [B, L]; 0 elsewhere.

    Divided by the number of hidden tokens, that is the chance that an order of ``random_word_ranks`` goes on there.
    """
    in_word = torch.zeros_like(word).scatter_add_(1, word, hidden.to(word.dtype))  # [B, L] by number of the word
    same_word = torch.zeros_like(hidden)  # as the position before
    same_word[:, 1:] = word[:, 1:] == word[:, :-1]
    is_next = hidden & ~(same_word & _neighbour(hidden, +1))
    return torch.where(is_next, in_word.gather(1, word), 0)


def show_first(ranks: Tensor, lengths: Tensor, fractions: Tensor) -> Tensor:
    """Algorithm 1: [B, L] the first t positions of each order, t = floor(fraction * n) being uniform in 0..n-1."""
    steps = torch.minimum((fractions * lengths).floor().to(torch.int64), lengths - 1).clamp_min(0)  # [B]
    return ranks < steps[:, None]


# --- The objective -------------------------------------------------------------------------------------------


def bound(log_prob: Tensor, lengths: Tensor, hidden: Tensor, log_orders: Tensor) -> Tensor:
    """Eq. 8 [B], an upper bound on -log p(x): - log n! - n / (n - t) * log_prob.

    ``log_prob`` [B] sums the log p of a canvas's possible next actions, ``hidden`` [B] is n - t, and ``log_orders`` [B]
    is - log q of the order drawn: the log of the number of orders, n! where none is ruled out, if they are alike.
    """
    return -log_orders - lengths / hidden.clamp_min(1) * log_prob
