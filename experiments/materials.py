"""Material for measurements of speed: random models of real sizes, English text with LongEmbed's lengths."""

import random
from pathlib import Path

import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Pooling, Transformer
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors, trainers
from transformers import (
    BertConfig,
    BertModel,
    JinaEmbeddingsV3Config,
    JinaEmbeddingsV3Model,
    PreTrainedModel,
    PreTrainedTokenizerFast,
)  # fmt: skip

import mteb_longembed

ESSAYS = Path(mteb_longembed.__file__).parent / "tasks" / "generated" / "data" / "essays"

#: Layers, width and heads of each size.
SIZES = {"tiny": (2, 128, 2), "small": (6, 384, 12), "base": (12, 768, 12)}

#: Characters of a document: mean and spread, as in the published data (Passkey: all lengths equally often).
MIXES: dict[str, tuple[int, ...]] = {
    "qmsum": (20_000, 35_000, 45_000, 52_000, 60_000, 75_000, 95_000),
    "narrativeqa": (120_000, 200_000, 270_000, 330_000, 420_000),
    "2wiki": (8_000, 20_000, 35_000, 45_000, 60_000),
    "passkey": (870, 1_740, 3_480, 6_960, 13_920, 27_840, 55_680, 111_360),
    "queries": (40, 60, 80, 120),
}


def sentences() -> list[str]:
    """The sentences of our essays."""
    texts = [essay.read_text(encoding="utf-8") for essay in ESSAYS.glob("*.txt")]
    return [
        sentence for text in sorted(texts) for sentence in text.replace("\n", " ").split(". ") if sentence
    ]


def documents(mix: str, n: int, seed: int = 0) -> list[str]:
    """`n` documents with the lengths of a mix. Each has different sentences."""
    draw, pool, lengths = random.Random(seed), sentences(), MIXES[mix]
    made = []
    for i in range(n):
        pieces: list[str] = []
        size = 0
        while size < lengths[i % len(lengths)]:
            pieces.append(draw.choice(pool))
            size += len(pieces[-1]) + 2
        made.append(". ".join(pieces)[: lengths[i % len(lengths)]])
    return made


def tokenizer(max_len: int) -> PreTrainedTokenizerFast:
    """A WordPiece tokenizer trained on the essays."""
    raw = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    raw.normalizer = normalizers.BertNormalizer(lowercase=True)
    raw.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    trainer = trainers.WordPieceTrainer(vocab_size=4000, special_tokens=special, show_progress=False)
    raw.train_from_iterator(sentences(), trainer)
    raw.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    names = {"pad_token": "[PAD]", "unk_token": "[UNK]", "cls_token": "[CLS]", "sep_token": "[SEP]"}
    return PreTrainedTokenizerFast(tokenizer_object=raw, model_max_length=max_len, **names)


def base_model(size: str, max_len: int, folder: str, device: str = "cpu") -> SentenceTransformer:
    """A BERT of this size with random weights and `max_len` positions, as plain sentence-transformers."""
    torch.manual_seed(0)
    config = BertConfig(**_shape(size), max_position_embeddings=max_len)
    return _saved(BertModel(config, add_pooling_layer=False), f"bert-{size}", max_len, folder, device)


def rotary_model(size: str, max_len: int, folder: str) -> SentenceTransformer:
    """A rotary encoder of this size (E5-RoPE's architecture) with random weights."""
    torch.manual_seed(0)
    shape = {**_shape(size), "max_position_embeddings": max_len, "pad_token_id": 0, "type_vocab_size": 2}
    model = JinaEmbeddingsV3Model(JinaEmbeddingsV3Config(**shape), add_pooling_layer=False)
    return _saved(model, f"rotary-{size}", max_len, folder)


def _shape(size: str) -> dict[str, int]:
    layers, width, heads = SIZES[size]
    return {
        "vocab_size": 4000, "num_hidden_layers": layers, "hidden_size": width, "num_attention_heads": heads,
        "intermediate_size": 4 * width,
    }  # fmt: skip


def _saved(
    model: PreTrainedModel, name: str, max_len: int, folder: str, device: str = "cpu"
) -> SentenceTransformer:
    model.save_pretrained(folder)
    tokenizer(max_len).save_pretrained(folder)
    pooling = Pooling(model.config.hidden_size, "mean")
    made = SentenceTransformer(modules=[Transformer(folder), pooling], device=device)
    made.model_card_data.model_name = f"benchmark/{name}"
    return made
