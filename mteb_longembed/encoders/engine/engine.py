"""The engine: runs the texts of one call through a model in batches by tokens, and yields what comes out."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor, nn
from transformers import PretrainedConfig

from mteb_longembed.encoders.attention.devices import hand_over, head_width, path
from mteb_longembed.encoders.store.fingerprint import fingerprint
from mteb_longembed.encoders.store.store import EmbeddingStore
from mteb_longembed.encoders.strategies import Strategy

from .batching import Budget, plan
from .blocks import Block, divide, estimated_tokens, tokenised_blocks
from .memory import measured_tokens
from .progress import TokenBar
from .reading import Reading, reading_of, warn_once
from .running import Features, Runner, not_finite, retry_in_fp32
from .tokenizing import Ids
from .transfers import AHEAD, Results, lagging

logger = logging.getLogger(__name__)

#: Under this name a model's forward pass is told the tokens of each text, as a tuple: nobody has to count them.
DOCUMENT_LENGTHS = "document_lengths"


class TextModule(Protocol):
    """A model's first module, which tokenises and holds the strategy."""

    strategy: Strategy
    model: Any

    @property
    def tokenizer(self) -> Any:
        """The tokenizer, None where it has none."""

    @property
    def config(self) -> PretrainedConfig:
        """The transformer's configuration."""

    @property
    def longest(self) -> int:
        """Tokens kept of a text."""

    def token_ids(self, inputs: Any, prompt: str | None = None, **kwargs: Any) -> list[Ids] | None:
        """Each text's ids; None where these inputs cannot be cut by the engine."""

    def features_of(self, ids: Sequence[Ids], prompt: str | None = None) -> dict[str, Any]:
        """What the forward pass takes for texts with these ids."""

    def row_settings(self, ids: Sequence[Ids], prompt: str | None = None) -> Sequence[object]:
        """What decides about each text's numbers beside its ids."""

    def leaves_unchanged(self, n: int) -> bool:
        """Whether a text of `n` tokens gets the embedding that the base itself gives it."""

    def read_by_short_inputs(self) -> dict[tuple[int, str], Tensor | None]:
        """What extending changed although texts up to the trained length do not see it: see `Family`."""


class TextModel(Protocol):
    """What an engine needs of a model: its first module, and a forward pass through all of them."""

    @property
    def first(self) -> TextModule:
        """The module that tokenises and holds the strategy."""

    @property
    def pooling(self) -> nn.Module:
        """The module behind the first one."""

    @property
    def shares_windows(self) -> bool:
        """Whether documents that are cut get their vectors from their pooled windows alone."""

    def from_windows(self, windows: Sequence[Tensor], task: str | None = None) -> Features:
        """The features after the last module, of documents whose pooled windows are known."""

    def __call__(self, features: dict[str, Any], **kwargs: Any) -> dict[str, Any]:
        """The features after the last module."""


def budget_of(model: TextModel, device_type: str, batch_size: int, tokens: int | None = None) -> Budget:
    """What one forward pass of a model may hold on a kind of device; `tokens` where they were measured."""
    width = model.first.config.get_text_config().hidden_size
    return Budget.for_device(device_type, width, model.first.strategy.trained_len, batch_size, tokens)


@dataclass(eq=False)
class _Piece:
    """Texts of a batch that run together.

    Args:
        places: among the inputs.
        rows: their token ids.
        results: one array each.
        windows: the pooled windows of each, where they are kept and one of the texts is cut.
    """

    places: list[int]
    rows: list[Ids]
    results: Results
    windows: Results | None


@dataclass(eq=False)
class _Started:
    """A batch that runs: what the store knew of it, and the pieces in which the rest runs.

    Args:
        places: of all its texts among the inputs.
        rows: their token ids.
        keys: their names in the store; empty without one.
        found: what the store had, and what was joined from stored windows.
        joined: the latter.
        pieces: the rest.
    """

    places: list[int]
    rows: list[Ids]
    keys: list[bytes]
    found: dict[bytes, np.ndarray]
    joined: dict[bytes, np.ndarray]
    pieces: list[_Piece]


#: What is taken of a batch's features: one array a document.
Collect = Callable[[Features], list[Tensor]]


def sentence_embeddings(features: Features) -> list[Tensor]:
    """One vector a document: what sentence-transformers' dense models give."""
    return list(features["sentence_embedding"])


class Engine:
    """One call of `encode` on one device.

    Args:
        model: extended model, in evaluation mode.
        device: where it runs.
        prompt: put before every text.
        batch_size: texts in a batch at most.
        store: where finished arrays are kept; None keeps none.
        collect: takes one array a document, of any shape, from the features after the model's last module.
        to_host: whether the arrays are wanted on the host rather than on the device.
        form: says what `collect` does; the store keeps the arrays of each form apart.
        kwargs: what the call hands to the modules' `forward`.
    """

    def __init__(
        self,
        model: TextModel,
        device: torch.device,
        *,
        prompt: str | None = None,
        batch_size: int = 32,
        store: EmbeddingStore | None = None,
        collect: Collect = sentence_embeddings,
        to_host: bool = False,
        form: str = "sentence_embedding",
        kwargs: dict[str, Any] | None = None,
    ) -> None:
        self.model = model
        self.device = device
        self.prompt = prompt
        self.collect = collect
        self.to_host = to_host
        self.kwargs = kwargs or {}
        self.reading = Reading()
        self.store = store
        self.fingerprint = None if store is None else fingerprint(model, device, form, self.kwargs)
        # models that join the same windows in several ways, as in `compare`, encode them once
        self.shares_windows = (
            store is not None
            and store.keeps_windows
            and self.fingerprint is not None
            and model.shares_windows
            and set(self.kwargs) <= {"task"}
        )
        # what did not fit once is not tried again by later calls
        limits = model.__dict__.setdefault("_memory_limits", {})
        self._limits: dict[str, float] = limits
        self.budget = budget_of(model, device.type, batch_size, self._measured())
        logger.debug("%s: %s", device, path_of(model, device))
        self.runner = Runner(self._forward, self.budget.cost, limits.get(str(device), float("inf")))

    def encode(self, texts: list[str], *, show: bool) -> Iterator[tuple[list[int], list[Tensor]]]:
        """Encode texts, longest first; what the store has is read, and only the rest runs.

        Args:
            texts: what to encode.
            show: whether a progress bar is shown.

        Yields:
            The places of some texts, and the array of each: finite, on the engine's device or the host.
        """
        started = (self._start(places, rows) for places, rows in self._batches(texts, show=show))
        for batch in lagging(started, AHEAD if self.device.type == "cuda" else 0):
            yield from self._finish(batch, texts)

    def features(self, texts: list[str], *, show: bool) -> Iterator[tuple[list[int], Features]]:
        """Encode texts, longest first, past the store.

        Args:
            texts: what to encode.
            show: whether a progress bar is shown.

        Yields:
            The places of some texts, and all features of their batch after the model's last module, finite.
        """
        for places, rows in self._batches(texts, show=show):
            for own, piece, features in self._run(places, rows):
                for bad in not_finite(features):
                    again = self._again(own[bad], piece[bad], texts, lambda found: not not_finite(found))
                    for name in ("sentence_embedding", "token_embeddings"):
                        if name in features:
                            value = again[name][0]
                            target = features[name][bad]
                            target[: len(value)] = value.to(target.dtype)
                yield own, features

    def _batches(self, texts: list[str], *, show: bool) -> Iterator[tuple[list[int], list[Ids]]]:
        """Places and ids of the texts of each batch: a pure function of texts and settings."""
        first = self.model.first
        max_len = first.longest
        expected = [estimated_tokens(text, max_len) for text in texts]
        blocks = divide(texts, max_len, self.budget.tokens)

        def tokenise(part: list[str]) -> list[Ids]:
            ids = first.token_ids(part, self.prompt, **self.kwargs)
            if ids is None:
                raise TypeError("all inputs of one call must be texts")
            return ids

        self.reading = Reading()
        with TokenBar(sum(expected), show=show) as bar:
            for block in tokenised_blocks(texts, blocks, tokenise):
                bar.correct(sum(map(len, block.ids)) - sum(expected[i] for i in block.places))
                self._note(block, texts, max_len)
                for batch in plan([len(ids) for ids in block.ids], self.budget):
                    rows = [block.ids[i] for i in batch]
                    yield [block.places[i] for i in batch], rows
                    bar.advance(sum(map(len, rows)))

    def _note(self, block: Block, texts: list[str], max_len: int) -> None:
        """Count what is read of a block's texts, and say once where it is less than half."""
        own = [texts[i] for i in block.places]
        self.reading.add(reading_of(self.model.first.tokenizer, own, block.ids, max_len))
        warn_once(self.model, self.reading, max_len)

    def _start(self, places: list[int], rows: list[Ids]) -> _Started:
        """Read what the store has of a batch, and run the rest in one piece, or several where memory is short."""
        keys = [] if self.fingerprint is None else self.fingerprint.keys(rows, self.prompt)
        found = self.store.get_many(keys) if self.store is not None and keys else {}
        joined = self._joined(rows, keys, found) if self.shares_windows else {}
        found = {**found, **joined}
        missing = [i for i in range(len(rows)) if not keys or keys[i] not in found]
        pieces = []
        for own, piece, features in self._run([places[i] for i in missing], [rows[i] for i in missing]):
            windows = features.pop("pooled_windows", None)
            kept = None if windows is None else Results(windows, fetch=True)
            results = Results(self.collect(features), fetch=self.to_host or bool(keys))
            pieces.append(_Piece(own, piece, results, kept))
        return _Started(places, rows, keys, found, joined, pieces)

    def _finish(self, batch: _Started, texts: list[str]) -> Iterator[tuple[list[int], list[Tensor]]]:
        """Hand over the arrays of a batch, after those that are not finite ran again; then store them."""
        places, rows, keys = batch.places, batch.rows, batch.keys
        known = [i for i, key in enumerate(keys) if key in batch.found]
        if known:
            yield [places[i] for i in known], self._tensors([batch.found[keys[i]] for i in known])
        key_of = dict(zip(places, keys, strict=True)) if keys else {}
        new = dict(batch.joined)
        for piece in batch.pieces:
            arrays, not_finite_rows = piece.results.read()
            for bad in not_finite_rows:
                again = self._again(
                    piece.places[bad],
                    piece.rows[bad],
                    texts,
                    lambda found: not _not_finite(self.collect(found)),
                )
                arrays[bad] = self.collect(again)[0].to(arrays[bad].device, arrays[bad].dtype)
            if keys:
                own = [key_of[place] for place in piece.places]
                new.update((key, _numbers(array)) for key, array in zip(own, arrays, strict=True))
            if piece.windows is not None:
                window_keys = self._window_keys(piece.rows)
                windows, _ = piece.windows.read()
                new.update(
                    (k, _numbers(windows[i])) for i, k in window_keys.items() if i not in not_finite_rows
                )
            yield piece.places, arrays if self.to_host else [array.to(self.device) for array in arrays]
        if self.store is not None:
            # the whole batch at once: after a kill all of it is there, or nothing
            if new:
                self.store.put_many(list(new), list(new.values()))
            ran = [row for piece in batch.pieces for row in piece.rows]
            counts = self.store.counts
            counts.rows_read += len(known)
            counts.tokens_read += sum(len(rows[i]) for i in known)
            counts.rows_encoded += len(ran)
            counts.tokens_encoded += sum(map(len, ran))

    def _joined(
        self, rows: Sequence[Ids], keys: Sequence[bytes], found: Mapping[bytes, np.ndarray]
    ) -> dict[bytes, np.ndarray]:
        """Key and array of the documents whose windows another model has encoded."""
        assert self.store is not None
        missing = [i for i, key in enumerate(keys) if key not in found]
        window_keys = self._window_keys([rows[i] for i in missing])
        stored = self.store.get_many(list(window_keys.values()))
        ready = {missing[i]: stored[key] for i, key in window_keys.items() if key in stored}
        if not ready:
            return {}
        windows = [torch.from_numpy(array).to(self.device) for array in ready.values()]
        arrays = self.collect(self.model.from_windows(windows, **self.kwargs))
        return {keys[i]: _numbers(array) for i, array in zip(ready, arrays, strict=True)}

    def _window_keys(self, rows: Sequence[Ids]) -> dict[int, bytes]:
        """The keys of the windows of those rows that are cut."""
        assert self.fingerprint is not None  # or nothing is shared
        cut = [i for i, row in enumerate(rows) if not self.model.first.leaves_unchanged(len(row))]
        keys = self.fingerprint.window_keys([rows[i] for i in cut], self.prompt) if cut else []
        return dict(zip(cut, keys, strict=True))

    def _run(self, places: list[int], rows: list[Ids]) -> Iterator[tuple[list[int], list[Ids], Features]]:
        """Places, ids and features of documents that run together."""
        start = 0
        for size, features in self.runner(rows) if rows else ():
            yield places[start : start + size], rows[start : start + size], features
            start += size
        self._limits[str(self.device)] = self.runner.limit

    def _tensors(self, arrays: list[np.ndarray]) -> list[Tensor]:
        where = "cpu" if self.to_host else self.device
        if len({array.shape for array in arrays}) == 1:
            return list(torch.from_numpy(np.stack(arrays)).to(where))
        return [torch.from_numpy(array).to(where) for array in arrays]

    def _forward(self, rows: Sequence[Ids]) -> Features:
        features = self.model.first.features_of(rows, self.prompt)
        for key, value in features.items():
            # windows are cut on the host
            if isinstance(value, Tensor) and key != "window_prefix":
                features[key] = hand_over(value, self.device)
        features[DOCUMENT_LENGTHS] = tuple(map(len, rows))
        if self.shares_windows:
            features["keep_windows"] = True
        # through __call__, so that model.compile() applies
        return self.model(features, **self.kwargs)

    def _measured(self) -> int | None:
        """Tokens of a batch, measured once for a model and device; None on devices whose budget is fixed."""
        if self.device.type != "cuda":
            return None
        known: dict[str, int] = self.model.__dict__.setdefault("_measured_tokens", {})
        key = str(self.device)
        if key not in known:
            token = self.model.first.token_ids(["a"], None)

            def run(count: int, n: int) -> None:
                row = np.resize(token[0] if token else np.zeros(1, np.int32), n)
                self.collect(self._forward([row] * count))

            known[key] = measured_tokens(run, self.model.first.longest, self.device)
        return known[key]

    def _again(self, place: int, ids: Ids, texts: list[str], finite: Callable[[Features], bool]) -> Features:
        """The features of one document in fp32, where its batch's were not finite."""
        describe = _describe(place, texts[place], ids)
        return retry_in_fp32(self.model.first.model, lambda: self._forward([ids]), finite, describe)


def path_of(model: TextModel, device: torch.device) -> str:
    """One line that says how a model's documents run on a device."""
    config = model.first.config.get_text_config()
    dtype = next(model.first.model.parameters()).dtype
    family = getattr(model.first, "family", None)
    line = path(device, dtype, head_width(config), may_be_packed=getattr(family, "packs", False))
    return f"{str(dtype).removeprefix('torch.')}, {line}"


def _not_finite(arrays: list[Tensor]) -> list[int]:
    """Which of a batch's arrays hold NaN or infinity."""
    finite = torch.stack([torch.isfinite(array).all() for array in arrays])
    return [] if bool(finite.all()) else (~finite).nonzero()[:, 0].tolist()


def _numbers(array: Tensor) -> np.ndarray:
    # numpy has no bfloat16
    array = array.float() if array.dtype == torch.bfloat16 else array
    return array.cpu().numpy()


def _describe(place: int, text: str, ids: Ids) -> str:
    start = text[:40].encode("unicode_escape", "backslashreplace").decode()
    return f"document {place} ({len(ids)} tokens, starting with '{start}')"
