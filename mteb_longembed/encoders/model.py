"""The first module with a strategy inside, and the models around it: sentence-transformers' own classes.

A strategy acts only in `forward`. So training, multi-process pools, prompts, precisions and token embeddings work as
on any SentenceTransformer. Our engine decides only when a text is tokenised and which texts share a batch.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from sentence_transformers import MultiVectorEncoder, SentenceTransformer, SparseEncoder
from sentence_transformers.base import BaseModel
from sentence_transformers.sentence_transformer.modules import Transformer
from sentence_transformers.util import select_max_active_dims, truncate_embeddings
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence

from mteb_longembed.encoders.strategies import Strategy, algorithm_of
from mteb_longembed.errors import IncompatibleError, InputError, ModelError
from mteb_longembed.names import split_name

from .attention import Batch, keep_batch, running
from .batching import Engine, tokens_at_once
from .card import card_of
from .checkpoint import Checkpoint, Kind, kind_of_loaded, saved_strategy
from .embedding_cache import EmbeddingCache
from .head import Head, reader_of
from .identity import Identity, digest, state_of
from .self_extend import to_device
from .swap import LongTable, swap
from .tokens import Ids, cutter_of, document_prompt
from .vectors import (
    BATCH,
    BOUNDS,
    RUNS,
    TOKEN_FEATURES,
    WINDOWS,
    Features,
    GroupByDocument,
    TokenBatch,
    windows_of,
)

#: Name of a feature: how many positions a document is moved (`tuning.py`).
OFFSET = "position_offset"
#: The arguments of `_inference` that are not inputs of the modules' `forward`, without `device`.
_OF_CALL = (
    "prompt", "batch_size", "show_progress_bar", "output_value", "save_to_cpu", "normalize_embeddings",
    "truncate_dim", "token_pooling", "convert_to_sparse_tensor", "max_active_dims",
)  # fmt: skip
#: How much more memory a token takes with its logits of all words than without.
_LOGITS = 8
#: Sparse vectors that are dense, with a weight for each word, at the same time.
_DENSE_AT_ONCE = 512
#: The module that tells other tools that a model is ours, see there.
_SHOWN_MODULE = "mteb_longembed.encoders.sentence_transformers"
#: A model of sentence-transformers' own, or one of ours.
Model = SentenceTransformer | MultiVectorEncoder


class LongTransformer(Transformer):
    """sentence-transformers' `Transformer` with a strategy inside. It saves the base's files and one setting."""

    config_keys = [*Transformer.config_keys, "longembed"]
    save_in_root: bool = False

    strategy: Strategy
    #: Name and revision of the base that the model was made from.
    base_name: str = ""
    base_revision: str | None = None
    #: What the base's card says of licence, language and base model.
    base_facts: dict[str, Any] = {}

    def __init__(self, *args: Any, longembed: dict[str, Any] | None = None, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        setting = longembed or {}
        self.base_name = setting.get("base", "")
        self.base_revision = setting.get("base_revision")
        self.extend(saved_strategy(setting, "sentence_bert_config.json"))
        if self.table is not None and setting.get("has_long_rows"):
            self.table.n_own -= self.strategy.target_len

    def extend(self, strategy: Strategy) -> None:
        """Put a strategy inside that has all lengths and parameters."""
        if self.backend != "torch":
            raise ModelError(f"only models on the torch backend can be extended, got {self.backend}.")
        # a masked language model has the transformer inside
        inner: Any = self.model
        swap(inner.base_model if self.has_logits else inner, strategy)
        self.strategy = strategy
        if self.query_expansion is not None and self.query_length is None:
            # windows would lose the tokens that an expansion adds
            self.query_length = max(self.query_expansion["length"], strategy.trained_len)
        self.document_length = None  # the target length decides
        #: Whether long documents run in parts, the windows of `pcw`.
        self.cuts = strategy.CUTS
        # flattened batches would hide where a document ends; FlashAttention 2 leaves out padding in each layer
        self.unpad_inputs = False
        tokenizer: Any = self.tokenizer
        tokenizer.padding_side = "right"
        tokenizer.truncation_side = "right"
        self.max_seq_length = strategy.target_len

    @property
    def has_logits(self) -> bool:
        """Whether it gives for each token a logit of each word."""
        return self.transformer_task == "fill-mask"

    @property
    def longembed(self) -> dict[str, Any]:
        """The setting that is saved: the strategy with its lengths and parameters, and the base."""
        made_of: dict[str, Any] = {"base": self.base_name, "base_revision": self.base_revision}
        if self.table is not None and self.table.has_long_rows:
            made_of["has_long_rows"] = True
        return {"strategy": self.strategy.KEY, **asdict(self.strategy), **made_of}

    @property
    def table(self) -> LongTable | None:
        """The table of positions, if the strategy has swapped it."""
        tables = (part for part in self.model.modules() if isinstance(part, LongTable))
        return next(tables, None)

    @property
    def kept_len(self) -> int:
        """Tokens kept of a text: `max_seq_length`, or the target length if that is None."""
        return self.max_seq_length or self.strategy.target_len

    # ---- input ------------------------------------------------------------------------------------------------

    def preprocess(  # type: ignore[override]
        self, inputs: Sequence[Any], prompt: str | None = None, **kwargs: Any
    ) -> Features:
        """Return token ids, and which tokens of each text are its content."""
        ids = self.token_ids(inputs, prompt, **kwargs)
        if ids is not None:
            return self.features_of(ids, prompt)
        features = super().preprocess(inputs, prompt, **kwargs)
        if "input_ids" in features:
            features[BOUNDS] = self._bounds(features["input_ids"], features["attention_mask"].sum(1), prompt)
        return features

    def token_ids(
        self, inputs: Sequence[object], prompt: str | None = None, **kwargs: object
    ) -> list[Ids] | None:
        """Return each text's ids, special tokens included. No more of a text is read than the ids need.

        None if `inputs` are not texts, or if they need more than plain tokenising (a chat template, query expansion,
        lengths by task, settings of the tokenizer).
        """
        texts = [text for text in inputs if isinstance(text, str)]
        words: Any = self.tokenizer
        cut_queries = kwargs.get("task") == "query" and (self.query_length or self.query_expansion)
        is_plain = (
            len(inputs) == len(texts) > 0
            and not (self.processing_kwargs or self.document_length or cut_queries)
            and set(kwargs) <= {"task"}
            and self.processor is words
            and "message" not in self.modality_config
            and set(words.model_input_names) <= set(TOKEN_FEATURES)
            and words.pad_token_id is not None
        )
        cutter = cutter_of(words)
        if cutter is None or not is_plain:
            return None
        ids = cutter([prompt + text for text in texts] if prompt else texts, self.kept_len)
        # a tokenizer without special tokens gives no tokens for an empty text, and no model accepts that
        token = words.pad_token_id if words.eos_token_id is None else words.eos_token_id
        return [row if len(row) else np.array([token], np.int32) for row in ids]

    def features_of(self, ids: Sequence[Ids], prompt: str | None = None) -> Features:
        """Return what `preprocess` returns for these token ids: padded on the right to the longest text."""
        lengths = torch.tensor(list(map(len, ids)))
        mask = (torch.arange(int(lengths.max())) < lengths[:, None]).long()
        rows = [torch.from_numpy(row).long() for row in ids]
        words: Any = self.tokenizer
        input_ids = pad_sequence(rows, batch_first=True, padding_value=words.pad_token_id)
        features: Features = {"input_ids": input_ids, "attention_mask": mask, "modality": "text"}
        if "token_type_ids" in words.model_input_names:
            features["token_type_ids"] = torch.zeros_like(mask)
        if prompt:
            features["prompt_length"] = self._get_prompt_length(prompt)
        features[BOUNDS] = self._bounds(input_ids, lengths, prompt)
        return features

    def _bounds(self, input_ids: Tensor, lengths: Tensor, prompt: str | None) -> Tensor:
        """Return `[b, 3]` as in `BOUNDS`, for ids `[b, n]` of texts of these lengths, all on the host.

        A tokenizer may merge the prompt's last characters with the text. So only those prompt tokens count that are
        unchanged in the document.
        """
        bounds = torch.full((len(input_ids), 3), -1)
        bounds[:, 0] = lengths
        cutter = cutter_of(self.tokenizer)
        if cutter is None:
            return bounds
        bounds[:, 1] = len(cutter.prefix_ids)
        bounds[:, 2] = len(cutter.suffix_ids)
        if prompt:
            [ids] = cutter([prompt], self.kept_len)
            alone = torch.from_numpy(ids)[: len(ids) - len(cutter.suffix_ids)][: input_ids.shape[1]]
            same = (input_ids[:, : len(alone)] == alone).int().cumprod(1).sum(1)
            bounds[:, 1] = same.clamp(min=len(cutter.prefix_ids))
        return bounds

    # ---- the pass ---------------------------------------------------------------------------------------------

    def forward(self, features: Features, **kwargs: Any) -> Features:
        """Add token embeddings `[b, n, d]`, or `[w, size, d]` of windows, and the `TokenBatch` of the texts.

        They are in fp32 also if the model computes in half precision.
        """
        if "attention_mask" not in features or "input_ids" not in features:
            raise InputError(
                "an extended model takes tokenised texts (input_ids, attention_mask), "
                f"got {', '.join(sorted(features))}."
            )
        features = dict(features)
        bounds = features.pop(BOUNDS, None)
        if bounds is None:
            lengths = features["attention_mask"].sum(1).cpu()
            bounds = self._bounds(features["input_ids"].cpu(), lengths, None)
        batch = TokenBatch(bounds.cpu())
        if batch.width > self.strategy.target_len:
            raise InputError(
                f"a text must have at most {self.strategy.target_len} tokens, the target length of this model, got "
                f"{batch.width}: set max_seq_length to at most {self.strategy.target_len}, or extend the base to a "
                "longer target."
            )
        name = self.module_output_name
        if not (self.cuts and self.strategy.changes(batch.width)):
            return {**self._run(features, batch.lengths, **kwargs), BATCH: batch}
        batch = windows_of(batch.bounds, self.strategy)
        cut = self._cut(features, batch)
        runs = self._run_windows(features, cut, batch, **kwargs)
        if self.has_logits:
            # the pooling runs them one by one
            return {**features, RUNS: runs, BATCH: batch}
        return {**features, **cut, name: torch.cat([run[name] for run in runs]), BATCH: batch}

    def _run(self, features: Features, lengths: Tensor, **kwargs: Any) -> Features:
        if torch.is_grad_enabled() and self.model.training:
            keep_batch(self.model)
        offsets = features.pop(OFFSET, None)
        batch = Batch(self.strategy, lengths.tolist(), features["input_ids"].device, offsets=offsets)
        with running(batch):
            out = super().forward(features, **kwargs)
        embeddings = out[self.module_output_name]
        exact = embeddings.to(torch.promote_types(embeddings.dtype, torch.float32))
        return {**out, self.module_output_name: exact}

    def _cut(self, features: Features, batch: TokenBatch) -> Features:
        """Return the token features of windows, `[w, size]`, of documents of which some are cut."""
        assert batch.windows is not None and batch.texts is not None
        device = features["input_ids"].device
        # padding reads token 0, and its mask of 0 hides that
        places = to_device(batch.texts[:, None], device), to_device(batch.windows.clamp(min=0), device)
        cut = {key: features[key][places] for key in TOKEN_FEATURES if key in features}
        cut["attention_mask"] = to_device((batch.windows >= 0).long(), device)
        return cut

    def _run_windows(
        self, features: Features, cut: Features, batch: TokenBatch, **kwargs: Any
    ) -> Iterator[Features]:
        """Yield the features of windows with token embeddings, batch by batch, `[windows, size, d]`."""
        assert batch.windows is not None
        sizes = (batch.windows >= 0).sum(1)
        tokens = tokens_at_once(features["input_ids"].device) // (_LOGITS if self.has_logits else 1)
        at_once = max(tokens // batch.windows.shape[1], 1)
        for start in range(0, len(sizes), at_once):
            rows = slice(start, start + at_once)
            own = {key: value[rows] for key, value in cut.items()}
            yield self._run({**features, **own}, sizes[rows], **kwargs)

    def save(self, output_path: str, *args: Any, safe_serialization: bool = True, **kwargs: Any) -> None:
        """Save the base's weights and files, and the setting."""
        check_merged(self)
        super().save(output_path, *args, safe_serialization=safe_serialization, **kwargs)


def check_merged(module: nn.Module) -> None:
    """Raise IncompatibleError for a model with adapters, whose files no class would read."""
    if any(hasattr(part, "merged_adapters") for part in module.modules()):
        raise IncompatibleError(
            "a model with adapters must be merged before it is saved: call merge_and_unload() of the PEFT model that "
            "get_peft_model gave."
        )


class LongModelMixin(BaseModel):
    """What our models share: a first module and a head, a name, our engine, and our model card."""

    #: What the model was built from.
    checkpoint: Checkpoint | None = None
    #: The state of the model when it was built. None for a model whose name does not hold.
    built_state: str | None = None
    #: Where embeddings are cached. mteb runs and searches set it, `adapt` and plain `encode` do not.
    embedding_cache: EmbeddingCache | None = None
    #: Whether a document has several vectors.
    has_several_vectors: bool = False
    #: The feature that holds the vectors.
    output: str = "sentence_embedding"

    def identity(self) -> Identity:
        """Return the current name and revision. A model that was changed is `local/NAME` with its digest.

        All weights of a changed model are read, so it is asked when an evaluation begins, and never for a query.
        """
        checkpoint = self.checkpoint
        if checkpoint is not None:
            known = checkpoint.spec.name()
            base = checkpoint.base.name
            experiment = checkpoint.experiment
            if self.is_unchanged():
                return Identity(base, checkpoint.base.revision, experiment)
        else:
            strategy = self.backbone.strategy
            known = str(getattr(self.model_card_data, "model_name", None) or "model")
            base = split_name(known)[0]
            experiment = {"strategy": strategy.KEY, "target_len": strategy.target_len}
            experiment["algorithm"] = algorithm_of(type(strategy))
        return Identity(f"local/{base.rpartition('/')[2]}", digest(self), experiment, changed_from=known)

    def is_unchanged(self) -> bool:
        """Return whether the model still is as it was built, so that its name holds."""
        return self.checkpoint is not None and self.built_state == state_of(self)

    def remember(self, checkpoint: Checkpoint) -> None:
        """Note what the model is, when it has just been built, and give it its name.

        A prompt that is saved as `passage` or `corpus` is used for documents: sentence-transformers writes an empty
        `document` beside it, and then uses that.
        """
        prompt = document_prompt(self)
        if prompt and not self.prompts.get("document"):
            warnings.warn(
                f"the prompt of documents is empty, and another one is {prompt!r}: documents get that one. Save it as "
                "document to choose.",
                stacklevel=4,
            )
            self.prompts["document"] = prompt
        self.checkpoint = checkpoint
        card: Any = self.model_card_data
        card.model_name = checkpoint.spec.name()
        card.base_model = checkpoint.base.origin or checkpoint.base.name
        if not checkpoint.base.files.local:
            card.base_model_revision = checkpoint.base.revision
        self.built_state = state_of(self)

    def __getstate__(self) -> dict[str, Any]:
        # torch counts the writes to each tensor, and restarts at 0 in a copy
        return {**self.__dict__, "built_state": "copied" if self.is_unchanged() else None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)  # type: ignore[no-untyped-call]
        if self.built_state == "copied":
            self.built_state = state_of(self)

    @property
    def backbone(self) -> LongTransformer:
        """The module that tokenises and holds the strategy."""
        return cast("LongTransformer", reader_of(self))

    @property
    def kind(self) -> Kind:
        """What its base gives for a text."""
        return kind_of_loaded(self)

    @property
    def head(self) -> Head:
        """What becomes of token embeddings."""
        return Head.of(self)

    def collect(self, features: Features, place: torch.device) -> list[Tensor]:
        """Return one array for each document of a batch, on a device, from the features after the last module."""
        rows = features[self.output].to(place)
        if not self.has_several_vectors:
            return list(rows)
        # copied, so that the padding of the batch does not stay in memory
        kept = [mask.nonzero()[:, 0] for mask in features["attention_mask"].cpu()]
        return [row[to_device(places, place)] for row, places in zip(rows, kept, strict=True)]

    def row_owner(self) -> object:
        """Return the key of this model in the embedding cache; None, with one warning, if its name does not hold."""
        checkpoint = self.checkpoint
        if checkpoint is None or not self.is_unchanged() or checkpoint.base.revision is None:
            warnings.warn(
                "the embedding cache is off for this model: it was changed after it was loaded.",
                RuntimeWarning,
                stacklevel=4,
            )
            return None
        made_by = algorithm_of(type(checkpoint.strategy)), repr(checkpoint.strategy), checkpoint.spec.dtype
        return (
            checkpoint.base.name,
            checkpoint.base.revision,
            *made_by,
            digest(nn.Sequential(*list(self)[1:])),
        )

    @torch.inference_mode()
    def _inference(self, inputs: list[Any], *, device: Any = None, **arguments: Any) -> Any:
        """Encode in batches by tokens. What is not plain goes to sentence-transformers' own method."""
        kwargs = {key: value for key, value in arguments.items() if key not in _OF_CALL}
        prompt = arguments.get("prompt")
        is_ours = isinstance(self[0], LongTransformer) and arguments["output_value"] == self.output
        if not is_ours or self.backbone.token_ids(inputs[:1], prompt, **kwargs) is None:
            return super()._inference(inputs, device=device, **arguments)
        engine = Engine([self], prompt, arguments["batch_size"], kwargs, device, arguments["save_to_cpu"])
        # looking up one query costs as much as encoding it
        if len(inputs) > 1 or kwargs.get("task") != "query":
            engine.keep_in(self.embedding_cache)
        done = engine.encode(inputs, show=bool(arguments["show_progress_bar"]))
        arrays = [done[text][0] for text in inputs]
        if arguments.get("truncate_dim") is not None:
            arrays = [truncate_embeddings(array, arguments["truncate_dim"]) for array in arrays]
        if arguments["normalize_embeddings"]:
            arrays = [torch.nn.functional.normalize(array, dim=-1) for array in arrays]
        if arguments.get("token_pooling") is not None:
            arrays = arguments["token_pooling"].pool(arrays, task=kwargs.get("task"))
        if not self.has_several_vectors:
            return torch.stack(arrays)
        return arrays

    def _create_model_card(self, path: str, model_name: str | None = None, *args: Any) -> None:
        """Write our own card. sentence-transformers' card would say "finetuned" and load the model with stock code."""
        repository = model_name or getattr(self.model_card_data, "model_id", None)
        card = card_of(self, repository or Path(path).resolve().name)
        Path(path, "README.md").write_text(card, encoding="utf-8")

    def _get_model_config(self) -> dict[str, Any]:
        """Add the package that loading needs to the configuration. Without it, loading says why."""
        config = super()._get_model_config()
        needs = {
            "specifier": ">=0.9.0",  # the oldest version that reads what we save
            "reason": "it extends the model to longer inputs; pip install mteb-longembed",
        }
        return {**config, "requirements": {**config.get("requirements", {}), "mteb-longembed": needs}}

    def cut_dimensions(self, dims: int | None) -> None:
        """Keep only this many leading dimensions of a vector. None keeps all."""
        if isinstance(self[-1], GroupByDocument):
            self[-1].dims = dims
        elif self.kind != "dense":
            raise InputError(
                f"only dense vectors can be cut to {dims} dimensions, got a {self.kind} model: leave it out."
            )
        else:
            cast("SentenceTransformer", self).truncate_dim = dims


class LongSentenceTransformer(LongModelMixin, SentenceTransformer):
    """A `SentenceTransformer` whose first module is a `LongTransformer`."""

    __module__ = _SHOWN_MODULE


class LongMultiVectorEncoder(LongModelMixin, MultiVectorEncoder):
    """A `MultiVectorEncoder`.

    Of a dense base it gives one vector for each span or window of a document, and one vector for a query. Of a base
    with late interaction (`kind` says so) it gives a vector for each token of both.
    """

    __module__ = _SHOWN_MODULE
    has_several_vectors = True
    output = "token_embeddings"

    def collect(self, features: Features, place: torch.device) -> list[Tensor]:
        """Return the vectors of each document of a batch, on a device.

        They are `[n, d]`; windows that nothing joined are `[windows, size, d]`, with zeros where a token does not
        count.
        """
        batch = features.get(BATCH)
        if batch is None or batch.texts is None:
            return super().collect(features, place)
        rows = features[self.output] * features["attention_mask"][:, :, None]
        return list(rows.to(place).split(batch.texts.bincount().tolist()))


class LongSparseEncoder(LongModelMixin, SparseEncoder):
    """A `SparseEncoder` whose module for documents is a `LongTransformer`.

    With `has_several_vectors`, the engine gives the vectors of windows; `encode` gives their maximum in any case.
    """

    __module__ = _SHOWN_MODULE

    def collect(self, features: Features, place: torch.device) -> list[Tensor]:
        """Return one array for each document of a batch, or the vectors of its windows."""
        if not self.has_several_vectors:
            return super().collect(features, place)
        rows = features.get(WINDOWS)
        if rows is None:
            rows = features[self.output][:, None]
        return [row.to(place) for row in rows]

    @torch.inference_mode()
    def _inference(self, inputs: list[Any], *, device: Any = None, **arguments: Any) -> Any:
        """Encode in batches by tokens. What is not plain goes to sentence-transformers' own method."""
        kwargs = {key: value for key, value in arguments.items() if key not in _OF_CALL}
        prompt, dims = arguments.get("prompt"), arguments["max_active_dims"]
        # a router may read queries by another module, and a module may select tokens itself
        is_ours = self[0] is self.backbone or kwargs.get("task") == "document"
        is_ours = is_ours and (dims is None or "max_active_dims" not in self.get_model_kwargs())
        if not is_ours or self.backbone.token_ids(inputs[:1], prompt, **kwargs) is None:
            return SparseEncoder._inference(self, inputs, device=device, **arguments)
        engine = Engine([self], prompt, arguments["batch_size"], kwargs, device, arguments["save_to_cpu"])
        parts = []
        for start in range(0, len(inputs), _DENSE_AT_ONCE):
            texts = inputs[start : start + _DENSE_AT_ONCE]
            done = engine.encode(texts, show=bool(arguments["show_progress_bar"]))
            rows = torch.stack([torch.atleast_2d(done[text][0]).amax(0) for text in texts])
            if dims is not None:
                rows = select_max_active_dims(rows, max_active_dims=dims)
            parts.append(rows.to_sparse() if arguments["convert_to_sparse_tensor"] else rows)
        return torch.cat(parts)


#: Our models: with one vector a document, or several.
LongModel = LongSentenceTransformer | LongMultiVectorEncoder | LongSparseEncoder


def owner_of(kind: Kind) -> type[LongModel]:
    """Return the class of our model of a base with one vector a document, or a vector for each token."""
    owners = {
        "dense": LongSentenceTransformer,
        "late-interaction": LongMultiVectorEncoder,
        "sparse": LongSparseEncoder,
    }
    return cast("type[LongModel]", owners[kind])


def of_modules(
    modules: list[nn.Module], settings: dict[str, Any], device: str | None, kind: Kind = "dense"
) -> LongModel:
    """Build one of our models from a first module and a head, with another model's `settings_of`.

    Without a `device` it goes to the best one of this machine.
    """
    owner: Any = owner_of(kind)
    if isinstance(modules[-1], GroupByDocument):
        settings.pop("truncate_dim", None)  # the last module cuts dimensions
        owner = LongMultiVectorEncoder
    made: LongModel = owner(modules=modules, device=device, **settings)
    for module in list(made)[1:]:
        module.float()  # the first module returns fp32, whatever its dtype is
    return made


def with_head(model: Model, head: Head, *, stock: bool = False) -> Model:
    """Return a model with the same first module and another head. The given model does not change.

    It has the embedding cache and the name of a model of ours, but for `vectors`. With `stock`, a model with a stock
    first module gets stock modules alone, so that it opens without this package.

    Raises:
        IncompatibleError: if the model has no such head.
    """
    backbone = model[0]
    settings = settings_of(model)
    if not isinstance(backbone, LongTransformer):
        modules = head.stock_modules() if stock else head.modules()
        stock_model: Any = type(model)(modules=[backbone, *modules], device=str(model.device), **settings)
        return cast("Model", stock_model)
    if head.vectors is not None:
        settings.pop("similarity_fn_name", None)
    made = of_modules([backbone, *head.modules(cuts=backbone.cuts)], settings, str(model.device))
    if isinstance(model, LongModelMixin) and model.checkpoint is not None and model.is_unchanged():
        spec = replace(model.checkpoint.spec, vectors=head.vectors)
        made.remember(replace(model.checkpoint, spec=spec))
        made.embedding_cache = model.embedding_cache
    return cast("Model", made)


def settings_of(model: BaseModel) -> dict[str, Any]:
    """Return the arguments of a model's constructor other than its modules: prompts, similarity, dimensions."""
    names = ("prompts", "default_prompt_name", "similarity_fn_name", "truncate_dim", "max_active_dims")
    return {name: getattr(model, name) for name in names if hasattr(model, name)}
