"""`split`: windows of whole sentences or paragraphs, against a slow reading of the rule."""

import itertools
import random

import numpy as np
import pytest
import torch
from sentence_transformers import SentenceTransformer

import mteb_longembed as longembed
from mteb_longembed.encoders import boundaries
from mteb_longembed.encoders.store.store import EmbeddingStore
from mteb_longembed.encoders.tokenizing import IdCache, PrefixTokenizer
from mteb_longembed.errors import IncompatibleError, InputError
from mteb_longembed.retrieval.passages import passages_of
from tests import tiny
from tests.encoders.strategies.test_pcw import alone, finished
from tests.limits import same_vectors

#: What ends the parts that `split` keeps whole.
ENDS = {"sentence": ("! ", "? ", ".\n", "\n"), "paragraph": ("\n\n", "\n \n", "\u2029")}


def parts(seed: int, ends: tuple[str, ...]) -> list[str]:
    """Sentences or paragraphs of 1 to 40 words."""
    draw = random.Random(seed)
    lengths = draw.choices([1, 3, 5, 40], k=9)
    return [" ".join(draw.choices(tiny.WORDS[:200], k=n)) + draw.choice(ends) for n in lengths]


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
def test_windows_have_as_many_whole_parts_as_fit(base: SentenceTransformer, split, prompt):
    one = longembed.extend(base, "pcw", 512, size=12, split=split)
    several = longembed.extend(base, "pcw", 512, size=12, split=split, vectors="window")
    several.prompts = {"document": prompt}
    assert one.model_card_data.model_name == f"tiny/bert+pcw@512,size=12,split={split}"
    head = base.tokenizer(prompt)["input_ids"][:-1]
    texts = ["".join(parts(seed, ENDS[split])) for seed in range(6)]
    vectors = one.encode(texts, prompt=prompt), several.encode_document(texts, prompt=prompt)
    for seed, (text, mean, rows) in enumerate(zip(texts, *vectors, strict=True)):
        tokens = base.tokenizer(parts(seed, ENDS[split]), add_special_tokens=False)["input_ids"]
        windows = slow_windows(tokens, 11 - len(head))
        pooled = [alone(base, [*head, *window, 2]) for window in windows]
        assert np.abs(mean - finished(base, [torch.stack(pooled).mean(0)])[0]).max() < 1e-5
        assert np.abs(mean - one.encode(text, prompt=prompt)).max() < 1e-5
        assert np.abs(rows.numpy() - finished(base, pooled)).max() < 1e-5
        shown = [text[start:end] for start, end in passages_of(several, text)]
        assert base.tokenizer(shown, add_special_tokens=False)["input_ids"] == windows


def test_texts_with_equal_tokens_and_other_boundaries_have_rows_of_their_own(tmp_path):
    tiny.sentence_transformer("bert", tmp_path)
    lines = "\n".join(tiny.text(9, seed) for seed in range(8))
    model = longembed.load(f"{tmp_path / 'model'}+pcw:size=12,split=sentence", device="cpu")
    texts = (lines, lines.replace("\n", " "))
    alone = [model.encode(text) for text in texts]
    assert np.abs(alone[0] - alone[1]).max() > 1e-3
    model.store = EmbeddingStore(tmp_path / "store")
    for _ in range(2):
        same_vectors(np.stack([model.encode(text) for text in texts]), np.stack(alone))
    assert model.store.counts.rows_read == 2


def test_boundaries_do_not_depend_on_how_much_of_a_text_is_read():
    # the letter that decides about the first dot comes long after the tokens that are read
    for text, n in itertools.product(["ab cd. " + "1 , " * 300 + end for end in ("ef", "。")], (4, 7, 30)):
        cut, full = (
            PrefixTokenizer(tiny.tokenizer(), IdCache(), "sentence")([text], k)[0] for k in (n, 10**6)
        )
        assert cut.tolist()[:-1] == full.tolist()[: len(cut) - 1]


@pytest.mark.parametrize(
    "sentences",
    [
        ["It costs 3.14 etc. and more. ", "Yes!  ", 'He asked: "Why?" ', "She left.\n", "A.B. came"],
        ["Das ist z. ", "B. gut. ", "你好。", "今天好吗？“", "好!”", "好"],
        ["यह है। ", "वह है॥ ", "هل أنت؟ ", "نعم۔ ", "Да. ", "Нет… да\r\n", "Как"],
    ],
)
def test_sentences_are_those_of_unicode(sentences: list[str]):
    ends = [match.end() for match in boundaries._ENDS["sentence"].finditer("".join(sentences))]
    assert ends == list(itertools.accumulate(map(len, sentences[:-1])))


def test_what_cannot_be_split_is_refused(base, tmp_path):
    message = r"^pcw's overlap needs split=token, got overlap=2 with split=sentence"
    with pytest.raises(InputError, match=message):
        longembed.extend(base, "pcw", size=12, overlap=2, split="sentence")
    features = {"input_ids": torch.randint(10, 90, (1, 40)), "attention_mask": torch.ones(1, 40).long()}
    with pytest.raises(InputError, match=r"^split=paragraph needs texts and a tokenizer that gives offsets"):
        longembed.extend(base, "pcw", split="paragraph")(features)
    slow = tiny.sentence_transformer("bert", tmp_path)
    slow.tokenizer.split_special_tokens = True  # its texts go through the tokenizer itself
    with pytest.raises(IncompatibleError, match=r"^split=sentence needs texts that become plain token ids"):
        longembed.extend(slow, "pcw", split="sentence")
