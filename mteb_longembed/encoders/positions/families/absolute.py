"""Learned absolute positions: a table with one row for each position, added to the token embeddings."""

from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle
from transformers import PretrainedConfig, PreTrainedModel

from mteb_longembed.encoders.features import Features, to_device
from mteb_longembed.encoders.positions.attention.lengths import current
from mteb_longembed.encoders.positions.strategies import Strategy
from mteb_longembed.encoders.positions.strategies.pi import PositionInterpolation
from mteb_longembed.errors import IncompatibleError, ModelError

from .family import Family
from .mpnet_attention import fuse_attention

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
    """BERT, DistilBERT, ELECTRA, RoBERTa, XLM-R, MPNet: we choose rows of the learned table by position ids.

    A strategy whose positions depend on nothing but the place of a token gets a table of its own rows behind the
    trained ones: the rows are `[before the first position | trained, Lo | long, Lt]`.
    """

    name: ClassVar[str] = "absolute"
    actions: ClassVar[frozenset[str]] = frozenset({"windows", "position_ids", "long_rows"})

    def __init__(self, model: PreTrainedModel, strategy: Strategy) -> None:
        super().__init__(model, strategy)
        fuse_attention(model)
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
        plain_len = strategy.trained_len if strategy.overrides() else strategy.target_len
        self.n_plain_rows = self.first_row + plain_len
        self.acts = bool(strategy.overrides() & {"position_ids", "long_rows"})
        self.has_long_rows = self.acts and not strategy.depends_on_length
        if self.has_long_rows:
            trained = table.weight.detach()[self.first_row : self.first_row + strategy.trained_len]
            long = strategy.long_rows(trained.float().cpu())
            self._grow(model, trained, long)
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
        if not strategy.overrides() and strategy.target_len > positions:
            remedy = "use pcw, gp, rp, pi or ntk."
            if rows is not None and strategy.target_len <= rows:
                remedy = (
                    f"its table has {rows} rows, so trained_len={strategy.target_len} reads them as they are."
                )
            raise IncompatibleError(
                f"with the strategy {strategy.KEY}, a model with absolute positions takes at most its {positions} "
                f"trained positions, got a target length of {strategy.target_len} tokens; {remedy}"
            )

    @classmethod
    def trained_len(cls, config: PretrainedConfig) -> int | None:
        rows = super().trained_len(config)
        if rows is None or config.model_type not in FROM_PADDING:
            return rows
        # MPNet's table has this row for padding whatever the configuration says
        return rows - (1 if config.model_type == "mpnet" else config.pad_token_id) - 1

    def _grow(self, model: PreTrainedModel, trained: Tensor, long: Tensor) -> None:
        """Replace the table, but keep the rows before `first_row` (padding)."""
        embeddings: Any = model.embeddings
        table: nn.Embedding = embeddings.position_embeddings
        old = table.weight.detach()
        weight = torch.cat([old[: self.first_row], trained.to(old), long.to(old)])
        grown = nn.Embedding(len(weight), weight.shape[1], padding_idx=table.padding_idx, _weight=weight)
        embeddings.position_embeddings = grown
        # the model reads both buffers by position if no ids are passed
        positions = torch.arange(len(weight), device=weight.device)[None]
        for name, values in (("position_ids", positions), ("token_type_ids", torch.zeros_like(positions))):
            if hasattr(embeddings, name):
                embeddings.register_buffer(name, values, persistent=False)
        model.config.max_position_embeddings = len(weight)

    @classmethod
    def table_of(cls, model: PreTrainedModel) -> Tensor | None:
        embeddings: Any = model.embeddings
        return embeddings.position_embeddings.weight.detach()

    def take_saved(self, model: PreTrainedModel, table: Tensor) -> None:
        """Put back the table `[rows, d]` of an extended model, in place of that which was made of its first rows.

        Until version 0.7 a table had only the long rows. Those of `pi` have the trained ones at each `s`-th place.
        """
        if not self.has_long_rows:
            return
        strategy = self.strategy
        rows = table[self.first_row :]
        if len(rows) == strategy.trained_len + strategy.target_len:
            trained = rows[: strategy.trained_len]
            long = rows[strategy.trained_len :]
        else:
            step = strategy.scale if isinstance(strategy, PositionInterpolation) else 1
            trained = rows[::step][: strategy.trained_len]
            long = rows[: strategy.target_len]
        self._grow(model, trained, long)

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
            "query factor", lambda: self.strategy.query_factor(lengths.n)[:, None, None]
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
        rows = p
        if self.acts:
            changed = to_device(self.changes(lengths), ids.device)[:, None]
            if self.has_long_rows:
                rows = p + strategy.trained_len
            else:
                rows = strategy.position_ids(p, n)
            rows = rows.where(changed, p)
        # padding is masked everywhere, so any valid row is right
        rows = torch.where(real, rows + self.first_row, 0 if self.padding_idx is None else self.padding_idx)
        return {**features, "position_ids": rows.long()}
