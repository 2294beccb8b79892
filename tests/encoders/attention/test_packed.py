"""Packed documents: each gets the attention that it has alone, through one kernel call for all of them."""

from unittest.mock import Mock

import pytest
import torch

from mteb_longembed.encoders.attention import devices
from mteb_longembed.encoders.attention.context import PackedDocuments
from mteb_longembed.encoders.attention.packed import attend_packed, attend_packed_by_plan, calls_of
from mteb_longembed.encoders.attention.plan import Pass, RelativePositionAttention
from mteb_longembed.encoders.attention.rotation import Rotation
from mteb_longembed.encoders.attention.tiles import Tile
from mteb_longembed.encoders.families.attention_functions import attend_plain
from tests.limits import same_attention

from . import oracles
from .test_plan import PLANS, inputs, inv_freq

CPU = torch.device("cpu")
LENGTHS = [1, 2, 40, 7, 6, 150, 40, 13]


def rotated(n: int, seed: int, kv_heads: int = 4):
    """q, k, v `[1, h, n, d]` in float64, and q and k turned to positions 0..n-1 as a model does."""
    q, k, v = inputs(n, b=1, kv_heads=kv_heads, seed=seed)
    at = torch.arange(n).double()
    return (q, k, v), [oracles.turned(x, at, inv_freq(4).double()) for x in (q, k)]


def packed(parts: list[torch.Tensor]) -> torch.Tensor:
    """`[1, h, n, d]` of each document -> `[tokens, h, d]`."""
    return torch.cat([x[0].transpose(0, 1) for x in parts])


def everything(kv_heads: int = 4):
    drawn = [rotated(n, seed, kv_heads) for seed, n in enumerate(LENGTHS)]
    plain = [d[0] for d in drawn]
    q, k = (packed([d[1][i] for d in drawn]).float() for i in (0, 1))
    return plain, q, k, packed([x[2] for x in plain]).float()


def pieces(out: torch.Tensor) -> list[torch.Tensor]:
    return [x.transpose(0, 1)[None] for x in out.split(LENGTHS)]


@pytest.mark.parametrize("kv_heads", [4, 2])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("name", PLANS)
def test_planned_positions_equal_the_dense_form_of_each_document(name, causal, kv_heads):
    plan, relative = PLANS[name]
    plain, q, k, v = everything(kv_heads)
    documents = PackedDocuments(LENGTHS, CPU)
    planned = RelativePositionAttention(plan, Rotation(inv_freq(4)))
    out = attend_packed_by_plan(documents, q, k, v, planned, scale=0.3, causal=causal)
    for (a, b, c), got in zip(plain, pieces(out), strict=True):
        want = oracles.attention(a, b, c, relative, inv_freq(4), 0.3, causal)
        same_attention(got, want, a, b, c, 0.3)


@pytest.mark.parametrize("window", [None, 1, 5, 1000])
@pytest.mark.parametrize("causal", [False, True])
def test_plain_and_windowed_attention_equals_that_of_each_document_alone(causal, window):
    plain, _, _, _ = everything()
    q, k, v = (packed([x[i] for x in plain]).float() for i in range(3))
    documents = PackedDocuments(LENGTHS, CPU)
    out = attend_packed(documents, q, k, v, scale=0.3, causal=causal, window=window)
    for (a, b, c), got in zip(plain, pieces(out), strict=True):
        want = attend_plain(a, b, c, scale=0.3, causal=causal, window=window)
        same_attention(got, want, a, b, c, 0.3)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("name", PLANS)
def test_a_call_holds_a_row_once_and_all_documents_share_it(name, causal):
    planned = RelativePositionAttention(PLANS[name][0], Rotation(inv_freq(4)))
    calls = calls_of(planned, PackedDocuments([40, 40, 41], CPU), causal=causal)
    alone = calls_of(planned, PackedDocuments([40], CPU), causal=causal)
    assert len(calls) == len(alone)
    for call in calls:
        assert len(call.rows.unique()) == len(call.rows)
        assert call.starts_q[-1] == len(call.rows) and call.starts_k[-1] == len(call.cols)


def test_a_call_holds_a_row_once_also_where_tiles_overlap_in_a_chain():
    rows = [(0, 1), (1, 2), (0, 3), (2, 3), (2, 3)]
    tiles = [Tile(slice(*ends), slice(0, 1), "full") for ends in rows]
    planned = RelativePositionAttention(Mock(passes=lambda n, causal: [Pass(tiles)]), Rotation(inv_freq(4)))
    for call in calls_of(planned, PackedDocuments([3], CPU), causal=False):
        assert len(call.rows.unique()) == len(call.rows)


def test_a_cpu_does_not_pack():
    assert not devices.packs(CPU, torch.bfloat16)
