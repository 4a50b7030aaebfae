"""The special tokens: the same four ids in every vocabulary, so that no file needs to look them up.

None of them is ever written into a blank. ``<unk>`` and ``<eos>`` are words of the text where a corpus has them,
so likelihoods count them; ``<pad>`` and ``<blank>`` have probability zero as words.
"""

PAD, BLANK, UNK, EOS = range(4)
SPECIAL_TOKENS = ("<pad>", "<blank>", "<unk>", "<eos>")
