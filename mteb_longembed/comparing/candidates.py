"""The candidates of a comparison: which names are tried for a base, and what each of them means."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Literal, cast

import mteb
from mteb.models import ModelMeta
from mteb.models.model_implementations import MODEL_REGISTRY

from mteb_longembed.encoders.checkpoint import Checkpoint, open_checkpoint
from mteb_longembed.encoders.positions import ABSOLUTE, positions_of
from mteb_longembed.encoders.spec import DType, ModelSpec
from mteb_longembed.encoders.strategies import STRATEGIES, Strategy
from mteb_longembed.errors import IncompatibleError, InputError
from mteb_longembed.evaluation.metrics import TOLERANCE
from mteb_longembed.names import Settings, is_extended_name
from mteb_longembed.presets import LEXICAL, PRESETS
from mteb_longembed.retrieval.experiments import model_meta
from mteb_longembed.retrieval.lexical import meta_of_bm25
from mteb_longembed.retrieval.scorer import Scorer, full_name
from mteb_longembed.retrieval.settings import (
    LEXICAL_WEIGHT,
    BM25Settings,
    SearchSettings,
    is_bm25,
    read_name,
    typed_name,
)
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
    """One method of embedding or searching documents. Its name is parsed once, and the settings are kept.

    Args:
        name: name for `mteb run -m`, as typed: `BASE+STRATEGY@TARGET:KEY=VALUE,...`.
        base: its base, as the user wrote it; empty for BM25.
        kind: kind of candidate, see `Kind`.
        trained_len: the base's trained length in tokens, None if it has none.
        target_len: how many tokens of a document it reads, None for all.
        model: the extended model that the name requests; None for BM25, mteb's own models and custom scorers.
        search: its search settings over that model.
        bm25: its BM25 settings; None for all others.
        is_named: whether the user wrote this name, and not only its base.
        scorer: a custom scorer.
    """

    name: str
    base: str
    kind: Kind
    trained_len: int | None = None
    target_len: int | None = None
    model: ModelSpec | None = field(default=None, compare=False)
    search: SearchSettings = field(default=SearchSettings(), compare=False)
    bm25: BM25Settings | None = field(default=None, compare=False)
    is_named: bool = field(default=False, compare=False)
    scorer: Scorer | None = field(default=None, compare=False)

    @property
    def id(self) -> str:
        """Its id in tables of scores: the name."""
        return self.name

    @property
    def is_base(self) -> bool:
        """Whether it is the base without extension."""
        return self.kind == "base" or (self.kind == "api" and self.name == self.base)

    @cached_property
    def meta(self) -> ModelMeta:
        """Its `ModelMeta` for mteb."""
        if self.scorer is not None:
            return self.scorer.meta
        if self.bm25 is not None:
            return meta_of_bm25(self.bm25)
        if self.model is not None:
            return model_meta(open_checkpoint(self.model), MODEL_REGISTRY.get, self.search)
        return mteb.get_model_meta(self.name, fetch_from_hf=True)

    @property
    def tolerance(self) -> float:
        """The tolerance within which its scores tie, see `group_ties`; 0 for scores that we did not compute."""
        if self.scorer is None or type(self.scorer).__module__.startswith("mteb_longembed.retrieval."):
            return TOLERANCE
        return 0.0

    @property
    def expand(self) -> str:
        """The model of BM25's query expansion; empty without expansion."""
        if self.bm25 is None:
            return ""
        return self.bm25.expand or ""

    @property
    def expands_queries(self) -> bool:
        """Whether its index embeds the corpus's terms, for query expansion."""
        return self.kind == "fusion" or bool(self.expand)

    @cached_property
    def encoder(self) -> str:
        """Its name without search settings. Candidates with one encoder have one cost."""
        if self.model is None:
            return self.name
        return typed_name(self.model)

    @cached_property
    def passes(self) -> str:
        """The name that loads the model of its pass. Candidates with one pass differ in pooling and search."""
        if self.model is not None:
            return typed_name(replace(self.model, vectors=None))
        return self.base or self.name

    def with_search(self, settings: Settings) -> Candidate:
        """Return the candidate with further search settings; `InputError` if they do not fit."""
        search = replace(self.search, **settings)
        return _of_model(cast("ModelSpec", self.model), search, self.base)

    def in_type(self, dtype: DType) -> Candidate:
        """Return the candidate with a compute type. Its kind does not change."""
        model = replace(cast("ModelSpec", self.model), dtype=dtype)
        return replace(_of_model(model, self.search, self.base), kind=self.kind)


def named(name: str, base: str = "") -> Candidate:
    """Return the candidate with a name as the user types it.

    Raises:
        InputError: if the name is invalid, or does not fit its base.
    """
    if name == "bm25" or is_bm25(name):
        return Candidate(name, "", "bm25", bm25=BM25Settings.parse(name))
    model, search = read_name(name)
    base = base or model.base
    entry = entry_of(model.base)
    if entry is not None and entry.kind == "mteb":
        if name != base:
            mteb.get_model_meta(name)  # raises: nothing in it can be extended
        return Candidate(name, base, "api")
    return _of_model(model, search, base)


def _of_model(model: ModelSpec, search: SearchSettings, base: str) -> Candidate:
    """Return the candidate of one of our models, with its base as the user typed it."""
    checkpoint = open_checkpoint(model)
    search.check_fits(checkpoint)
    strategy = checkpoint.strategy
    plain = ModelSpec(checkpoint.base.name, target_len=strategy.trained_len)
    kind: Kind = "strategy"
    if search.fusion:
        kind = "fusion"
    elif search:
        kind = "search"
    elif replace(checkpoint.spec, trust_remote_code=False) == plain:
        kind = "base"
    # the base as the user wrote it, then the strategy and parameters of the canonical name
    spec = replace(checkpoint.spec, base=base)
    name = typed_name(spec, search)
    return Candidate(name, base, kind, strategy.trained_len, strategy.target_len, spec, search)


def of_scorer(scorer: Scorer) -> Candidate:
    """Return the candidate of a custom scorer or of a run."""
    return Candidate(full_name(scorer.meta), "", "own", is_named=True, scorer=scorer)


def candidates_of(
    base: str,
    strategies: Sequence[str] | None = None,
    target: int | str | None = None,
    covering: int | None = None,
    *,
    quick: bool = False,
) -> tuple[list[Candidate], list[str]]:
    """Return the candidates of a base, itself first, and notes on what does not fit. A full name yields only itself.

    Args:
        base: an alias, a hub id or a folder; or a full name.
        strategies: keys of the only strategies to try, or `all`.
        target: target length in tokens. Default: `covering` for windows, 8 times the trained length for others.
        covering: the length in tokens that covers most of the documents.
        quick: whether only the presets are tried beside the base.

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
    plain = ModelSpec(full_base(base))
    checkpoint = open_checkpoint(plain)
    candidates = [_of_model(plain, SearchSettings(), plain.base)]
    refused = []
    for key in keys:
        ModelSpec(base, key)  # refuses unknown strategies
        try:
            candidates += [
                named(f"{base}+{tail}", base)
                for tail in _tails(checkpoint, key, target, covering, quick=quick)
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
    checkpoint: Checkpoint, key: str, target: int | str | None, covering: int | None, *, quick: bool
) -> list[str]:
    """Return the name suffixes of a strategy's candidates."""
    trained_len = checkpoint.strategy.trained_len
    if key == "pcw":
        reach = covering or Strategy.default_target_len(trained_len)
        stem = f"pcw@{reach}"
        settings = QUICK if quick else WINDOWS
        if reach <= trained_len:
            stem = "none"
            settings = QUICK_ONE_WINDOW if quick else ONE_WINDOW
        if checkpoint.base.kind != "dense":
            if reach <= trained_len:
                return [f"{stem}:fusion=bm25"]
            return [f"{stem}:{one}".rstrip(":") for one in (OTHERS[:-1] if quick else OTHERS)]
        averages = checkpoint.base.pooling in (None, "mean")
        tails = [f"{stem}:{one}".rstrip(":") for one in settings if averages or not _AVERAGES.search(one)]
        if reach > trained_len and not quick:
            # shorter windows need a separate pass
            tails.append(f"{stem}:size={trained_len // 2},vectors=window")
        return tails
    if target is None and key == "none" and positions_of(checkpoint.base.config) is not ABSOLUTE:
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
    return not is_name(base) and (entry is None or entry.kind != "mteb")


def embeds_terms(base: str) -> bool:
    """Return whether a base can expand queries, as dense ones do."""
    return open_checkpoint(ModelSpec(full_base(base))).base.kind == "dense"


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
        if hybrid.search.query == "tokens" and hybrid.search.fusion and not hybrid.is_named:
            found += [hybrid.with_search(settings) for settings in FREE]
            found.append(named(f"{hybrid.base}+{LEXICAL}"))
    return found


def default_of(candidates: Sequence[Candidate]) -> Candidate:
    """Return the candidate to use before anything is judged: the first preset hybrid, else the first of the presets."""
    for key in ("hybrid", "late", "windows"):
        for candidate in candidates:
            if candidate.name.endswith(f":{PRESETS[key].settings}"):
                return candidate
    return candidates[0]
