"""A model that is fitted on documents: every form equals a slow oracle, and the saved model needs none of our code."""

import copy
import math
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from mteb.models import SentenceTransformerEncoderWrapper
from sentence_transformers import SentenceTransformer
from sentence_transformers.base.modules import Router
from sentence_transformers.sentence_transformer.modules import Pooling, StaticEmbedding
from sklearn.covariance import LedoitWolf

import mteb_longembed as longembed
from mteb_longembed.encoders.card import adapted_card
from mteb_longembed.encoders.tokens import sample_texts
from mteb_longembed.encoders.weights import LEAST_IDF, NO_WEIGHT, SIF_A, TokenCounts, idf
from mteb_longembed.encoders.whitening import Whitening, sampled_rows, unit
from mteb_longembed.encoders.windows import vector_spans
from mteb_longembed.errors import IncompatibleError, InputError, ModelError
from tests import tiny
from tests.encoders.test_rotary import gap

#: Some words are in many documents, and some documents are longer than the model was trained on.
CORPUS = [f"aa {tiny.text(6 + 5 * i, i)} aa bb {'cc' if i % 2 else 'dd'}" for i in range(8)]
TEXTS = [*CORPUS[3:7], "aa", "zz zz aa"]
QUERIES = ["aa cc", "never seen", "dd aa"]
#: fp32 unit vectors of width 32.
ROUNDING = 2e-6


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model without prompts."""
    return tiny.saved("bert", tmp_path_factory.mktemp("plain"))


def weigh(base: Any, corpus: list[str] = CORPUS, rule: str = "sif") -> Any:
    """A model with weights alone, on the CPU, without a bar."""
    return tiny.adapted(base, corpus, weights=rule, whiten=0)


def contents(model: Any, texts: list[str], prompt: str = "") -> list[list[int]]:
    """The ids of each text's own tokens, as far as the model reads it."""
    tokenizer = model.tokenizer
    room = (model.max_seq_length or 10**6) - 2 - len(tokenizer.tokenize(prompt))
    return [tokenizer(text, add_special_tokens=False)["input_ids"][:room] for text in texts]


def slow_weights(documents: list[list[int]], rule: str, prompts: tuple[int, ...] = ()) -> Any:
    """Weights by plain counting: token id -> weight. The tokens of prompts stand in every document."""
    documents = [[*row, *prompts] for row in documents]
    tokens = Counter(token for row in documents for token in row)
    rows = Counter(token for row in documents for token in set(row))
    total = sum(tokens.values())

    def sif(token: int) -> float:
        return SIF_A / (SIF_A + max(tokens[token], 1) / total)

    def idf(token: int) -> float:
        return max(math.log((len(documents) + 1) / (max(rows[token], 1) + 0.5)), LEAST_IDF)

    return {"sif": sif, "idf": idf}[rule]


def prompt_ids(model: Any) -> tuple[int, ...]:
    """The tokens of a model's own prompts."""
    texts = [text for text in model.prompts.values() if text]
    return tuple(
        token for text in texts for token in model.tokenizer(text, add_special_tokens=False)["input_ids"]
    )


def weighted_mean(states: Any, weights: list[float]) -> np.ndarray:
    """In fp64, of length 1."""
    rows = np.asarray(torch.as_tensor(states), np.float64)
    total = sum(weight * row for weight, row in zip(weights, rows, strict=True))
    return total / np.linalg.norm(total)


@pytest.mark.parametrize("rule", ["sif", "idf"])
@pytest.mark.parametrize("tail", ["", "+none", "+pi@64"])
def test_weights_are_those_of_plain_counting(plain: Path, tail: str, rule: str) -> None:
    model = weigh(f"{plain}{tail}", rule=rule)
    weight = slow_weights(contents(model, CORPUS), rule)
    table = model[1].emb_layer.weight[:, 0].tolist()
    special = {model.tokenizer.cls_token_id, model.tokenizer.sep_token_id, model.tokenizer.pad_token_id}
    for token in range(len(table)):
        want = NO_WEIGHT if token in special or token == model.tokenizer.mask_token_id else weight(token)
        assert table[token] == pytest.approx(want, rel=1e-6)
    # other readers find weights by the token's text
    vocabulary = model.tokenizer.get_vocab()
    assert [model[1].vocab[token] for token in vocabulary.values()] == list(vocabulary)


def test_special_tokens_have_almost_no_weight_and_some_in_half_precision() -> None:
    assert NO_WEIGHT == 1e-7 and float(torch.tensor(NO_WEIGHT).half()) > 0


#: Whole documents, windows of the trained length and shorter ones.
FORMS = ["+none", "+pi@64", "+pcw@64", "+pcw@64:size=12"]


@pytest.mark.parametrize("tail", FORMS)
def test_one_vector_is_the_weighted_mean_of_all_tokens(folder: Path, tail: str) -> None:
    model: Any = longembed.load(f"{folder}{tail}", device="cpu")
    weighed = weigh(model)
    weight = slow_weights(contents(model, CORPUS, tiny.PROMPTS["document"]), "sif", prompt_ids(model))
    for texts, prompt in ((TEXTS, tiny.PROMPTS["document"]), (QUERIES, tiny.PROMPTS["query"]), (TEXTS, "")):
        n_prompt = 2 if prompt else 0
        states = model.encode(texts, prompt=prompt, output_value="token_embeddings")
        got = weighed.encode(texts, prompt=prompt)
        for text, rows, vector in zip(texts, states, got, strict=True):
            (ids,) = contents(model, [text], prompt)
            # a prompt is left out, with the special token before it
            before = [0.0] * 3 if n_prompt else [NO_WEIGHT]
            weights = [*before, *(weight(token) for token in ids), NO_WEIGHT]
            assert gap(vector, weighted_mean(rows, weights)) < ROUNDING


@pytest.mark.parametrize("tail", ["+pi@64:vectors=5", "+pcw@64:vectors=5"])
def test_a_vector_of_a_span_is_the_weighted_mean_of_its_tokens(folder: Path, tail: str) -> None:
    model: Any = longembed.load(f"{folder}{tail.replace(':vectors=5', '')}", device="cpu")
    weighed = weigh(f"{folder}{tail}")
    prompt = tiny.PROMPTS["document"]
    weight = slow_weights(contents(model, CORPUS, prompt), "sif", prompt_ids(model))
    states = model.encode(TEXTS, prompt=prompt, output_value="token_embeddings")
    for text, rows, vectors in zip(TEXTS, states, weighed.encode_document(TEXTS), strict=True):
        (ids,) = contents(model, [text], prompt)
        want = []
        for start in range(0, len(ids), 5):
            part = ids[start : start + 5]
            tokens = rows[3 + start : 3 + start + len(part)]
            want.append(weighted_mean(tokens, [weight(token) for token in part]))
        assert gap(vectors, want) < ROUNDING
    query = model.encode(QUERIES, prompt=tiny.PROMPTS["query"], output_value="token_embeddings")
    for text, rows, vectors in zip(QUERIES, query, weighed.encode_query(QUERIES), strict=True):
        (ids,) = contents(model, [text], tiny.PROMPTS["query"])
        want = weighted_mean(rows[3:], [*(weight(token) for token in ids), NO_WEIGHT])
        assert gap(vectors[0], want) < ROUNDING
    # a span of characters is one of their tokens
    spans = vector_spans(weighed, TEXTS[1])[0].tolist()
    (got,) = longembed.encode_spans(weigh(model), [TEXTS[1]], [spans])
    assert gap(got, weighed.encode_document(TEXTS[1])) < ROUNDING


@pytest.mark.parametrize("size", [16, 12])
def test_a_vector_of_a_window_is_the_weighted_mean_of_its_tokens(plain: Path, size: int) -> None:
    name = f"{plain}+pcw@64:size={size},vectors=window"
    weighed = weigh(name)
    stock = SentenceTransformer(str(plain), device="cpu")
    tokenizer = stock.tokenizer
    weight = slow_weights(contents(weighed, CORPUS), "sif")
    for text, vectors in zip(TEXTS, weighed.encode_document(TEXTS), strict=True):
        (ids,) = contents(weighed, [text])
        room = size - 2
        starts = list(range(0, max(len(ids) - room, 0) + room, room)) if len(ids) > room else [0]
        starts = [min(start, max(len(ids) - room, 0)) for start in starts]
        assert len(vectors) == len(starts)
        for vector, start in zip(vectors, starts, strict=True):
            part = ids[start : start + room]
            row = torch.tensor([[tokenizer.cls_token_id, *part, tokenizer.sep_token_id]])
            with torch.inference_mode():
                states = stock[0].model(row, attention_mask=torch.ones_like(row)).last_hidden_state[0]
            weights = [NO_WEIGHT, *(weight(token) for token in part), NO_WEIGHT]
            assert gap(vector, weighted_mean(states, weights)) < ROUNDING


@pytest.mark.parametrize("base", ["plain", "folder"])
def test_a_saved_model_without_a_strategy_opens_in_stock_sentence_transformers(base, tmp_path, request):
    folder = request.getfixturevalue(base)
    model = weigh(folder)
    model.save_pretrained(str(tmp_path / "saved"))
    stock = SentenceTransformer(str(tmp_path / "saved"), device="cpu")
    assert [type(part).__module__.split(".")[0] for part in stock] == ["sentence_transformers"] * 4
    ours = weigh(f"{folder}+none")
    for method in ("encode_document", "encode_query"):
        want = getattr(stock, method)([*TEXTS, ""])
        assert gap(getattr(model, method)([*TEXTS, ""]), want) < ROUNDING
        assert gap(getattr(ours, method)([*TEXTS, ""]), want) < ROUNDING
    card = (tmp_path / "saved" / "README.md").read_text()
    assert f"tokens are weighted by their corpus frequency (sif), by {len(CORPUS)} documents" in card


@pytest.mark.parametrize("tail", ["+pi@64", "+pcw@64:size=12,vectors=window", "+pi@64:vectors=5"])
def test_a_saved_model_with_a_strategy_gives_the_same_vectors(folder: Path, tail: str, tmp_path) -> None:
    model = weigh(f"{folder}{tail}")
    model.save_pretrained(str(tmp_path / "saved"))
    loaded: Any = longembed.load(tmp_path / "saved", device="cpu")
    for want, got in zip(model.encode_document(TEXTS), loaded.encode_document(TEXTS), strict=True):
        assert gap(got, want) < ROUNDING
    card = (tmp_path / "saved" / "README.md").read_text()
    assert "Tokens are weighted by their frequency in one corpus." in card
    assert len(card) < 10_000


def test_the_base_is_not_changed(plain: Path) -> None:
    base: Any = longembed.load(f"{plain}+pcw@64:size=12", device="cpu")
    before = base.encode(TEXTS)
    name = base.model_card_data.model_name
    weigh(base)
    assert np.array_equal(base.encode(TEXTS), before) and base.model_card_data.model_name == name


def test_a_stream_gives_the_model_of_its_sampled_documents_and_a_warning(plain, caplog) -> None:
    sampled, _ = sample_texts(CORPUS, 64, max_tokens=40, seed=1)
    assert 0 < len(sampled) < len(CORPUS)
    want = tiny.adapted(f"{plain}+pi@64", sampled)
    assert "sampled with seed" not in caplog.text
    got = tiny.adapted(f"{plain}+pi@64", iter(CORPUS), max_tokens=40, seed=1)
    assert gap(got.encode(TEXTS), want.encode(TEXTS)) == 0
    assert f"{len(sampled)} of {len(CORPUS)} documents, sampled with seed 1" in caplog.text


@pytest.mark.parametrize(
    ("documents", "settings", "message"),
    [
        ([], {}, "needs? a corpus with at least 1 token, got 0"),
        (["", " "], {}, "needs? a corpus with at least 1 token, got 0"),
        ("one text", {}, "^documents must be texts in a list or another iterable, got a str"),
        ({"a": "text"}, {}, "^documents must be texts in a list or another iterable, got a dict"),
        (["text", None], {}, "^documents must be texts, got a NoneType at index 1: give a text"),
        ([{"text": "a"}], {}, "^documents must be texts, got a dict at index 0"),
        (CORPUS, {"weights": "tfidf"}, "^weights must be one of sif, idf, or None, got 'tfidf'"),
        (CORPUS, {"whiten": 2}, "^whiten must be a number above 0 and at most 1 .such as 0.5., got 2"),
        (CORPUS, {"whiten": -0.5}, "^whiten must be a number above 0"),
    ],
)
def test_what_cannot_be_fitted_is_one_sentence(plain: Path, documents, settings, message) -> None:
    with pytest.raises(InputError, match=message):
        tiny.adapted(plain, documents, **settings)


def test_a_base_whose_weights_are_damaged_is_one_sentence(tmp_path: Path) -> None:
    folder = tiny.saved("bert", tmp_path / "base")
    (weights,) = folder.rglob("model.safetensors")
    weights.write_bytes(weights.read_bytes()[:100])
    with pytest.raises(ModelError, match=r"the model in .* cannot be loaded: SafetensorError"):
        longembed.adapt(folder, ["a text"])


def test_what_is_no_model_cannot_be_fitted() -> None:
    with pytest.raises(
        InputError, match=r"^adapt takes a name, a folder or a SentenceTransformer, got a int"
    ):
        tiny.adapted(3, CORPUS)


def test_any_iterable_of_texts_is_taken(plain: Path) -> None:
    column = pd.Series([*CORPUS, ""])
    filtered = column[column != ""].iloc[::-1].iloc[::-1]
    want = tiny.adapted(plain, CORPUS).encode(TEXTS)
    for given in (iter(CORPUS), filtered, dict(enumerate(CORPUS)).values()):
        assert np.array_equal(tiny.adapted(plain, given).encode(TEXTS), want)


def test_a_weighed_model_is_not_weighed_again(plain: Path) -> None:
    model = weigh(plain)
    with pytest.raises(IncompatibleError, match="has corpus weights already"):
        weigh(model)


def test_an_end_token_that_also_stands_for_unknown_words_has_no_weight(tmp_path: Path) -> None:
    tokens = tiny.tokenizer()
    tokens.unk_token = tokens.sep_token  # as in Qwen
    folder = tiny.transformer("bert", tmp_path, tokens=tokens)
    model = weigh(longembed.extend(folder, "none", device="cpu"), ["aa bb", "bb cc"])
    end = model.tokenizer.convert_tokens_to_ids("[SEP]")
    assert model[1].emb_layer.weight[end].item() == pytest.approx(NO_WEIGHT)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_a_text_without_known_words_keeps_the_bases_vector_in_every_precision(plain, dtype):
    for base in (
        SentenceTransformer(str(plain), device="cpu"),
        longembed.extend(plain, "none", device="cpu"),
    ):
        base.to(dtype)
        adapted = weigh(base, ["aa bb", "bb cc"])
        # unknown words count, and the special tokens around them do not
        texts = ["", "[MASK] [MASK]", "日本"]
        before, after = (model.encode(texts, convert_to_tensor=True).float() for model in (base, adapted))
        assert torch.isfinite(after).all()
        assert ((before * after).sum(1) > torch.tensor([0.99, 0.99, 0.95])).all()


# ---- whitening ---------------------------------------------------------------------------------------------


def slow_whitening(rows: np.ndarray, power: float) -> tuple[np.ndarray, np.ndarray]:
    """Mean and matrix by scikit-learn's class and a power of the covariance."""
    fitted = LedoitWolf().fit(rows.astype(np.float64))
    values, vectors = np.linalg.eigh(fitted.covariance_)
    return fitted.location_, (vectors * values ** (-power / 2)) @ vectors.T


def as_unit(rows: np.ndarray) -> np.ndarray:
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def test_dimensions_stand_by_falling_variance_and_their_signs_are_fixed() -> None:
    rng = np.random.default_rng(2)
    rows = rng.standard_normal((500, 8)) * np.array([1, 9, 2, 8, 3, 7, 4, 6])
    matrix = Whitening.fit(rows, 0.5).matrix
    variances = ((rows - rows.mean(0)) @ matrix).var(0)
    assert (np.diff(variances) <= 0).all() and variances[0] > 2 * variances[-1]
    assert (matrix[np.abs(matrix).argmax(0), np.arange(8)] > 0).all()


@pytest.mark.parametrize(("pooling", "prompts"), [("mean", None), ("cls", tiny.PROMPTS)])
def test_vectors_are_mapped_by_mean_and_covariance_of_what_the_model_reads(
    tmp_path, pooling, prompts, caplog
) -> None:
    folder = tiny.saved("bert", tmp_path, pooling=pooling, prompts=prompts)
    model = tiny.adapted(folder, CORPUS, weights=None)
    base = SentenceTransformer(str(folder), device="cpu")
    raw = SentenceTransformer(modules=list(base)[:-1], prompts=base.prompts, device="cpu")
    mean, matrix = slow_whitening(raw.encode_document(CORPUS), 0.5)  # of the text that it reads
    for method in ("encode_document", "encode_query"):
        want = as_unit((getattr(raw, method)(TEXTS) - mean) @ matrix)
        got = getattr(model, method)(TEXTS)
        assert np.abs(got @ got.T - want @ want.T).max() < 1e-4  # the same up to a rotation
    model.save_pretrained(str(tmp_path / "saved"))
    stock = SentenceTransformer(str(tmp_path / "saved"), device="cpu")
    assert gap(stock.encode_document(TEXTS), model.encode_document(TEXTS)) < ROUNDING
    assert {type(part).__module__.split(".")[0] for part in stock} == {"sentence_transformers"}


@pytest.mark.parametrize(
    ("settings", "documents", "message"),
    [
        ({"pooling": "cls"}, CORPUS, "the model has cls pooling, so tokens get no weights"),
        ({"dense": True, "prompts": tiny.PROMPTS}, CORPUS, "a Dense with an activation behind its pooling"),
        ({}, CORPUS[:5], "below 50 vectors or 12 documents it may lose"),
    ],
)
def test_what_limits_a_fit_is_told(settings, documents, message, tmp_path, caplog) -> None:
    with caplog.at_level("WARNING"):
        model = tiny.adapted(tiny.saved("bert", tmp_path, **settings), documents)
    assert message in caplog.text
    weighs = "WordWeights" in [type(part).__name__ for part in model]
    assert weighs == ("pooling" not in settings)


@pytest.mark.parametrize("corpus", [["one text"], ["the same"] * 5])
def test_a_corpus_without_differences_changes_nothing_and_says_so(plain: Path, corpus, caplog) -> None:
    base = SentenceTransformer(str(plain), device="cpu")
    with caplog.at_level("WARNING"):
        model = tiny.adapted(plain, corpus, weights=None)
    got = "1" if len(corpus) == 1 else "5 equal ones"
    assert f"whitening needs two different vectors, got {got}: it changes nothing" in caplog.text
    assert gap(model.encode(TEXTS), as_unit(base.encode(TEXTS))) < ROUNDING


# ---- one model behind both doors ---------------------------------------------------------------------------


@pytest.mark.parametrize("tail", ["+none", "+pcw@128", "+pcw@128:size=12", "+pi@128"])
def test_adapt_and_a_name_with_whiten_are_one_model(plain: Path, tail: str) -> None:
    corpus = [tiny.text(20 + 7 * n, 300 + n) for n in range(14)]
    model = tiny.adapted(f"{plain}{tail}", corpus, weights=None)
    separator = "," if ":" in tail else ":"
    searcher = longembed.search(f"{plain}{tail}{separator}whiten=0.5", device="cpu")
    searcher.add([f"d{n:02}" for n in range(len(corpus))], corpus)
    questions = [tiny.text(9, 900 + n) for n in range(5)]
    want = model.encode_query(questions) @ model.encode_document(corpus).T
    for question, row in zip(questions, want, strict=True):
        hits = {hit.id: hit.score for hit in searcher.search(question, k=len(corpus))}
        got = np.array([hits[f"d{n:02}"] for n in range(len(corpus))])
        assert np.abs(got - row).max() < 1e-4


@pytest.mark.filterwarnings("ignore:The fill_missing parameter:DeprecationWarning")  # of mteb itself
def test_two_adapted_models_of_one_base_have_two_revisions(plain: Path) -> None:
    def adapted(documents: list[str]) -> Any:
        return tiny.adapted(str(plain), documents)

    one, other, again = adapted(CORPUS), adapted(CORPUS[:5]), adapted(CORPUS)
    revisions = [model.model_card_data.base_model_revision for model in (one, other, again)]
    assert revisions[0] == revisions[2] != revisions[1]
    assert SentenceTransformerEncoderWrapper(one).mteb_model_meta.revision == revisions[0]


@pytest.mark.parametrize("tail", ["", "+none"])
def test_a_map_is_fitted_on_whole_vectors_and_then_cut(plain: Path, tail: str) -> None:
    load = longembed.load if tail else SentenceTransformer
    base: Any = load(f"{plain}{tail}", device="cpu")
    base.truncate_dim = 8
    model: Any = tiny.adapted(base, CORPUS, weights=None)
    whole: Any = tiny.adapted(f"{plain}{tail}", CORPUS, weights=None)
    assert np.abs(model.encode(TEXTS) - whole.encode(TEXTS, truncate_dim=8)).max() < 1e-5


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_a_map_stays_in_full_precision(plain: Path, tmp_path: Path, dtype: str) -> None:
    model: Any = tiny.adapted(f"{plain}+none:dtype={'bf16' if dtype == 'bfloat16' else 'fp16'}", CORPUS)
    assert np.isfinite(model.encode(TEXTS)).all()
    assert {p.dtype for part in list(model)[1:] for p in part.parameters()} == {torch.float32}
    stock: Any = tiny.adapted(str(plain), CORPUS)
    stock.to(getattr(torch, dtype))
    assert np.isfinite(stock.encode(TEXTS, convert_to_numpy=False)[0].float().numpy()).all()
    stock.save_pretrained(str(tmp_path / "cast"))
    assert np.isfinite(SentenceTransformer(str(tmp_path / "cast"), device="cpu").encode(TEXTS)).all()


def test_static_embeddings_and_two_routes_are_whitened(plain: Path) -> None:
    tokenizer = SentenceTransformer(str(plain), device="cpu").tokenizer
    static = StaticEmbedding(tokenizer.backend_tokenizer, embedding_dim=16)
    route = [SentenceTransformer(str(plain), device="cpu")[0], Pooling(32, "mean")]
    two = Router.for_query_document(query_modules=route, document_modules=copy.deepcopy(route))
    for modules in ([static], [two]):
        base = SentenceTransformer(modules=modules, device="cpu")
        model: Any = tiny.adapted(base, CORPUS)
        mean, matrix = slow_whitening(base.encode_document(CORPUS), 0.5)
        want = as_unit((base.encode_document(TEXTS) - mean) @ matrix)
        got = model.encode_document(TEXTS)
        assert np.abs(got @ got.T - want @ want.T).max() < 1e-4


def test_the_card_of_an_adapted_model_keeps_base_and_tag_and_links_no_path(plain, tmp_path) -> None:
    model: Any = tiny.adapted(str(plain), CORPUS)
    model.save_pretrained(str(tmp_path / "saved"))
    card = (tmp_path / "saved" / "README.md").read_text()
    assert "corpus-adapted" in card and "huggingface.co" not in card and str(plain.parent) not in card
    assert "corpus-adapted" in longembed.extend(model, "pi", 64).model_card_data.tags
    text = adapted_card("local/x", "intfloat/e5-base-v2", "how")
    assert "base_model: intfloat/e5-base-v2" in text
    assert "(https://huggingface.co/intfloat/e5-base-v2)" in text


# ---- constants that the docs quote


def test_a_token_of_every_document_has_the_least_idf() -> None:
    assert idf(TokenCounts(np.array([1000]), np.array([1000]), 1000)).tolist() == [0.05]


def test_a_direction_without_variance_is_enlarged_tenfold_at_most() -> None:
    """The least shrinkage is 0.01, and full whitening divides by the root."""
    rows = np.zeros((20_000, 2))
    rows[:, 0] = np.random.default_rng(0).normal(size=len(rows))
    assert np.abs(Whitening.fit(rows, 1.0).matrix).max() == pytest.approx(10, rel=1e-3)


def test_50000_vectors_are_sampled_with_a_fixed_seed() -> None:
    assert sampled_rows(50_000).tolist() == list(range(50_000))
    sampled = np.random.default_rng(0).choice(50_001, 50_000, replace=False)
    assert sampled_rows(50_001).tolist() == sorted(sampled.tolist())
    assert sampled_rows(3, most=2).tolist() == sorted(
        np.random.default_rng(0).choice(3, 2, replace=False).tolist()
    )


@pytest.mark.parametrize(
    "rows", [np.zeros((0, 2)), np.array([[0.6, 0.8]]), np.zeros((3, 2)), np.full((3, 2), -1e3)]
)
def test_vectors_without_differences_give_the_identity(rows: np.ndarray) -> None:
    made = Whitening.fit(rows, 1.0)
    assert made.mean.tolist() == [0, 0] and made.matrix.tolist() == [[1, 0], [0, 1]]


@pytest.mark.parametrize("power", [0.5, 1.0])
def test_a_map_of_two_numbers_is_that_by_hand(power: float) -> None:
    """Variances of 16 and 4 around (5, 7): their mean is 10, so that they count as 1.6 and 0.4."""
    rows = np.tile([[9.0, 9.0], [9.0, 5.0], [1.0, 9.0], [1.0, 5.0]], (2_000, 1))
    made = Whitening.fit(rows, power)
    assert made.mean.tolist() == [5, 7]
    variances = 0.99 * np.array([1.6, 0.4]) + 0.01  # the least shrinkage
    assert made.matrix == pytest.approx(np.diag(variances ** (-power / 2)), abs=1e-4)
    # training leaves the map as it was fitted
    assert not any(weight.requires_grad for module in made.modules() for weight in module.parameters())


def test_two_vectors_are_enough_for_a_map() -> None:
    made = Whitening.fit(np.array([[3.0, 1.0], [1.0, 1.0]]), 1.0)
    assert made.mean.tolist() == [2, 1]
    assert made.matrix == pytest.approx(np.diag([1.99**-0.5, 0.01**-0.5]))


def test_zeros_stay_zeros_and_other_rows_get_length_1() -> None:
    assert unit(np.array([[0.3, -0.4], [0.0, 0.0]])).tolist() == [pytest.approx([0.6, -0.8]), [0, 0]]
