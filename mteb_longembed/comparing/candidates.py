"""The candidates of a comparison: which names are tried for a base, and what each of them is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal, cast

import mteb
from mteb.models import ModelMeta

from mteb_longembed.encoders.checkpoint import Checkpoint, ModelSpec, open_checkpoint
from mteb_longembed.encoders.strategies import STRATEGIES, Strategy, get_strategy
from mteb_longembed.encoders.swap import ABSOLUTE, allowed_len
from mteb_longembed.errors import IncompatibleError, InputError
from mteb_longembed.evaluation.metrics import TOLERANCE
from mteb_longembed.names import ZOO, entry_of, holds_model, is_bm25_name, is_extended_name, read_tokens
from mteb_longembed.retrieval.bm25_settings import BM25Settings
from mteb_longembed.retrieval.chunks import Chunker, NamedChunker, read_chunker
from mteb_longembed.retrieval.make import chunked_meta, meta_of_bm25
from mteb_longembed.retrieval.scorer import Scorer, full_name
from mteb_longembed.retrieval.settings import SearchSettings, read_name, typed_name

BM25 = "bm25:window=200"
#: The same, which asks each sentence of a query on its own.
BM25_BY_SENTENCE = "bm25:window=200,query=sentences"
#: BM25 on the first tokens only: how much text must a model read?
BEGINNINGS = (512, 2048)
#: From one pass over windows: one vector, the best window, all windows; plain and adapted to the corpus.
FORMS = ("", "vectors=window", "score=softmax,vectors=window")
ADAPTED = ("", "whiten=0.5", "weights=idf,whiten=0.5")
#: What is tried first of a base: words, and the vectors that do best with them (experiments/ways.md).
FUSED = "fuse=words"
#: Strategies that cut no windows. By default the first one that fits is tried.
POSITIONS = tuple(key for key, kind in STRATEGIES.items() if not kind.CUTS)

#: `base`: the model as it is. `strategy`: a model with another strategy. `search`: a model with settings of search.
#: `fusion`: with BM25's scores added. `bm25`: BM25 alone. `api`: a model of mteb's own, to which nothing is added.
#: `own`: a scorer of the user's.
Kind = Literal["base", "strategy", "search", "fusion", "bm25", "api", "own"]


@dataclass(frozen=True)
class Candidate:
    """One way to embed documents. Its name is read once, and what it asks for is kept.

    Args:
        name: for `mteb run -m`, as it is typed: `BASE+STRATEGY@TARGET:KEY=VALUE,...`; with a chunker of one's own, that
            of the model that encodes each chunk.
        base: its base, as the user wrote it; empty for BM25.
        kind: what it is.
        trained_len: the base's trained length in tokens, None if it has none.
        target_len: how many tokens of a document it reads, None for all.
        model: what the name asks of a model of ours; None for BM25, models of mteb's own and scorers of the user's.
        search: what it asks of the search over that model.
        words: what it asks of BM25; None for all others.
        is_named: whether the user wrote this name, and not only its base.
        chunker: one's own.
        scorer: of the user's.
    """

    name: str
    base: str
    kind: Kind
    trained_len: int | None = None
    target_len: int | None = None
    model: ModelSpec | None = field(default=None, compare=False)
    search: SearchSettings = field(default=SearchSettings(), compare=False)
    words: BM25Settings | None = field(default=None, compare=False)
    is_named: bool = field(default=False, compare=False)
    chunker: NamedChunker | None = None
    scorer: Scorer | None = field(default=None, compare=False)

    @property
    def id(self) -> str:
        """What tables of scores call it. With a chunker of one's own it is the name of its results."""
        if self.chunker is None:
            return self.name
        return full_name(self.meta)

    @property
    def is_base(self) -> bool:
        """Whether it is the base without extension."""
        return self.kind == "base" or (self.kind == "api" and self.name == self.base)

    @cached_property
    def meta(self) -> ModelMeta:
        """mteb's description of it."""
        if self.scorer is not None:
            return self.scorer.meta
        if self.chunker is not None:
            return chunked_meta(self.name, self.chunker)
        if self.words is not None:
            return meta_of_bm25(self.words)
        return mteb.get_model_meta(self.name, fetch_from_hf=True)

    @property
    def tolerance(self) -> float:
        """Which of its scores are equal, see `group_ties`: what we did not compute counts as it is written."""
        if self.scorer is None or type(self.scorer).__module__.startswith("mteb_longembed.retrieval."):
            return TOLERANCE
        return 0.0

    @property
    def neighbours(self) -> str:
        """The model by which words of a BM25 have neighbours; empty if they have none."""
        if self.words is None:
            return ""
        return self.words.neighbours or ""

    @property
    def is_multi_vector(self) -> bool:
        """Whether its name asks for several vectors a document."""
        return self.model is not None and self.model.vectors is not None

    @property
    def reads_words(self) -> bool:
        """Whether it encodes the words of the documents, for their neighbours."""
        return self.kind == "fusion" or bool(self.neighbours)

    @property
    def encoder(self) -> str:
        """Its name without settings of search. Candidates with one encoder have one cost."""
        if self.model is None:
            return self.name
        return typed_name(self.model)

    @property
    def passes(self) -> str:
        """The name of the model whose pass gives its vectors. Candidates with one pass differ in pooling and search."""
        if self.chunker is None:
            return self.name_of_pass
        return f"{self.name_of_pass} {self.chunker.name} {self.chunker.version}"

    @property
    def name_of_pass(self) -> str:
        """What loads the model of its pass."""
        if self.kind == "api":
            return self.base
        if self.model is None:
            return self.name
        return typed_name(self.model, left_out=["vectors"])

    def with_search(self, **settings: object) -> Candidate:
        """The candidate with further settings of search.

        Raises:
            InputError: if they do not fit.
        """
        if self.model is None:
            raise InputError(f"{self.name} takes no settings of search.")
        made = _of_model(self.model, replace(self.search, **cast("dict[str, Any]", settings)), self.base)
        if self.chunker is None:
            return made
        return chunked(made, self.chunker)

    def in_type(self, dtype: str) -> Candidate:
        """The candidate of a base in a compute type. The base stays the base."""
        if self.model is None:
            return self
        return replace(_of_model(replace(self.model, dtype=dtype), self.search, self.base), kind=self.kind)


def named(name: str, base: str = "") -> Candidate:
    """The candidate of a name, as it is typed.

    Raises:
        InputError: if the name is none, or does not fit its base.
    """
    if name == "bm25" or is_bm25_name(name):
        return Candidate(name, "", "bm25", words=BM25Settings.parse(name))
    entry = entry_of(name)
    if entry is not None and entry.kind == "mteb":
        return Candidate(name, name, "api")
    model, search = read_name(name)
    entry = entry_of(model.base)
    if entry is not None and entry.kind == "mteb":
        mteb.get_model_meta(name)  # raises if it does not fit
        return Candidate(name, base or model.base, "api")
    return _of_model(model, search, base or model.base)


def _of_model(model: ModelSpec, search: SearchSettings, base: str) -> Candidate:
    """The candidate of a model of ours, whose base the user wrote so."""
    checkpoint = open_checkpoint(model)
    search.check_fits(checkpoint)
    strategy = checkpoint.strategy
    spec = checkpoint.spec
    plain = ModelSpec(checkpoint.base.name, target_len=strategy.trained_len)
    kind: Kind = "strategy"
    if search.fuse:
        kind = "fusion"
    elif search:
        kind = "search"
    elif replace(spec, trust_remote_code=False) == plain:
        kind = "base"
    # the base as the user wrote it, then the strategy and parameters of the canonical name
    spec = replace(spec, base=base)
    return Candidate(
        typed_name(spec, search), base, kind, strategy.trained_len, strategy.target_len, spec, search
    )


def of_scorer(scorer: Scorer) -> Candidate:
    """The candidate of a scorer of the user's, or of a run."""
    return Candidate(full_name(scorer.meta), "", "own", is_named=True, scorer=scorer)


def candidates_of(
    base: str,
    strategies: Sequence[str] | None = None,
    target: int | str | None = None,
    sizes: Sequence[int] = (),
    covering: int | None = None,
) -> tuple[list[Candidate], list[str]]:
    """The candidates of a base, itself first, and sentences about what is not tried. A full name is only itself.

    Args:
        base: an alias, a hub id or a folder; or a full name.
        strategies: keys of the only strategies to try, or `all`.
        target: in tokens. Default: windows read `covering` tokens, other strategies 8 times the trained length.
        sizes: tokens of a vector, such as 64, 128 and 254, which are also tried.
        covering: the length in tokens that covers most of the documents.

    Raises:
        InputError: if nothing that was asked for fits the base.
    """
    asked = strategies
    if strategies and "all" in strategies:
        asked = list(STRATEGIES)
    for key in asked or ():
        get_strategy(key)
    if is_name(base):
        return [replace(named(base), is_named=True)], []
    if not has_checkpoint(base):
        return _of_api(base, covering)
    first = named(f"{base}+none")
    checkpoint = open_checkpoint(ModelSpec.parse(f"{base}+none"))
    reach = covering
    if target is not None:
        reach = read_tokens("the target", target)
    tails = []
    if asked is None or "pcw" in asked or sizes:
        tails = [("pcw", tail) for tail in _window_tails(checkpoint, reach, sizes)]
    fitting = [key for key in POSITIONS if checkpoint.base.positions.fits(STRATEGIES[key])]
    wanted = [key for key in asked or fitting if key != "pcw"]
    tails += [(key, _position_tail(checkpoint, key, target)) for key in wanted]
    return _fitting(first, tails, asked, target)


def _fitting(
    first: Candidate, tails: Sequence[tuple[str, str]], asked: Sequence[str] | None, target: int | str | None
) -> tuple[list[Candidate], list[str]]:
    """The names that fit, and sentences about the others. By default only some position strategies are tried."""
    base = first.base
    found = {first: ""}
    refused: dict[str, InputError] = {}
    untried = []
    for key, tail in tails:
        if asked is None and key in POSITIONS and not set(POSITIONS).isdisjoint(found.values()):
            untried.append(key)
            continue
        try:
            found.setdefault(named(f"{base}+{tail}", base=base), key)
        except InputError as error:
            # a wrong length says more than a strategy that does not fit
            if not isinstance(error, IncompatibleError) and (asked or target is not None):
                raise
            refused[key] = error
    if asked and len(found) == 1 and refused:
        key, reason = next(iter(refused.items()))
        raise InputError(f"{key} does not fit {base}: {reason}")
    sentences = [f"{key} does not fit {base} and is left out." for key in refused if asked]
    if untried:
        sentences.append(
            f"Not tried with {base}: {', '.join(untried)}. To try them, add --strategies {','.join(untried)}; to try "
            "everything, --strategies all."
        )
    return list(found), sentences


def is_name(text: str) -> bool:
    """Whether a text is a full name, with a strategy or settings, and not only a base."""
    if holds_model(text):  # a folder may have any signs in its name
        return False
    return text == "bm25" or (is_extended_name(text) and text not in ZOO)


def has_checkpoint(base: str) -> bool:
    """Whether a text is a base whose weights can be extended."""
    entry = entry_of(base)
    return not is_name(base) and (entry is None or entry.kind != "mteb")


def _window_tails(checkpoint: Checkpoint, reach: int | None, sizes: Sequence[int]) -> list[str]:
    """What follows the base in the names that come from one pass over windows.

    Where one window holds the documents, the base itself is adapted, and there are no windows to choose from.
    """
    averages = checkpoint.base.pooling in (None, "mean")
    trained_len = checkpoint.strategy.trained_len
    reach = reach or Strategy.default_target_len(trained_len)
    forms: Sequence[str] = FORMS[:1]
    stem = "none"
    if reach > trained_len:
        forms = FORMS
        stem = f"pcw@{reach}"
    tails = [_tail(stem, forms[-1], FUSED)]
    for adapted in ADAPTED:
        if averages or "weights=" not in adapted:
            tails += [_tail(stem, form, adapted) for form in forms]
    if stem == "none":
        tails.remove(stem)  # the base as it is
    for size in sizes:
        if averages:
            tails.append(f"pcw@{reach}:vectors={size}")  # spans of one pass
        else:
            tails.append(f"pcw@{reach}:size={size},vectors=window")
    return tails


def _tail(stem: str, form: str, adapted: str) -> str:
    settings = sorted(filter(None, [*form.split(","), *adapted.split(",")]))
    return f"{stem}:{','.join(settings)}".rstrip(":")


def _position_tail(checkpoint: Checkpoint, key: str, target: int | str | None) -> str:
    """What follows the base in the name of a position strategy.

    That of none is plain extrapolation, as far as the positions allow it; where they allow none, the base as it is.
    """
    if key != "none" and target is None:
        return key
    if key != "none":
        return f"{key}@{target}"
    trained_len = checkpoint.strategy.trained_len
    reach = read_tokens("the target", target or Strategy.default_target_len(trained_len))
    if checkpoint.base.positions is ABSOLUTE:
        rows = allowed_len(checkpoint.base.config) or 0
        if rows > trained_len:
            reach = min(rows, reach)
            return f"none@{reach}:trained_len={reach}"
        if target is None:
            return "none"
    return f"none@{reach}"


def _of_api(base: str, covering: int | None) -> tuple[list[Candidate], list[str]]:
    """A model of mteb's own, and windows around it where mteb names its tokenizer."""
    found = [named(base)]
    tail = "pcw"
    if covering is not None:
        tail = f"pcw@{covering}"
    try:
        found.append(named(f"{base}+{tail}", base=base))
    except InputError as error:
        return found, [f"Windows around {base} are left out: {error}"]
    return found, []


def bm25_candidates(longest: int, bases: Sequence[str] = ()) -> list[Candidate]:
    """BM25 by passage, with the neighbours of words; without them; and on the first tokens of longer documents.

    Args:
        longest: the longest document in tokens.
        bases: the models that give words their neighbours. They encode no document, so these candidates come first.
    """
    names = [f"{BM25},neighbours={base}" for base in bases]
    names += [BM25, *(f"bm25@{length}" for length in BEGINNINGS if length < longest)]
    return [named(name) for name in names]


def chunked(candidate: Candidate, chunker: NamedChunker) -> Candidate:
    """The model of a candidate, with one vector a text, on each chunk of a document."""
    kind: Kind = "search"
    if candidate.kind == "fusion":
        kind = "fusion"
    return replace(candidate, kind=kind, target_len=None, chunker=chunker)


def with_chunkers(candidates: Sequence[Candidate], chunkers: Mapping[str, Chunker]) -> list[Candidate]:
    """Each base, or a name whose base takes no part, on the chunks of each chunker."""
    bases = {candidate.base for candidate in candidates if candidate.is_base}
    named_chunkers = [read_chunker(chunker, name) for name, chunker in chunkers.items()]
    found = []
    for candidate in candidates:
        if candidate.is_base or (candidate.is_named and candidate.base not in bases):
            found += [chunked(candidate, chunker) for chunker in named_chunkers]
    return found
