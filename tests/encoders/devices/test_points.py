"""Decisions and costs on devices: what is packed and where that is decided, memory, batches, precision, fallbacks."""

import logging

import pytest
import torch

from mteb_longembed.encoders.attention import devices
from mteb_longembed.encoders.attention.context import Documents, PackedDocuments, encoding
from mteb_longembed.encoders.attention.packed import attend_packed, calls_of
from mteb_longembed.encoders.attention.plan import DualChunkPlan, RelativePositionAttention
from mteb_longembed.encoders.attention.rotation import Rotation
from mteb_longembed.encoders.engine import running as memory
from mteb_longembed.encoders.engine.engine import Engine
from mteb_longembed.encoders.engine.running import Results
from mteb_longembed.encoders.engine.settings import EncodeSettings
from mteb_longembed.encoders.families.relative import DistanceBias
from tests import tiny

from .simulated import OnDevice
from .test_devices import H100, H100_FP32, LT, ROCM, T4, TEXTS, base, encoded, extended

CPU = torch.device("cpu")
ROTATION = Rotation(100.0 ** -(torch.arange(4) / 4))


@pytest.mark.parametrize("causal", [False, True])
def test_dual_chunks_gather_no_key_twice_in_a_call_and_few_times_in_all(causal):
    n, chunk = 32_768, 384
    planned = RelativePositionAttention(DualChunkPlan(chunk, 511), ROTATION)
    calls = calls_of(planned, PackedDocuments([n], CPU), causal=causal)
    for tokens in (lambda call: call.cols, lambda call: call.rows):
        assert max(len(tokens(call)) for call in calls) <= n
        # inside, before, long before as a triangle, and its corners; the last three mirrored
        assert sum(len(tokens(call)) for call in calls) <= (4 if causal else 7) * n


def test_attention_of_a_document_does_not_depend_on_its_batch():
    """What is promised on a GPU: attention, by one split. The products of matrices around it may differ."""
    generator = torch.Generator().manual_seed(0)
    lengths = [5, 40, 17]
    with H100.fresh().present() as seen:
        q, k, v = (OnDevice(torch.randn(62, 4, 8, generator=generator).to(torch.bfloat16)) for _ in range(3))
        together = attend_packed(PackedDocuments(lengths, seen.device), q, k, v, scale=0.3, causal=False)
        one, document = slice(5, 45), PackedDocuments([40], seen.device)
        alone = attend_packed(document, q[one], k[one], v[one], scale=0.3, causal=False)
        assert torch.equal(together.host[one], alone.host)
        assert devices.varlen_options()["num_splits"] == 1
    with ROCM.fresh().present():
        assert "num_splits" not in devices.varlen_options()


def test_a_torch_without_flash_attention_runs_padded():
    got, seen = encoded(H100.fresh(flash=False), "qwen3", "se")
    assert not seen.calls["_varlen_attn"] and seen.calls["_scaled_dot_product_efficient_attention"]
    assert got.shape == (len(TEXTS), 32)
    with H100.fresh(flash=False).present() as on:
        assert "no FlashAttention" in str(devices.why_padded(on.device, torch.bfloat16))


def test_half_precision_on_an_old_device_stays_in_half_precision_inside_attention():
    _, seen = encoded(T4, "qwen3", "se")
    assert seen.calls["_scaled_dot_product_efficient_attention"]


def test_the_log_n_factor_is_not_rounded_to_the_models_type():
    family = extended("bert", "pi")[0].family
    family._query_scale = lambda documents: torch.tensor([1.006])  # 1.0078 in bf16
    with encoding(Documents([10**4], torch.device("cpu"))):
        out = family._scale_queries(torch.nn.Identity(), None, torch.tensor([100.0], dtype=torch.bfloat16))
    assert out.dtype == torch.bfloat16 and float(out) == 100.5


def test_t5_makes_a_table_once_a_length_whatever_the_number_of_layers(monkeypatch):
    made: list[int] = []
    table = DistanceBias._table
    counted = lambda self, device, n: (made.append(n), table(self, device, n))[1]  # noqa: E731
    monkeypatch.setattr(DistanceBias, "_table", counted)
    model = extended("t5", "gp")
    made.clear()  # of the trial pass
    model.encode(TEXTS)
    assert len(made) == len({3, 15, 16, 17, 35, LT})


@pytest.mark.parametrize(("gib", "documents"), [(16, 256), (80, 1024)])
def test_packed_short_texts_fill_the_memory_whatever_the_default_batch_size(gib, documents, monkeypatch):
    texts = [tiny.text(12, seed) for seed in range(1100)]
    with H100.fresh(free=gib << 30).present() as seen, torch.inference_mode():
        model = seen.moved(extended("bert", "pi"))
        # a batch of 64 tokens takes 64 * 3 MiB
        monkeypatch.setattr(torch.cuda, "max_memory_allocated", lambda d=None: 64 * 3 << 20)
        engine = Engine(model, seen.device, EncodeSettings())
        # per token: 3 MiB, of which 60 % of the free memory may be taken; batches are powers of two
        fitting = memory.tokens_that_fit(3 << 20, gib << 30)
        assert engine.budget.tokens == fitting
        sizes = [len(indices) for indices, _ in engine._batches(texts, show=False)]
        assert max(sizes) == min(fitting // 12, len(texts)) and max(sizes) >= documents
        few = Engine(model, seen.device, EncodeSettings(batch_size=8))
        assert max(len(indices) for indices, _ in few._batches(texts, show=False)) == 8


@pytest.mark.parametrize("mode", ["mean", "cls", "lasttoken"])
def test_packed_documents_are_pooled_as_on_the_host(mode):
    def made() -> object:
        model = extended("bert", "pi")
        model[1].pooling_mode = mode
        return model

    host = made()
    host[0].model.bfloat16()
    with H100.fresh().present() as seen:
        model = seen.moved(made())
        got = model.encode(TEXTS)
        tokens = model.encode(TEXTS[:2], output_value="token_embeddings")
    assert abs(got - host.encode(TEXTS)).max() < 1e-2
    assert [len(rows) for rows in tokens] == [3, 15]


def test_a_model_that_learns_runs_padded_also_without_gradients():
    """Packed attention has no dropout, and a loss with cached gradients first runs without them."""
    with H100.fresh().present() as seen, torch.no_grad():
        model = seen.moved(extended("bert", "pi"))
        assert model.eval().first.packs_on(seen.device)
        assert not model.train().first.packs_on(seen.device)


def test_one_line_says_what_half_precision_is_for(caplog):
    with H100_FP32.fresh().present() as seen, caplog.at_level(logging.INFO):
        model = seen.moved(extended("bert", "pi"))
        model.encode(TEXTS[:1])
        model.encode(TEXTS[:1])
    (line,) = [r.getMessage() for r in caplog.records if ":dtype=bf16" in r.getMessage()]
    assert line.startswith("cuda:0: packed batches need half precision: :dtype=bf16 is the faster form here")
    assert base("bert")[0].model.dtype == torch.float32


def test_the_check_for_finite_numbers_takes_few_operators_for_many_documents():
    with H100.fresh().present() as seen:
        rows = list(OnDevice(torch.ones(256, 8)))
        launched = seen.launched
        results = Results(rows, fetch=True)
        # one for all rows, stacking, what `isfinite` is made of, a copy of the flags and one of the numbers
        assert seen.launched - launched <= 12
        assert results.read()[1] == []
    ragged = [torch.ones(2, 3), torch.full((1, 3), torch.nan), torch.ones(4, 3), torch.zeros(0, 3)]
    assert Results(ragged, fetch=True).read()[1] == [1]
