"""The two sentence-transformers modules of an extended model: the transformer and, for windows, the pooling.

A strategy acts only in `forward`. So training, multi-process pools, prompts, precisions and token embeddings work as
on any SentenceTransformer. Saved folders name both classes by this path.
"""

from __future__ import annotations

import functools
import json
import re
from pathlib import Path
from typing import Any, Self

import torch
from sentence_transformers.base import BaseModel
from sentence_transformers.base.modules import Module
from sentence_transformers.sentence_transformer.modules import Pooling, Transformer, WordWeights
from torch import Tensor
from transformers import PreTrainedModel

from mteb_longembed.encoders import features as keys
from mteb_longembed.encoders.attention.lengths import SequenceLengths, encoding, with_lengths
from mteb_longembed.encoders.checkpoints.strategy_file import STRATEGY_FILE, StrategyFile
from mteb_longembed.encoders.families import family_of
from mteb_longembed.encoders.features import Features, to_device
from mteb_longembed.encoders.modules.inputs import TextInputs, special_counts
from mteb_longembed.encoders.modules.windows import joined_tokens, mean_by, rows_of, split_windows
from mteb_longembed.encoders.strategies import Strategy
from mteb_longembed.errors import InputError, ModelError

#: How many tokens of a document's windows run together.
AT_ONCE = 16_384
#: Weights that an embedding model may lack: heads that it never runs.
_HEADS = re.compile(r"(^|\.)(pooler|lm_head|contact_head|classifier|cls|qa_outputs|score)\.")
#: Where a layer of transformers has the function that runs it again, if gradients are checkpointed.
_CHECKPOINT = "_gradient_checkpointing_func"


class LongTransformer(TextInputs):
    """A sentence-transformers `Transformer` whose positions are changed by a strategy."""

    save_in_root: bool = False

    #: Name and revision of the base that the model was made from.
    base_name: str = ""
    base_revision: str | None = None
    #: Whether a later module pools windows. Otherwise their tokens are joined here.
    windows_are_pooled: bool = True

    @classmethod
    def made_of(
        cls,
        transformer: Transformer,
        strategy: Strategy,
        *,
        extended: bool = False,
        read_from: str | None = None,
    ) -> Self:
        """A `LongTransformer` made of the model, tokenizer and settings of a private `Transformer`.

        Args:
            transformer: of sentence-transformers' own class. It must not be used any more.
            strategy: with all lengths and parameters.
            extended: whether the weights are so already.
            read_from: the files from which the weights have just been read. All that the model needs must be there.
        """
        if not isinstance(transformer, Transformer) or transformer.backend != "torch":
            raise ModelError(
                f"only sentence-transformers' Transformer on the torch backend can be extended, got "
                f"{type(transformer).__name__}."
            )
        if read_from is not None:
            _check_all_loaded(transformer.model, read_from)
        long = cls.__new__(cls)
        vars(long).update(vars(transformer))  # its constructor would load the model again
        long.strategy = strategy
        # flattened batches would hide where a document ends
        long.unpad_inputs = False  # FlashAttention 2 leaves out padding in each layer
        long.family = family_of(long.config)(long.model, strategy, extended=extended)
        long._words.padding_side = "right"
        long._words.truncation_side = "right"
        _check_vocabulary(long)
        long.max_seq_length = strategy.target_len
        return long

    def __repr__(self) -> str:
        strategy = self.strategy
        return (
            f"{type(self).__name__}(strategy={strategy.KEY}, {strategy.trained_len} -> {strategy.target_len})"
        )

    def on_model_ready(self, model: BaseModel) -> None:
        """See whether a pooling of windows follows.

        One weighted mean takes the tokens of the whole document, so windows are joined before it.
        """
        following = list(model)[1:]
        is_weighted = bool(following) and isinstance(following[0], WordWeights)
        pooling = next(iter(following[is_weighted:]), None)
        has_vector_per_window = getattr(pooling, "vectors", None) == "window"
        self.windows_are_pooled = isinstance(pooling, Pooling) and (not is_weighted or has_vector_per_window)

    def forward(self, features: Features, **kwargs: Any) -> Features:
        """Token embeddings of every document, in fp32 also if the model computes in half precision."""
        return self.joined(self.run(features, **kwargs))

    def run(self, features: Features, **kwargs: Any) -> Features:
        """The token embeddings as `forward` gives them, but of windows still apart.

        Documents up to the trained length and longer documents of one batch run separately, each on its own path.
        So no embedding depends on the other documents of its batch.
        """
        if "attention_mask" not in features or "input_ids" not in features:
            raise InputError(
                "an extended model takes tokenised texts (input_ids, attention_mask), "
                f"got {', '.join(sorted(features))}."
            )
        features = dict(features)
        known = features.pop(keys.DOCUMENT_LENGTHS, None)
        if known is None:
            lengths = features["attention_mask"].sum(1).cpu()
        else:
            lengths = torch.tensor(known)
        longest = int(lengths.max())
        if longest > self.strategy.target_len:
            raise InputError(
                f"a text must have at most {self.strategy.target_len} tokens, the target length of this model, got "
                f"{longest}: cut it, or extend the base to a longer target."
            )
        if self.cuts and longest > self.strategy.whole_len:
            out = self._run_windows(features, lengths, **kwargs)
        else:
            out = self._run_apart(features, lengths, **kwargs)
        if self.tells_content:
            out[keys.DOCUMENT_LENGTHS] = lengths
        embeddings = out[self.module_output_name]
        if embeddings.dtype in (torch.float16, torch.bfloat16):
            out[self.module_output_name] = embeddings.float()
        return out

    def _run(self, features: Features, lengths: Tensor, **kwargs: Any) -> Features:
        """The pass on documents of one kind."""
        prepared = self.family.prepare(features, lengths)
        self._keep_lengths()
        with encoding(SequenceLengths(lengths.tolist(), features["input_ids"].device)):
            out = super().forward(prepared, **kwargs)
        out.pop("position_ids", None)
        return out

    def _keep_lengths(self) -> None:
        """Let layers that gradient checkpointing runs again, after the forward pass, know the lengths."""
        if not torch.is_grad_enabled() or not self.model.training:
            return
        for module in self.model.modules():
            run_again = vars(module).get(_CHECKPOINT)
            if run_again is not None and getattr(run_again, "func", None) is not with_lengths:
                vars(module)[_CHECKPOINT] = functools.partial(with_lengths, run_again)

    def _run_windows(self, features: Features, lengths: Tensor, **kwargs: Any) -> Features:
        """The token embeddings of windows, `[w, size, d]`, of documents of which some are cut."""
        prefix, suffix = special_counts(self._words)
        prefixes = [prefix] * len(lengths)
        if keys.WINDOW_PREFIX in features:
            prefixes = features[keys.WINDOW_PREFIX].tolist()
        ends = [(prefix, suffix) for prefix in prefixes]
        windows, sizes = split_windows(features, lengths, ends, self.strategy)
        parts = torch.arange(len(sizes)).split(max(AT_ONCE // windows["input_ids"].shape[1], 1))
        runs = [self._run_apart(rows_of(windows, part), sizes[part], **kwargs) for part in parts]
        tokens = torch.cat([run[self.module_output_name] for run in runs])
        return {**windows, keys.DOCUMENT_FEATURES: features, self.module_output_name: tokens}

    def joined(self, features: Features) -> Features:
        """What `run` gave, with the tokens of windows joined to those of documents, unless windows are pooled."""
        if self.windows_are_pooled or keys.WINDOW_COUNTS not in features:
            return features
        documents: Features = dict(features[keys.DOCUMENT_FEATURES])
        tokens = features[self.module_output_name]
        shape = documents["input_ids"].shape
        index = features[keys.WINDOW_TOKENS]
        documents[self.module_output_name] = joined_tokens(tokens, index, features[keys.WINDOW_COUNTS], shape)
        if keys.DOCUMENT_LENGTHS in features:
            documents[keys.DOCUMENT_LENGTHS] = features[keys.DOCUMENT_LENGTHS]
        return documents

    def _run_apart(self, features: Features, lengths: Tensor, **kwargs: Any) -> Features:
        """Run the short and the long documents of a batch one after the other, and join the results in order."""
        long = lengths > self.strategy.whole_len
        if bool(long.all()) or not bool(long.any()):
            return self._run(features, lengths, **kwargs)
        merged: Tensor | None = None
        for rows in (long.nonzero()[:, 0], (~long).nonzero()[:, 0]):
            subset = rows_of(features, rows)
            width = int(lengths[rows].max())
            subset.update({key: subset[key][:, :width] for key in keys.TOKEN_FEATURES if key in subset})
            embeddings = self._run(subset, lengths[rows], **kwargs)[self.module_output_name]
            if merged is None:
                merged = embeddings.new_zeros(*features["input_ids"].shape, embeddings.shape[-1])
            merged[to_device(rows, merged.device), :width] = embeddings
        return {**features, self.module_output_name: merged}

    def save(self, output_path: str, *args: Any, safe_serialization: bool = True, **kwargs: Any) -> None:
        """Save the extended weights, the strategy and the base's name and revision. `load` reads them again."""
        if any(hasattr(module, "merged_adapters") for module in self.model.modules()):
            raise ModelError(
                "a model with adapters must be merged before it is saved: call merge_and_unload() of the PEFT model "
                "that get_peft_model gave."
            )
        super().save(output_path, *args, safe_serialization=safe_serialization, **kwargs)
        content = StrategyFile(self.strategy, self.base_name, self.base_revision)
        path = Path(output_path, STRATEGY_FILE)
        path.write_text(json.dumps(content.to_json(), indent=2) + "\n", encoding="utf-8")

    @classmethod
    def load(  # type: ignore[override]  # the strategy is in its own file
        cls, model_name_or_path: str, subfolder: str = "", revision: str | None = None, **kwargs: Any
    ) -> Self:
        """Load a module from a saved folder or repository. Its position table is the saved one, not a new one."""
        source: dict[str, Any] = {"subfolder": subfolder, "revision": revision}
        of_hub = kwargs.keys() & {"token", "cache_folder", "local_files_only"}
        source |= {key: kwargs.pop(key) for key in of_hub}
        # not Transformer's own method, because it adds to the content of the file
        config = Module.load_config(model_name_or_path, config_filename=STRATEGY_FILE, **source)
        saved = StrategyFile.from_json(config, f"{model_name_or_path}/{subfolder}/{STRATEGY_FILE}")
        transformer = Transformer.load(model_name_or_path, **source, **kwargs)
        loaded = cls.made_of(transformer, saved.strategy, extended=True, read_from=model_name_or_path)
        loaded.base_name = saved.base_name
        loaded.base_revision = saved.base_revision
        return loaded


def _check_all_loaded(model: PreTrainedModel, path: str) -> None:
    """Raise ModelError if a model that has just been loaded needs weights that its checkpoint in `path` lacks."""
    missing = []
    for name, weight in model.named_parameters():
        if not getattr(weight, "_is_hf_initialized", False) and not _HEADS.search(name):
            missing.append(name)
    if not missing:
        return
    missing.sort()
    shown = ", ".join(missing[:3])
    if len(missing) > 3:
        shown += f" and {len(missing) - 3} more"
    raise ModelError(f"the checkpoint in {path} lacks weights that the model needs: {shown}.")


def _check_vocabulary(first: LongTransformer) -> None:
    """Refuse a tokenizer without its files: transformers would make one that knows only special tokens."""
    rows = getattr(first.model.get_input_embeddings(), "num_embeddings", 0)
    entries = len(first.tokenizer or ())
    if 2 * entries < rows:
        raise ModelError(
            f"the tokenizer of {first.config.name_or_path} must have at least half as many entries as the model's "
            f"table has rows ({rows:,}), got {entries:,}: add the tokenizer's own files, such as tokenizer.json."
        )


class WindowPooling(Pooling):
    """Pools each window with the base's own mode and averages the windows of a document."""

    def forward(self, features: Features, **kwargs: Any) -> Features:
        features = super().forward(features, **kwargs)
        if keys.WINDOW_COUNTS not in features:
            return features
        counts = features.pop(keys.WINDOW_COUNTS)
        index = features.pop(keys.WINDOW_TOKENS)
        mask = features.pop(keys.DOCUMENT_FEATURES)["attention_mask"]
        document = torch.repeat_interleave(torch.arange(len(counts)), counts)
        features["sentence_embedding"] = mean_by(document, features["sentence_embedding"], len(counts))
        tokens = features["token_embeddings"]
        if tokens.shape[1] == index.shape[1]:
            features["token_embeddings"] = joined_tokens(tokens, index, counts, mask.shape)
        features["attention_mask"] = mask
        features.pop("input_ids", None)
        features.pop("token_type_ids", None)
        return features
