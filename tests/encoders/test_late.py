"""Late interaction: token vectors of the whole document, each once, and everything behind them as in stock."""

import copy
import json
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from sentence_transformers import MultiVectorEncoder, SentenceTransformer
from sentence_transformers.multi_vector_encoder.losses import MultiVectorMultipleNegativesRankingLoss
from sentence_transformers.multi_vector_encoder.modules import HierarchicalTokenPooling
from sentence_transformers.sentence_transformer.modules import Transformer

import mteb_longembed
from mteb_longembed import load
from mteb_longembed.encoders.model import LongMultiVectorEncoder
from mteb_longembed.encoders.positions import ABSOLUTE, ROTARY
from mteb_longembed.encoders.strategies import STRATEGIES
from mteb_longembed.errors import IncompatibleError, InputError
from tests import tiny
from tests.encoders.strategies.test_pcw import slow_windows
from tests.limits import same_vectors

LO, LT = tiny.TRAINED, 8 * tiny.TRAINED
SHORT = ["", tiny.WORDS[3], f"{tiny.text(6)} , {tiny.WORDS[3]}", tiny.text(LO - 2)]
LONG = [tiny.text(n) for n in (LO - 1, LO + 1, 5 * LO, 60)]
EXPANSIONS = [
    None,
    {"strategy": "fixed", "attend": False, "length": 9},
    {"strategy": "fixed", "attend": True, "length": 12},
    {"strategy": "min", "attend": False, "length": 9},
]
#: A backbone with each kind of positions.
BACKBONES = {ABSOLUTE: "bert", ROTARY: "modernbert"}
CELLS = [(where, key) for where in BACKBONES for key, kind in STRATEGIES.items() if where.fits(kind)]


def of(model_type: str, folder: Path, **settings: object) -> MultiVectorEncoder:
    made = tiny.late(model_type, folder, **settings)
    made.model_card_data.model_name = "tiny/late"
    return made


def extended(base: MultiVectorEncoder, key: str, **params: object) -> LongMultiVectorEncoder:
    made = mteb_longembed.extend(base, key, LO if key == "none" else LT, LO, **params)
    assert isinstance(made, LongMultiVectorEncoder)
    return made


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> MultiVectorEncoder:
    return of("bert", tmp_path_factory.mktemp("late"))


@pytest.fixture(scope="module")
def stocks(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, int], MultiVectorEncoder]:
    """A model of each backbone with each expansion of queries. No test may change it."""

    @cache
    def made(model_type: str, expansion: int) -> MultiVectorEncoder:
        options = {"query_expansion": EXPANSIONS[expansion], "document_length": 11}
        return of(model_type, tmp_path_factory.mktemp("stock"), **options)

    return made


def equal(one: Sequence[torch.Tensor], two: Sequence[torch.Tensor]) -> bool:
    return all(torch.equal(a, b) for a, b in zip(one, two, strict=True))


def slow_documents(base: MultiVectorEncoder, text: str, size: int, overlap: int) -> torch.Tensor:
    """Each window by itself through the stock modules; each token from the first window that holds it."""
    words = base.tokenizer
    ids = words(base.prompts["document"] + text)["input_ids"]
    found: dict[int, torch.Tensor] = {}
    for window in slow_windows(len(ids), size, overlap, 3, 1):
        row = torch.tensor([[ids[place] for place in window]])
        with torch.inference_mode():
            features = {"input_ids": row, "attention_mask": torch.ones_like(row), "modality": "text"}
            vectors = base(features, task="document")["token_embeddings"][0]
        for place, vector in zip(window, vectors, strict=True):
            found.setdefault(place, vector)
    skipped = words.convert_tokens_to_ids([tiny.WORDS[3], ","])
    return torch.stack([found[place] for place in range(len(ids)) if ids[place] not in skipped])


# ---- each strategy --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("where", "key"), CELLS)
@pytest.mark.parametrize("expansion", range(len(EXPANSIONS)))
def test_queries_and_short_documents_are_those_of_stock(where, key, expansion, stocks):
    stock = stocks(BACKBONES[where], expansion)
    # on rotary positions ntk changes all inputs, unless it is told not to
    keep = {"short": "keep"} if (where, key) == (ROTARY, "ntk") else {}
    model = extended(stock, key, **keep)
    assert equal(model.encode_query(SHORT[1:]), stock.encode_query(SHORT[1:]))
    short = [tiny.text(n) for n in (3, 5, 8)]
    assert equal(model.encode_document(short), stock.encode_document(short))


@pytest.mark.parametrize(("size", "overlap"), [(LO, 0), (LO, 5), (9, 2)])
def test_windows_give_each_token_once_from_its_first_window(base, size, overlap):
    model = extended(base, "pcw", size=size, overlap=overlap)
    for text, got in zip(LONG, model.encode_document(LONG), strict=True):
        same_vectors(got, slow_documents(base, text, size, overlap))


@pytest.mark.parametrize(("where", "key"), [cell for cell in CELLS if not STRATEGIES[cell[1]].CUTS])
def test_tokens_of_other_strategies_are_those_of_a_dense_model_of_the_backbone(where, key, tmp_path):
    stock = of(BACKBONES[where], tmp_path)
    model = extended(stock, key)
    dense = SentenceTransformer(modules=[Transformer(str(tmp_path / "transformer"))], device="cpu")
    dense.model_card_data.model_name = "tiny/dense"
    dense = mteb_longembed.extend(dense, key, LO if key == "none" else LT, LO)
    for text in LONG[:2]:
        want = dense.encode([text], prompt=stock.prompts["document"], output_value="token_embeddings")[0]
        with torch.inference_mode():
            want = torch.nn.functional.normalize(stock[1].linear(want), dim=-1)
        ids = dense.tokenizer(stock.prompts["document"] + text)["input_ids"][: len(want)]
        kept = ~np.isin(ids, dense.tokenizer.convert_tokens_to_ids([tiny.WORDS[3], ","]))
        [got] = model.encode_document([text])
        same_vectors(got, want[kept])


def test_batches_with_padding_change_nothing(base):
    model = extended(base, "pcw")
    alone = [model.encode_document([text])[0] for text in LONG]
    for one, many in zip(alone, model.encode_document(LONG, batch_size=4), strict=True):
        same_vectors(many, one)


# ---- what stands around the strategy ----------------------------------------------------------------------------


def test_the_target_length_decides_and_no_document_length(tmp_path):
    stock = of("bert", tmp_path, document_length=7)
    assert len(stock.encode_document(LONG[2:3])[0]) <= 7
    n = len(stock.tokenizer(stock.prompts["document"] + LONG[3])["input_ids"])
    assert len(extended(stock, "pcw").encode_document(LONG[3:])[0]) == n - LONG[3].split().count(
        tiny.WORDS[3]
    )


def test_an_empty_text_has_its_special_tokens_and_prompt(base):
    [got] = extended(base, "pcw").encode_document([""])
    assert torch.equal(got, base.encode_document([""])[0]) and len(got) == 4


def test_half_precision_is_near(base):
    exact = extended(base, "pcw").encode_document(LONG)
    half = extended(copy.deepcopy(base).bfloat16(), "pcw").encode_document(LONG)
    for one, two in zip(half, exact, strict=True):
        assert one.dtype == torch.float32 and float((one * two).sum(1).min()) > 0.98


def test_a_saved_model_is_the_same(base, tmp_path):
    model = extended(base, "pcw", overlap=3)
    model.save_pretrained(str(tmp_path / "saved"))
    read = load(tmp_path / "saved", device="cpu")
    assert isinstance(read, LongMultiVectorEncoder) and read.family == "late-interaction"
    assert equal(read.encode_document(LONG), model.encode_document(LONG))
    assert equal(read.encode_query(SHORT), model.encode_query(SHORT))


def test_a_folder_gives_the_model_of_the_loaded_base(tmp_path):
    stock = of("bert", tmp_path, document_length=7)
    model = load(f"{tmp_path / 'late'}+pcw@{LT}", device="cpu")
    assert equal(model.encode_document(LONG), extended(stock, "pcw").encode_document(LONG))


def test_pooled_tokens_are_pooled_over_the_whole_document(base):
    model = extended(base, "pcw")
    pooled = model.encode_document(LONG[2:], token_pooling=HierarchicalTokenPooling(4))
    whole = model.encode_document(LONG[2:])
    assert [len(few) < len(many) / 3 for few, many in zip(pooled, whole, strict=True)] == [True, True]


@pytest.mark.long  # two processes
def test_a_pool_of_processes_gives_the_same(base):
    model = extended(base, "pcw")
    pool = model.start_multi_process_pool(["cpu", "cpu"])
    try:
        got = model.encode_document(LONG, pool=pool)
    finally:
        model.stop_multi_process_pool(pool)
    for one, two in zip(got, model.encode_document(LONG), strict=True):
        same_vectors(one, two)


def test_a_step_of_training_changes_the_backbone(base):
    model = extended(base, "pcw").train()
    loss = MultiVectorMultipleNegativesRankingLoss(model)
    features = [
        model.preprocess(SHORT[1:3], task="query"),
        model.preprocess(LONG[1:3], task="document"),
    ]
    loss(features, None).backward()
    gradient = model.backbone.model.embeddings.word_embeddings.weight.grad
    assert gradient is not None and float(gradient.abs().max()) > 0


def test_a_plain_checkpoint_of_the_class_gives_the_same(tmp_path):
    stock = of("modernbert", tmp_path / "base", document_length=11)
    model = extended(stock, "pi", logn=False)
    said = mteb_longembed.export(model, tmp_path / "plain")
    plain = MultiVectorEncoder(str(tmp_path / "plain"), device="cpu")
    assert type(plain[0]) is Transformer and len(said) == 1
    for one, two in zip(plain.encode_document(LONG[1:]), model.encode_document(LONG[1:]), strict=True):
        same_vectors(one, two)
    with pytest.raises(IncompatibleError, match="cannot be a plain checkpoint"):
        mteb_longembed.export(extended(stock, "pcw"), tmp_path / "other")
    with pytest.raises(IncompatibleError, match="is not extended"):
        mteb_longembed.export(stock, tmp_path / "third")


# ---- folders of other libraries -----------------------------------------------------------------------------------


def of_stanford(folder: Path) -> Path:
    """A folder as Stanford's library writes it: the map beside the weights, and settings of its own."""
    made = tiny.transformer("bert", folder / "stanford")
    weights = {f"bert.{name}": tensor for name, tensor in load_file(made / "model.safetensors").items()}
    save_file(weights | {"linear.weight": torch.randn(24, 32)}, made / "model.safetensors", {"format": "pt"})
    config = json.loads((made / "config.json").read_text())
    (made / "config.json").write_text(json.dumps({**config, "architectures": ["HF_ColBERT"]}))
    settings = {
        "query_maxlen": 8, "doc_maxlen": 12, "dim": 24, "query_token": "query", "doc_token": "passage",
        "query_token_id": "query", "doc_token_id": "passage", "attend_to_mask_tokens": False,
    }  # fmt: skip
    (made / "artifact.metadata").write_text(json.dumps(settings))
    return made


def of_pylate(folder: Path) -> Path:
    """A folder as PyLate 3 writes it: a Transformer and a Dense of its own."""
    tiny.late("bert", folder)
    made = folder / "late"
    modules = json.loads((made / "modules.json").read_text())[:2]
    modules[1]["type"] = "pylate.models.Dense.Dense"
    (made / "modules.json").write_text(json.dumps(modules))
    settings = {
        "model_type": "ColBERT",
        "query_prefix": "query ",
        "document_prefix": "passage ",
        "query_length": 8,
    }
    (made / "config_sentence_transformers.json").write_text(json.dumps({**settings, "document_length": 12}))
    return made


@pytest.mark.parametrize("made_by", [of_stanford, of_pylate])
def test_folders_of_other_libraries_are_extended(made_by, tmp_path):
    made = made_by(tmp_path)
    stock = MultiVectorEncoder(str(made), device="cpu")
    model = load(f"{made}+pcw@{LT}", device="cpu")
    queries = [tiny.text(4), tiny.text(5)]
    assert equal(model.encode_query(queries), stock.encode_query(queries))
    assert equal(model.encode_document(queries), stock.encode_document(queries))
    n = len(stock.tokenizer(stock.prompts["document"] + tiny.text(60))["input_ids"])
    assert n - 3 < len(model.encode_document([tiny.text(60)])[0]) <= n


# ---- what does not fit ------------------------------------------------------------------------------------------


def test_averages_of_tokens_are_refused(base):
    with pytest.raises(IncompatibleError, match="vectors=8 with tiny/late, a late-interaction model"):
        extended(base, "pcw", vectors=8)


def test_an_extended_model_is_not_extended_again(base):
    with pytest.raises(InputError, match="extended already"):
        mteb_longembed.extend(extended(base, "pcw"), "ntk")


def test_adapting_and_cutting_dimensions_are_refused(base):
    with pytest.raises(IncompatibleError, match="dense vectors"):
        tiny.adapted(base, LONG)
    with pytest.raises(InputError, match="only dense vectors"):
        extended(base, "pcw").cut_dimensions(8)
