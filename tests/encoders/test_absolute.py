"""Every strategy on learned absolute positions equals a slow oracle: one document, one explicit table of rows."""

import copy
import math

import numpy as np
import pytest
import torch
from sentence_transformers import SentenceTransformer

import mteb_longembed as longembed
from tests import tiny
from tests.limits import same_vectors

from .test_devices import OnMeta
from .test_rotary import LO, LT
from .test_rotary import extended as with_strategy

LENGTHS = (3, LO, LO + 1, 2 * LO + 3, LT, LT + 1)
SIGMA = 4.0


def extended(base: SentenceTransformer, key: str, target: int = LT, **params) -> SentenceTransformer:
    return with_strategy(base, key, LO if key == "none" else target, **params)


def interpolated(table: np.ndarray, position: float) -> np.ndarray:
    position = min(position, len(table) - 1)
    low = math.floor(position)
    high = min(low + 1, len(table) - 1)
    return table[low] + (position - low) * (table[high] - table[low])


def smooth_and_rest(table: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Rows 1.. of the table as a Gaussian-smoothed part and the rest, by hand."""
    smooth = table.copy()
    for i in range(1, len(table)):
        weights = [math.exp(-0.5 * ((i - j) / SIGMA) ** 2) for j in range(1, len(table))]
        smooth[i] = sum(w * table[j + 1] for j, w in enumerate(weights)) / sum(weights)
    return smooth, table - smooth


def row(key: str, table: np.ndarray, p: int, n: int, target: int = LT) -> np.ndarray:
    """The position vector of token `p` of a document of `n` tokens, straight from the definition."""
    s = math.ceil(target / LO)
    if n <= LO or key == "none":
        return table[p]
    if key == "gp":
        return table[p // math.ceil(n / LO)]
    if key == "rp":
        return table[p % LO]
    if key == "pi":
        return interpolated(table, p / s)
    smooth, rest = smooth_and_rest(table)
    if p == 0:
        return table[0]
    return interpolated(smooth[1:], max(p / s - 1, 0)) + rest[1 + (p - 1) % (LO - 1)]


def positions_of(model: SentenceTransformer) -> torch.nn.Embedding:
    return model[0].model.embeddings.position_embeddings


def oracle(base: SentenceTransformer, key: str, text: str, logn: bool, target: int = LT) -> np.ndarray:
    """The base on this one document, with a table made for it row by row and its query weights scaled."""
    model = copy.deepcopy(base)
    limit = LO if key == "none" else target
    ids = model.tokenizer(text, truncation=True, max_length=limit, return_tensors="pt")
    n = ids["input_ids"].shape[1]
    inner, old = model[0].model, positions_of(model)
    first = 0 if old.padding_idx is None else old.padding_idx + 1
    trained = old.weight.detach().double().numpy()[first:]
    rows = np.stack([row(key, trained, p, n, target) for p in range(n)])
    weight = torch.cat([old.weight.detach()[:first], torch.from_numpy(rows).to(old.weight.dtype)])
    new = torch.nn.Embedding.from_pretrained(weight, padding_idx=old.padding_idx)
    inner.embeddings.position_embeddings = new
    if logn and n > LO:
        factor = math.log(n) / math.log(LO)
        for name, module in inner.named_modules():
            if name.rsplit(".", 1)[-1] in ("query", "q_lin", "q"):
                module.weight.data *= factor
                module.bias.data *= factor
    ids = {k: v for k, v in ids.items() if k in ("input_ids", "attention_mask")}
    ids["position_ids"] = torch.arange(first, first + n)[None]
    if "token_type" in str(inner.embeddings):
        ids["token_type_ids"] = torch.zeros_like(ids["input_ids"])
    with torch.no_grad():
        hidden = inner(**ids)[0]
    vector = {"mean": hidden.mean(1), "cls": hidden[:, 0]}[model[1].pooling_mode]
    return torch.nn.functional.normalize(vector, dim=1)[0].numpy()


@pytest.fixture(scope="module", params=sorted(tiny.ARCHITECTURES))
def base(request, tmp_path_factory) -> SentenceTransformer:
    return tiny.sentence_transformer(request.param, tmp_path_factory.mktemp(request.param))


TEXTS = [tiny.text(n) for n in LENGTHS]


@pytest.mark.parametrize("key", ["none", "gp", "rp", "pi", "ntk"])
def test_equals_the_oracle_whatever_else_is_in_the_batch(base, key):
    logn = key != "gp"
    model = extended(base, key, logn=logn, **({"sigma": SIGMA} if key == "ntk" else {}))
    together = model.encode(TEXTS)
    for text, got in zip(TEXTS, together, strict=True):
        assert np.abs(got - oracle(base, key, text, logn)).max() < 1e-5
        assert np.abs(got - model.encode(text)).max() < 1e-5


def test_target_that_is_no_multiple_of_the_trained_length(tmp_path):
    base = tiny.sentence_transformer("bert", tmp_path)
    model = extended(base, "pi", target=40)
    for n in (LO, LO + 1, 39, 40):
        text = tiny.text(n)
        want = oracle(base, "pi", text, True, target=40)
        assert np.abs(model.encode(text) - want).max() < 1e-5


def test_literal_padding_tokens_inside_a_text_count_as_in_the_base(base):
    text = "aa [PAD] bb [PAD] cc"
    got = extended(base, "pi").encode([text, TEXTS[-1]])[0]
    same_vectors(got, base.encode(text))


def test_mpnet_pads_with_row_1_whatever_its_configuration_says(tmp_path):
    want = tiny.sentence_transformer("mpnet", tmp_path / "1")
    base = tiny.sentence_transformer("mpnet", tmp_path / "0", pad_token_id=0)
    texts = [tiny.text(n) for n in (5, LO, LO + 9)]
    for key in ("none", "pcw"):
        model = longembed.extend(base, key)
        assert model.resolved.strategy.trained_len == LO
        same_vectors(model.encode(texts), longembed.extend(want, key).encode(texts))


def scaled_in_place(model: SentenceTransformer) -> None:
    with torch.no_grad():
        for weight in model.parameters():
            weight.mul_(1.5)


def scaled_elsewhere(model: SentenceTransformer) -> None:
    weights = {name: 1.5 * weight for name, weight in model.state_dict().items()}
    model.load_state_dict(weights, assign=True)


CHANGES = {
    "half and back": lambda model: model.half().float(),
    "bfloat16 and back": lambda model: model.bfloat16().float(),
    "half": lambda model: model.half(),
    "other weights": scaled_elsewhere,
    "in place": scaled_in_place,
}


@pytest.mark.parametrize("key", ["pi", "ntk", "rp"])
@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_computed_rows_follow_the_weights_wherever_these_are(base, key, change, monkeypatch):
    """Allocators often give the address of the weights of before, and some devices have none."""
    model = extended(base, key)
    monkeypatch.setattr(torch.Tensor, "data_ptr", lambda tensor: 0)
    for _ in range(3):
        model.float().encode(tiny.text(LT, 1))
        change(model)
        table = model[0].table
        with torch.no_grad():
            rows, expected = table.long, table._rows()
        assert rows.dtype == expected.dtype and torch.equal(rows, expected)


def test_computed_rows_follow_the_weights_to_another_device(base, monkeypatch):
    model = extended(base, "pi")
    model.encode(tiny.text(LT, 1))
    monkeypatch.setattr(torch.Tensor, "data_ptr", lambda tensor: 0)
    table = model[0].table
    with OnMeta(), torch.no_grad():
        table.weight = torch.nn.Parameter(table.weight.to("meta"))
        assert table.long.is_meta
