"""The SentenceTransformer that `extend` and `load` return: sentence-transformers' own class, on our engine.

The engine decides only when a text is tokenised and which texts share a batch. The modules' `forward` decides what
happens to a document.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any, Self, cast

import torch
from huggingface_hub import EvalResult
from sentence_transformers import MultiVectorEncoder, SentenceTransformer
from sentence_transformers.util import truncate_embeddings
from torch import Tensor, nn

from mteb_longembed.encoders.adapters import merge_adapters
from mteb_longembed.encoders.attention.devices import to_device
from mteb_longembed.encoders.bases.identity import Identity, identity, remember
from mteb_longembed.encoders.bases.resolve import ResolvedModel
from mteb_longembed.encoders.card import extended_card, scores_in
from mteb_longembed.encoders.engine.cluster import Cluster, Pool, cores_shared, encode_in_pool
from mteb_longembed.encoders.engine.engine import engine_for
from mteb_longembed.encoders.engine.reading import Reading
from mteb_longembed.encoders.engine.running import Features
from mteb_longembed.encoders.modules import LongTransformer, WindowPooling
from mteb_longembed.encoders.span_pooling import RaggedVectors
from mteb_longembed.encoders.store.store import EmbeddingStore
from mteb_longembed.errors import InputError, LongEmbedError

#: What transformers says of a model with several vectors that is opened as one with a single vector.
_SEVERAL = "several vectors a document, so load it with sentence_transformers.MultiVectorEncoder or mteb_longembed.load"
#: What our engine gives for a text. What else `encode` may be asked for is sentence-transformers' own matter.
_ARRAYS = ("sentence_embedding", "token_embeddings")
#: What is done with the arrays of some texts before they are returned.
Finish = Callable[[list[Tensor]], list[Tensor]]


class Embedder:
    """A mix-in for a class of sentence-transformers: the model runs on our engine."""

    #: What the model is; `build` sets it.
    resolved: ResolvedModel | None = None
    #: Its digest and its dimensions when `build` had made it.
    built: tuple[str, int | None] | None = None
    #: Where finished embeddings are kept. mteb runs set it, plain `encode` does not.
    store: EmbeddingStore | None = None
    #: The cluster that encodes the texts. mteb runs set it. None means only this process.
    cluster: Cluster | None = None
    #: How much of the texts the last call of `encode` read. Equal texts count once.
    reading: Reading | None = None
    #: The scores that go into the model card while it is written.
    _scores: Sequence[EvalResult] = ()
    #: The arguments of `_inference` that are no inputs of the modules' `forward`, without `device`.
    OF_CALL: frozenset[str]

    def identity(self) -> Identity:
        """The name and revision of the model as it is now. A model that was changed is `local/NAME`."""
        known, built, model = self.resolved, self.built, cast("nn.Sequential", self)
        if known is None or built is None:
            return identity(model, str(cast("Any", self).model_card_data.model_name or "model"), "", None)
        return identity(model, known.name, known.revision, built[0])

    def remember(self, resolved: ResolvedModel) -> None:
        """Note what the model is, when it has just been built."""
        self.resolved, self.built = resolved, (remember(cast("nn.Sequential", self)), self.dimensions)

    @property
    def dimensions(self) -> int | None:
        """To how many dimensions embeddings are cut, None if they are not."""
        return cast("Any", self).truncate_dim

    @property
    def first(self) -> LongTransformer:
        """The module that tokenises and holds the strategy."""
        return cast("LongTransformer", self._modules_in_order()[0])

    def merge_adapters(self) -> Self:
        """Add the adapters that act (`add_adapter`) to the weights, and take them off. Embeddings stay the same."""
        merge_adapters(self.first.model)
        return self

    @property
    def pooling(self) -> nn.Module:
        """The module after the transformer."""
        return cast("nn.Module", self._modules_in_order()[1])

    @property
    def shares_windows(self) -> bool:
        """Whether the vectors of documents that are cut depend only on their pooled windows."""
        return isinstance(self.pooling, WindowPooling) and not self.pooling.needs_tokens

    def from_windows(self, windows: Sequence[Tensor], task: str | None = None) -> Features:
        """The features after the last module, for documents whose windows `[windows, d]` `WindowPooling` has pooled."""
        pooling = cast("WindowPooling", self.pooling)
        features = pooling.from_windows(windows, getattr(self.first.strategy, "agg", "mean"), task)
        for module in self._modules_in_order()[2:]:
            features = module(features)
        return features

    @torch.inference_mode()
    def _inference(self, inputs: list[Any], *, device: Any = None, **given: Any) -> Any:
        """Encode in batches by tokens. What the engine cannot cut goes to sentence-transformers' own method."""
        call = {key: given[key] for key in self.OF_CALL}
        forward = {key: value for key, value in given.items() if key not in call or key == "task"}
        first = self._modules_in_order()[0]
        ours = isinstance(first, LongTransformer) and call["output_value"] in _ARRAYS
        if not ours or first.token_ids(inputs[:1], call["prompt"], **forward) is None:
            return super()._inference(inputs, device=device, **given)  # type: ignore[misc]
        for place, text in enumerate(inputs):
            if not isinstance(text, str):
                raise InputError(
                    f"all inputs of one call must be texts if the first one is, got a {type(text).__name__} at "
                    f"place {place}."
                )
        model = cast("Any", self).eval()
        settings = {"prompt": call["prompt"], "batch_size": call["batch_size"], "kwargs": forward}
        finish, own = model._form(call)
        settings |= {"store": self.store, "to_host": call["save_to_cpu"], **own}
        engine = engine_for(model, model._resolve_inference_device(device), settings)
        unique = list(dict.fromkeys(inputs))
        done: dict[str, Tensor] = {}
        for places, arrays in engine.encode(unique, show=call["show_progress_bar"]):
            for place, value in zip(places, finish(arrays), strict=True):
                done[unique[place]] = value
        self.reading = engine.reading
        found = [done[text] for text in inputs]
        return torch.stack(found) if call["output_value"] == "sentence_embedding" else found

    def save_pretrained(
        self, path: str, *args: Any, results: str | Path | None = None, **kwargs: Any
    ) -> None:
        """Save the model as sentence-transformers does, with our model card.

        Args:
            path: folder to write to.
            args: as in sentence-transformers.
            results: folder of mteb's results. The scores of this model in it go into the card.
            kwargs: as in sentence-transformers.

        Raises:
            DataError: if the folder has no results of this model.
        """
        with self._showing(results):
            super().save_pretrained(path, *args, **kwargs)  # type: ignore[misc]  # of the class beside this one

    def push_to_hub(self, repo_id: str, *args: Any, results: str | Path | None = None, **kwargs: Any) -> str:
        """Upload the model as sentence-transformers does, with our model card. `results` is as in `save_pretrained`.

        Raises:
            DataError: if the folder has no results of this model.
        """
        with self._showing(results):
            return str(super().push_to_hub(repo_id, *args, **kwargs))  # type: ignore[misc]

    @contextmanager
    def _showing(self, results: str | Path | None) -> Iterator[None]:
        self._scores = scores_in(results, self)
        try:
            yield
        finally:
            self._scores = ()

    def _create_model_card(self, path: str, model_name: str | None = None, *args: Any) -> None:
        """Write our own card. sentence-transformers' card would say "finetuned" and load the model with stock code."""
        data = cast("Any", self).model_card_data
        repository = model_name or data.model_id
        place = repository or Path(path).resolve().name
        card = extended_card(self, place, self._scores, is_repository="/" in (repository or ""))
        Path(path, "README.md").write_text(card, encoding="utf-8")

    def _get_model_config(self) -> dict[str, Any]:
        """sentence-transformers' configuration, and the package that loading needs. Without it, loading says why."""
        own: dict[str, Any] = super()._get_model_config()  # type: ignore[misc]  # of the class beside this one
        needs = {
            "specifier": ">=0.1.0",  # the oldest version that reads what we save
            "reason": "it extends the model to longer inputs; pip install mteb-longembed",
        }
        return {**own, "requirements": {**own.get("requirements", {}), "mteb-longembed": needs}}

    def _modules_in_order(self) -> list[Any]:
        return list(cast("Any", self))


def settings_of(model: Any) -> dict[str, Any]:
    """The arguments of a model's constructor other than its modules: prompts, similarity, dimensions."""
    names = ("prompts", "default_prompt_name", "similarity_fn_name", "truncate_dim")
    return {name: getattr(model, name) for name in names if hasattr(model, name)}


def check_hooks(stock: type, own: Any) -> None:
    """Refuse a sentence-transformers whose private methods have changed: it would run without or against our engine."""
    wanted = {"_inference": own.OF_CALL | {"inputs", "device"}}
    if "_multi_process" in vars(own):
        wanted["_multi_process"] = _arguments(own._multi_process)
    for name, arguments in wanted.items():
        found = _arguments(getattr(stock, name, lambda: None))
        if found != arguments:
            what = f"other arguments ({', '.join(sorted(found ^ arguments))}) of" if found else "no"
            raise LongEmbedError(
                f"sentence-transformers {version('sentence-transformers')} has {what} {stock.__name__}.{name}, which "
                "mteb-longembed needs to run its models: install another version of one of the two."
            )


def _arguments(method: Any) -> set[str]:
    parameters = inspect.signature(method).parameters.values()
    return {each.name for each in parameters if each.kind is not each.VAR_KEYWORD} - {"self"}


class LongSentenceTransformer(Embedder, SentenceTransformer):
    """A `SentenceTransformer` whose first module is a `LongTransformer`."""

    OF_CALL = frozenset((
        "prompt", "batch_size", "show_progress_bar", "output_value", "save_to_cpu", "normalize_embeddings",
        "truncate_dim",
    ))  # fmt: skip

    def _form(self, call: dict[str, Any]) -> tuple[Finish, dict[str, Any]]:
        if call["output_value"] == "token_embeddings":
            return list, {"collect": _vectors, "store": None, "to_host": False, "form": "tokens"}

        def finish(arrays: list[Tensor]) -> list[Tensor]:
            embeddings = torch.stack(arrays)
            if call["truncate_dim"] is not None:
                embeddings = truncate_embeddings(embeddings, call["truncate_dim"])
            if call["normalize_embeddings"]:
                embeddings = torch.nn.functional.normalize(embeddings, p=2, dim=1)
            return list(embeddings.cpu() if call["save_to_cpu"] else embeddings)

        return finish, {}

    # ---- several processes --------------------------------------------------------------------------------

    def start_multi_process_pool(self, target_devices: list[str] | None = None) -> Pool:
        """Start workers as sentence-transformers does. Workers on CPUs share the cores; they do not each use all."""
        with cores_shared(target_devices):
            return super().start_multi_process_pool(target_devices)

    def _multi_process(
        self,
        inputs: Sequence[Any],
        show_progress_bar: bool | None = True,
        pool: Pool | None = None,
        device: Any = None,
        chunk_size: int | None = None,
        **kwargs: Any,
    ) -> Any:
        """Encode in several processes, in parts of equal cost in tokens instead of equal numbers of texts."""
        if chunk_size is not None or not all(isinstance(text, str) for text in inputs) or not inputs:
            return super()._multi_process(inputs, show_progress_bar, pool, device, chunk_size, **kwargs)
        if pool is None:
            pool = self.start_multi_process_pool(device)
            try:
                return self._multi_process(inputs, show_progress_bar, pool, **kwargs)
            finally:
                self.stop_multi_process_pool(pool)
        results = encode_in_pool(
            self, inputs, pool, self._get_worker_result, show=bool(show_progress_bar), kwargs=kwargs
        )
        return torch.stack(results) if kwargs["output_value"] == "sentence_embedding" else results


class LongMultiVectorEncoder(Embedder, MultiVectorEncoder):
    """A `MultiVectorEncoder`: one vector for each span or window of a document, and one vector for a query.

    On a base with late interaction (ColBERT) it is one vector for each token of both.
    """

    def save_pretrained(
        self, path: str, *args: Any, results: str | Path | None = None, **kwargs: Any
    ) -> None:
        """Save as `Embedder` does, with a sentence for other classes, which ask transformers for the model's type."""
        super().save_pretrained(path, *args, results=results, **kwargs)
        Path(path, "config.json").write_text(json.dumps({"model_type": _SEVERAL}) + "\n", encoding="utf-8")

    @property
    def dimensions(self) -> int | None:
        """To how many dimensions embeddings are cut, None if they are not."""
        return self.grouping.dims if self.grouping else None

    @property
    def grouping(self) -> RaggedVectors | None:
        """The module that groups vectors by document. None if each token has one."""
        return next((module for module in self if isinstance(module, RaggedVectors)), None)

    OF_CALL = frozenset((
        "prompt", "batch_size", "show_progress_bar", "output_value", "save_to_cpu", "normalize_embeddings",
        "token_pooling", "task",
    ))  # fmt: skip

    def _form(self, call: dict[str, Any]) -> tuple[Finish, dict[str, Any]]:
        task, pooling, to_host = call["task"], call["token_pooling"], call["save_to_cpu"]

        def finish(rows: list[Tensor]) -> list[Tensor]:
            if call["normalize_embeddings"]:
                rows = [torch.nn.functional.normalize(row, dim=-1) for row in rows]
            if pooling is not None:
                rows = pooling.pool(rows, task=task)
            return [row.cpu() for row in rows] if to_host else rows

        return finish, {"collect": _vectors, "to_host": to_host and pooling is None, "form": "vectors"}


def _vectors(features: Features) -> list[Tensor]:
    """Each text's vectors, `[vectors, d]`. They are copied, so the padding of the batch does not stay in memory."""
    rows = features["token_embeddings"]
    masks = features["attention_mask"].bool().cpu()  # the host waits once, not for each text
    return [row[to_device(mask.nonzero()[:, 0], rows.device)] for row, mask in zip(rows, masks, strict=True)]


for _stock, _own in (
    (SentenceTransformer, LongSentenceTransformer),
    (MultiVectorEncoder, LongMultiVectorEncoder),
):
    check_hooks(_stock, _own)
