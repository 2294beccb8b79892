"""A head: the modules from token embeddings to a model's vectors, as one value."""

import copy
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Self

from sentence_transformers.sentence_transformer.modules import (
    Dense,
    Normalize,
    Pooling,
    WordWeights,
)
from torch import nn

from mteb_longembed.errors import IncompatibleError
from mteb_longembed.names import Settings
from mteb_longembed.values import Vectors

from .vectors import GroupByDocument, LongPooling, check_averages
from .weights import TokenWeights

#: The two features that a map can act on.
_OF_TOKENS = "token_embeddings"
_OF_TEXTS = "sentence_embedding"
#: The switches of older folders of sentence-transformers, one for each mode of a pooling.
POOLING_SWITCHES = {
    "pooling_mode_cls_token": "cls",
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_max_tokens": "max",
    "pooling_mode_mean_sqrt_len_tokens": "mean_sqrt_len_tokens",
    "pooling_mode_weightedmean_tokens": "weightedmean",
    "pooling_mode_lasttoken": "lasttoken",
}


@dataclass(frozen=True, eq=False)
class Head:
    """The modules that follow the backbone of a model.

    Args:
        pooling: the settings of the pooling. None without one: then all modules are `behind`.
        vectors: the vectors of a document, as in `LongPooling`.
        weights: the weights of tokens in a mean. None: all equal.
        behind: the modules after the pooling, such as Dense and Normalize.
        normalize: whether several vectors are scaled to length 1 in the end.
        dims: leading dimensions to keep of several vectors. None: all.
        late: whether it pools for late interaction, as in `LongPooling`.
    """

    pooling: Settings | None = None
    vectors: Vectors | None = None
    weights: WordWeights | None = None
    behind: tuple[nn.Module, ...] = ()
    normalize: bool = True
    dims: int | None = None
    late: bool = False

    @classmethod
    def of(cls, modules: Iterable[nn.Module]) -> Self:
        """Return the head of any model: stock, saved or ours. Linear maps of tokens become maps of vectors."""
        rest = list(modules)[1:]
        everything = tuple(rest)
        maps = []
        while rest and is_linear(rest[0], _OF_TOKENS):
            maps.append(_acting_on(rest.pop(0), _OF_TEXTS))
        weights: WordWeights | None = None
        if rest and isinstance(rest[0], WordWeights):
            weights = rest[0]
            rest = rest[1:]
        # a custom class may pool differently
        if not rest or not isinstance(rest[0], Pooling) or type(rest[0]) not in (Pooling, LongPooling):
            return cls(behind=everything)
        pooling = rest[0].get_config_dict()
        vectors = pooling.pop("vectors", None)
        late = pooling.pop("late", False)
        head = cls(pooling, vectors, weights, (*maps, *rest[1:]), late=late)
        last = rest[-1]
        if isinstance(last, GroupByDocument):
            head = replace(head, behind=(*maps, *rest[1:-1]), normalize=last.normalize, dims=last.dims)
        return head

    @property
    def mode(self) -> str:
        """The pooling mode; `no` without one."""
        if self.pooling is None:
            return "no"
        return pooling_mode(self.pooling) or "no"

    def weighted(self, weights: TokenWeights) -> Self:
        """Return the head with token weights. The prompt says nothing about a text and is left out of its mean.

        Raises:
            IncompatibleError: if the head does not average tokens, or has weights already.
        """
        if self.weights is not None:
            raise IncompatibleError(
                "the model has corpus weights already: adapt its base, or leave out weights."
            )
        check_averages("weights", "the model", self.mode)
        return replace(self, weights=weights, pooling={**(self.pooling or {}), "include_prompt": False})

    def unscaled(self) -> Self:
        """Return the head without normalization after the pooling and its maps: a fitted map needs their lengths."""
        behind = list(self.behind)
        while behind and isinstance(behind[-1], Normalize):
            behind.pop()
        return replace(self, behind=tuple(behind), normalize=False)

    def modules(self, *, cuts: bool = False) -> list[nn.Module]:
        """Return the head as sentence-transformers' modules, and ours if spans or (`cuts`) windows are pooled.

        Raises:
            IncompatibleError: if windows or spans would be pooled, and no pooling follows the backbone.
        """
        is_ours = cuts or self.vectors is not None
        if self.pooling is None and is_ours:
            raise IncompatibleError(
                "windows and several vectors need a Pooling as the base's second module, got "
                f"{', '.join(type(part).__name__ for part in self.behind) or 'none'}."
            )
        modules: list[nn.Module] = []
        if self.weights is not None:
            modules.append(self.weights)
        if is_ours:
            modules.append(LongPooling(**(self.pooling or {}), vectors=self.vectors, late=self.late))
        elif self.pooling is not None:
            modules.append(Pooling(**self.pooling))
        modules += self.behind
        if self.vectors is not None:
            modules.append(GroupByDocument(self.normalize, self.dims))
        return modules

    def stock_modules(self) -> list[nn.Module]:
        """Return the head in sentence-transformers' own classes. Only heads with one vector have such a form.

        If tokens have weights, linear maps are applied to each token, which gives the same mean. The reason:
        `WordWeights` counts a prompt in the sum of weights, although the pooling leaves its tokens out. A map with a
        bias would change the direction of that shorter mean; the Normalize after it mends a shorter mapped mean.
        """
        modules = self.modules()
        if not isinstance(self.weights, TokenWeights):
            return modules
        behind = list(self.behind)
        maps: list[nn.Module] = []
        while behind and is_linear(behind[0], _OF_TEXTS):
            maps.append(_acting_on(behind.pop(0), _OF_TOKENS))
        return [*maps, self.weights.stock(), modules[1], *behind]

    @property
    def has_exact_stock(self) -> bool:
        """Whether `stock_modules` return the same vectors for every text and prompt."""
        behind = [part for part in self.behind if not is_linear(part, _OF_TEXTS)]
        return self.weights is None or all(isinstance(part, Normalize) for part in behind)


def pooling_mode(settings: Settings) -> str | None:
    """Return the mode in the settings of a pooling; several are joined by `+`. None if there is none."""
    modes = settings.get("pooling_mode") or [
        name for key, name in POOLING_SWITCHES.items() if settings.get(key)
    ]
    if isinstance(modes, str):
        return modes
    return "+".join(map(str, modes)) or None


def is_linear(module: nn.Module, feature: str) -> bool:
    """Return whether a module is a linear map of this feature."""
    return (
        isinstance(module, Dense)
        and isinstance(module.activation_function, nn.Identity)
        and {module.module_input_name, module.module_output_name} == {feature}
    )


def _acting_on(module: nn.Module, feature: str) -> nn.Module:
    """Return a linear map with the same weights on another feature."""
    moved = copy.deepcopy(module)
    moved.module_input_name = moved.module_output_name = feature  # type: ignore[assignment]
    return moved
