"""The engine: runs the texts of one call through a model in batches by tokens, and yields what comes out."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol

import numpy as np
import torch
from sentence_transformers.util import batch_to_device
from torch import Tensor, nn
from transformers import PretrainedConfig

from mteb_longembed.encoders.strategies import Strategy

from .batching import Budget, plan
from .blocks import Block, divide, estimated_tokens, tokenised_blocks
from .fingerprint import fingerprint
from .progress import TokenBar
from .reading import Reading, reading_of, warn_once
from .running import Features, Runner, not_finite, retry_in_fp32
from .store import EmbeddingStore
from .tokenizing import Ids


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


def budget_of(model: TextModel, device_type: str, batch_size: int) -> Budget:
    """What one forward pass of a model may hold on a kind of device."""
    width = model.first.config.get_text_config().hidden_size
    return Budget.for_device(device_type, width, model.first.strategy.trained_len, batch_size)


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
        form: str = "sentence_embedding",
        kwargs: dict[str, Any] | None = None,
    ) -> None:
        self.model = model
        self.device = device
        self.prompt = prompt
        self.collect = collect
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
        self.budget = budget_of(model, device.type, batch_size)
        # what did not fit once is not tried again by later calls
        limits = model.__dict__.setdefault("_memory_limits", {})
        self._limits: dict[str, float] = limits
        self.runner = Runner(self._forward, self.budget.cost, limits.get(str(device), float("inf")))

    def encode(self, texts: list[str], *, show: bool) -> Iterator[tuple[list[int], list[Tensor]]]:
        """Encode texts, longest first; what the store has is read, and only the rest runs.

        Args:
            texts: what to encode.
            show: whether a progress bar is shown.

        Yields:
            The places of some texts, and the array of each: finite, on the engine's device.
        """
        for places, rows in self._batches(texts, show=show):
            yield from self._find_or_run(places, rows, texts)

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

    def _find_or_run(
        self, places: list[int], rows: list[Ids], texts: list[str]
    ) -> Iterator[tuple[list[int], list[Tensor]]]:
        """One planned batch: what is stored, then the rest in one piece, or several where memory is short."""
        keys = [] if self.fingerprint is None else self.fingerprint.keys(rows, self.prompt)
        found = self.store.get_many(keys) if self.store is not None and keys else {}
        known = [i for i, key in enumerate(keys) if key in found]
        if known:
            yield [places[i] for i in known], self._tensors([found[keys[i]] for i in known])
        missing = [i for i in range(len(rows)) if not keys or keys[i] not in found]
        # filled below: what the store gets of this batch
        new: dict[bytes, np.ndarray] = {}
        if self.shares_windows:
            by_windows = self._from_stored_windows([rows[i] for i in missing])
            for own, arrays in by_windows:
                new.update((keys[missing[i]], _numbers(a)) for i, a in zip(own, arrays, strict=True))
                yield [places[missing[i]] for i in own], arrays
            known += [missing[i] for own, _ in by_windows for i in own]
            missing = [i for i in missing if keys[i] not in new]
        done = 0
        for own, piece, features in self._run([places[i] for i in missing], [rows[i] for i in missing]):
            windows = features.pop("pooled_windows", None)
            arrays = self.collect(features)
            bad_ones = _not_finite(arrays)
            for bad in bad_ones:
                again = self._again(
                    own[bad], piece[bad], texts, lambda found: not _not_finite(self.collect(found))
                )
                arrays[bad] = self.collect(again)[0].to(arrays[bad].dtype)
            if keys:
                these = [keys[i] for i in missing[done : done + len(own)]]
                new.update((key, _numbers(array)) for key, array in zip(these, arrays, strict=True))
            if windows is not None:
                new.update(self._windows_to_keep(piece, windows, bad_ones))
            done += len(own)
            yield own, arrays
        if self.store is not None:
            # the whole batch at once: after a kill all of it is there, or nothing
            if new:
                self.store.put_many(list(new), list(new.values()))
            counts = self.store.counts
            counts.rows_read += len(known)
            counts.tokens_read += sum(len(rows[i]) for i in known)
            counts.rows_encoded += len(missing)
            counts.tokens_encoded += sum(len(rows[i]) for i in missing)

    def _window_keys(self, rows: Sequence[Ids]) -> dict[int, bytes]:
        """The keys of the windows of those rows that are cut."""
        assert self.fingerprint is not None  # or nothing is shared
        cut = [i for i, row in enumerate(rows) if not self.model.first.leaves_unchanged(len(row))]
        keys = self.fingerprint.window_keys([rows[i] for i in cut], self.prompt) if cut else []
        return dict(zip(cut, keys, strict=True))

    def _from_stored_windows(self, rows: Sequence[Ids]) -> list[tuple[list[int], list[Tensor]]]:
        """Places among `rows` and arrays of the documents whose windows another model has encoded."""
        assert self.store is not None
        keys = self._window_keys(rows)
        found = self.store.get_many(list(keys.values()))
        places = [i for i, key in keys.items() if key in found]
        if not places:
            return []
        windows = [torch.from_numpy(found[keys[i]]).to(self.device) for i in places]
        return [(places, self.collect(self.model.from_windows(windows, **self.kwargs)))]

    def _windows_to_keep(
        self, rows: Sequence[Ids], windows: Sequence[Tensor], bad: Sequence[int]
    ) -> dict[bytes, np.ndarray]:
        """Key and pooled windows of each cut document, apart from those that had to be encoded again."""
        keys = self._window_keys(rows)
        return {key: _numbers(windows[i]) for i, key in keys.items() if i not in bad}

    def _run(self, places: list[int], rows: list[Ids]) -> Iterator[tuple[list[int], list[Ids], Features]]:
        """Places, ids and features of documents that run together."""
        start = 0
        for size, features in self.runner(rows) if rows else ():
            yield places[start : start + size], rows[start : start + size], features
            start += size
        self._limits[str(self.device)] = self.runner.limit

    def _tensors(self, arrays: list[np.ndarray]) -> list[Tensor]:
        if len({array.shape for array in arrays}) == 1:
            return list(torch.from_numpy(np.stack(arrays)).to(self.device))
        return [torch.from_numpy(array).to(self.device) for array in arrays]

    def _forward(self, rows: Sequence[Ids]) -> Features:
        features = self.model.first.features_of(rows, self.prompt)
        # through __call__, so that model.compile() applies
        features = batch_to_device(features, self.device)
        if self.shares_windows:
            features["keep_windows"] = True
        return self.model(features, **self.kwargs)

    def _again(self, place: int, ids: Ids, texts: list[str], finite: Callable[[Features], bool]) -> Features:
        """The features of one document in fp32, where its batch's were not finite."""
        describe = _describe(place, texts[place], ids)
        return retry_in_fp32(self.model.first.model, lambda: self._forward([ids]), finite, describe)


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
