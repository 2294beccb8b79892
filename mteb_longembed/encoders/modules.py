"""The two sentence-transformers modules of an extended model: the transformer and, for windows, the pooling.

A strategy acts only in `forward`. So training, multi-process pools, prompts, precisions and token embeddings work as
on any SentenceTransformer.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Sequence
from pathlib import Path, PurePosixPath
from typing import Any, Self, cast

import numpy as np
import torch
from sentence_transformers.base.modules import Module
from sentence_transformers.sentence_transformer.modules import Pooling, Transformer
from torch import Tensor
from transformers import PreTrainedTokenizerBase

from mteb_longembed.errors import IncompatibleError, InputError, ModelError

from .adapters import ADAPTERS, load_adapters, save_with_adapters
from .attention import devices
from .attention.context import Documents, PackedDocuments, encoding, with_documents
from .attention.devices import to_device
from .bases.saved import STRATEGY_FILE, Origin, origin_in, strategy_in, what_is_saved
from .engine.engine import DOCUMENT_LENGTHS, POOLING
from .engine.tokenizing import Ids, cutter_of
from .families import Family, family_of
from .int8 import has_int8
from .strategies import Strategy
from .strategies.pcw import full_windows
from .windows import aggregated, joined_tokens, most_context

#: Features with one value for each token. Windows cut them, and padding fills them with zeros.
TOKEN_FEATURES = ("input_ids", "attention_mask", "token_type_ids")

#: The length of inputs that are not cut, in tokens.
NO_LIMIT = 2**31
#: How many tokens of a document's stretches run together.
AT_ONCE = 16_384


class LongTransformer(Transformer):
    """A sentence-transformers `Transformer` whose positions are changed by a strategy."""

    save_in_root: bool = False

    strategy: Strategy
    family: Family
    #: The folder or repository that the whole model was loaded from, and its revision. None if there is none.
    saved_in: tuple[str, str | None] | None = None
    #: The base that the model was made from.
    origin: Origin | None = None
    #: Whether a later module needs to know which tokens are content.
    tells_content: bool = False
    #: Whether a later module pools windows. Otherwise their tokens are joined here.
    windows_are_pooled: bool = True

    @classmethod
    def from_transformer(
        cls, transformer: Transformer, strategy: Strategy, *, extended: bool = False
    ) -> Self:
        """Turn a private `Transformer` into a `LongTransformer`, in place. `extended`: its weights are so already."""
        if not isinstance(transformer, Transformer) or transformer.backend != "torch":
            raise ModelError(
                f"only sentence-transformers' Transformer on the torch backend can be extended, got "
                f"{type(transformer).__name__}."
            )
        transformer.__class__ = cls  # the subclass only adds attributes, so no part of the base is rebuilt
        transformer.strategy = strategy
        # flattened batches would hide where a document ends
        transformer.unpad_inputs = False
        transformer.family = family_of(transformer.config)(transformer.model, strategy, extended=extended)
        transformer.tokenizer.padding_side = "right"
        transformer.tokenizer.truncation_side = "right"
        transformer.max_seq_length = strategy.target_len
        if strategy.max_tokens is None and transformer.token_ids(["a"]) is None:
            raise IncompatibleError(
                f"past_target=read needs texts that become plain token ids, but those of this model go through "
                f"{type(transformer.processor).__name__} in another form: leave it out."
            )
        return transformer

    def __repr__(self) -> str:
        strategy = self.strategy
        return f"{type(self).__name__}(strategy={strategy.key()}, {strategy.trained_len} -> {strategy.target_len})"

    def on_model_ready(self, model: Any) -> None:
        """See whether a pooling follows."""
        self.windows_are_pooled = len(model) > 1 and isinstance(model[1], Pooling)

    # ---- input -------------------------------------------------------------------------------------

    def preprocess(  # type: ignore[override]
        self, inputs: Any, prompt: str | None = None, **kwargs: Any
    ) -> dict[str, Any]:
        """Token ids. If windows are cut, also the number of leading tokens that each window repeats."""
        ids = self.token_ids(inputs, prompt, **kwargs)
        if ids is not None:
            return self.features_of(ids, prompt)
        features = super().preprocess(inputs, prompt, **kwargs)
        if "input_ids" in features:
            self._tell_content(features, prompt)
        return features

    def _tell_content(self, features: dict[str, Any], prompt: str | None) -> None:
        """Add the number of leading and trailing tokens that are not content, if a later module needs it."""
        if self.tells_content or self.cuts:
            features["window_prefix"] = self._prompt_tokens(features["input_ids"], prompt)
        if self.tells_content:
            features["special_suffix"] = self._specials()[1]

    @property
    def cuts(self) -> bool:
        """Whether long documents run in parts: the windows of `pcw`, or the stretches of `past_target=read`."""
        return "windows" in self.strategy.hooks() or self.strategy.max_tokens is None

    @property
    def _words(self) -> PreTrainedTokenizerBase:
        return cast("PreTrainedTokenizerBase", self.tokenizer)  # a text model always has one

    @property
    def max_seq_length(self) -> int | None:
        """Tokens kept of a text: at most the target length, because there are no positions beyond it."""
        return super().max_seq_length

    @max_seq_length.setter
    def max_seq_length(self, value: int | None) -> None:
        self._check_length(value)
        if self.tokenizer is not None:
            self.tokenizer.model_max_length = value

    def _check_length(self, value: int | None) -> None:
        target = self.strategy.target_len
        if value is not None and value > target:
            raise InputError(
                f"max_seq_length must be at most {target} tokens, the target length of this model, got "
                f"{value}; extend the base to a longer target instead."
            )

    @property
    def longest(self) -> int:
        """Tokens kept of a text: `max_seq_length`, or what the strategy reads if that is None or the target length."""
        length = self.max_seq_length
        # the tokenizer's own limit may have been set without `max_seq_length`
        self._check_length(length)
        if length is None or length == self.strategy.target_len:
            return self.strategy.max_tokens or NO_LIMIT
        return length

    def token_ids(self, inputs: Any, prompt: str | None = None, **kwargs: Any) -> list[Ids] | None:
        """Each text's ids, special tokens included. No more of a text is read than the ids need.

        None if `inputs` are not texts, or if the call needs more than plain tokenising (a chat template, query
        expansion, lengths by task, settings of the tokenizer for this call).
        """
        own_lengths = {"query": self.query_length or self.query_expansion, "document": self.document_length}
        plain = (
            len(inputs) > 0
            and all(isinstance(text, str) for text in inputs)
            and set(kwargs) <= {"task"}
            and not own_lengths.get(kwargs.get("task", ""))
            and not self.processing_kwargs
            and "message" not in self.modality_config
            and self.processor is self.tokenizer
            and self.transformer_task == "feature-extraction"
            and set(self._words.model_input_names) <= set(TOKEN_FEATURES)
            and self._words.pad_token_id is not None
        )
        cutter = cutter_of(self.tokenizer) if plain else None
        if cutter is None:
            return None
        ids = cutter([prompt + text for text in inputs] if prompt else inputs, self.longest)
        # a tokenizer without special tokens gives no tokens for an empty text, and no model accepts that
        end = self._words.eos_token_id
        token = self._words.pad_token_id if end is None else end
        return [row if len(row) else np.array([token], np.int32) for row in ids]

    def features_of(self, ids: Sequence[Ids], prompt: str | None = None) -> dict[str, Any]:
        """What `preprocess` returns for texts with these token ids: padded on the right to the longest text."""
        lengths = torch.tensor([len(row) for row in ids])
        mask = (torch.arange(int(lengths.max())) < lengths[:, None]).long()
        input_ids = torch.full(mask.shape, self._words.pad_token_id)
        for row, values in zip(input_ids, ids, strict=True):
            row[: len(values)] = torch.from_numpy(values)
        features: dict[str, Any] = {"input_ids": input_ids, "attention_mask": mask, "modality": "text"}
        if "token_type_ids" in self._words.model_input_names:
            features["token_type_ids"] = torch.zeros_like(mask)
        if prompt:
            features["prompt_length"] = self._get_prompt_length(prompt)
        self._tell_content(features, prompt)
        return features

    def row_settings(self, ids: Sequence[Ids], prompt: str | None = None) -> list[tuple[int, ...]]:
        """The settings that change each text's embedding, apart from its ids, which contain the prompt.

        The number of prompt tokens, because a pooling may leave them out. For a text that is cut into windows or spans
        also the numbers of leading and trailing tokens that are not content.
        """
        length = (self._get_prompt_length(prompt) or 0) if prompt else 0
        settings: list[tuple[int, ...]] = [(length,)] * len(ids)
        if self.tells_content or self.cuts:
            _, behind = self._specials()
            most = len(self._words(prompt or "")["input_ids"]) + 1
            heads = self.features_of([row[:most] for row in ids], prompt)
            prefixes = heads["window_prefix"].tolist()
            for i, (row, prefix) in enumerate(zip(ids, prefixes, strict=True)):
                if self.tells_content or not self.family.leaves_unchanged(len(row)):
                    settings[i] = (length, prefix, behind)
        return settings

    def _specials(self) -> tuple[int, int]:
        """How many special tokens the tokenizer puts before and after a text."""
        for text in ("a", "the", "1", "文"):  # a tokenizer must turn at least one of them into tokens
            ids = self._words(text)["input_ids"]
            bare = self._words(text, add_special_tokens=False)["input_ids"]
            for before in range(len(ids) - len(bare) + 1):
                if bare and ids[before : before + len(bare)] == bare:
                    return before, len(ids) - len(bare) - before
        raise ModelError(
            "the tokenizer splits a text differently with and without its special tokens, so windows of the text "
            "cannot have special tokens; use a strategy other than pcw."
        )

    def _prompt_tokens(self, input_ids: Tensor, prompt: str | None) -> Tensor:
        """`[b]` numbers of leading tokens of each document that are special tokens or part of the prompt.

        A tokenizer may merge the prompt's last characters with the text. So only those prompt tokens count that are
        unchanged in the document.
        """
        before, behind = self._specials()
        if not prompt:
            return torch.full((len(input_ids),), before)
        read = self.token_ids([prompt])
        ids = torch.tensor(self._words(prompt)["input_ids"]) if read is None else torch.from_numpy(read[0])
        alone = ids[: len(ids) - behind][: input_ids.shape[1]]
        same = (input_ids[:, : len(alone)].cpu() == alone).int().cumprod(1).sum(1)
        return same.clamp(min=before)

    # ---- forward -----------------------------------------------------------------------------------

    def forward(self, features: dict[str, Any], **kwargs: Any) -> dict[str, Any]:
        """Token embeddings of every document, in fp32 also if the model computes in half precision.

        Documents up to the trained length and longer documents of one batch run separately, each on its own path.
        So no embedding depends on the other documents of its batch.
        """
        if "attention_mask" not in features or "input_ids" not in features:
            raise InputError(
                "an extended model takes tokenised texts (input_ids, attention_mask), "
                f"got {', '.join(sorted(features))}."
            )
        features = dict(features)
        # the engine knows the lengths, so we need not wait for the device to count them
        told = features.pop(DOCUMENT_LENGTHS, None)
        pooling = features.pop(POOLING, None)
        lengths = features["attention_mask"].sum(1).cpu() if told is None else torch.tensor(told)
        long = bool((lengths > self.strategy.whole_len).any())
        if long and len(lengths) > 1 and "query_expansion_positions" in features:
            # such a query has more columns than tokens, which the ways of long documents do not know
            each = [self.forward(rows_of(features, torch.tensor([i])), **kwargs) for i in range(len(lengths))]
            tokens = torch.cat([one[self.module_output_name] for one in each])
            return {**features, self.module_output_name: tokens}
        if long and "windows" in self.strategy.hooks():
            if self.windows_are_pooled:
                out = self._run(*self._cut_windows(features, lengths), pooling, **kwargs)
            else:
                out = self._run_in_stretches(features, lengths, **kwargs)
        elif bool((lengths > self.strategy.target_len).any()):
            out = self._run_in_stretches(features, lengths, **kwargs)
        else:
            out = self._run_apart(features, lengths, pooling, **kwargs)
        if self.tells_content:
            out[DOCUMENT_LENGTHS] = lengths
        embeddings = out[self.module_output_name]
        if embeddings.dtype in (torch.float16, torch.bfloat16):
            out[self.module_output_name] = embeddings.float()
        return out

    def _run(
        self, features: dict[str, Any], lengths: Tensor, pooling: Any = None, **kwargs: Any
    ) -> dict[str, Any]:
        """The pass on documents of one kind, packed if possible. `pooling` follows if only its result is needed."""
        prepared = self.family.prepare(features, lengths)
        device = features["input_ids"].device
        expanded = "query_expansion_positions" in features
        if self.packs_on(device) and not expanded:
            documents = PackedDocuments(lengths.tolist(), device)
            with encoding(documents):
                packed = super().forward(self.family.pack(prepared, documents), **kwargs)
            tokens = packed[self.module_output_name][0]
            if _pools_by_segment(pooling, features):
                return pooled_by_segment(
                    pooling.pooling_mode, features, tokens, documents, self.module_output_name
                )
            padded = unpacked(tokens, documents, features["input_ids"].shape)
            return {**features, self.module_output_name: padded}
        self._keep_documents()
        with encoding(Documents(lengths.tolist(), device, expanded)):
            out = super().forward(prepared, **kwargs)
        out.pop("position_ids", None)
        return out

    def _keep_documents(self) -> None:
        """Let layers that gradient checkpointing runs again, after the forward pass, know their documents."""
        if not (torch.is_grad_enabled() and self.model.training):
            return
        module: Any
        for module in self.model.modules():
            own = vars(module).get("_gradient_checkpointing_func")
            if own is not None and getattr(own, "func", None) is not with_documents:
                module._gradient_checkpointing_func = functools.partial(with_documents, own)

    def packs_on(self, device: torch.device) -> bool:
        """Whether documents run without padding: only if the call needs no gradients and no inner states."""
        config = self.config.get_text_config()
        asked = getattr(config, "output_hidden_states", False) or getattr(config, "output_attentions", False)
        other = asked or torch.is_grad_enabled() or torch.is_autocast_enabled(device.type)
        if other or not self.family.packs:
            return False
        return devices.packs(device, self.model.dtype, devices.head_width(config))

    def _run_in_stretches(self, features: dict[str, Any], lengths: Tensor, **kwargs: Any) -> dict[str, Any]:
        """The token embeddings of documents of which some run in stretches, or in windows."""
        cut, own = self._cut_windows(features, lengths)
        parts = torch.arange(len(own)).split(max(AT_ONCE // cut["input_ids"].shape[1], 1))
        runs = [self._run_apart(rows_of(cut, part), own[part], **kwargs) for part in parts]
        tokens = torch.cat([run[self.module_output_name] for run in runs])
        counts, chosen = cut["window_counts"], cut["window_tokens"]
        if "windows" not in self.strategy.hooks():
            documents = zip(chosen.split(counts.tolist()), self._ends(features), strict=True)
            chosen = torch.cat([most_context(windows, *ends) for windows, ends in documents])
        joined = joined_tokens(tokens, chosen, counts, features["input_ids"].shape)
        return {**features, self.module_output_name: joined}

    def _stretches(self, n: int, prefix: int, suffix: int) -> Tensor:
        """Token indices of each stretch of the target length over a longer document: `[w, target]`."""
        room = self.strategy.target_len - prefix - suffix
        if room < 2:
            raise InputError(
                f"a stretch must have room for 2 content tokens beside prompt and special tokens, got {room}; use a "
                "longer target length or a shorter prompt."
            )
        return full_windows(n, prefix, suffix, self.strategy.target_len, room - room // 2)

    def _ends(self, features: dict[str, Any]) -> list[tuple[int, int]]:
        """For each document the numbers of tokens at its start and end that every part of it repeats."""
        before, behind = self._specials()
        told = features.get("window_prefix")
        prefixes = [before] * len(features["input_ids"]) if told is None else told.tolist()
        return [(prefix, behind) for prefix in prefixes]

    def _run_apart(
        self, features: dict[str, Any], lengths: Tensor, pooling: Any = None, **kwargs: Any
    ) -> dict[str, Any]:
        """Run the short and the long documents of a batch one after the other, and join the results in order."""
        long = lengths > self.strategy.whole_len
        if bool(long.all()) or not bool(long.any()):
            return self._run(features, lengths, pooling, **kwargs)
        merged: Tensor | None = None
        for chosen in (long, ~long):
            places = chosen.nonzero()[:, 0]
            rows, half = to_device(places, features["input_ids"].device), rows_of(features, places)
            width = int(lengths[chosen].max())
            half.update({key: half[key][:, :width] for key in TOKEN_FEATURES if key in half})
            embeddings = self._run(half, lengths[chosen], **kwargs)[self.module_output_name]
            if merged is None:
                merged = embeddings.new_zeros(*features["input_ids"].shape, embeddings.shape[-1])
            merged[rows, :width] = embeddings
        return {**features, self.module_output_name: merged}

    def _cut_windows(self, features: dict[str, Any], lengths: Tensor) -> tuple[dict[str, Any], Tensor]:
        """Replace documents by their windows: `[b, n]` token features become `[w, size]`. Also the `[w]` lengths.

        Adds `window_tokens` `[w, size]` (the index of each window token in its document) and `window_counts` `[b]`,
        both on the host, and `document_mask` `[b, n]` and `window_agg`. From these, `WindowPooling` joins the windows
        of each document.
        """
        tokens: list[Tensor] = []
        counts: list[int] = []
        whole_len, windows = self.strategy.whole_len, self.strategy.windows
        if "windows" not in self.strategy.hooks():
            whole_len, windows = self.strategy.target_len, self._stretches
        for n, (prefix, behind) in zip(lengths.tolist(), self._ends(features), strict=True):
            window = torch.arange(n)[None] if n <= whole_len else windows(n, prefix, behind)
            tokens.extend(window)
            counts.append(len(window))
        index = torch.nn.utils.rnn.pad_sequence(tokens, batch_first=True, padding_value=-1)
        device = features["input_ids"].device
        document = torch.repeat_interleave(torch.arange(len(counts)), torch.tensor(counts))
        # padding reads token 0, and its mask of 0 hides that
        rows, columns = to_device(document[:, None], device), to_device(index.clamp(min=0), device)
        real = index >= 0
        whole = (*TOKEN_FEATURES, "query_expansion_positions")  # a query of several windows is not expanded
        cut = {key: value for key, value in features.items() if key not in whole}
        cut.update({key: features[key][rows, columns] for key in TOKEN_FEATURES if key in features})
        cut["attention_mask"] = to_device(real.to(features["attention_mask"].dtype), device)
        cut["window_tokens"] = index
        cut["window_counts"] = torch.tensor(counts)
        cut["document_mask"] = features["attention_mask"]
        cut["window_agg"] = getattr(self.strategy, "agg", "mean")
        return cut, real.sum(1)

    # ---- files -------------------------------------------------------------------------------------

    def save(self, output_path: str, *args: Any, safe_serialization: bool = True, **kwargs: Any) -> None:
        """Save the extended weights, the strategy and the base's name and revision. `load` reads them again."""
        if has_int8(self.model):
            raise InputError(
                "dtype=int8 cannot be saved: save the model without it, and give it when you load the base."
            )
        adapters: list[str] = []
        if getattr(self.model, "peft_config", None):
            adapters = save_with_adapters(self.model, output_path, safe_serialization=safe_serialization)
            self.processor.save_pretrained(output_path)
            self.save_config(output_path)
        else:
            super().save(output_path, *args, safe_serialization=safe_serialization, **kwargs)
        config = what_is_saved(self.strategy, self.origin, adapters)
        path = Path(output_path, STRATEGY_FILE)
        path.write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")

    @classmethod
    def load(  # type: ignore[override]  # the strategy is in its own file
        cls,
        model_name_or_path: str,
        subfolder: str = "",
        revision: str | None = None,
        **kwargs: Any,
    ) -> Self:
        """Load a module from a saved folder or repository. Its position table is the saved one, not a new one."""
        place: dict[str, Any] = {"subfolder": subfolder, "revision": revision}
        place |= {
            key: kwargs.pop(key) for key in ("token", "cache_folder", "local_files_only") if key in kwargs
        }
        # not Transformer's own method, because it adds to the content of the file
        config = Module.load_config(model_name_or_path, config_filename=STRATEGY_FILE, **place)
        strategy = strategy_in(config, f"{model_name_or_path}/{subfolder}/{STRATEGY_FILE}")
        transformer = Transformer.load(model_name_or_path, **place, **kwargs)
        if adapters := config.get(ADAPTERS):
            place["subfolder"] = str(PurePosixPath(subfolder, ADAPTERS))
            load_adapters(transformer.model, Module.load_dir_path(model_name_or_path, **place), adapters)
        loaded = cls.from_transformer(transformer, strategy, extended=True)
        loaded.origin = origin_in(config)
        loaded.saved_in = model_name_or_path, None if Path(model_name_or_path).is_dir() else revision
        return loaded


class WindowPooling(Pooling):
    """Pools each window with the base's own mode and averages the windows of a document.

    With `keep_windows` in the features, a batch with a cut document also gets `pooled_windows`: `[windows, d]` of each
    document. `from_windows` continues from them.
    """

    #: Whether the vectors of a document depend on more than its pooled windows.
    needs_tokens = False

    def forward(self, features: dict[str, Any], **kwargs: Any) -> dict[str, Any]:
        features = super().forward(features, **kwargs)
        keep = features.pop("keep_windows", False)
        if "window_counts" not in features:
            return features
        counts, index = features.pop("window_counts"), features.pop("window_tokens")
        mask = features.pop("document_mask")
        pooled = features["sentence_embedding"]
        if keep:
            features["pooled_windows"] = list(pooled.split(counts.tolist()))
        features["sentence_embedding"] = aggregated(pooled, counts, features.pop("window_agg"))
        tokens = features["token_embeddings"]
        if tokens.shape[1] == index.shape[1]:
            features["token_embeddings"] = joined_tokens(tokens, index, counts, mask.shape)
        features["attention_mask"] = mask
        features.pop("input_ids", None)
        features.pop("token_type_ids", None)
        return features

    def from_windows(self, windows: Sequence[Tensor], agg: str, task: str | None = None) -> dict[str, Any]:
        """The features that this module returns for documents whose pooled windows `[windows, d]` are known."""
        counts = torch.tensor([len(each) for each in windows])
        return {"sentence_embedding": aggregated(torch.cat(list(windows)), counts, agg)}


def rows_of(features: dict[str, Any], rows: Tensor) -> dict[str, Any]:
    """The features of some texts of a batch, by their indices on the host."""
    size = len(features["input_ids"])
    return {
        key: value[to_device(rows, value.device)]
        if isinstance(value, Tensor) and value.ndim and len(value) == size
        else value
        for key, value in features.items()
    }


def unpacked(tokens: Tensor, documents: PackedDocuments, shape: tuple[int, int]) -> Tensor:
    """Tokens of packed documents `[tokens, d]` as padded rows `[b, n, d]` of zeros."""
    padded = tokens.new_zeros(shape[0] * shape[1], tokens.shape[-1])
    padded.index_copy_(0, documents.places(shape[1]), tokens)
    return padded.view(*shape, -1)


def _pools_by_segment(pooling: Any, features: dict[str, Any]) -> bool:
    """Whether `pooled_by_segment` can stand in for the tokens that a pooling reads."""
    return (
        type(pooling) in (Pooling, WindowPooling)
        and pooling.pooling_mode in ("mean", "cls", "lasttoken")
        and (pooling.include_prompt or "prompt_length" not in features)
    )


def pooled_by_segment(
    mode: str, features: dict[str, Any], tokens: Tensor, documents: PackedDocuments, name: str
) -> dict[str, Any]:
    """Features with the pooled token of each document (sums in fp32) in the place of its tokens."""
    shape = features["input_ids"].shape
    starts = documents.starts().long()
    if mode == "mean":
        pooled = unpacked(tokens, documents, shape).sum(1, dtype=torch.float32)
        pooled = pooled / documents.lengths_here()[:, None]
    else:
        pooled = tokens[starts[:-1] if mode == "cls" else starts[1:] - 1].float()
    mask = features["attention_mask"][:, :1]
    return {**features, name: pooled[:, None], "attention_mask": mask}
