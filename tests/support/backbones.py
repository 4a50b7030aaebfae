"""Tiny pretrained encoders, saved as the Hub has them."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from tokenizers import Tokenizer as Backend
from tokenizers import decoders, models, pre_tokenizers, trainers

from blanklm.core.texts import Batch, pad

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


CAUSAL = {
    "llama": {"num_key_value_heads": 1, "rope_theta": 5000.0},
    "llama3": {
        "num_key_value_heads": 2,
        "rope_scaling": {
            "rope_type": "llama3",
            "factor": 8.0,
            "low_freq_factor": 1.0,
            "high_freq_factor": 4.0,
            "original_max_position_embeddings": 16,
        },
    },
    "qwen2": {"num_key_value_heads": 1},
    "qwen3": {"num_key_value_heads": 2, "head_dim": 12},
}


def publish_causal(folder: Path, family: str) -> Path:
    """A folder as one finds it on the Hub: a tiny random language model of a family, with byte-level BPE."""
    words = Backend(models.BPE())
    words.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    words.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=330, special_tokens=["<|end|>"], initial_alphabet=pre_tokenizers.ByteLevel.alphabet()
    )
    words.train_from_iterator([line + " In 1984!" for line in LINES], trainer)
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=words, eos_token="<|end|>")
    kind = {"llama": "Llama", "llama3": "Llama", "qwen2": "Qwen2", "qwen3": "Qwen3"}[family]
    settings = TINY | {"num_attention_heads": 4, "hidden_size": 32, "max_position_embeddings": 64}
    settings |= {"vocab_size": len(tokenizer), "eos_token_id": 0, "bos_token_id": 0} | CAUSAL[family]
    torch.manual_seed(0)
    model = getattr(transformers, f"{kind}ForCausalLM")(getattr(transformers, f"{kind}Config")(**settings))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(5.0) if parameter.dim() > 1 else parameter.add_(0.3 * torch.randn_like(parameter))
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def publish_tied(folder: Path, family: str) -> Path:
    """One that scores words by the vectors that it reads them as."""
    model = transformers.AutoModelForCausalLM.from_pretrained(publish_causal(folder, family))
    model.config.tie_word_embeddings = True
    model.tie_weights()
    model.save_pretrained(folder)
    return folder


def write_gguf(path: Path, folder: Path, architecture: str = "llama", **fields: str) -> Path:
    """The language model in a folder as a GGUF file: other names, and for Llama other rows of queries and keys."""
    import gguf

    model = transformers.AutoModel.from_pretrained(folder)
    config, words = model.config, transformers.AutoTokenizer.from_pretrained(folder).backend_tokenizer
    writer = gguf.GGUFWriter(path, architecture)
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_rope_freq_base(config.rope_parameters["rope_theta"])
    parts = json.loads(words.to_str())["model"]
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(fields.get("pre", "smollm"))
    writer.add_token_list(sorted(parts["vocab"], key=parts["vocab"].get))
    writer.add_token_merges([" ".join(pair) for pair in parts["merges"]])
    writer.add_eos_token_id(0)
    names = {
        "input_layernorm": "attn_norm", "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k",
        "self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_output", "post_attention_layernorm": "ffn_norm",
        "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down",
    }  # fmt: skip
    for name, weight in model.state_dict().items():
        rows = weight.numpy()
        heads = {"q_proj": config.num_attention_heads, "k_proj": config.num_key_value_heads}
        which = next((h for part, h in heads.items() if part in name and architecture == "llama"), None)
        if which and rows.ndim == 2:  # as llama.cpp converts them: the halves of each head interleaved
            rows = rows.reshape(which, 2, -1, rows.shape[1]).swapaxes(1, 2).reshape(rows.shape)
        for old, new in names.items():
            name = name.replace(old, new)
        name = name.replace("layers.", "blk.").replace("embed_tokens", "token_embd")
        writer.add_tensor("output_norm.weight" if name == "norm.weight" else name, rows)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def losses_of_training(model, texts, rate, steps):
    """Train on the texts, one batch a step; every parameter learns from the first step on."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=rate)
    losses = []
    for step in range(steps):
        fractions = torch.from_numpy(np.random.default_rng(step).random(len(texts)))
        loss = model.loss(model.prepare(Batch(*pad(texts), fractions, torch.arange(len(texts)) + 100 * step))).mean()
        optimizer.zero_grad()
        loss.backward()
        if step == 0:
            assert [name for name, p in model.named_parameters() if p.grad is None] == []
        optimizer.step()
        losses.append(loss.item())
    return losses
