"""A table of learned positions with rows for long documents."""

import torch
from torch import Tensor, nn
from torch.nn.functional import embedding

from mteb_longembed.encoders.strategies import Strategy

from .attention import current


class LongTable(nn.Embedding):
    """The base's table of positions, and rows for the documents that the strategy changes.

    These long rows are computed from the base's rows, whose training they follow, and not saved. If they were trained
    (`tune`), or the base has them already (`keep`), they are in the weight, after the base's rows. `first_row` is the
    row of position 0; earlier rows are for padding.
    """

    first_row: int
    strategy: Strategy
    #: Rows of the base in its weight.
    n_own: int
    #: The storage and version of the weight when the rows were computed; the weight, so that its storage is not reused;
    #: and the rows.
    _computed: tuple[object, Tensor, Tensor] | None = None

    @property
    def has_long_rows(self) -> bool:
        """Whether the rows of long documents are in the weight, because they cannot be computed from the base's."""
        return self.n_own < len(self.weight)

    @property
    def long(self) -> Tensor:
        """`[Lt, d]` the rows of long documents."""
        weight = self.weight
        if self.has_long_rows:
            return weight[self.n_own :]
        if torch.is_grad_enabled() and weight.requires_grad:
            return self._rows()
        version = weight.untyped_storage()._cdata, weight._version
        if self._computed is None or self._computed[0] != version:
            with torch.inference_mode(mode=False), torch.no_grad():
                self._computed = version, weight.detach(), self._rows()
        return self._computed[2]

    def _rows(self) -> Tensor:
        trained = self.weight[self.first_row :][: self.strategy.trained_len]
        return self.strategy.long_rows(trained.float().cpu()).to(self.weight)

    def store_rows(self, long: Tensor, step: int = 1) -> None:
        """Put rows of long documents `[Lt, d]` into the weight, after each `step`-th of the base's rows."""
        own = self.weight.detach()[: self.n_own : step]
        self.n_own = len(own)
        self.weight = nn.Parameter(torch.cat([own, long]))
        self.num_embeddings = len(self.weight)

    def forward(self, ids: Tensor) -> Tensor:
        """Return the rows of tokens at the model's own positions `ids` `[b, n]` or `[1, n]`: `[b, n, d]`."""
        batch = current()
        strategy = batch.strategy
        n = batch.on_device("n", lambda: batch.n[:, None])
        changed = batch.on_device("changed", lambda: batch.n[:, None] > strategy.unchanged_len(rotary=False))
        p = ids - self.first_row
        if batch.offsets is not None:
            p = torch.where(p < 0, p, p + batch.offsets[:, None])
            changed = changed | (batch.offsets[:, None] > 0)
        # padding is masked everywhere, so any valid row is right; rows before the first one stay as they are
        is_long = changed & (p >= 0)
        if strategy.depends_on_length:
            p = torch.where(is_long, strategy.position_ids(p, n).long(), p)
        own = super().forward((p + self.first_row).clamp(0, self.n_own - 1).expand(len(n), -1))
        if strategy.depends_on_length or not bool(is_long.any()):
            return own
        long = embedding(p.clamp(0, strategy.target_len - 1), self.long)
        return torch.where(is_long[..., None], long, own)
