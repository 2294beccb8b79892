"""The engine gives sentence-transformers' own embeddings, whatever runs with what."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sentence_transformers import SentenceTransformer

import mteb_longembed as longembed
from mteb_longembed.encoders import batching, devices
from mteb_longembed.encoders.model import LongSentenceTransformer
from mteb_longembed.errors import CapacityError, InputError, NumberError
from tests import tiny
from tests.limits import same_vectors

#: Short and long documents, equal lengths, equal texts, an empty one.
TEXTS = [tiny.text(n, seed) for seed, n in enumerate([5, 16, 17, 64, 64, 64, 40, 3, 16, 100, 200, 31])]
TEXTS += [TEXTS[3], "", TEXTS[0]]


@pytest.fixture(scope="module", params=["none", "pi", "pcw"])
def extended(request: pytest.FixtureRequest, base: SentenceTransformer) -> LongSentenceTransformer:
    return longembed.extend(base, request.param)


def plainly(extended: LongSentenceTransformer, texts: list[str], **kwargs: object) -> list[torch.Tensor]:
    """Each text alone through sentence-transformers' own loop."""
    defaults = {
        "prompt": None, "batch_size": 1, "show_progress_bar": False, "output_value": "sentence_embedding",
        "save_to_cpu": True, "normalize_embeddings": False, "truncate_dim": None,
    }  # fmt: skip
    return [SentenceTransformer._inference(extended, [text], **{**defaults, **kwargs})[0] for text in texts]


def test_embeddings_equal_those_of_sentence_transformers_with_and_without_prompts(extended) -> None:
    encoders = {
        None: extended.encode,
        "query : ": extended.encode_query,
        "passage : ": extended.encode_document,
    }
    vectors = [encode(TEXTS) for encode in encoders.values()]
    for prompt, got in zip(encoders, vectors, strict=True):
        assert np.allclose(got, torch.stack(plainly(extended, TEXTS, prompt=prompt)), atol=1e-5)
    assert not np.allclose(vectors[1], vectors[2], atol=1e-3)


def test_every_option_of_encode_works(extended: LongSentenceTransformer) -> None:
    plain = extended.encode(TEXTS)
    same_vectors(extended.encode(TEXTS, truncate_dim=8), plain[:, :8])
    unit = extended.encode(TEXTS, normalize_embeddings=True, truncate_dim=8)
    assert np.allclose(np.linalg.norm(unit, axis=1), 1, atol=1e-5)
    assert extended.encode(TEXTS, precision="binary").shape == (len(TEXTS), 3)
    assert torch.equal(extended.encode(TEXTS, convert_to_tensor=True), torch.from_numpy(plain))
    assert isinstance(extended.encode(TEXTS, convert_to_numpy=False), list)
    assert extended.encode(TEXTS[0]).shape == (24,)
    assert extended.encode([]).shape == (0,)


def test_token_embeddings_have_the_documents_own_lengths(extended: LongSentenceTransformer) -> None:
    tokens = extended.encode(TEXTS, output_value="token_embeddings")
    stock = plainly(extended, TEXTS, output_value="token_embeddings")
    for ours, theirs in zip(tokens, stock, strict=True):
        assert torch.allclose(ours, theirs, atol=1e-5)


def test_all_features_of_each_document_are_given_for_output_value_none(base: SentenceTransformer) -> None:
    extended = longembed.extend(base, "pi")
    features = extended.encode(TEXTS, output_value=None)
    same_vectors(torch.stack([f["sentence_embedding"] for f in features]), extended.encode(TEXTS))
    assert int(features[1]["attention_mask"].sum()) == 16


def test_other_inputs_than_texts_go_to_sentence_transformers(base: SentenceTransformer) -> None:
    with pytest.raises(Exception, match=r"(?i)modalit|support|str"):
        longembed.extend(base, "pi").encode([{"image": 3}])


@pytest.mark.parametrize(("kind", "key"), [("bert", "pi"), ("qwen3", "ntk"), ("qwen3", "pcw")])
def test_a_text_beyond_the_target_is_refused_in_one_sentence(kind, key, tmp_path):
    base = tiny.sentence_transformer(kind, tmp_path, num_key_value_heads=4, name="local/tiny")
    model = longembed.extend(base, key, 64, 16)
    model.max_seq_length = 9999
    with pytest.raises(InputError, match=r"at most 64 tokens, .* got 100: set max_seq_length to at most 64"):
        model.encode(tiny.text(100))
    model.max_seq_length = 20
    assert model.backbone.max_input_len == 20


# ---- several processes -------------------------------------------------------------------------------------


def test_a_pool_of_processes_gives_the_same_embeddings(base: SentenceTransformer) -> None:
    extended = longembed.extend(base, "pi")
    expected = extended.encode(TEXTS)
    pool = extended.start_multi_process_pool(["cpu"])
    try:
        assert np.allclose(extended.encode(TEXTS, pool=pool, chunk_size=4), expected, atol=1e-5)
        tokens = extended.encode(TEXTS, pool=pool, chunk_size=4, output_value="token_embeddings")
        assert [len(t) for t in tokens][:3] == [5, 16, 17]
    finally:
        extended.stop_multi_process_pool(pool)


# ---- batches -----------------------------------------------------------------------------------------------

lengths = st.lists(st.integers(1, 300), max_size=80)
limits = st.tuples(st.integers(1, 1000), st.integers(1, 40))


@given(lengths, limits)
def test_batches_hold_every_document_once_and_keep_to_their_limits(lengths, limits) -> None:
    tokens, batch_size = limits
    batches = batching.plan(lengths, tokens, batch_size)
    assert sorted(i for batch in batches for i in batch) == list(range(len(lengths)))
    for batch in batches:
        lens = [lengths[i] for i in batch]
        padded = len(batch) * max(lens)
        assert len(batch) <= batch_size
        assert len(batch) == 1 or padded <= tokens
        assert padded <= tokens // 6 or padded <= 1.1 * sum(lens) + 1e-6


@given(lengths, limits, st.randoms())
def test_the_lengths_in_each_batch_do_not_depend_on_the_order_of_documents(lengths, limits, random) -> None:
    shuffled = random.sample(lengths, len(lengths))
    first = [[lengths[i] for i in batch] for batch in batching.plan(lengths, *limits)]
    assert first == [[shuffled[i] for i in batch] for batch in batching.plan(shuffled, *limits)]


# ---- memory ------------------------------------------------------------------------------------------------


class Allocator:
    """Fails like torch's CPU allocator where a batch holds more tokens than fit."""

    def __init__(self, extended, tokens, monkeypatch):
        self.seen: list[int] = []
        self.failed: list[int] = []
        original = type(extended[0]).forward

        def forward(module: object, features: dict, **kwargs: object) -> dict:
            size = features["input_ids"].numel()
            if size > tokens:
                self.failed.append(size)
                message = "can't allocate memory: you tried to allocate 5368709120 bytes."
                raise RuntimeError(f"DefaultCPUAllocator: {message}")
            self.seen.append(size)
            return original(module, features, **kwargs)

        monkeypatch.setattr(type(extended[0]), "forward", forward)


def test_a_batch_that_does_not_fit_is_halved_and_its_size_tried_again_by_the_next_call(base, monkeypatch):
    texts = [tiny.text(64, seed) for seed in range(40)]
    extended = longembed.extend(base, "pi")
    expected = extended.encode(texts)
    monkeypatch.setattr(devices, "TOKENS_A_THREAD", 2000)
    allocator = Allocator(extended, 300, monkeypatch)
    assert np.allclose(extended.encode(texts), expected, atol=1e-5)
    assert sum(allocator.seen) == 40 * 64
    assert len(allocator.failed) <= 3
    failures = len(allocator.failed)
    extended.encode(texts)  # one lack of memory says nothing about the next call
    assert len(allocator.failed) == 2 * failures


def test_one_document_that_does_not_fit_is_named_with_its_tokens_and_the_memory_it_needs(base, monkeypatch):
    extended = longembed.extend(base, "pi")
    Allocator(extended, 100, monkeypatch)
    message = r"a document of 128 tokens does not fit .* to allocate 5368709120 bytes"
    with pytest.raises(CapacityError, match=message):
        extended.encode(TEXTS)


def test_other_errors_are_not_taken_for_lack_of_memory() -> None:
    triton = type("OutOfResources", (Exception,), {})
    for lack in (
        torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB"),
        RuntimeError("std::bad_alloc"),
        *(RuntimeError(f"error: {name}_STATUS_ALLOC_FAILED when calling") for name in ("CUBLAS", "CUDNN")),
        triton("out of resource: shared memory, Required: 163840"),
        MemoryError(),
    ):
        assert batching.is_out_of_memory(lack)
    assert not batching.is_out_of_memory(RuntimeError("shapes do not match"))


# ---- numbers ----------------------------------------------------------------------------------------------


def test_a_document_that_overflows_in_half_precision_is_named_with_a_remedy(base) -> None:
    extended = longembed.extend(base, "pi")
    inner = extended[0].model
    word = extended.tokenizer("aa")["input_ids"][1]
    with torch.no_grad():
        inner.embeddings.word_embeddings.weight[word, 0] = 6e4
        inner.embeddings.token_type_embeddings.weight[0, 0] = 3e4
    assert np.isfinite(extended.encode(["aa"])).all()
    inner.to(torch.float16)
    with pytest.raises(NumberError, match=r"a document \(3 tokens, .* overflow where dtype=fp32 does not"):
        extended.encode([tiny.text(20, 1), "aa"])


def test_a_document_that_is_not_finite_is_named(base: SentenceTransformer) -> None:
    extended = longembed.extend(base, "pi")
    word = extended.tokenizer("aa")["input_ids"][1]
    with torch.no_grad():
        extended[0].model.embeddings.word_embeddings.weight[word, 0] = float("nan")
    extended.encode([tiny.text(9)])
    with pytest.raises(NumberError, match=r"a document \(4 tokens, starting with 'aa b'\) is not, so"):
        extended.encode(["b", "aa b", "cc"])


# ---- progress ---------------------------------------------------------------------------------------------


def test_nothing_is_printed_unless_a_bar_is_requested(base, capfd) -> None:
    model = longembed.extend(base, "pi")
    model.encode(TEXTS)
    assert capfd.readouterr() == ("", "")
    model.encode(TEXTS, show_progress_bar=True)
    assert "Encoding" in capfd.readouterr().err
