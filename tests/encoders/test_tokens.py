"""Ids of cut texts equal the ids of full tokenisation, for every kind of tokenizer in use; sampled documents."""

import functools
import random
import tracemalloc

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tokenizers import Regex, Tokenizer, normalizers, pre_tokenizers, processors, trainers
from transformers import PreTrainedTokenizerFast

from mteb_longembed.encoders.tokens import Cutter, cutter_of, estimated_tokens, sample_texts
from mteb_longembed.given import without_surrogates as cleaned
from tests import miniatures, tiny

PROSE = (
    "It was the best of times, it wasn't the worst: they'll say so, won't they? \"Surely,\" she said -- "
    "1,234 people\nhad come by 12:30.\n\n  Indented   lines\tand tabs; naïve café Straße ΣΊΣΥΦΟΣ résumé. "
    "日本語の文章です。中文没有空格。한국어 문장입니다. العربية من اليمين. "
    "👩\u200d👩\u200d👧\u200d👦🇩🇪🇫🇷 def f(x): return x_1 ** 2  # code\n"
)
GPT4 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|"
    r"\s+(?!\S)|\s+"
)


def _wordpiece() -> Tokenizer:
    raw = tiny.tokenizer().backend_tokenizer
    special = ["[CLS]", "[PAD]", "[SEP]", "[UNK]", "[MASK]"]
    raw.train_from_iterator([PROSE], trainers.WordPieceTrainer(vocab_size=400, special_tokens=special))
    return raw


def _byte_level(split: str | None = None) -> Tokenizer:
    raw = miniatures.byte_bpe(cls=True).backend_tokenizer
    raw.normalizer = normalizers.NFC()
    if split is not None:
        bytes_ = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
        parts = [pre_tokenizers.Split(Regex(split), "isolated"), bytes_]
        raw.pre_tokenizer = pre_tokenizers.Sequence(parts)
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    special = ["[CLS]", "[PAD]", "<|eos|>", "[UNK]", "<|endoftext|>"]
    trainer = trainers.BpeTrainer(vocab_size=700, initial_alphabet=alphabet, special_tokens=special)
    raw.train_from_iterator([PROSE], trainer)
    # as ModernBERT: runs of spaces and placeholders are tokens of their own
    raw.add_tokens(["  ", "   ", "    ", "|||EMAIL_ADDRESS|||"])
    return raw


def _unigram() -> Tokenizer:
    raw = miniatures.unigram().backend_tokenizer
    raw.normalizer = normalizers.Sequence([normalizers.NFKC(), normalizers.Replace(Regex(" {2,}"), " ")])
    parts = [pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace(prepend_scheme="always")]
    raw.pre_tokenizer = pre_tokenizers.Sequence(parts)
    special = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    trainer = trainers.UnigramTrainer(vocab_size=250, special_tokens=special, unk_token="<unk>")
    raw.train_from_iterator([PROSE] * 3, trainer)
    return raw


def _without_words() -> Tokenizer:
    """As Gemma and Mistral: spaces become characters and nothing is pre-tokenised."""
    raw = miniatures.llama_bpe().backend_tokenizer
    raw.normalizer = normalizers.Replace(" ", "▁")
    raw.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="never")
    special = ["<s>", "<pad>", "</s>", "<unk>", *(f"<0x{byte:02X}>" for byte in range(256))]
    raw.train_from_iterator([PROSE], trainers.BpeTrainer(vocab_size=800, special_tokens=special))
    raw.pre_tokenizer, raw.model.fuse_unk = None, True
    return raw


MAKERS = {
    "WordPiece": _wordpiece,
    "byte-level BPE": _byte_level,
    "byte-level BPE, GPT-4 pattern": functools.partial(_byte_level, GPT4),
    "Unigram": _unigram,
    "BPE without pre-tokens": _without_words,
}


@functools.cache
def tokenizer(kind: str) -> PreTrainedTokenizerFast:
    return PreTrainedTokenizerFast(tokenizer_object=MAKERS[kind](), pad_token="[PAD]")


@functools.cache
def cutter(kind: str) -> Cutter:
    made = cutter_of(tokenizer(kind))
    assert made is not None
    return made


def full(kind: str, text: str, max_len: int) -> list[int]:
    return tokenizer(kind)(text, truncation=True, max_length=max_len)["input_ids"]


kinds = pytest.mark.parametrize("kind", MAKERS)
SPACES = [" ", "   ", "\n", "\r\n", "\t", "\xa0", "\u3000", "\u200b", "\u200d", "\ufeff", "\x00", "\u202e"]
MARKS = [
    "́", "ȩ́", "á", "ﬁ", "Å", "ᄀ", "ᅡ", "각", "ﷺ", "🇩", "👩\u200d👧", "️", "日本", "語", "ไทย", "हिन्दी", "עברית",
    "▁", "▁▁",
]  # fmt: skip
ASCII = [
    "'", "'l", "'ll", "won't", "'re", "-", "...", "[SEP]", "</s>", "<mask>", "<|endoftext|>", "12", "345",
    "1,", "word", "Words", "##ing",
]  # fmt: skip
NASTY = [*SPACES, *MARKS, *ASCII, " <mask>", "|||EMAIL_ADDRESS|||", " word", "x" * 40, "a b"]
nasty_text = st.lists(st.sampled_from(NASTY) | st.text(max_size=8), max_size=120).map("".join)


def test_a_tokenizer_that_pads_and_cuts_by_its_file_reads_no_more_than_others() -> None:
    raw = Tokenizer.from_str(tokenizer("WordPiece").backend_tokenizer.to_str())
    raw.enable_padding(length=128)
    raw.enable_truncation(100)
    made = cutter_of(PreTrainedTokenizerFast(tokenizer_object=raw, pad_token="[PAD]"))
    assert made is not None
    (ids,) = made([PROSE * 20], 256)
    assert ids.tolist() == full("WordPiece", PROSE * 20, 256)


@kinds
@pytest.mark.parametrize("max_len", [4, 16, 64, 256])
def test_ids_of_prose_equal_full_tokenisation(kind: str, max_len: int) -> None:
    draw = random.Random(max_len)
    words = PROSE.split(" ")
    texts = [" ".join(draw.choices(words, k=k)) for k in (0, 1, 5, 50, 500, 5000)]
    assert [ids.tolist() for ids in cutter(kind)(texts, max_len)] == [full(kind, t, max_len) for t in texts]


@kinds
@settings(max_examples=25, deadline=None)
@given(text=nasty_text, repeat=st.integers(1, 4), max_len=st.integers(2, 40))
@example(text="a" + "\u0323\u0301" * 400, repeat=2, max_len=5)
@example(text="x" * 5000, repeat=1, max_len=8)
@example(text="日本語" * 500, repeat=1, max_len=9)
@example(text="they'll " * 300, repeat=1, max_len=11)
@example(text="|||EMAIL_ADDRESS|||" * 60, repeat=1, max_len=7)
@example(text=" " * 4000, repeat=1, max_len=7)
@example(text="🇩🇪" * 900, repeat=1, max_len=6)
@example(text="one " + "x" * 4000, repeat=1, max_len=6)
@example(text=" x" * 40 + "🇩🇪" * 900, repeat=1, max_len=90)
def test_ids_of_nasty_text_equal_full_tokenisation(kind: str, text: str, repeat: int, max_len: int) -> None:
    text = cleaned(text) * repeat
    assert cutter(kind)([text], max_len)[0].tolist() == full(kind, text, max_len)


@kinds
def test_only_the_start_of_a_long_text_is_read_if_the_tokenizer_splits_words(kind: str) -> None:
    cut = cutter(kind)
    read: list[int] = []

    class Backend:
        def encode_batch_fast(self, pieces: list[str], **kwargs: object) -> object:
            read.extend(map(len, pieces))
            return cut._backend.encode_batch_fast(pieces, **kwargs)

    spied = Cutter.__new__(Cutter)
    spied.__dict__ = {**cut.__dict__, "_backend": Backend()}
    spied([PROSE * 1000], 64)
    assert (sum(read) < 3000 < len(PROSE * 1000)) == (kind != "BPE without pre-tokens")


def test_a_lone_surrogate_is_read_as_the_replacement_character() -> None:
    with_surrogate = "best \ud800 of"
    assert cleaned(with_surrogate) == "best \ufffd of" and cleaned("\ud83d\ude00") == "😀"
    ids = cutter("byte-level BPE")([with_surrogate], 64)[0].tolist()
    assert ids == full("byte-level BPE", "best \ufffd of", 64)


def test_left_truncation_and_types_of_special_tokens_are_left_to_the_tokenizer_itself() -> None:
    left = PreTrainedTokenizerFast(tokenizer_object=_wordpiece(), truncation_side="left")
    raw, special = _wordpiece(), [("[CLS]", 0), ("[SEP]", 2)]
    raw.post_processor = processors.TemplateProcessing(single="[CLS]:1 $A:0 [SEP]:0", special_tokens=special)
    typed = PreTrainedTokenizerFast(tokenizer_object=raw)
    assert cutter_of(left) is cutter_of(typed) is None


def test_a_cutter_is_made_once_and_again_when_tokens_are_added() -> None:
    tok = PreTrainedTokenizerFast(tokenizer_object=_wordpiece())
    first = cutter_of(tok)
    assert first is cutter_of(tok)
    tok.add_tokens(["worst:"])
    ids = cutter_of(tok)([PROSE], 32)[0].tolist()
    assert ids == tok(PROSE, truncation=True, max_length=32)["input_ids"]


def test_a_tokenizer_that_is_changed_in_place_is_read_anew() -> None:
    tok = PreTrainedTokenizerFast(tokenizer_object=_wordpiece())
    before = cutter_of(tok)(["Best OF Times"], 32)[0].tolist()
    tok.backend_tokenizer.normalizer = normalizers.Sequence(
        [normalizers.Lowercase(), normalizers.Replace("e", "")]
    )
    after = cutter_of(tok)(["Best OF Times"], 32)[0].tolist()
    assert after == tok("Best OF Times", truncation=True, max_length=32)["input_ids"] != before


# ---- drawing documents -------------------------------------------------------------------------------------

NUMBERED = [f"{number} " * (number % 7 + 1) for number in range(60)]


def drawn_by_hand(texts: list[str], longest: int, max_tokens: int, seed: int) -> list[str]:
    """Documents in a random order until they have enough tokens, in the order of the corpus."""
    numbers = np.random.default_rng(seed).random(len(texts))
    chosen = []
    n_tokens = 0
    for place in np.argsort(numbers):
        if n_tokens >= max_tokens:
            break
        chosen.append(place)
        n_tokens += min(estimated_tokens(texts[place]), longest)
    return [texts[place] for place in sorted(chosen)]


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("max_tokens", [1, 20, 100, 10_000])
@pytest.mark.parametrize("longest", [3, 100])
def test_a_reservoir_is_a_random_order_that_ends_once_it_has_its_tokens(seed, max_tokens, longest) -> None:
    texts, n_documents = sample_texts(iter(NUMBERED), longest, max_tokens, seed)
    assert texts == drawn_by_hand(NUMBERED, longest, max_tokens, seed)
    assert n_documents == len(NUMBERED)


def test_a_text_that_the_model_reads_in_part_counts_as_that_part() -> None:
    long = ["word " * 1000] * 20
    assert len(sample_texts(long, 50, max_tokens=500)[0]) == 10
    assert len(sample_texts(long, None, max_tokens=500)[0]) == 1


def test_memory_does_not_depend_on_the_length_of_a_stream() -> None:
    peaks = []
    for n in (3_000, 15_000):
        tracemalloc.start()
        texts, n_documents = sample_texts(
            (f"document {number} of many" for number in range(n)), None, max_tokens=5_000
        )
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        assert n_documents == n and 500 < len(texts) < 1_000
    assert peaks[1] < 1.2 * peaks[0]
