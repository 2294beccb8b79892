"""Learned sparse models: logits are pooled window by window, and a text has the maximum."""

import copy
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from sentence_transformers import SentenceTransformer, SparseEncoder
from sentence_transformers.base.modules import Router
from sentence_transformers.sentence_transformer.modules import Transformer
from sentence_transformers.sparse_encoder.losses import SparseMultipleNegativesRankingLoss, SpladeLoss
from sentence_transformers.sparse_encoder.modules import SparseStaticEmbedding, SpladePooling

import mteb_longembed
from mteb_longembed import load
from mteb_longembed.encoders.model import LongSparseEncoder
from mteb_longembed.encoders.positions import ABSOLUTE, ROTARY
from mteb_longembed.encoders.strategies import STRATEGIES
from mteb_longembed.errors import IncompatibleError, InputError, ModelError
from tests import tiny
from tests.encoders.strategies.test_pcw import slow_windows
from tests.limits import same_vectors

LO, LT = tiny.TRAINED, 8 * tiny.TRAINED
SHORT = ["", tiny.text(6), tiny.text(LO - 2)]
LONG = [tiny.text(n) for n in (LO - 1, LO + 1, 5 * LO, 60)]
BACKBONES = {ABSOLUTE: "bert", ROTARY: "modernbert"}
CELLS = [(where, key) for where in BACKBONES for key, kind in STRATEGIES.items() if where.fits(kind)]


def of(model_type: str, folder: Path, pooling: str = "max") -> SparseEncoder:
    made = tiny.sparse(model_type, folder, pooling)
    made.model_card_data.model_name = "tiny/sparse"
    return made


def extended(base: SparseEncoder, key: str, **params: object) -> LongSparseEncoder:
    made = mteb_longembed.extend(base, key, LO if key == "none" else LT, LO, **params)
    assert isinstance(made, LongSparseEncoder)
    return made


def rows(model: SparseEncoder, texts: list[str], **options: object) -> torch.Tensor:
    return model.encode_document(texts, **options).to_dense()


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> SparseEncoder:
    return of("bert", tmp_path_factory.mktemp("sparse"))


def slow_document(base: SparseEncoder, text: str, size: int, overlap: int) -> torch.Tensor:
    """Each window by itself through the transformer of transformers, and its maximum word by word."""
    ids = base.tokenizer(base.prompts["document"] + text)["input_ids"]
    best = torch.zeros(len(base.tokenizer))
    for window in slow_windows(len(ids), size, overlap, 3, 1):
        with torch.inference_mode():
            logits = base[0].model(torch.tensor([[ids[place] for place in window]])).logits[0]
        of_window = torch.stack([torch.log1p(torch.clamp(row, min=0)) for row in logits])
        of_window = of_window.sum(0) if base[1].pooling_strategy == "sum" else of_window.max(0).values
        best = torch.maximum(best, of_window)
    return best


# ---- each strategy --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("where", "key"), CELLS)
def test_queries_and_short_documents_are_those_of_stock(where, key, tmp_path):
    stock = of(BACKBONES[where], tmp_path)
    # on rotary positions ntk changes all inputs, unless it is told not to
    keep = {"short": "keep"} if (where, key) == (ROTARY, "ntk") else {}
    model = extended(stock, key, **keep)
    assert torch.equal(model.encode_query(SHORT).to_dense(), stock.encode_query(SHORT).to_dense())
    short = ["", tiny.text(5), tiny.text(LO - 2)]
    assert torch.equal(rows(model, short), rows(stock, short))


@pytest.mark.parametrize("pooling", ["max", "sum"])
@pytest.mark.parametrize(("size", "overlap"), [(LO, 0), (LO, 5), (9, 2)])
def test_windows_give_the_maximum_of_each_word(pooling, size, overlap, tmp_path):
    stock = of("bert", tmp_path, pooling)
    model = extended(stock, "pcw", size=size, overlap=overlap)
    want = torch.stack([slow_document(stock, text, size, overlap) for text in LONG])
    same_vectors(rows(model, LONG), want)


@pytest.mark.parametrize(("where", "key"), [cell for cell in CELLS if not STRATEGIES[cell[1]].CUTS])
def test_logits_of_other_strategies_are_those_of_a_dense_model_of_the_backbone(where, key, tmp_path):
    stock = of(BACKBONES[where], tmp_path)
    model = extended(stock, key)
    whole = stock[0].model
    head = whole.cls if where == ABSOLUTE else lambda states: whole.decoder(whole.head(states))
    inner = Transformer(str(tmp_path / "transformer"))
    dense = SentenceTransformer(modules=[inner], device="cpu")
    dense.model_card_data.model_name = "tiny/dense"
    dense = mteb_longembed.extend(dense, key, LO if key == "none" else LT, LO)
    for text in LONG[1:3]:
        states = dense.encode([text], prompt=stock.prompts["document"], output_value="token_embeddings")[0]
        with torch.inference_mode():
            want = torch.log1p(head(states[None]).clamp(min=0))[0].max(0).values
        same_vectors(rows(model, [text])[0], want, layers=3)


def test_batches_with_padding_change_nothing(base):
    model = extended(base, "pcw")
    same_vectors(rows(model, LONG, batch_size=4), torch.cat([rows(model, [text]) for text in LONG]))


# ---- what stands around the strategy ----------------------------------------------------------------------------


def test_half_precision_is_near(base):
    exact = rows(extended(base, "pcw"), LONG)
    half = rows(extended(copy.deepcopy(base).bfloat16(), "pcw"), LONG)
    assert half.dtype == torch.float32
    assert float(torch.nn.functional.cosine_similarity(half, exact).min()) > 0.98


def test_a_saved_model_is_the_same(base, tmp_path):
    model = extended(base, "pcw", overlap=3)
    model.save_pretrained(str(tmp_path / "saved"))
    read = load(tmp_path / "saved", device="cpu")
    assert isinstance(read, LongSparseEncoder) and read.is_unchanged()
    assert torch.equal(rows(read, LONG), rows(model, LONG))
    assert read.is_unchanged()


def test_few_terms_may_be_kept(base):
    model = extended(base, "pcw")
    few = rows(model, LONG, max_active_dims=5)
    assert ((few > 0).sum(1) == 5).all()
    assert torch.equal(few.max(1).values, rows(model, LONG).max(1).values)


@pytest.mark.long  # two processes
def test_a_pool_of_processes_gives_the_same(base):
    model = extended(base, "pcw")
    pool = model.start_multi_process_pool(["cpu", "cpu"])
    try:
        same_vectors(rows(model, LONG, pool=pool), rows(model, LONG))
    finally:
        model.stop_multi_process_pool(pool)


def test_a_step_of_training_changes_the_backbone(base):
    model = extended(base, "pcw").train()
    ranking = SparseMultipleNegativesRankingLoss(model)
    loss = SpladeLoss(model, ranking, document_regularizer_weight=1e-3, query_regularizer_weight=1e-3)
    sum(loss([model.preprocess(SHORT[1:]), model.preprocess(LONG[1:3])], None).values()).backward()
    gradient = model.backbone.model.bert.embeddings.word_embeddings.weight.grad
    assert gradient is not None and float(gradient.abs().max()) > 0


def test_the_model_without_inference_for_queries_reads_long_documents(base, tmp_path):
    words = SparseStaticEmbedding(tokenizer=base.tokenizer, weight=torch.rand(len(base.tokenizer)))
    stock = copy.deepcopy(base)
    router = Router.for_query_document(query_modules=[words], document_modules=[stock[0], stock[1]])
    routed = SparseEncoder(modules=[router], device="cpu", prompts=tiny.PROMPTS)
    routed.save_pretrained(str(tmp_path / "routed"), create_model_card=False)
    model = load(f"{tmp_path / 'routed'}+pcw@{LT}", device="cpu")
    assert torch.equal(model.encode_query(SHORT).to_dense(), routed.encode_query(SHORT).to_dense())
    assert torch.equal(rows(model, LONG), rows(extended(base, "pcw"), LONG))
    model.save_pretrained(str(tmp_path / "saved"))
    read = load(tmp_path / "saved", device="cpu")
    assert torch.equal(rows(read, LONG), rows(model, LONG))
    assert torch.equal(read.encode_query(SHORT).to_dense(), model.encode_query(SHORT).to_dense())


# ---- what does not fit ------------------------------------------------------------------------------------------


def test_vectors_of_spans_are_refused(base):
    with pytest.raises(IncompatibleError, match="vectors=8 with tiny/sparse, a sparse model"):
        extended(base, "pcw", vectors=8)


def test_windows_need_the_pooling_of_logits(base):
    class Own(SpladePooling):
        """A custom pooling."""

    other = copy.deepcopy(base)
    other[1].__class__ = Own
    with pytest.raises(IncompatibleError, match="need one SpladePooling"):
        extended(other, "pcw")


def test_a_head_without_weights_is_told(tmp_path):
    tiny.sparse("bert", tmp_path)
    file = tmp_path / "sparse" / "model.safetensors"
    left = {name: weight for name, weight in load_file(file).items() if "transform" not in name}
    save_file(left, file, {"format": "pt"})
    with pytest.raises(ModelError, match=r"lacks .* weights that the model needs: cls"):
        load(f"{tmp_path / 'sparse'}+pcw@{LT}", device="cpu")


def test_an_extended_model_is_not_extended_again(base):
    with pytest.raises(InputError, match="extended already"):
        mteb_longembed.extend(extended(base, "pcw"), "ntk")
