"""Tiny pretrained encoders, saved as the Hub has them."""

import json
from pathlib import Path

import pytest
import torch
from tokenizers import Tokenizer as Backend
from tokenizers import models, pre_tokenizers, trainers

transformers = pytest.importorskip("transformers")
LINES = [
    "The food was really good, and we liked it.",
    "I will never come back (to this place)!",
    "They didn't have unbelievable ice cream; it was fine.",
]
TINY = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}


def publish(folder: Path, family: str) -> Path:
    """A folder as one finds it on the Hub: a tiny random encoder of a family, with a tokenizer of its kind."""
    if family in ("bert", "mpnet"):
        lowered = [line.lower() for line in LINES]
        specials = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "[unused1]"]
        if family == "mpnet":
            specials = ["<s>", "<pad>", "</s>", "<unk>", "[UNK]", "<mask>"]
        words = Backend(models.WordPiece(unk_token="[UNK]"))
        words.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
        words.train_from_iterator(lowered, trainers.WordPieceTrainer(vocab_size=90, special_tokens=specials))
        kind = transformers.BertTokenizerFast if family == "bert" else transformers.MPNetTokenizerFast
        tokenizer = kind(vocab=words.get_vocab(), do_lower_case=True)
    else:
        specials = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
        words = Backend(models.BPE())
        words.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        trainer = trainers.BpeTrainer(
            vocab_size=330, special_tokens=specials, initial_alphabet=pre_tokenizers.ByteLevel.alphabet()
        )
        words.train_from_iterator(LINES, trainer)
        parts = json.loads(words.to_str())["model"]
        tokenizer = transformers.RobertaTokenizerFast(
            vocab=parts["vocab"], merges=[tuple(merge) for merge in parts["merges"]]
        )
    config = {
        "bert": transformers.BertConfig,
        "roberta": transformers.RobertaConfig,
        "modernbert": transformers.ModernBertConfig,
        "mpnet": transformers.MPNetConfig,
    }[family]
    pad_id = tokenizer.pad_token_id
    extra = {"bos_token_id": 0, "eos_token_id": 2, "cls_token_id": 0, "sep_token_id": 2, "local_attention": 4}
    settings = TINY | {"max_position_embeddings": 40, "vocab_size": len(tokenizer), "pad_token_id": pad_id}
    torch.manual_seed(0)
    model = transformers.AutoModel.from_config(config(**settings | (extra if family == "modernbert" else {})))
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() > 1:
                parameter.mul_(5.0)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder
