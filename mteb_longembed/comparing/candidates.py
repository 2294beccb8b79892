"""The candidates of a comparison: which names are tried for a base, and what each of them means."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Literal

from mteb_longembed.encoders.base import Base
from mteb_longembed.encoders.method import LEXICAL_WEIGHT, DType, Method
from mteb_longembed.encoders.positions import ABSOLUTE, positions_of
from mteb_longembed.encoders.resolved import Resolved, resolve
from mteb_longembed.encoders.strategies import STRATEGIES, Strategy
from mteb_longembed.errors import IncompatibleError, InputError
from mteb_longembed.evaluation.metrics import TOLERANCE
from mteb_longembed.names import Identity, Settings, is_extended_name
from mteb_longembed.presets import LEXICAL, PRESET_TARGET, PRESETS
from mteb_longembed.retrieval.make import identity_of
from mteb_longembed.retrieval.scorer import Identified, Scorer
from mteb_longembed.values import read_tokens
from mteb_longembed.zoo import ZOO, entry_of, full_base, holds_model

BM25 = "bm25:window=200"
#: The same, with each sentence of a query as a query of its own.
BM25_BY_SENTENCE = "bm25:window=200,query=sentences"
#: BM25 on the first tokens only: how much text must a model read?
BEGINNINGS = (512, 2048)
#: Settings tried on one pass over windows (experiments/methods.md): the presets, windows with BM25, and the hybrid with
#: whitened vectors; then one vector, all windows, and the same adapted to the corpus.
WINDOWS: tuple[str, ...] = (
    PRESETS["windows"].settings,
    PRESETS["late"].settings,
    PRESETS["hybrid"].settings,
    "fusion=bm25,vectors=window",
    f"{PRESETS['hybrid'].settings},whiten=0.5",
    "",
    "score=softmax,vectors=window",
    "whiten=0.5",
    "vectors=window,whiten=0.5",
    "score=softmax,vectors=window,whiten=0.5",
    "weights=idf,whiten=0.5",
    "vectors=window,weights=idf,whiten=0.5",
    "score=softmax,vectors=window,weights=idf,whiten=0.5",
)
#: Settings that a quick comparison tries on that pass.
QUICK = WINDOWS[:3]
#: Settings of the hybrid that cost no pass of their own.
FREE: tuple[Settings, ...] = tuple(
    {"lexical_weight": weight, "whiten": power}
    for power in (None, 0.5)
    for weight in (0.5, LEXICAL_WEIGHT, 1.0)
)
#: The same where every document fits into one window.
ONE_WINDOW = (
    PRESETS["late"].settings,
    PRESETS["hybrid"].settings,
    "fusion=bm25",
    "whiten=0.5",
    "weights=idf,whiten=0.5",
)
QUICK_ONE_WINDOW = ONE_WINDOW[:2]
#: The same for models with late interaction and for sparse ones; a quick comparison tries all but the last.
OTHERS = ("vectors=window", "fusion=bm25,vectors=window", "fusion=bm25", "")
#: Settings that average tokens, which not every model was trained for.
_AVERAGES = re.compile(r"weights=|query=tokens")
#: Strategies that cut no windows. By default the first one that fits is tried.
POSITIONS = tuple(key for key, kind in STRATEGIES.items() if not kind.CUTS)

#: `base`: the model as it is. `strategy`: a model with another strategy. `search`: a model with search settings.
#: `fusion`: with BM25's scores added. `bm25`: BM25 alone. `api`: a model of mteb's own, to which nothing is added.
#: `own`: a custom scorer, or a run.
Kind = Literal["base", "strategy", "search", "fusion", "bm25", "api", "own"]


@dataclass(frozen=True)
class Candidate:
    """One way of embedding or searching documents.

    Args:
        name: the shortest name for `mteb run -m`, with the base as the user wrote it; of a custom scorer its own.
        kind: kind of candidate, see `Kind`.
        method: what its name says; None for models of mteb's own and custom scorers.
        resolved: the same with its base; None for BM25 too.
        is_named: whether the user wrote this name, and not only its base.
        scorer: a custom scorer.
    """

    name: str
    kind: Kind
    method: Method | None = field(default=None, compare=False)
    resolved: Resolved | None = field(default=None, compare=False)
    is_named: bool = field(default=False, compare=False)
    scorer: Scorer | None = field(default=None, compare=False)

    @property
    def id(self) -> str:
        """Its id in tables of scores: the name."""
        return self.name

    @property
    def base(self) -> str:
        """Its base, as the user wrote it; empty for BM25 and custom scorers."""
        if self.kind == "api":
            return self.name
        return "" if self.kind in ("bm25", "own") or self.method is None else self.method.base

    @property
    def expand(self) -> str:
        """The model of BM25's query expansion; empty without expansion."""
        return self.method.base if self.method is not None and self.method.strategy == LEXICAL else ""

    @property
    def is_base(self) -> bool:
        """Whether it is the base without extension."""
        return self.kind in ("base", "api")

    @property
    def trained_len(self) -> int | None:
        """The trained length of its base in tokens; None if it has none."""
        return None if self.resolved is None else self.resolved.strategy.trained_len

    @property
    def target_len(self) -> int | None:
        """How many tokens of a document it reads; None for all."""
        if self.resolved is not None:
            return self.resolved.strategy.target_len
        return None if self.method is None else self.method.target_len

    @property
    def search(self) -> Settings:
        """Its settings of a search over a model."""
        return {} if self.resolved is None else self.resolved.method.search

    @cached_property
    def identity(self) -> Identity:
        """The name and revision of its results."""
        if self.scorer is not None:
            if isinstance(self.scorer, Identified):
                return self.scorer.identity
            return Identity(self.scorer.name, self.scorer.revision)
        if self.resolved is not None:
            return self.resolved.identity
        if self.method is not None:
            return identity_of(self.method)
        from mteb_longembed.retrieval.mteb_models import identity_in_mteb

        return identity_in_mteb(self.name)

    @property
    def tolerance(self) -> float:
        """The tolerance within which its scores tie, see `group_ties`; 0 for scores that we did not compute."""
        if self.scorer is None or type(self.scorer).__module__.startswith("mteb_longembed.retrieval."):
            return TOLERANCE
        return 0.0

    @property
    def expands_queries(self) -> bool:
        """Whether its index embeds the corpus's terms, for query expansion."""
        return self.kind == "fusion" or bool(self.expand)

    @cached_property
    def preset(self) -> str | None:
        """The preset whose vectors and search it has, whatever its strategy and target; None for others."""
        if self.method is None or self.method.params:
            return None
        for key, of_preset in _PRESETS.items():
            if (of_preset.vectors, of_preset.search) == (self.method.vectors, self.method.search):
                return key
        return None

    @cached_property
    def passes(self) -> str:
        """The name of the model of its pass. Candidates with one pass differ in pooling and search."""
        if self.resolved is None or self.method is None:
            return self.expand or self.name
        return self.resolved.plain.method.having(base=self.method.base).label

    def with_search(self, settings: Settings) -> Candidate:
        """Return the candidate with further search settings; `InputError` if they do not fit."""
        return _of_method(replace(self._method, **settings))

    def in_type(self, dtype: DType) -> Candidate:
        """Return the candidate with a compute type. Its kind does not change."""
        return replace(_of_method(replace(self._method, dtype=dtype)), kind=self.kind)

    @property
    def _method(self) -> Method:
        assert self.method is not None
        return self.method


#: The target length of presets, in tokens.
PRESET_LEN = read_tokens("the target of presets", PRESET_TARGET)
#: The presets of searches with vectors.
_PRESETS = {key: Method.parse(f"mini-ape+{key}") for key in PRESETS}


def named(name: str, base: str = "") -> Candidate:
    """Return the candidate with a name as the user types it.

    Raises:
        InputError: if the name is invalid, or does not fit its base.
    """
    method = Method.parse(name)
    if method.is_bm25:
        return Candidate(name, "bm25", method)
    entry = entry_of(method.base)
    if entry is not None and entry.source == "mteb":
        if name != (base or method.base):
            import mteb

            mteb.get_model_meta(name)  # raises: nothing in it can be extended
        return Candidate(name, "api")
    return _of_method(method.having(base=base or method.base))


def _of_method(method: Method) -> Candidate:
    """Return the candidate of one of our models, with its base as the user typed it."""
    resolved = resolve(method)
    strategy = resolved.strategy
    plain = Method(resolved.base.name, target_len=strategy.trained_len)
    kind: Kind = "strategy"
    if method.fusion:
        kind = "fusion"
    elif method.search:
        kind = "search"
    elif replace(resolved.method, trust_remote_code=False) == plain:
        kind = "base"
    # the base as the user wrote it, then the strategy and parameters of the canonical name
    typed = resolved.method.having(base=method.base)
    return Candidate(typed.label, kind, typed, resolved)


def of_base(name: str) -> tuple[Candidate, Base]:
    """Return the candidate of a base without extension, and the base."""
    candidate = _of_method(Method(full_base(name)))
    assert candidate.resolved is not None
    return candidate, candidate.resolved.base


def of_scorer(scorer: Scorer) -> Candidate:
    """Return the candidate of a custom scorer or of a run.

    Raises:
        InputError: if it has no name or revision.
    """
    if not (hasattr(scorer, "name") and hasattr(scorer, "revision")):
        raise InputError(
            "a scorer needs a name and a revision, by which its results are kept (since version 0.10 in place of "
            f"`meta`), got a {type(scorer).__name__} without: add the attributes."
        )
    return Candidate(scorer.name, "own", is_named=True, scorer=scorer)


def candidates_of(
    base: str,
    strategies: Sequence[str] | None = None,
    target: int | str | None = None,
    covering: int | None = None,
    *,
    quick: bool = False,
    plain: Candidate | None = None,
) -> tuple[list[Candidate], list[str]]:
    """Return the candidates of a base, itself first, and notes on what does not fit. A full name yields only itself.

    Args:
        base: an alias, a hub id or a folder; or a full name.
        strategies: keys of the only strategies to try, or `all`.
        target: target length in tokens. Default: 32k or `covering` for windows, whichever is longer, and 8 times the
            trained length for others.
        covering: the length in tokens that covers most of the documents.
        quick: whether only the presets are tried beside the base.
        plain: the candidate of the base, if it is known.

    Raises:
        InputError: if none of the requested strategies fits the base.
    """
    if is_name(base):
        return [replace(named(base), is_named=True)], []
    if target is not None:
        covering = read_tokens("the target", target)
    if not has_checkpoint(base):
        return [named(base)], []
    keys = strategies or (["pcw"] if quick else ["pcw", *POSITIONS])
    if "all" in keys:
        keys = list(STRATEGIES)
    if plain is None:
        plain, _ = of_base(base)
    candidates = [plain]
    refused = []
    for key in keys:
        Method(base, key)  # refuses unknown strategies
        try:
            candidates += [
                named(f"{base}+{tail}", base) for tail in _tails(plain, key, target, covering, quick=quick)
            ]
        except IncompatibleError as error:
            refused.append(f"{key} does not fit {base}: {error}")
            continue
        if not strategies and key in POSITIONS:
            break  # one is enough
    candidates = list(dict.fromkeys(candidates))
    if strategies and refused and len(candidates) == 1:
        raise InputError(refused[0])
    if not strategies or "all" in strategies:
        refused = []
    return candidates, refused


def _tails(
    plain: Candidate, key: str, target: int | str | None, covering: int | None, *, quick: bool
) -> list[str]:
    """Return the name suffixes of a strategy's candidates."""
    resolved = plain.resolved
    assert resolved is not None
    trained_len = resolved.strategy.trained_len
    if key == "pcw":
        reach = covering or Strategy.default_target_len(trained_len)
        if target is None and reach > trained_len:
            reach = max(reach, PRESET_LEN)  # so a search by a preset reads what a comparison has encoded
        stem = f"pcw@{reach}"
        settings = QUICK if quick else WINDOWS
        if reach <= trained_len:
            stem = "none"
            settings = QUICK_ONE_WINDOW if quick else ONE_WINDOW
        if resolved.base.family != "dense":
            if reach <= trained_len:
                return [f"{stem}:fusion=bm25"]
            return [f"{stem}:{one}".rstrip(":") for one in (OTHERS[:-1] if quick else OTHERS)]
        averages = resolved.base.pooling in (None, "mean")
        tails = [f"{stem}:{one}".rstrip(":") for one in settings if averages or not _AVERAGES.search(one)]
        if reach > trained_len and not quick:
            # shorter windows need a separate pass
            tails.append(f"{stem}:size={trained_len // 2},vectors=window")
        return tails
    if target is None and key == "none" and positions_of(resolved.base.config) is not ABSOLUTE:
        target = Strategy.default_target_len(trained_len)  # plain extrapolation
    if target is None:
        return [key]
    return [f"{key}@{target}"]


def is_name(text: str) -> bool:
    """Return whether a text is a full name, with a strategy or settings, and not only a base."""
    if holds_model(text):  # a folder may have any characters in its name
        return False
    return text == "bm25" or (is_extended_name(text) and text not in ZOO)


def has_checkpoint(base: str) -> bool:
    """Return whether a text is a base whose weights can be extended."""
    entry = entry_of(base)
    return not is_name(base) and (entry is None or entry.source != "mteb")


def bm25_candidates(longest: int, bases: Sequence[str] = (), *, quick: bool = False) -> list[Candidate]:
    """Return BM25 by passage, with and without query expansion, and on the first tokens of longer documents.

    Args:
        longest: the longest document in tokens.
        bases: the models that expand queries. They encode no document.
        quick: whether only BM25 by passage is tried.
    """
    if quick:
        return [named(BM25)]
    names = [BM25, *(f"{base}+{LEXICAL}" for base in bases)]
    names += [f"bm25@{length}" for length in BEGINNINGS if length < longest]
    return [named(name) for name in names]


def free_candidates(candidates: Sequence[Candidate]) -> list[Candidate]:
    """Return the settings of each hybrid that come free from its pass, and BM25 with query expansion by its model."""
    found = []
    for hybrid in candidates:
        if hybrid.preset == "hybrid" and not hybrid.is_named:
            found += [hybrid.with_search(settings) for settings in FREE]
            found.append(named(f"{hybrid.base}+{LEXICAL}"))
    return found


def default_of(candidates: Sequence[Candidate]) -> Candidate:
    """Return the candidate to use before anything is judged: the first preset hybrid, else the first of the presets."""
    for key in ("hybrid", "late", "windows"):
        for candidate in candidates:
            if candidate.preset == key:
                return candidate
    return candidates[0]
