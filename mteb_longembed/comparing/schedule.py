"""Which candidates a comparison runs, in which order, and how long that takes."""

from collections.abc import Callable, Sequence
from itertools import chain

import pandas as pd

from mteb_longembed.errors import InputError
from mteb_longembed.evaluation.split import Split
from mteb_longembed.presets import LEXICAL
from mteb_longembed.sentences import sentences

from .candidates import BM25_BY_SENTENCE, Candidate, named
from .costs import Lengths
from .run import Result, Runner
from .summary import resamples_of

#: Queries with at least this many sentences on average are also searched sentence by sentence.
_SENTENCES = 2.0


def expected_time(runner: Runner, lengths: Lengths) -> str | None:
    """Return how long a comparison will take, from a timed sample; None if nothing is left to encode."""
    tokens: dict[str, int] = {}
    for one in runner.candidates:
        if one.resolved is not None and not runner.is_finished(one):
            tokens.setdefault(one.passes, lengths.read(one.target_len))
    if not tokens:
        return None
    speed = runner.speed(next(one for one in runner.candidates if one.passes in tokens))
    if speed is None:
        return None
    total = sum(tokens.values())
    minutes = total / speed / 60
    spent = f"about {minutes:,.0f} minutes" if minutes >= 1.5 else "about a minute"
    n_passes = f"{len(tokens)} passes" if len(tokens) > 1 else "1 pass"
    return f"{len(runner.candidates)} candidates, {spent} ({n_passes}, {total:,} tokens in all)."


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
