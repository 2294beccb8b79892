"""Packed batches: the documents of a batch one after another, without padding, and attention over them.

Tensors that depend on the documents' lengths are made on the host, once for each batch, and copied without waiting.
While a packed batch runs, `current()` returns the documents in the one row that the model sees.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from .devices import hand_over
from .merge import merge_
from .plan import PlannedAttention
from .rotation import Rotation
from .tiles import Tile
from .varlen import CAUSAL, FULL, Window, attend_varlen


@dataclass(eq=False)
class PackedDocuments:
    """The places of the documents in a packed batch.

    Args:
        lengths: tokens of each document, at least 1.
        device: where the batch runs.
    """

    lengths: Sequence[int]
    device: torch.device
    _made: dict[Any, Any] = field(default_factory=dict, repr=False)

    @property
    def n(self) -> Tensor:
        """`[b]` tokens of each document, on the host."""
        return torch.tensor(self.lengths)

    @property
    def tokens(self) -> int:
        """Tokens of all documents."""
        return sum(self.lengths)

    def once(self, key: Any, make: Callable[[], Any]) -> Any:
        """The result of `make`. It is computed at the first call and kept as long as the batch."""
        if key not in self._made:
            with torch.inference_mode(False):
                self._made[key] = make()
        return self._made[key]

    def starts(self) -> Tensor:
        """`[b + 1]` int32 on the device: where each document starts, and where the last one ends."""
        return self.once("starts", lambda: hand_over(cumulative(self.lengths), self.device))

    def positions(self) -> Tensor:
        """`[tokens]` on the device: each token's place in its document."""
        make = lambda: torch.cat([torch.arange(n) for n in self.lengths])  # noqa: E731
        return self.once("positions", lambda: hand_over(make(), self.device))

    def places(self, width: int) -> Tensor:
        """`[tokens]` on the device: each token's index in a padded batch `[b, width]` that is read row by row."""

        def make() -> Tensor:
            return torch.cat([row * width + torch.arange(n) for row, n in enumerate(self.lengths)])

        return self.once(("places", width), lambda: hand_over(make(), self.device))

    def owners(self) -> Tensor:
        """`[tokens]` on the device: the number of each token's document."""

        def make() -> Tensor:
            return torch.repeat_interleave(torch.arange(len(self.lengths)), self.n)

        return self.once("owners", lambda: hand_over(make(), self.device))

    def each_token(self, values: Tensor) -> Tensor:
        """Values of documents `[b, ...]`, on the host or the device, repeated for each token: `[tokens, ...]`."""
        return hand_over(values, self.device)[self.owners()]


def cumulative(lengths: Sequence[int]) -> Tensor:
    """`[len + 1]` int32: 0 and the cumulative sums of the lengths.

    >>> cumulative([3, 5]).tolist()
    [0, 3, 8]
    """
    sums = torch.zeros(len(lengths) + 1, dtype=torch.int32)
    sums[1:] = torch.tensor(list(lengths)).cumsum(0)
    return sums


_OF_THREAD = threading.local()


def current() -> PackedDocuments | None:
    """The documents of the packed batch that this thread is encoding. None if its batch is padded."""
    return getattr(_OF_THREAD, "documents", None)


@contextlib.contextmanager
def encoding(documents: PackedDocuments) -> Iterator[None]:
    """Inside this context, the model of this thread gets these documents packed."""
    _OF_THREAD.documents = documents
    try:
        yield
    finally:
        _OF_THREAD.documents = None


def attend_packed(
    documents: PackedDocuments,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    scale: float,
    causal: bool,
    window: int | None = None,
    planned: PlannedAttention | None = None,
) -> Tensor:
    """Attention of each document over itself.

    Args:
        documents: the documents with the tokens of q, k and v.
        q: `[tokens, h, d]`, rotated to each token's position in its document.
        k: `[tokens, hk, d]`, rotated in the same way. `hk` divides `h`.
        v: `[tokens, hk, d]`.
        scale: factor of the scores.
        causal: whether token i sees only tokens up to i.
        window: token i sees tokens at a distance below this. None for all tokens.
        planned: changed relative positions, or None.

    Returns:
        `[tokens, h, d]` in v's dtype.
    """
    if planned is None:
        starts, longest = documents.starts(), max(documents.lengths)
        seen: Window = CAUSAL if causal else FULL
        if window is not None and window < longest:
            seen = (window - 1, 0 if causal else window - 1)
        return attend_varlen(q, k, v, starts, starts, longest, longest, scale=scale, window=seen)[0]
    calls = documents.once((id(planned), causal), lambda: calls_of(planned, documents, causal=causal))
    work = torch.promote_types(v.dtype, torch.float32)
    out = torch.zeros(*q.shape[:2], v.shape[-1], dtype=work, device=q.device)
    lse = torch.full(q.shape[:2], -torch.inf, dtype=work, device=q.device)
    for call in calls:
        own_q = _turned(q[call.rows], call.query_turn, planned.rotation)
        own_k = _turned(k[call.cols], call.key_turn, planned.rotation)
        part, part_lse = attend_varlen(
            own_q, own_k, v[call.cols], call.starts_q, call.starts_k, call.max_q, call.max_k,
            scale=scale, window=call.window,
        )  # fmt: skip
        merged, merged_lse = out[call.rows], lse[call.rows]
        merge_(merged, merged_lse, part, part_lse.to(work))
        out[call.rows], lse[call.rows] = merged, merged_lse
    return out.to(v.dtype)


@dataclass(eq=False)
class Call:
    """One call of the kernel: the tiles of one shape, of all documents that have such tiles.

    Args:
        rows: `[queries]` places of the query tokens. Each occurs at most once.
        cols: `[keys]` places of the key tokens.
        starts_q: `[tiles + 1]` int32, where each tile's queries start.
        starts_k: `[tiles + 1]` int32, where each tile's keys start.
        max_q: queries of the largest tile.
        max_k: keys of the largest tile.
        window: which keys a query sees inside a tile.
        query_turn: cosines and sines for the queries, or None.
        key_turn: cosines and sines for the keys, or None.
    """

    rows: Tensor
    cols: Tensor
    starts_q: Tensor
    starts_k: Tensor
    max_q: int
    max_k: int
    window: Window
    query_turn: tuple[Tensor, Tensor] | None
    key_turn: tuple[Tensor, Tensor] | None


def calls_of(planned: PlannedAttention, documents: PackedDocuments, *, causal: bool) -> list[Call]:
    """The calls. Together they cover every visible pair of tokens of every document once."""
    groups: dict[tuple[int, Window, int], list[tuple[int, Tile]]] = {}
    turns: dict[int, tuple[list[Tensor | None], list[Tensor | None]]] = {}
    start = 0
    for n in documents.lengths:
        for number, (tiles, query_at, key_at) in enumerate(planned.plan.passes(n, causal=causal)):
            at = turns.setdefault(number, ([], []))
            at[0].append(query_at)
            at[1].append(key_at)
            before: list[Tile] = []
            for tile in tiles:
                # a row occurs only once in a call, so that results can be merged by place
                again = sum(
                    _seen(other) == _seen(tile)
                    and other.rows.start < tile.rows.stop
                    and tile.rows.start < other.rows.stop
                    for other in before
                )
                groups.setdefault((number, _seen(tile), again), []).append((start, tile))
                before.append(tile)
        start += n
    turned = {
        number: [_turn(planned.rotation, at, documents.device) for at in ats] for number, ats in turns.items()
    }
    calls = []
    for (number, window, _), tiles_of_call in groups.items():
        rows = [_places(at, tile.rows, tile.shape == "upper") for at, tile in tiles_of_call]
        cols = [_places(at, tile.cols, tile.shape == "upper") for at, tile in tiles_of_call]
        where_q, where_k = (hand_over(torch.cat(part), documents.device) for part in (rows, cols))
        query_turn, key_turn = turned[number]
        calls.append(Call(
            rows=where_q,
            cols=where_k,
            starts_q=hand_over(cumulative([len(part) for part in rows]), documents.device),
            starts_k=hand_over(cumulative([len(part) for part in cols]), documents.device),
            max_q=max(map(len, rows)),
            max_k=max(map(len, cols)),
            window=window,
            query_turn=None if query_turn is None else (query_turn[0][where_q], query_turn[1][where_q]),
            key_turn=None if key_turn is None else (key_turn[0][where_k], key_turn[1][where_k]),
        ))  # fmt: skip
    return calls


def _seen(tile: Tile) -> Window:
    """Which keys a query sees inside a tile. An upper tile is read backwards."""
    if tile.shape == "band":
        return tile.left, tile.right
    return FULL if tile.shape == "full" else CAUSAL


def _places(start: int, at: slice, backwards: bool) -> Tensor:
    places = torch.arange(start + at.start, start + at.stop)
    return places.flip(0) if backwards else places


def _turn(rotation: Rotation, ats: list[Tensor | None], device: torch.device) -> tuple[Tensor, Tensor] | None:
    """Cosines and sines `[tokens, r/2]` of one pass over all documents. None if tokens keep their positions."""
    if ats[0] is None:
        return None
    parts = [rotation.turn(hand_over(at, device)) for at in ats if at is not None]
    return torch.cat([cos for cos, _ in parts]), torch.cat([sin for _, sin in parts])


def _turned(x: Tensor, turn: tuple[Tensor, Tensor] | None, rotation: Rotation) -> Tensor:
    """`[tokens, h, d]` rotated further."""
    if turn is None:
        return x
    return rotation.apply(x, (turn[0][:, None], turn[1][:, None]))
