"""The candidates of a comparison: names that fit each base, from the registries of strategies and families."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from mteb_longembed.encoders.checkpoints.checkpoint import Checkpoint, open_checkpoint
from mteb_longembed.encoders.checkpoints.spec import ModelSpec
from mteb_longembed.encoders.modules.token_weights import Rule
from mteb_longembed.encoders.strategies import STRATEGIES, Strategy, get_strategy
from mteb_longembed.errors import IncompatibleError, InputError
from mteb_longembed.names.grammar import is_extended_name
from mteb_longembed.names.parameters import read_tokens
from mteb_longembed.names.zoo import ZOO, entry_of
from mteb_longembed.retrieval.chunks import Chunker, register

BM25 = "bm25"
#: Windows with a vector each, of the trained length.
WINDOWS = "pcw:vectors=window"
#: The same with small windows.
SMALL_WINDOWS = "pcw:size=128,vectors=window"
#: Tokens weighted by their rarity in the corpus, with one vector and with a vector a window. On two real models each
#: form that a base tries was best or near the best somewhere (docs/adapt.md). Those of one form share a pass.
WEIGHTED = "pcw:weights=sif"
WEIGHTED_WINDOWS = "pcw:vectors=window,weights=sif"
#: What a base tries unless the user names strategies, the most telling first. On a real model (docs/real-models.md)
#: each was best somewhere, or cheap and near the best. Averages of small windows never were. `none`
#: is plain extrapolation, or all rows of a table of which the base uses a part; `LATE` is late chunking by the first of
#: `ntk` and `pi` that fits.
DEFAULT = (
    "pcw",
    "ntk",
    "se",
    "none",
    WINDOWS,
    WEIGHTED_WINDOWS,
    "pcw:score=softmax,vectors=window,weights=sif",
    "pcw:vectors=window,weights=idf",
    WEIGHTED,
    "pcw:weights=idf",
    "gp",
    SMALL_WINDOWS,
    "LATE",
    "pi",
    "rp",
)
#: So many candidates has a base, itself included. BM25 and the fusion with it make 14.
MOST = 12
_FUSED = "fuse=bm25"


@dataclass(frozen=True)
class Candidate:
    """One way to embed documents."""

    name: str  # the name for `mteb run -m`, as it is typed: `BASE+STRATEGY@TARGET:KEY=VALUE,...`
    base: str  # its base, as the user wrote it; empty for BM25
    is_base: bool = False  # whether it is the base without extension
    trained_len: int | None = None  # the base's trained length in tokens, None if it has none
    target_len: int | None = None  # how many tokens of a document it reads, None for all
    #: whether the user wrote this name, and not only its base.
    is_named: bool = field(default=False, compare=False)
    #: with one's own chunker, the name of the model that encodes each chunk.
    chunks_of: str = ""
    chunker: str = field(default="", compare=False)  # its key

    @property
    def label(self) -> str:
        """What tables call it: its name, or that of the base with the key of one's own chunker."""
        if self.chunker:
            return f"{self.chunks_of}+{self.chunker}"
        return self.name

    @property
    def encoder(self) -> str:
        """Its name without search parameters, empty for BM25. Candidates with one encoder have one cost."""
        if self.name == BM25:
            return ""
        spec = ModelSpec.parse(self.name)
        plain: dict[str, Any] = dict.fromkeys(spec.search)
        return _typed(replace(spec, **plain))

    @property
    def weights(self) -> Rule | None:
        """The rule of its corpus weights, None if all tokens count the same."""
        if not self.encoder or self.is_mtebs:
            return None
        return ModelSpec.parse(self.name).weights

    @property
    def is_mtebs(self) -> bool:
        """Whether it is a model of mteb's own, such as BM25, to which nothing of ours is added."""
        entry = entry_of(self.name)
        return entry is not None and entry.kind == "mteb"

    @property
    def is_search(self) -> bool:
        """Whether its name has search parameters: it is a search then, and not a model."""
        return self.name != BM25 and bool(ModelSpec.parse(self.name).search)

    @property
    def matches_words(self) -> bool:
        """Whether it is BM25, or a candidate with BM25's scores added."""
        return self.name == BM25 or _FUSED in self.name.removeprefix(self.base)  # a folder may be called so


def candidates_of(
    base: str, strategies: Sequence[str] | None = None, target_len: int | str | None = None
) -> list[Candidate]:
    """The candidates of a base: itself, and the first of `DEFAULT` that fit. A name with a strategy is only itself.

    Args:
        base: an alias, a hub id or a folder, or such a one with a strategy.
        strategies: the keys of the only ones to try, each on its own, and `pcw` also with a vector a window and with
            corpus weights.
        target_len: in tokens. Default: 8 times the trained length.

    Raises:
        InputError: if nothing that was asked for fits the base.
    """
    for key in strategies or ():
        get_strategy(key)
    if is_extended_name(base) and base not in ZOO:
        return [replace(_candidate(base), is_named=True)]
    if base == BM25:
        return [Candidate(BM25, "")]
    entry = entry_of(base)
    if entry is not None and entry.kind == "mteb":
        return [Candidate(base, base, is_base=True)]
    spec = ModelSpec.parse(f"{base}+none")
    resolved = open_checkpoint(spec)
    first = _as_candidate(resolved, spec.base)
    candidates = [first]
    # `none` at the trained length is the base, which takes part already
    asked = [key for key in strategies or () if key != "none"]
    refused: list[InputError] = []
    for tail in _tails(resolved, strategies, target_len):
        if strategies is None and len(candidates) == MOST:
            break
        try:
            candidates.append(_candidate(f"{base}+{tail}"))
        except IncompatibleError as error:
            if not (asked and tail.startswith("none")):
                refused.append(error)
        except InputError as error:
            if tail in STRATEGIES and strategies:  # a key alone, without a target or settings of ours
                raise
            refused.insert(0, error)  # a wrong length says more than a strategy that does not fit
    if len(candidates) == 1 and refused and (asked or target_len is not None):
        tried = asked or strategies or [f"a target of {target_len}"]
        what = f"none of {', '.join(tried)} fits"
        if len(tried) == 1:
            what = f"{tried[0]} does not fit"
        raise InputError(f"{what} {base}: {refused[0]}")
    return list(dict.fromkeys(candidates))


def chunked(candidate: Candidate, key: str, chunker: Chunker) -> Candidate:
    """The model of a candidate on each chunk of a document.

    Args:
        candidate: a model with one vector a text.
        key: the chunker's name in tables.
        chunker: as for `mteb_longembed.search`.
    """
    chunks_of = candidate.name
    if candidate.is_base:
        chunks_of = candidate.base
    name = register(candidate.name, chunker, key)
    return Candidate(name, candidate.base, chunks_of=chunks_of, chunker=key)


def short_names(candidates: Sequence[Candidate]) -> dict[str, str]:
    """What tables call candidates: with one base `base` and what follows it, as `+gp@1024`, by their names.

    With several bases the last part of each stands before that, as long as it tells them apart.
    """
    bases = list(dict.fromkeys(candidate.base for candidate in candidates if candidate.base))
    ends = {base: re.split(r"[/\\]", base.rstrip("/\\"))[-1] for base in bases}
    if len(set(ends.values())) < len(bases):
        ends = {base: base for base in bases}
    if len(bases) == 1:
        ends = {bases[0]: ""}
    labels = {}
    for candidate in candidates:
        label = candidate.label
        if candidate.base:
            end = ends[candidate.base]
            label = end + label.removeprefix(candidate.base)
            if candidate.is_base:
                label = end or "base"
        labels[candidate.name] = label
    return labels


def fused(best: Candidate) -> Candidate | None:
    """The candidate with BM25's scores added, None if that is not possible.

    Args:
        best: any candidate. One with a chunker of one's own has no name to which a setting could be added.
    """
    if best.chunks_of:
        return None
    sign = ":"
    if ":" in best.name or "," in best.name:
        sign = ","
    try:
        return _candidate(f"{best.name}{sign}{_FUSED}")
    except InputError:
        return None


def _tails(
    resolved: Checkpoint, strategies: Sequence[str] | None, target_len: int | str | None
) -> Iterator[str]:
    """What follows the base in the names to try, the most telling first."""
    family = resolved.base.family
    trained_len = resolved.strategy.trained_len
    rows = family.trained_len(resolved.base.config) or 0
    tails: list[str] = list(DEFAULT)
    if strategies is not None:
        tails = list(strategies)
        if "pcw" in strategies:
            tails += [WINDOWS, SMALL_WINDOWS, WEIGHTED_WINDOWS, WEIGHTED]
    for tail in tails:
        if tail == "LATE":
            tail = "pi:vectors=64"
            if family.fits(STRATEGIES["ntk"]):
                tail = "ntk:vectors=64"
        key, colon, settings = tail.partition(":")
        target = target_len
        if key == "none" and target is None:
            # plain extrapolation, where the positions allow it: `none` alone is the base as it is
            target = Strategy.default_target_len(trained_len)
        if key == "none" and family.name == "absolute" and rows > trained_len:
            target = min(rows, read_tokens("the target", target or rows))
            colon = ":"
            settings = f"trained_len={target}"
        at = ""
        if target is not None:
            at = f"@{target}"
        yield f"{key}{at}{colon}{settings}"


def _candidate(name: str) -> Candidate:
    spec = ModelSpec.parse(name)
    return _as_candidate(open_checkpoint(spec), spec.base)


def _as_candidate(resolved: Checkpoint, base: str) -> Candidate:
    strategy = resolved.strategy
    plain = ModelSpec(resolved.base.name, target_len=strategy.trained_len)
    # the base as the user wrote it, then the strategy and parameters of the canonical name
    return Candidate(
        _typed(replace(resolved.spec, base=base)),
        base,
        is_base=replace(resolved.spec, trust_remote_code=False) == plain,
        trained_len=strategy.trained_len,
        target_len=strategy.target_len,
    )


def _typed(spec: ModelSpec) -> str:
    """A name with a colon before its parameters; in folders, where no colon may stand, it is a comma."""
    return spec.base + str(spec)[len(spec.base) :].replace(",", ":", 1)
