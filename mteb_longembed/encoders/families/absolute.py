"""Learned absolute positions: a table with one row for each position, added to the token embeddings."""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle
from transformers import PretrainedConfig, PreTrainedModel

from mteb_longembed.encoders.attention.lengths import current
from mteb_longembed.encoders.features import Features, to_device
from mteb_longembed.encoders.strategies import Strategy
from mteb_longembed.errors import IncompatibleError, ModelError

from .family import Family

#: Model type -> the name of its query projections.
QUERY_PROJECTIONS = {
    "bert": "query",
    "distilbert": "q_lin",
    "electra": "query",
    "roberta": "query",
    "camembert": "query",
    "xlm-roberta": "query",
    "xlm-roberta-xl": "query",
    # MPNet also adds a bucketed relative bias. It is constant beyond 128 tokens, and we do not change it.
    "mpnet": "q",
}
#: Types whose positions start at `padding_idx + 1`, and in which pad tokens in a text do not count (fairseq's rule).
FROM_PADDING = frozenset(("roberta", "camembert", "xlm-roberta", "xlm-roberta-xl", "mpnet"))


class Absolute(Family):
    """BERT, DistilBERT, ELECTRA, RoBERTa, XLM-R, MPNet: we choose rows of the learned table by position ids."""

    name: ClassVar[str] = "absolute"
    actions: ClassVar[frozenset[str]] = frozenset({"windows", "position_ids", "position_table"})

    def __init__(self, model: PreTrainedModel, strategy: Strategy, *, extended: bool = False) -> None:
        super().__init__(model, strategy)
        kind = model.config.model_type
        # Any, because torch says that every attribute of a module is Tensor | Module
        embeddings: Any = model.embeddings
        table: nn.Embedding = embeddings.position_embeddings
        # MPNet's is always 1, even if the configuration says something else
        self.padding_idx: int | None = None
        self.first_row = 0
        if kind in FROM_PADDING:
            self.padding_idx = embeddings.padding_idx
            self.first_row = embeddings.padding_idx + 1
        self.has_table = "position_table" in strategy.overrides()
        if self.has_table and not extended:
            self._grow(model, table)
        self.check_target(strategy, embeddings.position_embeddings.num_embeddings - self.first_row)
        self._query = QUERY_PROJECTIONS[kind]
        self._owners: list[nn.Module] = []
        self._hooked: list[tuple[nn.Module, RemovableHandle]] = []
        if strategy.logn:
            # by name, not by class: a projection may have an adapter around it
            self._owners = [
                module for module in model.modules() if self._query in dict(module.named_children())
            ]
            if len(self._owners) < model.config.num_hidden_layers:
                raise ModelError(
                    f"{type(model).__name__} must have one query projection for each of its "
                    f"{model.config.num_hidden_layers} layers, got {len(self._owners)}: use logn=off."
                )
            self._hook_queries()

    @classmethod
    def matches(cls, config: PretrainedConfig) -> bool:
        return config.model_type in QUERY_PROJECTIONS

    @classmethod
    def check_target(cls, strategy: Strategy, positions: int, rows: int | None = None) -> None:
        if strategy.KEY == "none" and strategy.target_len > positions:
            remedy = "use pcw, gp, rp, pi or ntk."
            if rows is not None and strategy.target_len <= rows:
                remedy = (
                    f"its table has {rows} rows, so trained_len={strategy.target_len} reads them as they are."
                )
            raise IncompatibleError(
                f"with the strategy none, a model with absolute positions takes at most its {positions} trained "
                f"positions, got a target length of {strategy.target_len} tokens; {remedy}"
            )

    @classmethod
    def trained_len(cls, config: PretrainedConfig) -> int | None:
        rows = super().trained_len(config)
        if rows is None or config.model_type not in FROM_PADDING:
            return rows
        # MPNet's table has this row for padding whatever the configuration says
        return rows - (1 if config.model_type == "mpnet" else config.pad_token_id) - 1

    def _grow(self, model: PreTrainedModel, table: nn.Embedding) -> None:
        """Replace the table with the strategy's, but keep the rows before `first_row` (padding)."""
        weight = table.weight.detach()
        trained = weight[self.first_row : self.first_row + self.strategy.trained_len]
        rows = self.strategy.position_table(trained.float().cpu()).to(weight.dtype)
        weight = torch.cat([weight[: self.first_row], rows.to(weight.device)])
        grown = nn.Embedding(len(weight), weight.shape[1], padding_idx=table.padding_idx, _weight=weight)
        embeddings: Any = model.embeddings
        embeddings.position_embeddings = grown
        # the model reads both buffers by position if no ids are passed
        positions = torch.arange(len(weight), device=weight.device)[None]
        for name, values in (("position_ids", positions), ("token_type_ids", torch.zeros_like(positions))):
            if hasattr(embeddings, name):
                embeddings.register_buffer(name, values, persistent=False)
        model.config.max_position_embeddings = len(weight)

    def _hook_queries(self) -> None:
        """Scale what each layer's query projection returns, also if an adapter was put around it meanwhile."""
        queries: list[nn.Module] = [getattr(owner, self._query) for owner in self._owners]
        if queries != [module for module, _ in self._hooked]:
            for _, handle in self._hooked:
                handle.remove()
            self._hooked = [(query, query.register_forward_hook(self._scale_queries)) for query in queries]

    def _scale_queries(self, module: nn.Module, inputs: object, output: Tensor) -> Tensor | None:
        lengths = current()
        if lengths is None or lengths.longest <= self.strategy.trained_len:
            return None
        factors = lengths.on_device(
            "query scale", lambda: self.strategy.query_scale(lengths.n)[:, None, None]
        )
        return (output * factors).to(output.dtype)

    def prepare(self, features: Features, lengths: Tensor) -> Features:
        strategy = self.strategy
        ids = features["input_ids"]
        n = to_device(lengths, ids.device)[:, None]
        self._hook_queries()
        if self.padding_idx is None:
            p = torch.arange(ids.shape[1], device=ids.device)[None]
            real = p < n
            if "query_expansion_positions" in features:  # scored, although the other tokens do not see them
                real = real | features["query_expansion_positions"].bool()
        else:
            real = ids != self.padding_idx
            p = real.cumsum(1) - 1
        if self.has_table:
            rows = strategy.table_rows(p, n)
        else:
            rows = strategy.position_ids(p, n)
        # padding is masked everywhere, so any valid row is right
        rows = torch.where(real, rows + self.first_row, 0 if self.padding_idx is None else self.padding_idx)
        return {**features, "position_ids": rows.long()}
