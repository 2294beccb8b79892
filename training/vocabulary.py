"""The WordPiece vocabulary that both models share."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
PAD, UNK, CLS, SEP, MASK = range(5)


def train_vocabulary(texts: Iterable[str], vocab_size: int) -> Tokenizer:
    """Lower-cased WordPiece with BERT's special tokens, so that stock BERT classes read it."""
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]", max_input_chars_per_word=100))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    trainer = trainers.WordPieceTrainer(
        vocab_size=vocab_size, special_tokens=SPECIAL, limit_alphabet=200, show_progress=False
    )
    tokenizer.train_from_iterator(texts, trainer)
    tokenizer.decoder = decoders.WordPiece(prefix="##")
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", CLS), ("[SEP]", SEP)],
    )
    return tokenizer


def open_vocabulary(path: Path, texts: Iterable[str], vocab_size: int) -> Tokenizer:
    """The vocabulary in `path`. If the file does not exist, it is trained on `texts` and written.

    Training breaks ties at random and gives a different vocabulary each time. To train the models that ship again,
    put the `tokenizer.json` of one of them at `path`.
    """
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        train_vocabulary(texts, vocab_size).save(str(path))
    return Tokenizer.from_file(str(path))
