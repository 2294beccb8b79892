"""`split`: windows of whole sentences or paragraphs, against a slow reading of the rule."""

from __future__ import annotations

import itertools
import random
from pathlib import Path

import numpy as np
import pytest
import torch
from sentence_transformers import SentenceTransformer

import mteb_longembed as longembed
from mteb_longembed.encoders import boundaries
from mteb_longembed.encoders.engine.tokenizing import CutTokenizer, IdCache
from mteb_longembed.encoders.store.store import EmbeddingStore
from mteb_longembed.errors import IncompatibleError, InputError
from mteb_longembed.retrieval.passages import passages_of
from tests import tiny
from tests.encoders.strategies.test_pcw import finished
from tests.limits import same_vectors

LO = tiny.TRAINED
#: Between the parts that `split` keeps whole, and between words.
JOINTS = {"sentence": ("! ", "? ", ".\n", "\n"), "paragraph": ("\n\n", "\n \n", "\u2029")}


def parts(seed: int, joints: tuple[str, ...]) -> list[str]:
    """Sentences or paragraphs of 1 to 40 words, with what stands between them."""
    draw = random.Random(seed)
    words = [word for word in tiny.WORDS[:400] if word.isalpha()]
    return [
        " ".join(draw.choices(words, k=draw.choice([1, 3, 5, 40]))) + draw.choice(joints) for _ in range(9)
    ]


def slow_windows(tokens: list[list[int]], room: int) -> list[list[int]]:
    """As many whole parts as fit; a longer one is cut by tokens, and what is left of it is a part."""
    windows: list[list[int]] = []
    window: list[int] = []
    for part in tokens:
        if len(window) + len(part) > room:
            windows += [window] if window else []
            while len(part) > room:
                windows.append(part[:room])
                part = part[room:]
            window = []
        window = window + part
    return [*windows, window]


@pytest.mark.parametrize("split", ["sentence", "paragraph"])
@pytest.mark.parametrize("prompt", ["", "passage : "])
def test_windows_have_as_many_whole_parts_as_fit(base: SentenceTransformer, tmp_path: Path, split, prompt):
    texts, wanted, passages = [], [], []
    for seed in range(6):
        pieces = parts(seed, JOINTS[split])
        tokens = [base.tokenizer(piece, add_special_tokens=False)["input_ids"] for piece in pieces]
        first, *_, last = base.tokenizer(prompt)["input_ids"], 2
        windows = slow_windows(tokens, 12 - len(first))
        pooled = []
        for window in windows:
            ids = torch.tensor([[*first[:-1], *window, last]])
            with torch.no_grad():
                out = base[1](base[0]({"input_ids": ids, "attention_mask": torch.ones_like(ids)}))
            pooled.append(out["sentence_embedding"][0])
        texts.append("".join(pieces))
        wanted.append(pooled)
        passages.append(windows)

    one = longembed.extend(base, "pcw", 512, size=12, split=split)
    several = longembed.extend(base, "pcw", 512, size=12, split=split, vectors="window")
    assert one.model_card_data.model_name == f"tiny/bert+pcw@512,size=12,split={split}"
    means = np.stack([finished(base, [torch.stack(pooled).mean(0)])[0] for pooled in wanted])
    together = one.encode(texts, prompt=prompt)
    assert np.abs(together - means).max() < 1e-5
    assert np.abs(np.stack([one.encode(text, prompt=prompt) for text in texts]) - means).max() < 1e-5
    for got, pooled in zip(several.encode_document(texts, prompt=prompt), wanted, strict=True):
        assert np.abs(got.numpy() - finished(base, pooled)).max() < 1e-5

    several.prompts = {"document": prompt, "query": ""}
    for text, windows in zip(texts, passages, strict=True):
        shown = [text[start:end] for start, end in passages_of(several, text)]
        assert [
            base.tokenizer(passage, add_special_tokens=False)["input_ids"] for passage in shown
        ] == windows

    one.save_pretrained(str(tmp_path / "saved"))
    same_vectors(longembed.load(tmp_path / "saved", device="cpu").encode(texts, prompt=prompt), together)


def test_texts_with_equal_tokens_and_other_boundaries_have_rows_of_their_own(tmp_path):
    tiny.sentence_transformer("bert", tmp_path)
    lines = "\n".join(tiny.text(9, seed) for seed in range(8))
    model = longembed.load(f"{tmp_path / 'model'}+pcw:size=12,split=sentence", device="cpu")
    alone = [model.encode(text) for text in (lines, lines.replace("\n", " "))]
    assert np.abs(alone[0] - alone[1]).max() > 1e-3
    model.store = EmbeddingStore(tmp_path / "store")
    for _ in range(2):
        same_vectors(
            np.stack([model.encode(text) for text in (lines, lines.replace("\n", " "))]), np.stack(alone)
        )
    assert model.store.counts.rows_read == 2


def test_boundaries_do_not_depend_on_how_much_of_a_text_is_read():
    # the letter that decides about the first dot comes long after the tokens that are read
    texts = ["ab cd. " + "1 , " * 300 + end for end in ("ef", "。")] + [" ".join(parts(3, ("! ",)))]
    for text, n in itertools.product(texts, (4, 7, 30)):
        short, full = (
            CutTokenizer(tiny.tokenizer(), IdCache(), "sentence")([text], size)[0] for size in (n, 10**6)
        )
        assert short.tolist()[:-1] == full.tolist()[: len(short) - 1]


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        ("It costs 3.14 etc. and more. Yes!  No?", ["It costs 3.14 etc. and more. ", "Yes!  ", "No?"]),
        ('He asked: "Why?" She left.\nA.B. came', ['He asked: "Why?" ', "She left.\n", "A.B. came"]),
        (
            "Das ist z. B. gut. Über 5 Mio. Menschen.",
            ["Das ist z. ", "B. gut. ", "Über 5 Mio. ", "Menschen."],
        ),
        ("你好。今天好吗？“好!”好", ["你好。", "今天好吗？“", "好!”", "好"]),
        ("यह है। वह है॥ ठीक", ["यह है। ", "वह है॥ ", "ठीक"]),
        ("هل أنت؟ نعم۔ لا", ["هل أنت؟ ", "نعم۔ ", "لا"]),
        ("Да. Нет… да\r\nКак", ["Да. ", "Нет… да\r\n", "Как"]),
    ],
)
def test_sentences_are_those_of_unicode(text: str, sentences: list[str]):
    ends = [0, *(match.end() for match in boundaries._ENDS["sentence"].finditer(text)), len(text)]
    assert [text[a:b] for a, b in itertools.pairwise(dict.fromkeys(ends))] == sentences


def test_what_cannot_be_split_is_refused(base, tmp_path):
    with pytest.raises(
        InputError, match=r"^pcw's overlap needs split=token, got overlap=2 with split=sentence"
    ):
        longembed.extend(base, "pcw", size=12, overlap=2, split="sentence")
    model = longembed.extend(base, "pcw", split="paragraph")
    ids = torch.randint(10, 90, (1, 3 * LO))
    with pytest.raises(InputError, match=r"^split=paragraph needs texts and a tokenizer that gives offsets"):
        model({"input_ids": ids, "attention_mask": torch.ones_like(ids)})
    slow = tiny.sentence_transformer("bert", tmp_path)
    slow.tokenizer.split_special_tokens = True  # its texts go through the tokenizer itself
    with pytest.raises(IncompatibleError, match=r"^split=sentence needs texts that become plain token ids"):
        longembed.extend(slow, "pcw", split="sentence")
