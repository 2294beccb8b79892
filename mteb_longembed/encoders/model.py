"""The SentenceTransformer that `extend` and `load` return: sentence-transformers' own class, on our engine.

The engine decides only when a text is tokenised and which texts share a batch. The modules' `forward` decides what
happens to a document.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import torch
from sentence_transformers import MultiVectorEncoder, SentenceTransformer
from sentence_transformers.util import truncate_embeddings
from torch import Tensor

from mteb_longembed.encoders.built_model import BuiltModel
from mteb_longembed.encoders.engine.engine import Engine
from mteb_longembed.encoders.engine.settings import EncodeSettings
from mteb_longembed.encoders.engine.truncation import TruncationStats
from mteb_longembed.encoders.modules.span_pooling import GroupByDocument
from mteb_longembed.encoders.modules.transformer import LongTransformer
from mteb_longembed.encoders.publishing.card import extended_card
from mteb_longembed.errors import InputError

#: What our engine gives for a text. What else `encode` may be asked for is sentence-transformers' own matter.
_ARRAYS = ("sentence_embedding", "token_embeddings")
#: What is done with the arrays of some texts before they are returned.
Finish = Callable[[list[Tensor]], list[Tensor]]
#: The arguments of one call of `_inference`, by their names in sentence-transformers.
Call = dict[str, Any]


class LongModelMixin(BuiltModel):
    """What our two models share: they run on our engine, and are saved with our model card."""

    #: How much of the texts the last call of `encode` read. Equal texts count once.
    truncation: TruncationStats | None = None
    #: The arguments of `_inference` that are no inputs of the modules' `forward`, without `device`.
    OF_CALL = frozenset((
        "prompt", "batch_size", "show_progress_bar", "output_value", "save_to_cpu", "normalize_embeddings",
    ))  # fmt: skip

    @torch.inference_mode()
    def _inference(
        self, inputs: list[Any], *, device: int | str | torch.device | None = None, **arguments: Any
    ) -> Any:
        """Encode in batches by tokens. What the engine cannot cut goes to sentence-transformers' own method."""
        call = {key: arguments[key] for key in self.OF_CALL}
        kwargs = {key: value for key, value in arguments.items() if key not in call or key == "task"}
        ours = isinstance(self[0], LongTransformer) and call["output_value"] in _ARRAYS
        if not ours or self.first.token_ids(inputs[:1], call["prompt"], **kwargs) is None:
            return super()._inference(inputs, device=device, **arguments)
        for index, text in enumerate(inputs):
            if not isinstance(text, str):
                raise InputError(
                    f"all inputs of one call must be texts if the first one is, got a {type(text).__name__} at "
                    f"place {index}."
                )
        asked = EncodeSettings(call["prompt"], call["batch_size"], kwargs, to_host=call["save_to_cpu"])
        settings, finish = self._form(asked, call)
        store = self.store
        # to find one question again costs as much as to encode it
        is_one_question = len(inputs) == 1 and arguments.get("task") == "query"
        if settings.form == "tokens" or is_one_question:
            store = None
        engine = Engine(self.eval(), self._resolve_inference_device(device), settings, store)
        texts = list(dict.fromkeys(inputs))
        done: dict[str, Tensor] = {}
        for indices, arrays in engine.encode(texts, show=call["show_progress_bar"]):
            done.update(zip([texts[i] for i in indices], finish(arrays), strict=True))
        self.truncation = engine.truncation
        embeddings = [done[text] for text in inputs]
        if call["output_value"] == "sentence_embedding":
            return torch.stack(embeddings)
        return embeddings

    def _form(self, settings: EncodeSettings, call: Call) -> tuple[EncodeSettings, Finish]:
        """The settings with the arrays that a call asks for, and what is done with these."""
        raise NotImplementedError

    def _create_model_card(self, path: str, model_name: str | None = None, *args: Any) -> None:
        """Write our own card. sentence-transformers' card would say "finetuned" and load the model with stock code."""
        repository = model_name or getattr(self.model_card_data, "model_id", None)
        name = repository or Path(path).resolve().name
        card = extended_card(cast("Any", self), name, is_repository="/" in (repository or ""))
        Path(path, "README.md").write_text(card, encoding="utf-8")

    def _get_model_config(self) -> dict[str, Any]:
        """sentence-transformers' configuration, and the package that loading needs. Without it, loading says why."""
        config = super()._get_model_config()
        needs = {
            "specifier": ">=0.5.0",  # the oldest version that reads what we save
            "reason": "it extends the model to longer inputs; pip install mteb-longembed",
        }
        return {**config, "requirements": {**config.get("requirements", {}), "mteb-longembed": needs}}


class LongSentenceTransformer(LongModelMixin, SentenceTransformer):
    """A `SentenceTransformer` whose first module is a `LongTransformer`."""

    OF_CALL = LongModelMixin.OF_CALL | {"truncate_dim"}

    def _form(self, settings: EncodeSettings, call: Call) -> tuple[EncodeSettings, Finish]:
        if call["output_value"] == "token_embeddings":
            return replace(settings, form="tokens", to_host=False), list

        def finish(arrays: list[Tensor]) -> list[Tensor]:
            embeddings = torch.stack(arrays)
            if call["truncate_dim"] is not None:
                embeddings = truncate_embeddings(embeddings, call["truncate_dim"])
            if call["normalize_embeddings"]:
                embeddings = torch.nn.functional.normalize(embeddings, p=2, dim=1)
            return list(embeddings.cpu() if call["save_to_cpu"] else embeddings)

        return settings, finish

    def cut_dimensions(self, dims: int | None) -> None:
        """Keep only so many leading dimensions of a vector. None keeps all."""
        self.truncate_dim = dims


class LongMultiVectorEncoder(LongModelMixin, MultiVectorEncoder):
    """A `MultiVectorEncoder`: one vector for each span or window of a document, and one vector for a query."""

    @property
    def grouping(self) -> GroupByDocument:
        """The last module, which groups vectors by document."""
        return cast("GroupByDocument", self[-1])

    def cut_dimensions(self, dims: int | None) -> None:
        """Keep only so many leading dimensions of a vector. None keeps all."""
        self.grouping.dims = dims

    OF_CALL = LongModelMixin.OF_CALL | {"token_pooling", "task"}

    def _form(self, settings: EncodeSettings, call: Call) -> tuple[EncodeSettings, Finish]:
        task = call["task"]
        pooling = call["token_pooling"]
        to_host = call["save_to_cpu"]

        def finish(vectors: list[Tensor]) -> list[Tensor]:
            if call["normalize_embeddings"]:
                vectors = [torch.nn.functional.normalize(rows, dim=-1) for rows in vectors]
            if pooling is not None:
                vectors = pooling.pool(vectors, task=task)
            if to_host:
                return [rows.cpu() for rows in vectors]
            return vectors

        to_host_first = to_host and pooling is None
        return replace(settings, form="vectors", to_host=to_host_first), finish
