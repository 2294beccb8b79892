"""Texts -> arrays, fast and safely: batches by tokens, halved where memory is short, one pass for several heads."""

import logging
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass
from itertools import islice
from typing import Any
from weakref import WeakSet

import numpy as np
import torch
from torch import Tensor
from tqdm.auto import tqdm  # type: ignore[import-untyped]

from mteb_longembed.errors import CapacityError, InputError, NumberError

from .self_extend import to_device
from .store import EmbeddingStore, how_it_runs, key_of
from .tokens import Ids, estimated_tokens
from .vectors import BOUNDS, Features

logger = logging.getLogger(__name__)
#: The largest cost of a batch in tokens (see `Budget.cost`), by kind of device. On a CPU a thousand tokens are enough
#: for fast matrix products, and longer documents run alone, without padding or mask. Other devices need larger batches.
TOKENS = {"cpu": 4096}
TOKENS_ELSEWHERE = 65_536
#: A block of texts, which is tokenised at once, has about the tokens of this many batches.
_BATCHES = 64
#: The largest share of padding in a batch of more tokens than `Budget.fill`.
_WASTE = 0.1
#: The error messages of allocators: CUDA and MPS, their libraries, Triton, torch on CPUs, C++, oneDNN.
_NO_MEMORY = re.compile(
    r"out of memory|can't allocate memory|cannot allocate memory|bad_?alloc|alloc_cpu|"
    r"could not create a (memory|primitive)|failed to allocate|STATUS_ALLOC_FAILED|out of resource",
    re.IGNORECASE,
)
#: The models for which the warning of texts that are mostly cut was logged.
_WARNED: WeakSet[Any] = WeakSet()
_PLAIN = (str, int, float, bool, type(None))


@dataclass(frozen=True)
class Budget:
    """The limits of one forward pass. A document that alone costs more than `tokens` runs by itself.

    Args:
        tokens: the largest cost of a batch, in tokens of short documents.
        batch_size: the largest number of documents in a batch.
        trained_len: documents up to this length in tokens never share a batch with longer ones.
        even_len: the length in tokens at which attention costs as much as the rest of the model; infinite where
            attention does not count.
        fill: padded tokens up to which any share of padding is cheaper than another forward pass.
    """

    tokens: int
    batch_size: int
    trained_len: int
    even_len: float
    fill: int = 256

    def __post_init__(self) -> None:
        if self.batch_size < 1:
            raise InputError(f"batch_size must be at least 1 document, got {self.batch_size}.")

    def cost(self, n: int) -> float:
        """The cost of a document of `n` tokens, in tokens of a short document."""
        return n * (1 + n / self.even_len)

    def plan(self, lengths: Sequence[int]) -> list[list[int]]:
        """Batches of document indices, the longest documents first. Every index occurs once.

        >>> Budget(tokens=20, batch_size=8, trained_len=4, even_len=1000).plan([3, 9, 3, 8])
        [[1, 3], [0, 2]]
        """
        batches: list[list[int]] = []
        widest = real = 0
        for i in sorted(range(len(lengths)), key=lambda i: (-lengths[i], i)):
            if not batches or not self._joins(lengths[i], widest, len(batches[-1]), real):
                batches.append([])
                widest = lengths[i]
                real = 0
            batches[-1].append(i)
            real += lengths[i]
        return batches

    def _joins(self, n: int, widest: int, size: int, real: int) -> bool:
        """Whether a document of `n` tokens may join a batch of `size` documents with `real` tokens in all."""
        if size >= self.batch_size or (size + 1) * self.cost(widest) > self.tokens:
            return False
        if (n > self.trained_len) != (widest > self.trained_len):
            return False
        padded = (size + 1) * widest
        return padded <= self.fill or padded <= (1 + _WASTE) * (real + n)


def blocks(texts: Sequence[str], max_len: int, block_tokens: int) -> list[list[int]]:
    """Indices of the texts in blocks of about so many tokens, the longest texts first."""
    found: list[list[int]] = []
    room = 0  # tokens that the last block may still get
    for i in sorted(range(len(texts)), key=lambda i: (-len(texts[i]), i)):
        if room <= 0:
            room = block_tokens
            found.append([])
        found[-1].append(i)
        room -= estimated_tokens(texts[i], max_len)
    return found


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an exception says that memory ran out, whichever allocator raised it."""
    if isinstance(error, (MemoryError, torch.OutOfMemoryError)):
        return True
    # Triton's errors are plain exceptions
    return isinstance(error, Exception) and _NO_MEMORY.search(str(error)) is not None


# ---- progress -------------------------------------------------------------------------------------------------

#: The bar of a run with many calls. Calls inside it show no bar of their own but advance this one.
_RUN_BAR: ContextVar[tqdm | None] = ContextVar("_RUN_BAR", default=None)


@contextmanager
def shared_bar(bar: tqdm) -> Iterator[None]:
    """Calls of `encode` inside show no bar of their own but advance this one, by their tokens."""
    token = _RUN_BAR.set(bar)
    try:
        yield
    finally:
        _RUN_BAR.reset(token)


def no_bar() -> AbstractContextManager[None]:
    """What is encoded inside is no part of a run's tokens, so it does not advance its bar."""
    return shared_bar(tqdm(disable=True))


def _bar(total: int, *, show: bool) -> Any:
    """A bar of tokens, which also shows without a terminal; inside `shared_bar` it is that bar."""
    run_bar = _RUN_BAR.get()
    if run_bar is not None:
        return nullcontext(run_bar)
    return tqdm(total=total, desc="Encoding", unit=" tokens", unit_scale=True, smoothing=0, disable=not show)


# ---- the engine -----------------------------------------------------------------------------------------------


@dataclass(eq=False)
class Engine:
    """One call on one device, with models in evaluation mode that share their first module.

    Args:
        models: one, or several with other modules behind the first one, which each pool the same pass.
        device: where they are.
        prompt: before each text.
        batch_size: how many texts may run together at most.
        kwargs: for the modules' `forward`.
        of_tokens: whether the embeddings of tokens are asked for, and not those of texts.
        to_host: whether arrays go to the host.
        store: keeps arrays. None for no store.
    """

    models: Sequence[Any]
    device: torch.device
    prompt: str | None
    batch_size: int
    kwargs: Mapping[str, object]
    of_tokens: bool
    to_host: bool
    store: EmbeddingStore | None = None

    def __post_init__(self) -> None:
        self.trunk = self.models[0].trunk
        strategy = self.trunk.strategy
        kind = self.device.type
        width = self.trunk.config.get_text_config().hidden_size
        self.budget = Budget(
            tokens=TOKENS.get(kind, TOKENS_ELSEWHERE),
            batch_size=self.batch_size,
            trained_len=strategy.trained_len,
            # for each token a layer spends 24 d^2 on projections and MLP, and 4 n d on attention; on CUDA memory is
            # the limit, and a token takes the same memory in every document
            even_len=math.inf if kind == "cuda" else 6 * width,
            fill=256 if kind == "cpu" else 8192,
        )
        #: no batch above this cost is tried; it falls when memory runs out
        self._limit = math.inf
        self._owners: list[object] = []
        if self.store is not None and all(isinstance(value, _PLAIN) for value in self.kwargs.values()):
            owners = [model.row_owner() for model in self.models]
            self._owners = [] if None in owners else owners

    def encode(self, texts: Sequence[str], *, show: bool) -> Iterator[tuple[list[int], list[list[Tensor]]]]:
        """Encode different texts, longest first: the indices of some texts, and for each model the finite arrays."""
        kept_len = self.trunk.kept_len
        expected = [estimated_tokens(text, kept_len) for text in texts]
        with _bar(sum(expected), show=show) as bar:
            for indices in blocks(texts, kept_len, self.budget.tokens * _BATCHES):
                for part, arrays, n_tokens in self._encode_block(texts, indices, expected):
                    if _RUN_BAR.get() is None:
                        bar.total += n_tokens - sum(expected[i] for i in part)
                    bar.update(n_tokens)
                    yield part, arrays

    def _encode_block(
        self, texts: Sequence[str], indices: Sequence[int], expected: Sequence[int]
    ) -> Iterator[tuple[list[int], list[list[Tensor]], int]]:
        known = self._stored([texts[i] for i in indices])
        if known:
            found = [indices[n] for n in known]
            stored = [list(arrays) for arrays in zip(*known.values(), strict=True)]
            yield found, stored, sum(expected[i] for i in found)
        missing = [i for n, i in enumerate(indices) if n not in known]
        if not missing:
            return
        ids = self.trunk.token_ids([texts[i] for i in missing], self.prompt, **self.kwargs)
        assert ids is not None  # other calls never reach the engine
        self._warn_of_cuts([texts[i] for i in missing], ids)
        for batch in self.budget.plan([len(row) for row in ids]):
            places = iter(batch)
            for arrays in self._run([ids[n] for n in batch]):
                part = list(islice(places, len(arrays[0])))
                self._keep(part, missing, texts, ids, arrays)
                yield [missing[n] for n in part], arrays, sum(len(ids[n]) for n in part)

    def _run(self, rows: Sequence[Ids]) -> Iterator[list[list[Tensor]]]:
        """For each model the array of each text of a batch: in one piece, or in several if memory is short."""
        total = len(rows) * self.budget.cost(max(map(len, rows)))
        if len(rows) == 1 or total <= self._limit:
            failure = None
            try:
                # kept in a variable, so that the exception's frames are freed before memory is allocated again
                arrays = self._forward(rows)
            except Exception as error:
                if not is_out_of_memory(error):
                    raise
                failure = str(error) or type(error).__name__
            if failure is None:
                yield arrays
                return
            if torch.cuda.is_available():
                torch.cuda.empty_cache()
            if len(rows) == 1:
                raise CapacityError(
                    f"a document of {len(rows[0])} tokens does not fit into memory even alone "
                    f"({' '.join(failure.split())[:120]}); use a shorter target length, half precision (dtype=bf16) "
                    "or a larger device; with a store (mteb runs), the documents finished before are kept."
                )
            self._limit = total / 2
        middle = (len(rows) + 1) // 2
        yield from self._run(rows[:middle])
        yield from self._run(rows[middle:])

    def _forward(self, ids: Sequence[Ids]) -> list[list[Tensor]]:
        """One pass: for each model the array of each text."""
        features = self.trunk.features_of(ids, self.prompt)
        for key, value in features.items():
            if isinstance(value, Tensor) and key != BOUNDS:
                features[key] = to_device(value, self.device)
        if len(self.models) == 1:
            # by __call__, so that model.compile() has an effect
            return [self._collect(self.models[0], self.models[0](features, **self.kwargs))]
        tokens = self.trunk(features)
        return [self._collect(model, model.behind(tokens, **self.kwargs)) for model in self.models]

    def _collect(self, model: Any, features: Features) -> list[Tensor]:
        """One array for each document of a batch, from the features after the last module.

        Several vectors are copied, so that the padding of the batch does not stay in memory.
        """
        if not (self.of_tokens or model.has_several_vectors):
            return list(self._placed(features["sentence_embedding"]))
        rows = features["token_embeddings"]
        masks = features["attention_mask"].bool().cpu()  # the host waits once, not for each text
        real = [to_device(mask.nonzero()[:, 0], rows.device) for mask in masks]
        return [self._placed(row[indices]) for row, indices in zip(rows, real, strict=True)]

    def _placed(self, array: Tensor) -> Tensor:
        return array.cpu() if self.to_host else array

    def _stored(self, texts: Sequence[str]) -> dict[int, list[Tensor]]:
        """The places of those texts of which the store has the arrays of all models, and these."""
        if self.store is None or not self._owners:
            return {}
        rows = self.store.get_many([key for text in texts for key in self._keys(text)])
        known: dict[int, list[Tensor]] = {}
        for place, text in enumerate(texts):
            keys = self._keys(text)
            if all(key in rows for key in keys):
                arrays = [torch.from_numpy(rows[key].copy()) for key in keys]
                pairs = zip(self.models, arrays, strict=True)
                arrays = [array if model.has_several_vectors else array[0] for model, array in pairs]
                known[place] = [array if self.to_host else array.to(self.device) for array in arrays]
        self.store.counts.rows_read += len(known)
        return known

    def _keys(self, text: str) -> list[bytes]:
        how = how_it_runs(self.device), sorted(self.kwargs.items()), self.prompt, text
        return [key_of(owner, *how) for owner in self._owners]

    def _keep(
        self,
        part: Sequence[int],
        missing: Sequence[int],
        texts: Sequence[str],
        ids: Sequence[Ids],
        arrays: list[list[Tensor]],
    ) -> None:
        """Give the arrays of a pass to the store.

        Raises:
            NumberError: if one is not finite.
        """
        # the host waits once for all of them
        every = [torch.isfinite(array).all() for of_model in arrays for array in of_model]
        finite = torch.stack(every).tolist()
        for number, n in enumerate(part):
            if not all(finite[number :: len(part)]):
                self._refuse(missing[n], ids[n], texts[missing[n]])
        if self.store is None or not self._owners:
            return
        rows: dict[bytes, np.ndarray] = {}
        for number, n in enumerate(part):
            for key, of_model in zip(self._keys(texts[missing[n]]), arrays, strict=True):
                rows[key] = np.atleast_2d(of_model[number].float().cpu().numpy())
        self.store.put_many(rows)
        self.store.counts.rows_encoded += len(part)
        self.store.counts.tokens_encoded += sum(len(ids[n]) for n in part)

    def _refuse(self, index: int, ids: Ids, text: str) -> None:
        """Raise NumberError for a document whose embedding is not finite."""
        start = text[:40].encode("unicode_escape", "backslashreplace").decode()
        remedy = "the model's weights or its extension overflow on it"
        if any(p.dtype in (torch.float16, torch.bfloat16) for p in self.trunk.model.parameters()):
            remedy = "half precision may overflow where dtype=fp32 does not"
        raise NumberError(
            f"an embedding must be finite, but that of document {index} ({len(ids)} tokens, starting with '{start}') "
            f"is not, so no result is written: {remedy}."
        )

    def _warn_of_cuts(self, texts: Sequence[str], ids: Sequence[Ids]) -> None:
        """Log a warning, once for each model, if more than half of a text is cut away."""
        model = self.models[0]
        if model in _WARNED:
            return
        kept_len = self.trunk.kept_len
        mostly_cut = 0
        for text, row in zip(texts, ids, strict=True):
            mostly_cut += len(row) >= kept_len and estimated_tokens(text) > 2 * len(row)
        if mostly_cut:
            _WARNED.add(model)
            logger.warning(
                "%s of %s texts lose more than half of their length, because the model reads only the first %s tokens; "
                "an extended model reads more (this warning appears once; logger %s).",
                f"{mostly_cut:,}",
                f"{len(texts):,}",
                f"{kept_len:,}",
                __name__,
            )
