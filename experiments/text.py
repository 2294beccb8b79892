"""The text of the laboratory models: its vocabulary, and chapters of books as tokens, some of them held out."""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

import numpy as np
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
PAD, UNK, CLS, SEP, MASK = range(5)
MIN_CHAPTER_TOKENS = 700
#: One chapter in so many is held out.
HELD_OUT_EVERY = 20


@dataclass(frozen=True)
class Corpus:
    """Token ids of the chapters to train on, and of those that training never sees."""

    chapters: list[np.ndarray]
    held_out: list[np.ndarray]


def read_texts(books: Path) -> Iterator[str]:
    """The text of every chapter of a `.jsonl.gz` file with the field `text`."""
    with gzip.open(books, "rt", encoding="utf-8") as lines:
        for line in lines:
            yield json.loads(line)["text"]


def tokenise(texts: Iterator[str], tokenizer: Tokenizer) -> list[np.ndarray]:
    """Ids of all chapters of at least `MIN_CHAPTER_TOKENS` tokens."""
    encoded = (np.array(tokenizer.encode(text, add_special_tokens=False).ids, np.int16) for text in texts)
    return [ids for ids in encoded if len(ids) >= MIN_CHAPTER_TOKENS]


def split(chapters: list[np.ndarray]) -> Corpus:
    """Every twentieth chapter is held out."""
    return Corpus(
        [ids for i, ids in enumerate(chapters) if i % HELD_OUT_EVERY],
        [ids for i, ids in enumerate(chapters) if i % HELD_OUT_EVERY == 0],
    )


def open_corpus(cache: Path, books: Path, tokenizer: Tokenizer) -> Corpus:
    """The tokenised text, from the `.npz` file `cache` if it was made from the same text and vocabulary."""
    made_of = sha256(books.read_bytes()).hexdigest() + sha256(tokenizer.to_str().encode()).hexdigest()
    if cache.exists():
        with np.load(cache) as kept:
            if str(kept["made_of"]) == made_of:
                return split(np.split(kept["ids"], kept["ends"][:-1]))
    chapters = tokenise(read_texts(books), tokenizer)
    # the name holds the process id, because both models of a pair may write at the same time
    part = cache.with_name(f"{cache.stem}.{os.getpid()}.npz")
    np.savez(
        part, made_of=made_of, ids=np.concatenate(chapters), ends=np.cumsum([len(ids) for ids in chapters])
    )
    part.replace(cache)
    return split(chapters)


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
