"""Miniatures of the zoo's models: the same class, files and kind of tokenizer, but tiny sizes.

Sizes that change positions (table rows, rope parameters, layer kinds) are as in the originals.
"""

import functools
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Dense, Normalize, Pooling, Transformer
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from transformers import PreTrainedTokenizerFast, T5EncoderModel

from tests import tiny

TEXT = ["the quick brown fox jumps over the lazy dog", "pack my box with five dozen liquor jugs"] * 20


def wordpiece() -> PreTrainedTokenizerFast:
    return tiny.tokenizer(512)


def _trained(raw, trainer: Any, special: list[str], single: str, **more: Any) -> PreTrainedTokenizerFast:
    """A tokenizer trained on `TEXT`. `special` begins with the tokens for the start, padding and the end."""
    raw.train_from_iterator(TEXT, trainer)
    start, pad, end, *_ = special
    raw.post_processor = processors.TemplateProcessing(single=single, special_tokens=[(start, 0), (end, 2)])
    names = {"model_max_length": 512, "pad_token": pad, "eos_token": end, **more}
    return PreTrainedTokenizerFast(tokenizer_object=raw, **names)


def unigram(cls: str | None = "<s>") -> PreTrainedTokenizerFast:
    """The kind of XLM-R. Without `cls`, the kind of T5."""
    raw = Tokenizer(models.Unigram())
    raw.normalizer = normalizers.NFKC()
    raw.pre_tokenizer = pre_tokenizers.Metaspace()
    raw.decoder = decoders.Metaspace()
    special = ["<s>", "<pad>", "</s>", "<unk>"]
    how = {"vocab_size": 90, "special_tokens": special, "unk_token": "<unk>", "show_progress": False}
    names = {"cls_token": cls, "sep_token": "</s>", "bos_token": cls} if cls else {}
    single = f"{cls} $A </s>" if cls else "$A </s>"
    return _trained(raw, trainers.UnigramTrainer(**how), special, single, unk_token="<unk>", **names)


def byte_bpe(cls: bool = False) -> PreTrainedTokenizerFast:
    """The kind of Qwen and ModernBERT: byte-level BPE."""
    raw = Tokenizer(models.BPE())
    raw.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    raw.decoder = decoders.ByteLevel()
    special = ["[CLS]", "[PAD]", "<|eos|>", "[UNK]"]
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    how = {"vocab_size": 320, "special_tokens": special, "initial_alphabet": alphabet, "show_progress": False}
    names = {"cls_token": "[CLS]", "model_max_length": 10**6}
    single = "[CLS] $A <|eos|>" if cls else "$A <|eos|>"
    return _trained(raw, trainers.BpeTrainer(**how), special, single, **names)


def llama_bpe() -> PreTrainedTokenizerFast:
    """The kind of Mistral and Gemma: BPE over the whole text with byte fallback. Only `<s>` is added."""
    raw = Tokenizer(models.BPE(byte_fallback=True, unk_token="<unk>"))
    raw.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    special = ["<s>", "<pad>", "</s>", "<unk>", *(f"<0x{byte:02X}>" for byte in range(256))]
    trainer = trainers.BpeTrainer(vocab_size=330, special_tokens=special, show_progress=False)
    names = {"bos_token": "<s>", "unk_token": "<unk>", "model_max_length": 10**30}
    return _trained(raw, trainer, special, "<s> $A", **names)


cls_bpe = functools.partial(byte_bpe, cls=True)


@dataclass(frozen=True)
class Miniature:
    """How to build one: configuration, tokenizer, and the modules after the transformer (None: no modules.json)."""

    model_type: str
    tokenizer: Callable[[], PreTrainedTokenizerFast] = wordpiece
    pooling: str | None = "mean"
    dense: tuple[int, ...] = ()
    max_seq_length: int | None = 512
    prompts: dict[str, str] = field(default_factory=dict)
    config: dict[str, Any] = field(default_factory=dict)


BERT = {"max_position_embeddings": 512}
XLMR = {"max_position_embeddings": 514, "pad_token_id": 1}
LONG_XLMR = XLMR | {"max_position_embeddings": 8194}
MODERNBERT = {"max_position_embeddings": 8192, "num_hidden_layers": 4, "local_attention": 128}
T5 = BERT | {"d_model": 32, "d_kv": 8, "d_ff": 64, "num_layers": 2, "num_heads": 4}
CAUSAL = {"num_key_value_heads": 2, "head_dim": 8, "max_position_embeddings": 32768}
MISTRAL = CAUSAL | {"sliding_window": 4096}
QWEN = {"prompts": {"query": "Instruct: find it\nQuery:", "document": ""}, "config": CAUSAL}
GEMMA = CAUSAL | {"sliding_window": 512, "num_hidden_layers": 6}
EMBEDDING_GEMMA = GEMMA | {"max_position_embeddings": 2048, "use_bidirectional_attention": True}

MINIATURES: dict[str, Miniature] = {
    "e5-base": Miniature("bert", config=BERT),
    "e5-base-4k": Miniature("bert", pooling=None, config={"max_position_embeddings": 4096}),
    "gte-base": Miniature("bert", config=BERT),
    "bge-base": Miniature("bert", pooling="cls", config=BERT),
    "contriever": Miniature("bert", pooling=None, config=BERT),
    "gtr-base": Miniature("t5", lambda: unigram(cls=None), dense=(24,), config=T5),
    "e5-mistral": Miniature("mistral", llama_bpe, "lasttoken", max_seq_length=4096, config=MISTRAL),
    "nomic-v1": Miniature("nomic_bert", max_seq_length=8192, config={"max_position_embeddings": 8192}),
    "bge-m3": Miniature("xlm-roberta", unigram, "cls", max_seq_length=8192, config=LONG_XLMR),
    "modernbert-embed": Miniature("modernbert", cls_bpe, max_seq_length=8192, config=MODERNBERT),
    "qwen3-0.6b": Miniature("qwen3", byte_bpe, "lasttoken", max_seq_length=32768, **QWEN),
    "embeddinggemma": Miniature(
        "gemma3_text",
        llama_bpe,
        dense=(64, 32),
        max_seq_length=2048,
        prompts={"query": "task: search result | query: ", "document": "title: none | text: "},
        config=EMBEDDING_GEMMA,
    ),
    "me5-base": Miniature("xlm-roberta", unigram, config=XLMR),
    "nemotron3-1b": Miniature("ministral3", llama_bpe, max_seq_length=32768, config=CAUSAL),
    "harrier-270m": Miniature("gemma3_text", llama_bpe, "lasttoken", max_seq_length=32768, config=GEMMA),
}


def build(alias: str, folder: Path) -> Path:
    """Save the miniature of an alias in the form of its hub repository."""
    mini = MINIATURES[alias]
    config = {"tokens": mini.tokenizer(), "initializer_range": 0.2, **mini.config}
    inner_folder = tiny.transformer(mini.model_type, folder / "inner", **config)
    if mini.model_type == "t5":  # its repository holds the encoder alone
        T5EncoderModel.from_pretrained(inner_folder).save_pretrained(inner_folder)
    if mini.pooling is None:
        return inner_folder
    inner = Transformer(str(inner_folder), max_seq_length=mini.max_seq_length)
    width = inner.get_embedding_dimension()
    modules: list[torch.nn.Module] = [inner, Pooling(width, mini.pooling)]
    for out in mini.dense:
        modules.append(Dense(width, out, bias=False))
        width = out
    modules.append(Normalize())
    model = SentenceTransformer(modules=modules, device="cpu", prompts=mini.prompts)
    model.save_pretrained(str(folder / "whole"), create_model_card=False)
    return folder / "whole"
