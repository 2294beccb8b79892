"""Which candidates a comparison runs, in which order, and how long that takes."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from itertools import chain
from typing import NamedTuple

import pandas as pd

from mteb_longembed.errors import InputError, LongEmbedError
from mteb_longembed.evaluation.split import Split
from mteb_longembed.presets import LEXICAL
from mteb_longembed.sentences import sentences

from .candidates import BM25_BY_SENTENCE, Candidate, named
from .costs import Lengths
from .run import Result, Runner
from .summary import resamples_of

#: Queries with at least this many sentences on average are also searched sentence by sentence.
_SENTENCES = 2.0


class Work(NamedTuple):
    """The tokens of a pass."""

    left: int  #: the ones that are yet to be encoded
    n_tokens: int  #: all, the ones that the embedding cache has among them


def work_of(runner: Runner, lengths: Lengths) -> dict[str, Work]:
    """Return the work of each unfinished pass, by the name of the model that it runs (`Candidate.passes`)."""
    found: dict[str, Work] = {}
    for one in runner.candidates:
        is_ours = one.resolved is not None or bool(one.expand)
        if is_ours and one.passes not in found and not runner.is_finished(one):
            with suppress(LongEmbedError, OSError):  # its error is reported when it runs
                n_tokens = 0 if one.resolved is None else lengths.read(one.target_len)
                found[one.passes] = Work(*runner.work(one, n_tokens))
    return found


def expected_time(runner: Runner, work: Mapping[str, Work]) -> str | None:
    """Return how long a comparison will take, from a timed sample; None if no candidate is left."""
    waiting = [one for one in runner.candidates if one.resolved is not None and one.passes in work]
    if not waiting:
        return None
    left = sum(one.left for one in work.values())
    if not left:
        return f"{len(runner.candidates)} candidates, all vectors from the embedding cache."
    speed = runner.speed(waiting[0])
    if speed is None:
        return None
    minutes = left / speed / 60
    spent = f"about {minutes:,.0f} minutes" if minutes >= 1.5 else "about a minute"
    n_passes = sum(one.left > 0 for one in work.values())
    passes = f"{n_passes} passes" if n_passes > 1 else "1 pass"
    n_tokens = sum(one.n_tokens for one in work.values())
    what = f"{left:,} tokens to encode"
    if left < n_tokens:
        what = f"{left:,} of {n_tokens:,} tokens to encode, the others are in the embedding cache"
    return f"{len(runner.candidates)} candidates, {spent} ({passes}, {what})."


def in_order(candidates: Sequence[Candidate]) -> list[Candidate]:
    """Return candidates in the order in which they run.

    The base and candidates named by the user come first, then the recommended methods on the pass over windows, BM25,
    all others of that pass, and then other passes. So an interrupted run has compared the methods that differ most.
    """
    first_pass = [
        one.passes for one in candidates if one.resolved is not None and one.resolved.vectors is not None
    ][:1]
    presets = ("windows", "late")

    def position(candidate: Candidate) -> int:
        if candidate.is_base or candidate.is_named:
            return 0
        if candidate.passes in first_pass and candidate.preset in presets:
            return 1 + presets.index(candidate.preset)
        if candidate.kind == "bm25" or (candidate.kind == "fusion" and candidate.passes in first_pass):
            return 3
        return 4 if candidate.passes in first_pass else 5

    return sorted(candidates, key=position)


def derived_candidates(
    done: Sequence[Result], splits: Sequence[Split], leave_out: Callable[[str], None]
) -> list[Candidate]:
    """Return the best candidate so far with BM25 added, and, where queries have several sentences, by sentence."""
    dense = [one for one in done if one.candidate.resolved is not None and one.candidate.kind != "fusion"]
    if not dense:
        return []
    means = resamples_of(pd.concat([one.scores for one in dense]), [one.candidate.id for one in dense]).means
    # among equal candidates the first: bases come before their extensions
    ranked = sorted((one.candidate for one in dense), key=lambda candidate: -means[candidate.id])
    wanted = [(ranked[0], {"fusion": "bm25"})]
    candidates = []
    texts = chain.from_iterable(split.judged_queries.values() for split in splits)
    n_of_query = [len(sentences(text)) for text in texts]
    if sum(n_of_query) >= _SENTENCES * len(n_of_query):
        expanding = [one.candidate.expand for one in done if one.candidate.expand]
        candidates = [
            named(BM25_BY_SENTENCE),
            *(named(f"{base}+{LEXICAL}:query=sentences") for base in expanding),
        ]
        for windows in [one for one in ranked if one.resolved and one.resolved.vectors is not None][:1]:
            wanted += [
                (windows, {"query": "sentences"}),
                (windows, {"fusion": "bm25", "query": "sentences"}),
            ]
    for candidate, settings in wanted:
        try:
            candidates.append(candidate.with_search(settings))
        except InputError as error:
            leave_out(f"{candidate.id} with {', '.join(settings)} is left out: {error}")
    finished = {one.candidate for one in done}
    return [candidate for candidate in dict.fromkeys(candidates) if candidate not in finished]
