"""The backbone with a strategy inside: it tokenises texts, cuts windows, and returns token embeddings."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Self

import numpy as np
import torch
from sentence_transformers import SparseEncoder
from sentence_transformers.base.modules import Router
from sentence_transformers.sentence_transformer.modules import Transformer
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from mteb_longembed.encoders.strategies import STRATEGIES, Strategy
from mteb_longembed.errors import IncompatibleError, InputError, ModelError
from mteb_longembed.files import Json

from .attention import Batch, pass_batch, running
from .devices import to_device, tokens_at_once
from .long_table import LongTable
from .positions import install_positions
from .repository import BACKBONE
from .tokens import Ids, cutter_of
from .vectors import BATCH, BOUNDS, RUNS, TOKEN_FEATURES, Features, TokenBatch, Windows, windows_of

#: Weights that an embedding model may lack: heads that never run.
_HEADS = re.compile(r"(^|\.)(pooler|lm_head|contact_head|classifier|cls|qa_outputs|score)\.")
#: Name of a feature: by how many positions a document is moved (`tuning.py`).
OFFSET = "position_offset"
#: How much more memory a token takes with logits over the vocabulary than without.
_LOGITS = 8


@dataclass(frozen=True)
class SavedSetting:
    """The entry `longembed` of sentence_bert_config.json."""

    strategy: Strategy  #: with all lengths and parameters
    base: str  #: the name of the base that the model was made from
    base_revision: str | None  #: the commit of the base on the hub
    has_long_rows: bool  #: whether the position rows of long documents are in the weights

    @classmethod
    def read(cls, setting: Json, where: str) -> Self:
        """Read the setting in the file `where`.

        Raises:
            ModelError: if it does not name one of our strategies, or a value breaks a rule.
        """
        try:
            values = {**setting}
            base, revision = values.pop("base"), values.pop("base_revision")
            has_long_rows = bool(values.pop("has_long_rows", False))
            return cls(STRATEGIES[values.pop("strategy")](**values), base, revision, has_long_rows)
        except (TypeError, KeyError, ValueError) as error:
            raise ModelError(f"{where} must hold a strategy with its parameters ({error}).") from error


class LongTransformer(Transformer):
    """sentence-transformers' `Transformer` with a strategy inside. It saves the base's files and one setting."""

    __module__ = BACKBONE.rpartition(".")[0]  # as saved models name it
    config_keys = [*Transformer.config_keys, "longembed"]
    save_in_root: bool = False

    strategy: Strategy
    #: Name and revision of the base that the model was made from.
    base_name: str = ""
    base_revision: str | None = None
    #: The text of the base's card.
    base_card: str = ""

    def __init__(self, *args: Any, longembed: Json | None = None, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        setting = SavedSetting.read(longembed or {}, "sentence_bert_config.json")
        self.base_name = setting.base
        self.base_revision = setting.base_revision
        self.extend(setting.strategy)
        if self.table is not None and setting.has_long_rows:
            self.table.n_own -= self.strategy.target_len

    @classmethod
    def of(cls, stock: Transformer, strategy: Strategy) -> Self:
        """Turn a private Transformer into ours, in place, and install a strategy."""
        stock.__class__ = cls
        assert isinstance(stock, cls)
        stock.extend(strategy)
        return stock

    def extend(self, strategy: Strategy) -> None:
        """Install a strategy with all lengths and parameters."""
        if self.backend != "torch":
            raise ModelError(f"only models on the torch backend can be extended, got {self.backend}.")
        # a masked language model has the transformer inside
        inner = self.model.base_model if self.has_logits else self.model
        assert isinstance(inner, PreTrainedModel)
        install_positions(inner, strategy)
        self.strategy = strategy
        if self.query_expansion is not None and self.query_length is None:
            # windows would lose the expansion tokens
            self.query_length = max(self.query_expansion["length"], strategy.trained_len)
        self.document_length = None  # the target length decides
        #: Whether long documents run in windows, as with `pcw`.
        self.cuts = strategy.CUTS
        # flattened batches would hide where a document ends; FlashAttention 2 leaves out padding in each layer
        self.unpad_inputs = False
        self.text_tokenizer.padding_side = "right"
        self.text_tokenizer.truncation_side = "right"
        self.max_seq_length = strategy.target_len

    @property
    def has_logits(self) -> bool:
        """Whether it returns logits over the vocabulary for each token."""
        return self.transformer_task == "fill-mask"

    @property
    def longembed(self) -> Json:
        """The saved setting, as `SavedSetting.read` reads it."""
        made_of = {"base": self.base_name, "base_revision": self.base_revision}
        values = {"strategy": self.strategy.KEY, **asdict(self.strategy), **made_of}
        table = self.table
        if table is not None and table.has_long_rows:
            values["has_long_rows"] = True
        return values

    @property
    def table(self) -> LongTable | None:
        """The table of positions, if the strategy has replaced it; else None."""
        tables = (part for part in self.model.modules() if isinstance(part, LongTable))
        return next(tables, None)

    @property
    def text_tokenizer(self) -> PreTrainedTokenizerBase:
        """The tokenizer, which extended models always have."""
        assert self.tokenizer is not None  # only models of texts are extended
        return self.tokenizer

    @property
    def max_input_len(self) -> int:
        """Maximum tokens of a text: `max_seq_length`, or the target length if that is None."""
        return self.max_seq_length or self.strategy.target_len

    # ---- input ------------------------------------------------------------------------------------------------

    def preprocess(  # type: ignore[override]
        self, inputs: Sequence[object], prompt: str | None = None, **kwargs: Any
    ) -> Features:
        """Return token ids, and the bounds of each text's content."""
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
        """Return the ids of each text, special tokens included, without reading more of a text than they need.

        None if `inputs` are not texts, or if they need more than plain tokenising (a chat template, ColBERT's query
        expansion, lengths by task, settings of the tokenizer).
        """
        texts = [text for text in inputs if isinstance(text, str)]
        tokenizer = self.text_tokenizer
        cut_queries = kwargs.get("task") == "query" and (self.query_length or self.query_expansion)
        is_plain = (
            len(inputs) == len(texts) > 0
            and not (self.processing_kwargs or self.document_length or cut_queries)
            and set(kwargs) <= {"task"}
            and self.processor is tokenizer
            and "message" not in self.modality_config
            and set(tokenizer.model_input_names) <= set(TOKEN_FEATURES)
            and tokenizer.pad_token_id is not None
        )
        cutter = cutter_of(tokenizer)
        if cutter is None or not is_plain:
            return None
        ids = cutter([prompt + text for text in texts] if prompt else texts, self.max_input_len)
        # a tokenizer without special tokens returns no token for an empty text, which no model accepts
        token = tokenizer.pad_token_id if tokenizer.eos_token_id is None else tokenizer.eos_token_id
        return [row if len(row) else np.array([token], np.int32) for row in ids]

    def features_of(self, ids: Sequence[Ids], prompt: str | None = None) -> Features:
        """Return what `preprocess` returns for these token ids: padded on the right to the longest text."""
        lengths = torch.tensor(list(map(len, ids)))
        mask = (torch.arange(int(lengths.max())) < lengths[:, None]).long()
        rows = [torch.from_numpy(row).long() for row in ids]
        tokenizer = self.text_tokenizer
        input_ids = pad_sequence(rows, batch_first=True, padding_value=tokenizer.pad_token_id)
        features: Features = {"input_ids": input_ids, "attention_mask": mask, "modality": "text"}
        if "token_type_ids" in tokenizer.model_input_names:
            features["token_type_ids"] = torch.zeros_like(mask)
        if prompt:
            features["prompt_length"] = self._get_prompt_length(prompt)
        features[BOUNDS] = self._bounds(input_ids, lengths, prompt)
        return features

    def _bounds(self, input_ids: Tensor, lengths: Tensor, prompt: str | None) -> Tensor:
        """Return `BOUNDS` `[b, 3]` for ids `[b, n]` of texts of these lengths, all on the host.

        A tokenizer may merge the prompt's last characters with the text, so only prompt tokens that are unchanged in
        the document count.
        """
        bounds = torch.full((len(input_ids), 3), -1)
        bounds[:, 0] = lengths
        cutter = cutter_of(self.tokenizer)
        if cutter is None:
            return bounds
        bounds[:, 1] = len(cutter.prefix_ids)
        bounds[:, 2] = len(cutter.suffix_ids)
        if prompt:
            [ids] = cutter([prompt], self.max_input_len)
            alone = torch.from_numpy(ids)[: len(ids) - len(cutter.suffix_ids)][: input_ids.shape[1]]
            same = (input_ids[:, : len(alone)] == alone).int().cumprod(1).sum(1)
            bounds[:, 1] = same.clamp(min=len(cutter.prefix_ids))
        return bounds

    # ---- the pass ---------------------------------------------------------------------------------------------

    def forward(self, features: Features, **kwargs: object) -> Features:
        """Add token embeddings `[b, n, d]`, or `[w, size, d]` of windows, and the `TokenBatch` of the texts.

        The embeddings are fp32 even if the model computes in half precision.
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
        windows = windows_of(batch.bounds, self.strategy)
        batch = TokenBatch(batch.bounds, windows)
        cut = self._cut(features, windows)
        runs = self._run_windows(features, cut, windows, **kwargs)
        if self.has_logits:
            # the pooling runs the batches of windows one by one
            return {**features, RUNS: runs, BATCH: batch}
        return {**features, **cut, name: torch.cat([run[name] for run in runs]), BATCH: batch}

    def _run(self, features: Features, lengths: Tensor, **kwargs: object) -> Features:
        if torch.is_grad_enabled() and self.model.training:
            pass_batch(self.model)
        offsets = features.pop(OFFSET, None)
        batch = Batch(self.strategy, lengths.tolist(), features["input_ids"].device, offsets=offsets)
        with running(batch):
            out = super().forward(features, **kwargs)
        embeddings = out[self.module_output_name]
        exact = embeddings.to(torch.promote_types(embeddings.dtype, torch.float32))
        return {**out, self.module_output_name: exact}

    def _cut(self, features: Features, windows: Windows) -> Features:
        """Return the token features of windows, `[w, size]`, for documents of which some are cut."""
        device = features["input_ids"].device
        # padding reads token 0, and its mask of 0 hides that
        indices = to_device(windows.texts[:, None], device), to_device(windows.tokens.clamp(min=0), device)
        cut = {key: features[key][indices] for key in TOKEN_FEATURES if key in features}
        cut["attention_mask"] = to_device((windows.tokens >= 0).long(), device)
        return cut

    def _run_windows(
        self, features: Features, cut: Features, windows: Windows, **kwargs: object
    ) -> Iterator[Features]:
        """Yield the features of windows with token embeddings, batch by batch, `[windows, size, d]`."""
        sizes = windows.sizes
        tokens = tokens_at_once(features["input_ids"].device) // (_LOGITS if self.has_logits else 1)
        at_once = max(tokens // windows.tokens.shape[1], 1)
        for start in range(0, len(sizes), at_once):
            rows = slice(start, start + at_once)
            of_rows = {key: value[rows] for key, value in cut.items()}
            yield self._run({**features, **of_rows}, sizes[rows], **kwargs)

    def save(
        self, output_path: str, *args: object, safe_serialization: bool = True, **kwargs: object
    ) -> None:
        """Save the base's weights and files, and the setting."""
        check_merged(self)
        super().save(output_path, *args, safe_serialization=safe_serialization, **kwargs)


def route_of(model: nn.Sequential) -> list[nn.Module]:
    """Return the modules that documents pass. A sparse model may begin with a router, which has some for documents."""
    first, *rest = model
    if isinstance(model, SparseEncoder) and isinstance(first, Router) and "document" in first.sub_modules:
        document = first.sub_modules["document"]
        assert isinstance(document, nn.Sequential)
        return [*document, *rest]
    return [first, *rest]


def transformer_of(model: nn.Sequential) -> Transformer:
    """Return the first module that documents pass, if it is a Transformer.

    Raises:
        ModelError: if it is another module, such as static embeddings.
    """
    first = route_of(model)[0]
    if not isinstance(first, Transformer):
        raise ModelError(
            f"the model starts with a {type(first).__name__}, but only a Transformer can be extended."
        )
    return first


def rows_of_vocabulary(transformer: nn.Module) -> int:
    """Return the number of rows of a transformer's token embeddings; 0 if it has none."""
    assert isinstance(transformer, Transformer)
    table = transformer.model.get_input_embeddings()
    return table.num_embeddings if isinstance(table, nn.Embedding) else 0


def backbone_of(model: nn.Sequential) -> LongTransformer:
    """Return the module of one of our models that tokenises documents and holds the strategy."""
    backbone = route_of(model)[0]
    assert isinstance(backbone, LongTransformer)
    return backbone


def check_loaded(first: Transformer, path: str) -> None:
    """Raise ModelError if a newly loaded base lacks weights that it needs, or its tokenizer's files.

    transformers initialises missing weights at random, and builds a tokenizer with only special tokens.
    """
    missing = []
    for name, weight in first.model.named_parameters():
        is_used = first.transformer_task == "fill-mask" or not _HEADS.search(name)
        if is_used and not vars(weight).get("_is_hf_initialized"):
            missing.append(name)
    if missing:
        shown = ", ".join(sorted(missing)[:3])
        raise ModelError(
            f"the checkpoint in {path} lacks {len(missing)} weights that the model needs: {shown}."
        )
    rows = rows_of_vocabulary(first)
    if 2 * len(first.tokenizer or ()) < rows:
        raise ModelError(
            f"the tokenizer of {path} must have at least half as many entries as the model's table has rows "
            f"({rows:,}), got {len(first.tokenizer or ()):,}: add its own files, such as tokenizer.json."
        )


def check_merged(module: nn.Module) -> None:
    """Raise IncompatibleError for a model with adapters inside, whose files no class would read."""
    if any(hasattr(part, "merged_adapters") for part in module.modules()):
        raise IncompatibleError(
            "a model with adapters must be merged before it is saved: call merge_and_unload() of the PEFT model that "
            "get_peft_model gave."
        )
