"""The SentenceTransformer that `extend` and `load` return: sentence-transformers' own, on our engine.

The engine decides only what is tokenised when and what runs with what; what happens to a document stands in
the modules' `forward`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from importlib.metadata import version
from typing import Any, Literal, Self, cast

import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.util import batch_to_device, truncate_embeddings
from torch import Tensor

from mteb_longembed.errors import LongEmbedError

from .batching import Budget, plan, split_by_cost
from .blocks import Block, divide, estimated_tokens, tokenised_blocks
from .fingerprint import model_key
from .modules import LongTransformer
from .progress import TokenBar
from .running import Features, Runner, not_finite, retry_in_fp32
from .store import EmbeddingStore, record_key
from .tokenizing import Ids

Pool = dict[Literal["input", "output", "processes"], Any]

#: Parts of a multi-process run for each worker: enough that none waits long for the last.
_PARTS_PER_WORKER = 8


#: What a SentenceTransformer is beside its modules, by the names of its constructor.
_SETTINGS = ("prompts", "default_prompt_name", "similarity_fn_name", "truncate_dim")


def settings_of(model: SentenceTransformer) -> dict[str, Any]:
    """What a model's constructor takes beside its modules: prompts, similarity, dimensions."""
    return {key: getattr(model, key) for key in _SETTINGS}


def check_hooks(stock: type = SentenceTransformer) -> None:
    """Refuse a sentence-transformers without the methods we replace: it would run past our engine in silence.

    Args:
        stock: the class to look at.

    Raises:
        LongEmbedError: if it lacks one of them.
    """
    for name in ("_inference", "_multi_process", "_get_worker_result", "_resolve_inference_device"):
        if not hasattr(stock, name):
            raise LongEmbedError(
                f"sentence-transformers {version('sentence-transformers')} has no SentenceTransformer.{name}, "
                "where mteb-longembed runs its models: install another version of one of the two."
            )


check_hooks()


class LongSentenceTransformer(SentenceTransformer):
    """A `SentenceTransformer` whose first module is a `LongTransformer`.

    `store` keeps document embeddings between runs where it is set (mteb runs set it, plain `encode` not).
    """

    store: EmbeddingStore | None = None

    def pool_in_fp32(self) -> Self:
        """Keep every module behind the transformer in fp32: it hands over fp32 whatever it computes in."""
        for module in list(self)[1:]:
            module.float()
        return self

    @torch.inference_mode()
    def _inference(  # type: ignore[override]
        self,
        inputs: list[Any],
        *,
        prompt: str | None,
        batch_size: int,
        show_progress_bar: bool,
        output_value: str | None,
        save_to_cpu: bool,
        normalize_embeddings: bool,
        truncate_dim: int | None,
        device: Any = None,
        **kwargs: Any,
    ) -> Any:
        """As sentence-transformers', in batches by tokens; other inputs than texts go to the original."""
        first = self[0]
        if not isinstance(first, LongTransformer) or first.token_ids(inputs[:1], prompt, **kwargs) is None:
            return super()._inference(
                inputs,
                prompt=prompt,
                batch_size=batch_size,
                show_progress_bar=show_progress_bar,
                output_value=output_value,
                save_to_cpu=save_to_cpu,
                normalize_embeddings=normalize_embeddings,
                truncate_dim=truncate_dim,
                device=device,
                **kwargs,
            )
        where = self._resolve_inference_device(device)
        self.eval()
        finish = _finisher(output_value, truncate_dim, normalize_embeddings, save_to_cpu)
        stored = self.store if output_value == "sentence_embedding" else None
        # equal texts are encoded once
        unique = list(dict.fromkeys(inputs)) if output_value == "sentence_embedding" else inputs
        done: list[Any] = [None] * len(unique)
        run = _Run(self, where, prompt, batch_size, stored, kwargs)
        for places, features in run.encode(unique, show=show_progress_bar):
            for place, value in zip(places, finish(features), strict=True):
                done[place] = value
        if unique is not inputs:
            place_of = {text: place for place, text in enumerate(unique)}
            done = [done[place_of[text]] for text in inputs]
        return torch.stack(done) if output_value == "sentence_embedding" else done

    # ---- several processes --------------------------------------------------------------------------------

    def start_multi_process_pool(self, target_devices: list[str] | None = None) -> Pool:
        """As sentence-transformers', but workers on CPUs share the cores instead of each taking all."""
        name = "OMP_NUM_THREADS"
        if not target_devices or set(target_devices) != {"cpu"} or name in os.environ:
            return super().start_multi_process_pool(target_devices)
        os.environ[name] = str(max(1, torch.get_num_threads() // len(target_devices)))
        try:
            return super().start_multi_process_pool(target_devices)
        finally:
            del os.environ[name]

    def _multi_process(
        self,
        inputs: Sequence[Any],
        show_progress_bar: bool | None = True,
        pool: Pool | None = None,
        device: Any = None,
        chunk_size: int | None = None,
        **kwargs: Any,
    ) -> Any:
        """As sentence-transformers', with parts of equal cost in tokens instead of equal counts of texts."""
        if chunk_size is not None or not all(isinstance(text, str) for text in inputs) or not inputs:
            return super()._multi_process(inputs, show_progress_bar, pool, device, chunk_size, **kwargs)
        if pool is None:
            pool = self.start_multi_process_pool(device)
            try:
                return self._multi_process(inputs, show_progress_bar, pool, **kwargs)
            finally:
                self.stop_multi_process_pool(pool)
        max_len = self.first.longest
        budget = self._budget("cpu", kwargs["batch_size"])
        tokens = [estimated_tokens(text, max_len) for text in inputs]
        parts = split_by_cost([budget.cost(n) for n in tokens], _PARTS_PER_WORKER * len(pool["processes"]))
        for number, part in enumerate(parts):
            sent = {**kwargs, "show_progress_bar": False}
            pool["input"].put([number, [inputs[i] for i in part], sent])
        results: list[Any] = [None] * len(inputs)
        failure: Exception | None = None
        with TokenBar(sum(tokens), show=bool(show_progress_bar)) as bar:
            for _ in parts:
                number, output = self._get_worker_result(pool)
                if isinstance(output, Exception):
                    failure = output
                    continue
                bar.advance(sum(tokens[i] for i in parts[number]))
                for i, value in zip(parts[number], output, strict=True):
                    results[i] = value
        if failure is not None:
            raise failure
        return torch.stack(results) if kwargs["output_value"] == "sentence_embedding" else results

    @property
    def first(self) -> LongTransformer:
        """The module that tokenises and holds the strategy."""
        return cast("LongTransformer", self[0])

    def _budget(self, device_type: str, batch_size: int) -> Budget:
        first = self.first
        config = first.config.get_text_config()
        return Budget.for_device(device_type, config.hidden_size, first.strategy.trained_len, batch_size)


class _Run:
    """One call of `encode` on one device."""

    def __init__(
        self,
        model: LongSentenceTransformer,
        device: torch.device,
        prompt: str | None,
        batch_size: int,
        store: EmbeddingStore | None,
        kwargs: dict[str, Any],
    ) -> None:
        self.model = model
        self.device = device
        self.prompt = prompt
        self.kwargs = kwargs
        self.store = store
        self.key = model_key(model, prompt, device) if store is not None else ""
        self.budget = model._budget(device.type, batch_size)
        # what did not fit once is not tried again by later calls
        limits = model.__dict__.setdefault("_memory_limits", {})
        self._limits: dict[str, float] = limits
        self.runner = Runner(self._find_or_run, self.budget.cost, limits.get(str(device), float("inf")))

    def encode(self, texts: list[str], *, show: bool) -> Iterator[tuple[list[int], Features]]:
        """Places of documents and the features of their batch, all of them finite."""
        first = self.model.first
        max_len = first.longest
        expected = [estimated_tokens(text, max_len) for text in texts]
        blocks = divide(texts, max_len, self.budget.tokens)

        def tokenise(part: list[str]) -> list[Ids]:
            ids = first.token_ids(part, self.prompt, **self.kwargs)
            if ids is None:
                raise TypeError("all inputs of one call must be texts")
            return ids

        with TokenBar(sum(expected), show=show) as bar:
            for block in tokenised_blocks(texts, blocks, tokenise):
                bar.correct(sum(map(len, block.ids)) - sum(expected[i] for i in block.places))
                for batch in plan([len(ids) for ids in block.ids], self.budget):
                    yield from self._batch(block, batch, texts)
                    bar.advance(sum(len(block.ids[i]) for i in batch))

    def _batch(
        self, block: Block, batch: list[int], texts: list[str]
    ) -> Iterator[tuple[list[int], Features]]:
        """One planned batch, in pieces where memory is short."""
        rows = [block.ids[i] for i in batch]
        places = [block.places[i] for i in batch]
        start = 0
        for size, features in self.runner(rows):
            own, piece = places[start : start + size], rows[start : start + size]
            start += size
            if not features.pop("stored", False):
                for bad in not_finite(features):
                    self._mend(features, bad, piece[bad], _describe(own[bad], texts[own[bad]], piece[bad]))
                if self.store is not None:
                    embeddings = features["sentence_embedding"].float().cpu().numpy()
                    self.store.put(record_key(self.key, piece), embeddings)
            yield own, features
        self._limits[str(self.device)] = self.runner.limit

    def _find_or_run(self, rows: Sequence[Ids]) -> Features:
        """A batch from the store as a whole, or encoded as a whole."""
        known = self.store.get(record_key(self.key, rows)) if self.store is not None else None
        if known is not None and len(known) == len(rows):
            return {"sentence_embedding": torch.from_numpy(known).to(self.device), "stored": True}
        return self._forward(rows)

    def _forward(self, rows: Sequence[Ids]) -> Features:
        features = self.model.first.features_of(rows, self.prompt)
        # through __call__, so that model.compile() applies
        features = batch_to_device(features, self.device)
        return cast("Features", self.model(features, **self.kwargs))

    def _mend(self, features: Features, row: int, ids: Ids, describe: str) -> None:
        """Put one document's fp32 result in the place of what was not finite."""
        again = retry_in_fp32(self.model.first.model, lambda: self._forward([ids]), describe)
        for name in ("sentence_embedding", "token_embeddings"):
            if name in features:
                value = again[name][0]
                target = features[name][row]
                target[: len(value)] = value.to(target.dtype)


def _describe(place: int, text: str, ids: Ids) -> str:
    start = text[:40].encode("unicode_escape", "backslashreplace").decode()
    return f"document {place} ({len(ids)} tokens, starting with '{start}')"


def _finisher(
    output_value: str | None, truncate_dim: int | None, normalize: bool, to_cpu: bool
) -> Callable[[Features], list[Any]]:
    """What sentence-transformers does with the features of a batch, by `output_value`."""

    def tokens(features: Features) -> list[Tensor]:
        lengths = features["attention_mask"].sum(1).tolist()
        return [row[:n] for row, n in zip(features["token_embeddings"], lengths, strict=True)]

    def everything(features: Features) -> list[dict[str, Any]]:
        size = len(features["attention_mask"])
        rows = {k: isinstance(v, Tensor) and v.ndim > 0 and len(v) == size for k, v in features.items()}
        return [{k: v[i] if rows[k] else v for k, v in features.items()} for i in range(size)]

    def sentences(features: Features) -> list[Tensor]:
        embeddings = features["sentence_embedding"]
        if normalize:
            embeddings = torch.nn.functional.normalize(embeddings, p=2, dim=1)
        return list(embeddings.cpu() if to_cpu else embeddings)

    kinds: dict[str | None, Callable[[Features], list[Any]]] = {"token_embeddings": tokens, None: everything}
    finish = kinds.get(output_value, sentences)

    def finished(features: Features) -> list[Any]:
        if truncate_dim is not None:
            features["sentence_embedding"] = truncate_embeddings(features["sentence_embedding"], truncate_dim)
        return finish(features)

    return finished
