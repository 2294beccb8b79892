"""Attention of documents that are packed one after another in one tensor, each over itself, without padding."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import count

import torch
from torch import Tensor

from .context import PackedDocuments, cumulative
from .devices import has_flash, to_device, varlen_options
from .kernels import attend
from .merge import merge_
from .plan import RelativePositionAttention
from .rotation import CosSin
from .tiles import Tile, band_blocks

#: How far a token sees, to the left and to the right; -1 stands for no bound.
Window = tuple[int, int]
FULL: Window = (-1, -1)
CAUSAL: Window = (-1, 0)


def attend_varlen(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    cu_q: Tensor,
    cu_k: Tensor,
    max_q: int,
    max_k: int,
    *,
    scale: float,
    window: Window = FULL,
) -> tuple[Tensor, Tensor]:
    """Softmax attention of each document's queries `[tokens, h, d]` over its own keys `[keys, hk, d]`.

    Without a kernel, documents run one after the other. This is slow, and it is the reference for the kernels.

    `cu_q` and `cu_k` `[documents + 1]` int32 say where each document's queries and keys start, and where the last one's
    end; `max_q` and `max_k` are those of the longest document; `hk` divides `h`. Token i sees keys
    `i - left` to `i + right` of `window`; windows other than `FULL` need as many keys as queries.

    Returns:
        `[tokens, h, d]` in q's dtype and `[tokens, h]` in float32 (float64 for float64 input). A row that sees nothing
        has -inf.
    """
    if not has_flash(q.device, q.dtype, q.shape[-1]):
        return _one_by_one(q, k, v, cu_q.tolist(), cu_k.tolist(), scale, window)
    from torch.nn.attention.varlen import AuxRequest, varlen_attn

    options = varlen_options()
    if k.shape[1] != q.shape[1] and "enable_gqa" not in options:
        k, v = (x.repeat_interleave(q.shape[1] // k.shape[1], dim=1) for x in (k, v))
    out, lse = varlen_attn(
        q, k, v, cu_q, cu_k, max_q, max_k,
        return_aux=AuxRequest(lse=True), scale=scale, window_size=window, **options,
    )  # fmt: skip
    # FlashAttention returns [h, tokens], and +inf for rows without a key
    if lse.shape == (q.shape[1], q.shape[0]):
        lse = lse.transpose(0, 1)
    return out, lse.masked_fill(lse == torch.inf, -torch.inf)


def _one_by_one(
    q: Tensor, k: Tensor, v: Tensor, cu_q: list[int], cu_k: list[int], scale: float, window: Window
) -> tuple[Tensor, Tensor]:
    """Each document separately, by the kernels that padded batches use."""
    out = torch.empty(*q.shape[:2], v.shape[-1], dtype=q.dtype, device=q.device)
    work = torch.promote_types(q.dtype, torch.float32)
    lse = torch.empty(q.shape[:2], dtype=work, device=q.device)
    for start_q, stop_q, start_k, stop_k in zip(cu_q, cu_q[1:], cu_k, cu_k[1:], strict=False):
        queries = q[start_q:stop_q].transpose(0, 1)[None]
        keys, values = (x[start_k:stop_k].transpose(0, 1)[None] for x in (k, v))
        n = stop_q - start_q
        all_pairs = slice(0, n), slice(0, stop_k - start_k), None
        left, right = (n if side < 0 else min(side, n) for side in window)
        blocks: Iterable[tuple[slice, slice, Tensor | None]] = [all_pairs]
        if window not in (FULL, CAUSAL):
            blocks = band_blocks(n, left, right, q.device)
        for rows, cols, mask in blocks:
            seen = queries[:, :, rows], keys[:, :, cols], values[:, :, cols]
            part, part_lse = attend(*seen, scale=scale, causal=window == CAUSAL, mask=mask)
            at = slice(start_q + rows.start, start_q + rows.stop)
            out[at] = part[0].transpose(0, 1)
            lse[at] = part_lse[0].transpose(0, 1).to(work)
    return out, lse


def attend_packed(
    documents: PackedDocuments,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    scale: float,
    causal: bool,
    window: int | None = None,
) -> Tensor:
    """Attention of each document over itself: `[tokens, h, d]`.

    Args:
        documents: the lengths of the documents.
        q: `[tokens, h, d]`, rotated to each token's position in its document.
        k: `[tokens, hk, d]`, rotated in the same way, and `hk` divides `h`.
        v: as `k`.
        scale: of the scores.
        causal: whether a token sees only the tokens before it.
        window: a token sees tokens at a distance below it. None: all tokens.
    """
    starts = documents.starts()
    longest = documents.longest
    seen = FULL
    if causal:
        seen = CAUSAL
    if window is not None and window < longest:
        seen = (window - 1, seen[1])
        if not causal:
            seen = (window - 1, window - 1)
    return attend_varlen(q, k, v, starts, starts, longest, longest, scale=scale, window=seen)[0]


def attend_packed_by_plan(
    documents: PackedDocuments,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    planned: RelativePositionAttention,
    *,
    scale: float,
    causal: bool,
) -> Tensor:
    """As `attend_packed`, with the relative positions of a plan.

    Args:
        documents: see `attend_packed`, as for the other arguments.
        q: see there.
        k: see there.
        v: see there.
        planned: the strategy's plan, and how it rotates queries and keys.
        scale: see there.
        causal: see there.
    """
    calls = documents.cached((id(planned), causal), lambda: calls_of(planned, documents, causal=causal))
    work = torch.promote_types(v.dtype, torch.float32)
    out = torch.zeros(*q.shape[:2], v.shape[-1], dtype=work, device=q.device)
    lse = torch.full(q.shape[:2], -torch.inf, dtype=work, device=q.device)
    for call in calls:
        queries = planned.rotation.apply(q[call.rows], call.query_turn)
        keys = planned.rotation.apply(k[call.cols], call.key_turn)
        part, part_lse = attend_varlen(
            queries, keys, v[call.cols], call.starts_q, call.starts_k, call.max_q, call.max_k,
            scale=scale, window=call.window,
        )  # fmt: skip
        merged = out[call.rows]
        merged_lse = lse[call.rows]
        merge_(merged, merged_lse, part, part_lse.to(work))
        out[call.rows] = merged
        lse[call.rows] = merged_lse
    return out.to(v.dtype)


@dataclass(eq=False)
class KernelCall:
    """One call of the kernel: the tiles of one shape, of all documents that have such tiles.

    `rows` and `cols` are the indices of its queries (each at most once) and keys. `starts_q` and `starts_k`
    `[tiles + 1]` say where each tile's begin, `max_q` and `max_k` how many the largest tile has. The turns are cosines
    and sines, None if tokens keep their positions.
    """

    rows: Tensor
    cols: Tensor
    starts_q: Tensor
    starts_k: Tensor
    max_q: int
    max_k: int
    window: Window
    query_turn: CosSin | None
    key_turn: CosSin | None


def calls_of(
    planned: RelativePositionAttention, documents: PackedDocuments, *, causal: bool
) -> list[KernelCall]:
    """The calls. Together they cover every visible pair of tokens of every document once."""
    groups: dict[tuple[int, Window, int], list[tuple[int, Tile]]] = {}
    turns: dict[int, tuple[list[Tensor | None], list[Tensor | None]]] = {}
    start = 0
    for n in documents.lengths:
        for number, (tiles, query_at, key_at) in enumerate(planned.plan.passes(n, causal=causal)):
            at = turns.setdefault(number, ([], []))
            at[0].append(query_at)
            at[1].append(key_at)
            earlier: list[tuple[int, Tile]] = []
            for tile in tiles:
                # a row occurs only once in a call, so that results can be merged by their indices
                taken = {
                    group
                    for group, other in earlier
                    if _seen(other) == _seen(tile)
                    and other.rows.start < tile.rows.stop
                    and tile.rows.start < other.rows.stop
                }
                group = next(group for group in count() if group not in taken)
                groups.setdefault((number, _seen(tile), group), []).append((start, tile))
                earlier.append((group, tile))
        start += n
    turned = {number: [_turn(planned, at, documents) for at in ats] for number, ats in turns.items()}
    calls = []
    for (number, window, _), tiles_of_call in groups.items():
        rows = [_token_indices(at, tile.rows, tile.shape == "upper") for at, tile in tiles_of_call]
        cols = [_token_indices(at, tile.cols, tile.shape == "upper") for at, tile in tiles_of_call]
        query_indices, key_indices = (to_device(torch.cat(part), documents.device) for part in (rows, cols))
        query_turn, key_turn = turned[number]
        calls.append(KernelCall(
            rows=query_indices,
            cols=key_indices,
            starts_q=to_device(cumulative([len(part) for part in rows]), documents.device),
            starts_k=to_device(cumulative([len(part) for part in cols]), documents.device),
            max_q=max(map(len, rows)),
            max_k=max(map(len, cols)),
            window=window,
            query_turn=_turn_of(query_turn, query_indices),
            key_turn=_turn_of(key_turn, key_indices),
        ))  # fmt: skip
    return calls


def _seen(tile: Tile) -> Window:
    """Which keys a query sees inside a tile. An upper tile is read backwards."""
    if tile.shape == "band":
        return tile.left, tile.right
    if tile.shape == "full":
        return FULL
    return CAUSAL


def _token_indices(start: int, at: slice, backwards: bool) -> Tensor:
    indices = torch.arange(start + at.start, start + at.stop)
    if backwards:
        return indices.flip(0)
    return indices


def _turn(
    planned: RelativePositionAttention, ats: list[Tensor | None], documents: PackedDocuments
) -> CosSin | None:
    known = [at for at in ats if at is not None]
    if known:
        to = torch.cat(known)
    else:
        to = None
    return planned.rotation.turn(to, documents.device, documents.positions())


def _turn_of(turn: CosSin | None, at: Tensor) -> CosSin | None:
    """The turns of some tokens, for all heads: `[tokens, 1, r/2]`."""
    if turn is None:
        return None
    return (turn[0][at, None], turn[1][at, None])
