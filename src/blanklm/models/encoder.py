"""The encoder that every model shares: a pre-norm Transformer with rotary positions.

It maps a sequence of vectors to a sequence of vectors (z_1, ..., z_n); what is asked of them is each model's own.
"""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

from blanklm.core.conceal import ROWS, ContextPacking, Packing
from blanklm.core.special import BLANK, EOS
from blanklm.errors import BlankLMError


@dataclass(frozen=True)
class EncoderConfig:
    layers: int
    heads: int
    width: int
    feedforward: int
    dropout: float = 0.1  # of the input and of each sub-layer's output
    hidden_dropout: float = 0.0  # inside the feed-forward sub-layers
    output_dropout: float = 0.0  # of the vectors that the encoder answers with
    word_dropout: float = 0.0  # the share of shown words that a model does not get to see in training

    def __post_init__(self) -> None:
        for name in ("dropout", "hidden_dropout", "output_dropout", "word_dropout"):
            if not 0 <= getattr(self, name) < 1:
                raise BlankLMError(f"{name.replace('_', ' ')} must be 0 or more and below 1, not {getattr(self, name)}")

    def build(self, causal: bool = False) -> Encoder:
        return Encoder(self, causal)

    @classmethod
    def of_size(cls, size: str, dropout: float = 0.1) -> EncoderConfig:
        """``base`` is the paper's transformer_base; ``small`` and ``tiny`` are for a laptop."""
        if size not in SIZES:
            raise BlankLMError(f"there is no size {size!r}: choose {', '.join(SIZES)}")
        return cls(*SIZES[size], dropout=dropout)


TABULATED = 2048  # positions whose rotary angles are kept

SIZES = {  # layers, heads, width, feed-forward width
    "tiny": (2, 2, 64, 256),
    "small": (4, 4, 256, 1024),
    "base": (6, 8, 512, 2048),
}


class Encoder(nn.Module):
    """Bidirectional, or causal for left-to-right models.

    Sequences come packed end to end: no layer computes anything for padding. Dropout is on the input and on each
    sub-layer's output, as in the original Transformer, and elsewhere where the config asks for it; attention weights
    are not dropped, since kernels for packed sequences cannot.
    """

    def __init__(self, config: EncoderConfig, causal: bool = False) -> None:
        super().__init__()
        self.layers = nn.ModuleList(EncoderLayer(config, causal) for _ in range(config.layers))
        self.norm = nn.LayerNorm(config.width)
        self.dropout = Dropout(config.dropout)
        self.output_dropout = Dropout(config.output_dropout)
        # Angles by position, looked up: computed in place, a compiler would compute them anew in every layer.
        cos, sin = rotary_angles(torch.arange(TABULATED), config.width // config.heads)
        self.register_buffer("cos", cos, persistent=False)
        self.register_buffer("sin", sin, persistent=False)
        self.head_width = config.width // config.heads

    def forward(self, vectors: Tensor, packing: Packing, memory: Memory | None = None) -> Tensor:
        """Packed ``vectors`` [T, d] -> z [T, d]; with a ``memory``, they may go on with sequences read before."""
        if packing.longest <= TABULATED:
            rotary = self.cos[packing.position], self.sin[packing.position]
        else:
            rotary = rotary_angles(packing.position, self.head_width)
        if torch.is_autocast_enabled(vectors.device.type):  # in half precision from the first layer to the last
            vectors = vectors.to(torch.get_autocast_dtype(vectors.device.type))
        z = self.dropout(vectors)
        for number, layer in enumerate(self.layers):
            z = layer(z, rotary, packing, memory and memory.layers[number])
        return self.output_dropout(self.norm(z))


@torch.no_grad()
def divide(temperature: float, *parts: Tensor) -> None:
    """Divide ``parts`` of a model by a ``temperature``, in place."""
    if not 0 < temperature < float("inf"):
        raise BlankLMError(f"a temperature is a number above 0, not {temperature}")
    for part in parts:
        part /= temperature


class EncoderLayer(nn.Module):
    def __init__(self, config: EncoderConfig, causal: bool) -> None:
        super().__init__()
        self.heads, self.causal = config.heads, causal
        self.attention_norm = nn.LayerNorm(config.width)
        self.queries_keys_values = nn.Linear(config.width, 3 * config.width)
        self.attention_out = nn.Linear(config.width, config.width)
        self.feedforward_norm = nn.LayerNorm(config.width)
        self.feedforward_in = nn.Linear(config.width, config.feedforward)
        self.feedforward_out = nn.Linear(config.feedforward, config.width)
        self.dropout = Dropout(config.dropout)
        self.hidden_dropout = Dropout(config.hidden_dropout)

    def forward(
        self, z: Tensor, rotary: tuple[Tensor, Tensor], packing: Packing, memory: LayerMemory | None = None
    ) -> Tensor:
        total, width = z.shape
        qkv = self.queries_keys_values(self.attention_norm(z)).view(total, 3, self.heads, -1)  # [T, 3, H, d/H]
        q, k, v = qkv.unbind(1)  # each [T, H, d/H]
        q, k = rotate(q, rotary), rotate(k, rotary)
        read = memory.attend(q, k, v, packing) if memory else attend(q, k, v, packing, self.causal)  # [T, H, d/H]
        z = z + self.dropout(self.attention_out(read.reshape(total, width)))
        inner = self.hidden_dropout(F.gelu(self.feedforward_in(self.feedforward_norm(z))))  # [T, ff]
        return z + self.dropout(self.feedforward_out(inner))


class Dropout(nn.Dropout):
    """Randomness is what it costs. Where layers are compiled it comes from a hash: a compiler's own generator works
    longer on each number than the memory on all else that its kernel does. On a CPU one number serves four places."""

    def forward(self, x: Tensor) -> Tensor:
        if self.training and self.p:
            if torch.compiler.is_compiling():
                seed = torch.randint(-(2**31), 2**31, (1,), dtype=torch.int32, device=x.device)
                return drop_by_hash(x, self.p, seed)
            if x.device.type == "cpu":
                return drop_by_bits(x, self.p)
        return super().forward(x)


def drop_by_bits(x: Tensor, share: float) -> Tensor:
    """Dropout by sixteen random bits for each place of x: ``share`` is rounded to a 2^16-th, and the rest scaled so."""
    numbers = torch.empty(-(-x.numel() // 4), dtype=torch.int64).random_(-(2**63), None)
    bits = numbers.view(torch.int16)[: x.numel()].view(x.shape)  # [...] uniform over -2^15 ... 2^15 - 1
    dropped = round(share * 2**16)
    return x * (bits >= dropped - 2**15).to(x.dtype).mul_(2**16 / (2**16 - dropped))


def drop_by_hash(x: Tensor, share: float, seed: Tensor) -> Tensor:
    """Dropout by a hash of each place of x and the ``seed`` [1] int32: three multiplications with shifts between."""
    place = torch.arange(x.numel(), dtype=torch.int32, device=x.device).view(x.shape)
    mixed = (place ^ seed) * -0x61C88647  # wraps around
    mixed = (mixed ^ (mixed >> 16 & 0xFFFF)) * 0x7FEB352D
    mixed = (mixed ^ (mixed >> 15 & 0x1FFFF)) * -0x7B935975  # uniform over -2^31 ... 2^31 - 1
    return torch.where(mixed >= int(share * 2**32) - 2**31, x / (1 - share), 0.0)


class Memory:
    """What a causal encoder has read of some sequences, so that one symbol more costs the work of one symbol.

    A first pass over the sequences, end to end, fills it; then each pass takes one symbol more of some (``one_more``).
    """

    def __init__(self, encoder: Encoder, sequences: int, longest: int) -> None:
        self.layers = [LayerMemory(layer, sequences, longest) for layer in encoder.layers]


def one_more(sequence: Tensor, position: Tensor, longest: int) -> Packing:
    """The packing of one symbol of each ``sequence`` [R] of a memory, at ``position`` [R], at most ``longest`` - 1."""
    starts = torch.arange(len(sequence) + 1, dtype=torch.int32, device=sequence.device)
    return Packing(starts, torch.ones_like(sequence), sequence, position, longest)


class LayerMemory:
    def __init__(self, layer: EncoderLayer, sequences: int, longest: int) -> None:
        weight = layer.attention_out.weight
        shape = sequences, longest, layer.heads, weight.shape[0] // layer.heads  # [B, S, H, d/H]
        self.keys, self.values = weight.new_zeros(shape), weight.new_zeros(shape)
        self.empty = True

    def attend(self, q: Tensor, k: Tensor, v: Tensor, packing: Packing) -> Tensor:
        place = packing.sequence, packing.position
        self.keys[place], self.values[place] = k.to(self.keys.dtype), v.to(self.values.dtype)
        if self.empty:
            self.empty = False
            return attend(q, k, v, packing, causal=True)
        k, v = (part[packing.sequence, : packing.longest].transpose(1, 2) for part in (self.keys, self.values))
        known = torch.arange(k.shape[2], device=q.device) <= packing.position[:, None]  # [R, S]
        mask = known[:, None, None]  # [R, 1, 1, S]
        q, k, v = q[:, :, None], k.to(q.dtype), v.to(q.dtype)  # [R, H, 1, d/H], [R, H, S, d/H] twice
        return F.scaled_dot_product_attention(q, k, v, attn_mask=mask).squeeze(2)  # [R, H, d/H]


class Reading:
    """What each layer made of whole sequences, so that stretches of them can be read again in other versions.

    A memory of bidirectional layers: pass it to the encoder with the sequences, then ``around`` with a stretch of each.
    """

    def __init__(self, encoder: Encoder) -> None:
        self.layers = [LayerReading() for _ in encoder.layers]

    def around(self, of: Tensor) -> Around:
        """A memory for stretches of the sequences ``of`` [R], which attend to what is around them as it was read."""
        return Around(self, of)


class LayerReading:
    def attend(self, q: Tensor, k: Tensor, v: Tensor, packing: Packing) -> Tensor:
        self.keys, self.values = (packing.padded(part) for part in (k, v))  # [B, L, H, d/H]
        self.inside = torch.arange(packing.longest, device=q.device) < packing.lengths[:, None]  # [B, L]
        return attend(q, k, v, packing, causal=False)


class Around:
    def __init__(self, reading: Reading, of: Tensor) -> None:
        self.layers = [LayerAround(layer, of) for layer in reading.layers]


class LayerAround:
    def __init__(self, read: LayerReading, of: Tensor) -> None:
        self.read, self.of = read, of

    def attend(self, q: Tensor, k: Tensor, v: Tensor, packing: Packing) -> Tensor:
        place = packing.sequence, packing.position
        keys, values = self.read.keys[self.of], self.read.values[self.of]  # [R, L, H, d/H] each
        keys[place], values[place] = k, v
        stretch = packing.starts[:-1][packing.sequence]  # [N] where its stretch begins among all
        column = torch.arange(len(q), device=q.device) - stretch  # [N] its place in the stretch
        queries = q.new_zeros(len(packing), packing.longest, *q.shape[1:])  # [R, n, H, d/H]
        queries[packing.sequence, column] = q
        inside = self.read.inside[self.of][:, None, None]  # [R, 1, 1, L]
        mask = None if self.read.inside.all() else inside
        queries, keys, values = (part.transpose(1, 2) for part in (queries, keys, values))
        attended = F.scaled_dot_product_attention(queries, keys, values, attn_mask=mask)  # [R, H, n, d/H]
        return attended.transpose(1, 2)[packing.sequence, column]


def attend(q: Tensor, k: Tensor, v: Tensor, packing: Packing, causal: bool) -> Tensor:
    """Attention within each packed sequence; q, k, v and the answer are [T, H, d/H]."""
    if not q.is_cuda and q.dtype == torch.bfloat16:  # on a CPU its backward pass would be several times slower
        with torch.autocast(q.device.type, enabled=False):
            return attend(q.float(), k.float(), v.float(), packing, causal).to(q.dtype)
    if isinstance(packing, ContextPacking):
        return _attend_after_contexts(q, k, v, packing)
    if packing.row:
        return _attend_rows(q, k, v, packing, causal)
    if _has_packed_kernel(q):
        return _attend_packed(q, packing, k, v, packing, causal)
    return _attend_padded(q, k, v, packing, causal)


def attend_to(q: Tensor, asking: Packing, k: Tensor, v: Tensor, read: Packing) -> Tensor:
    """Attention of each packed sequence of q [T, H, d/H] to the sequence of k and v [S, H, d/H] of the same number."""
    if _has_packed_kernel(q):
        return _attend_packed(q, asking, k, v, read, causal=False)
    queries, keys, values = (
        packing.padded(part).transpose(1, 2) for part, packing in ((q, asking), (k, read), (v, read))
    )
    inside = torch.arange(read.longest, device=q.device) < read.lengths[:, None]  # [B, S]
    attended = F.scaled_dot_product_attention(queries, keys, values, attn_mask=inside[:, None, None])  # [B, H, n, d/H]
    return attended.transpose(1, 2)[asking.sequence, asking.position]


def _has_packed_kernel(q: Tensor) -> bool:
    return q.is_cuda and q.dtype in (torch.bfloat16, torch.float16)


def _attend_packed(q: Tensor, asking: Packing, k: Tensor, v: Tensor, read: Packing, causal: bool) -> Tensor:
    from torch.nn.attention.varlen import varlen_attn

    window = {"window_size": (-1, 0)} if causal else {}
    return varlen_attn(q, k, v, asking.starts, read.starts, asking.longest, read.longest, **window)


def _attend_after_contexts(q: Tensor, k: Tensor, v: Tensor, packing: ContextPacking) -> Tensor:
    contexts = len(packing.contexts.sequence)  # symbols
    among = attend(*(part[:contexts] for part in (q, k, v)), packing.contexts, causal=False)
    keys, values = (part.index_select(0, packing.source) for part in (k, v))  # [S, H, d/H]
    return torch.cat((among, attend_to(q[contexts:], packing.after, keys, values, packing.read)))


def _attend_rows(q: Tensor, k: Tensor, v: Tensor, packing: Packing, causal: bool) -> Tensor:
    """Within rows of several short sequences: a mask keeps them apart."""
    row = next(size for size in ROWS if size == packing.row)  # the same number, but a constant to a compiler
    q, k, v = (part.unflatten(0, (-1, row)).transpose(1, 2) for part in (q, k, v))  # [R, H, S, d/H]
    sequence, position = (part.view(-1, row) for part in (packing.sequence, packing.position))  # [R, S]
    mask = sequence[:, :, None] == sequence[:, None]  # [R, S, S]; what is left over attends to itself
    if causal:
        mask = mask & (position[:, None] <= position[:, :, None])
    # Not cuDNN's attention, which takes 10 ms to get ready for every new number of rows.
    with sdpa_kernel([SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]) if q.is_cuda else nullcontext():
        attended = F.scaled_dot_product_attention(q, k, v, attn_mask=mask[:, None])  # [R, H, S, d/H]
    return attended.transpose(1, 2).flatten(0, 1)


def _attend_padded(q: Tensor, k: Tensor, v: Tensor, packing: Packing, causal: bool) -> Tensor:
    """The same where there is no kernel for packed sequences: pad, attend, and take the padding out again."""
    batch, longest = len(packing), packing.longest
    if len(q) == batch * longest:  # nothing to pad: all are of one length, as the drafts of one text are
        q, k, v = (part.view(batch, longest, *part.shape[1:]).transpose(1, 2) for part in (q, k, v))  # [B, H, L, d/H]
        return F.scaled_dot_product_attention(q, k, v, is_causal=causal).transpose(1, 2).flatten(0, 1)
    place = packing.sequence * longest + packing.position  # [T] in the padded, flattened batch
    padded = q.new_zeros(3, batch * longest, *q.shape[1:])
    padded[:, place] = torch.stack((q, k, v))
    q, k, v = padded.view(3, batch, longest, *q.shape[1:]).transpose(2, 3)  # each [B, H, L, d/H]
    column = torch.arange(longest, device=q.device)
    inside = column < packing.lengths[:, None]  # [B, L]
    mask = inside[:, None, None]  # [B, 1, 1, L]: keys beyond the end are not attended to
    if causal:
        mask = mask & (column <= column[:, None])
    attended = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)  # [B, H, L, d/H]
    return attended.transpose(1, 2).flatten(0, 1)[place]


def drop_words(embedding: nn.Embedding, symbols: Tensor, share: float, kept: Tensor | None = None) -> Tensor:
    """The vectors [T, d] of ``symbols`` [T]; in training a ``share`` of the words has none.

    Blanks, <eos> and what is ``kept`` [T] have theirs: a sequence of nothing but zeros stays zero in every layer, and
    each of its norms would multiply gradients by a few hundred.
    """
    vectors = embedding(symbols)
    if not (embedding.training and share):
        return vectors
    lost = torch.rand(len(symbols), device=vectors.device) < share  # [T]
    lost = lost & (symbols != BLANK) & (symbols != EOS)
    if kept is not None:
        lost = lost & ~kept
    return vectors.masked_fill(lost[:, None], 0.0)


def rotary_angles(position: Tensor, head_width: int) -> tuple[Tensor, Tensor]:
    """cos and sin [T, 1, d/H / 2] of position times frequency."""
    if position.is_meta:  # a model that is only counted; arithmetic there would import torch's compiler
        return (torch.empty(len(position), 1, (head_width + 1) // 2),) * 2
    angle = position[:, None, None] * frequencies(head_width, position.device)
    return angle.cos(), angle.sin()


def frequencies(width: int, device: torch.device | None = None) -> Tensor:
    """[d/2] radians a position, by which the pairs of a vector of this width turn."""
    return 10000.0 ** (-torch.arange(0, width, 2, device=device) / width)


def rotate(x: Tensor, rotary: tuple[Tensor, Tensor]) -> Tensor:
    """Turn each pair (x_i, x_{i + d/2H}) of x [T, H, d/H] by its position's angle: q.k depends on distance alone."""
    cos, sin = (part.to(x.dtype) for part in rotary)
    first, second = x.chunk(2, dim=-1)  # each [T, H, d/H / 2]
    return torch.cat((first * cos - second * sin, second * cos + first * sin), dim=-1)


def initialise(module: nn.Module) -> None:
    """How every model's matrices begin: small and random."""
    if isinstance(module, nn.Linear | nn.Embedding):
        nn.init.normal_(module.weight, std=0.02)
    if isinstance(module, nn.Linear) and module.bias is not None:
        nn.init.zeros_(module.bias)
