"""A pooling: how token embeddings become the vectors of a text, as one value."""

import copy
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Self

from sentence_transformers.sentence_transformer import modules as stock
from sentence_transformers.sentence_transformer.modules import Dense, Normalize, WordWeights
from torch import nn

from mteb_longembed.errors import IncompatibleError
from mteb_longembed.names import Settings
from mteb_longembed.values import Vectors

from .vectors import GroupByDocument, LongPooling, check_averages
from .weights import Rule, TokenWeights

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


@dataclass(frozen=True)
class Pooling:
    """How the token embeddings of a text become its vectors.

    The pooling of a model is read from its modules (`of`). A search says only the first three fields, and means the
    model's own pooling with these changes.

    Args:
        vectors: the vectors of a document, as in `LongPooling`. None: one.
        weights: the weights of tokens in a mean, or the rule by which a corpus determines them. None: all equal.
        late: whether it pools for late interaction, as in `LongPooling`.
        settings: the settings of sentence-transformers' pooling. None without one: then all modules are `maps`.
        maps: the modules after it, such as Dense and Normalize.
        normalize: whether several vectors are scaled to length 1 in the end.
        dims: leading dimensions to keep of several vectors. None: all.
    """

    vectors: Vectors | None = None
    weights: Rule | WordWeights | None = None
    late: bool = False
    settings: Settings | None = field(default=None, hash=False)
    maps: tuple[nn.Module, ...] = ()
    normalize: bool = True
    dims: int | None = None

    @classmethod
    def of(cls, modules: Iterable[nn.Module]) -> Self:
        """Read the pooling of any model from its modules: stock, saved or ours.

        Linear maps of tokens become maps of vectors.
        """
        _, *rest = modules
        everything = tuple(rest)
        maps = []
        while rest and is_linear(rest[0], _OF_TOKENS):
            maps.append(_acting_on(rest.pop(0), _OF_TEXTS))
        weights: WordWeights | None = None
        if rest and isinstance(rest[0], WordWeights):
            weights = rest[0]
            rest = rest[1:]
        first = next(iter(rest), None)
        # a custom class may pool differently
        if not isinstance(first, stock.Pooling) or type(first) not in (stock.Pooling, LongPooling):
            return cls(maps=everything)
        settings = first.get_config_dict()
        vectors, late = settings.pop("vectors", None), settings.pop("late", False)
        pooling = cls(vectors, weights, late, settings, (*maps, *rest[1:]))
        last = rest[-1]
        if isinstance(last, GroupByDocument):
            return replace(pooling, maps=pooling.maps[:-1], normalize=last.normalize, dims=last.dims)
        return pooling

    @property
    def name(self) -> str:
        """The name of its vectors in a saved index."""
        return f"vectors-{'late' if self.late else self.weights or 'plain'}-{self.vectors or 'one'}"

    @property
    def mode(self) -> str:
        """The pooling mode; `no` without one."""
        return pooling_mode(self.settings or {}) or "no"

    def check_pools(self) -> None:
        """Raise IncompatibleError if windows and several vectors cannot be pooled: no pooling follows the backbone."""
        if self.settings is None:
            raise IncompatibleError(
                "windows and several vectors need a Pooling as the base's second module, got "
                f"{', '.join(type(part).__name__ for part in self.maps) or 'none'}."
            )

    def weighted(self, weights: TokenWeights) -> Self:
        """Return the pooling with token weights. The prompt says nothing about a text and is left out of its mean.

        Raises:
            IncompatibleError: if it does not average tokens, or has weights already.
        """
        if self.weights is not None:
            raise IncompatibleError(
                "the model has corpus weights already: adapt its base, or leave out weights."
            )
        check_averages("weights", "the model", self.mode)
        return replace(self, weights=weights, settings={**(self.settings or {}), "include_prompt": False})

    def unscaled(self) -> Self:
        """Return it without normalization after the pooling and its maps: a fitted map needs their lengths."""
        maps = list(self.maps)
        while maps and isinstance(maps[-1], Normalize):
            maps.pop()
        return replace(self, maps=tuple(maps), normalize=False)

    def modules(self, *, cuts: bool = False) -> list[nn.Module]:
        """Return it as sentence-transformers' modules, and ours if spans or (`cuts`) windows are pooled."""
        if self.settings is None:
            return list(self.maps)
        modules: list[nn.Module] = []
        if isinstance(self.weights, WordWeights):
            modules.append(self.weights)
        if cuts or self.vectors is not None:
            modules.append(LongPooling(**self.settings, vectors=self.vectors, late=self.late))
        else:
            modules.append(stock.Pooling(**self.settings))
        modules += self.maps
        if self.vectors is not None:
            modules.append(GroupByDocument(self.normalize, self.dims))
        return modules

    def stock_modules(self) -> list[nn.Module]:
        """Return it in sentence-transformers' own classes. Only poolings with one vector have such a form.

        If tokens have weights, linear maps are applied to each token, which gives the same mean. The reason:
        `WordWeights` counts a prompt in the sum of weights, although the pooling leaves its tokens out. A map with a
        bias would change the direction of that shorter mean; the Normalize after it mends a shorter mapped mean.
        """
        modules = self.modules()
        if not isinstance(self.weights, TokenWeights):
            return modules
        maps = list(self.maps)
        of_tokens: list[nn.Module] = []
        while maps and is_linear(maps[0], _OF_TEXTS):
            of_tokens.append(_acting_on(maps.pop(0), _OF_TOKENS))
        return [*of_tokens, self.weights.stock(), modules[1], *maps]

    @property
    def has_exact_stock(self) -> bool:
        """Whether `stock_modules` return the same vectors for every text and prompt."""
        maps = [part for part in self.maps if not is_linear(part, _OF_TEXTS)]
        return self.weights is None or all(isinstance(part, Normalize) for part in maps)


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
