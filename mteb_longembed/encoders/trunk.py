"""The trunk: a sentence-transformers module that gives token embeddings, and what is known of their texts.

A strategy acts only in `forward`. So training, multi-process pools, prompts, precisions and token embeddings work as
on any SentenceTransformer. What becomes of token embeddings is the matter of a head (`heads/`).
"""

import functools
import json
import re
from pathlib import Path
from typing import Any, Self

import torch
from sentence_transformers.base.modules import Module
from sentence_transformers.sentence_transformer.modules import Transformer
from torch import Tensor
from transformers import PreTrainedModel

from mteb_longembed.encoders.checkpoints.strategy_file import STRATEGY_FILE, Saved, from_json, to_json
from mteb_longembed.encoders.features import BOUNDS, TOKEN_FEATURES, Features, to_device
from mteb_longembed.encoders.positions.attention.lengths import SequenceLengths, encoding, with_lengths
from mteb_longembed.encoders.positions.families import family_of
from mteb_longembed.encoders.positions.strategies import Strategy
from mteb_longembed.encoders.text.inputs import TextInputs
from mteb_longembed.encoders.token_batch import BATCH, TokenBatch, features_of_windows, rows_of, windows_of
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
            extended: whether the weights are so already: their table of positions stays.
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
        family = family_of(long.config)
        saved = family.table_of(long.model) if extended else None
        long.family = family(long.model, strategy)
        if saved is not None:
            long.family.take_saved(long.model, saved)
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

    def forward(self, features: Features, **kwargs: Any) -> Features:
        """Token embeddings of texts `[b, n, d]`, or `[w, size, d]` of their windows, and the `TokenBatch` of the texts.

        They are in fp32 also if the model computes in half precision. Documents that the strategy changes and others of
        one batch run separately, each on its own path. So no embedding depends on the other documents of its batch.
        """
        if "attention_mask" not in features or "input_ids" not in features:
            raise InputError(
                "an extended model takes tokenised texts (input_ids, attention_mask), "
                f"got {', '.join(sorted(features))}."
            )
        features = dict(features)
        bounds = features.pop(BOUNDS, None)
        if bounds is None:
            lengths = features["attention_mask"].sum(1)
            bounds = torch.stack([lengths, *torch.full((2, len(lengths)), -1, device=lengths.device)], 1)
        bounds = bounds.cpu()
        batch = TokenBatch(bounds)
        if batch.width > self.strategy.target_len:
            raise InputError(
                f"a text must have at most {self.strategy.target_len} tokens, the target length of this model, got "
                f"{batch.width}: cut it, or extend the base to a longer target."
            )
        if self.cuts and self.strategy.changes(batch.width):
            out = self._run_windows(features, bounds, **kwargs)
        else:
            out = {**self._run_apart(features, batch.lengths, **kwargs), BATCH: batch}
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

    def _run_windows(self, features: Features, bounds: Tensor, **kwargs: Any) -> Features:
        """The token embeddings of windows, `[w, size, d]`, of documents of which some are cut."""
        windows = windows_of(bounds, self.strategy)
        cut = features_of_windows(features, windows)
        sizes = (windows.tokens >= 0).sum(1)
        parts = torch.arange(len(sizes)).split(max(AT_ONCE // windows.tokens.shape[1], 1))
        runs = [self._run(rows_of(cut, part), sizes[part], **kwargs) for part in parts]
        tokens = torch.cat([run[self.module_output_name] for run in runs])
        return {**cut, self.module_output_name: tokens, BATCH: TokenBatch(bounds, windows)}

    def _run_apart(self, features: Features, lengths: Tensor, **kwargs: Any) -> Features:
        """Run the documents that change and the others one after the other, and join the results in order."""
        changed = self.family.changes(lengths)
        if bool(changed.all()) or not bool(changed.any()):
            return self._run(features, lengths, **kwargs)
        merged: Tensor | None = None
        for rows in (changed.nonzero()[:, 0], (~changed).nonzero()[:, 0]):
            subset = rows_of(features, rows)
            width = int(lengths[rows].max())
            subset.update({key: subset[key][:, :width] for key in TOKEN_FEATURES if key in subset})
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
        content = to_json(Saved(self.strategy, self.base_name, self.base_revision))
        path = Path(output_path, STRATEGY_FILE)
        path.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")

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
        saved = from_json(config, f"{model_name_or_path}/{subfolder}/{STRATEGY_FILE}")
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


def _check_vocabulary(trunk: LongTransformer) -> None:
    """Refuse a tokenizer without its files: transformers would make one that knows only special tokens."""
    rows = getattr(trunk.model.get_input_embeddings(), "num_embeddings", 0)
    entries = len(trunk.tokenizer or ())
    if 2 * entries < rows:
        raise ModelError(
            f"the tokenizer of {trunk.config.name_or_path} must have at least half as many entries as the model's "
            f"table has rows ({rows:,}), got {entries:,}: add the tokenizer's own files, such as tokenizer.json."
        )
