"""`compare` as a Python call: the candidates of models, on tasks or on one's own files, and what comes of it."""

import hashlib
import math
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, TypeVar, Unpack

import numpy as np
import pandas as pd
from tqdm.auto import tqdm  # type: ignore[import-untyped]
from transformers import AutoTokenizer

from mteb_longembed.data.sources import Data, DataOptions, check_text_retrieval, is_known_task
from mteb_longembed.data.task import OwnData
from mteb_longembed.encoders.checkpoint import open_checkpoint
from mteb_longembed.encoders.spec import ModelSpec
from mteb_longembed.encoders.batching import shared_bar
from mteb_longembed.encoders.speed import duration
from mteb_longembed.errors import InputError
from mteb_longembed.evaluation.sampling import sampled
from mteb_longembed.evaluation.scoring import read_metric
from mteb_longembed.evaluation.split import Split, splits_of
from mteb_longembed.files import make_folder
from mteb_longembed.hub import silence
from mteb_longembed.retrieval.chunks import Chunker
from mteb_longembed.retrieval.ranked import Points, Ranked, RunSource, as_scorer
from mteb_longembed.retrieval.scorer import Scorer
from mteb_longembed.sentences import sentences

from .cache import Cache
from .candidates import (
    BM25,
    BM25_BY_SENTENCE,
    Candidate,
    bm25_candidates,
    candidates_of,
    has_checkpoint,
    has_neighbours,
    is_name,
    named,
    of_scorer,
    short_names,
    with_chunkers,
)
from .compute_type import in_compute_type
from .costs import Cost, covering_len, document_lengths
from .notes import Note, cautions, findings
from .run import CandidateError, Done, OverBudgetError, Runner, share_shown
from .summary import by_split, expected, resamples_of, summarise
from .verdict import Advice, Setting, advise

T = TypeVar("T")
#: Queries with so many sentences on average are also asked sentence by sentence.
_SENTENCES = 2.0
#: A first pass that takes longer, in seconds, is said with what makes it shorter.
_LONG = 600.0


@dataclass(frozen=True, kw_only=True, repr=False)
class Comparison:
    """The result of a comparison. A notebook shows answer and table.

    Args:
        scores: one row for each query of each candidate: candidate, task, split, query, score and other metrics.
        summary: one row for each candidate, the best first, see `summarise`.
        by_split: one row for each candidate and split.
        advice: what to use.
        notes: further sentences, each with its kind.
        tasks: names of the tasks.
        metrics: what was scored, the first one ranks; if each task has its own, all of them.
        n_queries: queries that all candidates answered.
        n_documents: documents of all splits.
        synthetic_queries: whether the queries are sentences of the documents.
        identity: a hash of data, candidates and metrics.
        written: when it was made, in UTC.
    """

    scores: pd.DataFrame
    summary: pd.DataFrame
    by_split: pd.DataFrame
    advice: Advice
    notes: list[Note]
    tasks: list[str]
    metrics: list[str]
    n_queries: int
    n_documents: int
    synthetic_queries: bool
    identity: str
    written: str

    def __repr__(self) -> str:
        first = self.summary[["label", "score", "standing"]].head(10)
        return "\n".join([*self.advice.answer, first.to_string(index=False, float_format="%.1f")])

    def _repr_html_(self) -> str:
        from .page import in_notebook

        return in_notebook(self)

    def to_dataframe(self) -> pd.DataFrame:
        """One row for each candidate, the best first: scores with intervals, shares, standing and cost."""
        return self.summary.copy()

    @property
    def metric(self) -> str:
        """What ranks: the metric, or `main score` if the tasks have different ones."""
        ranking = [metric for metric in self.metrics if metric not in self.scores.columns]
        if len(ranking) == 1:
            return ranking[0]
        return "main score"

    def texts(self, *kinds: str) -> list[str]:
        """The notes of some kinds."""
        return [note.text for note in self.notes if note.kind in kinds]


def say_on_stderr(sentence: str) -> None:
    """Print a sentence for people, apart from results."""
    print(sentence, file=sys.stderr)


@silence("mteb_longembed.encoders.batching")  # the table says how much each candidate reads
def compare(
    models: str | Sequence[str | Candidate | Scorer] = (),
    data: Data | str | Path | None = None,
    *,
    sample: int | None = None,
    metric: str | Sequence[str] = (),
    ignore_identical_ids: bool = False,
    strategies: str | Sequence[str] | None = None,
    target: int | str | None = None,
    sizes: Sequence[int] = (),
    chunkers: Mapping[str, Chunker] | None = None,
    runs: Mapping[str, RunSource] | None = None,
    run_bytes: Mapping[str, float] | None = None,
    bm25: bool = True,
    budget: float | None = None,
    device: str | None = None,
    dtype: str | None = None,
    folder: str | Path = "results",
    show: bool = True,
    on_message: Callable[[str], None] = say_on_stderr,
    **sources: Unpack[DataOptions],
) -> Comparison:
    """Run the ways of embedding long documents that fit a model, on the same data, and say which one to use.

    Each candidate is loaded once, only one model is in memory, and candidates that differ in pooling share a pass.

    Args:
        models: bases: aliases, hub ids or folders. A full name, with a strategy, is one candidate, and so is a scorer.
        data: tasks or files, as `mteb_longembed.Data`; or a folder as for `Data.from_folder`.
        sample: so many documents stay in each corpus: all judged ones, then hard ones for BM25, and random ones.
        metric: such as nDCG@10; the first one ranks. Default: the task's main score.
        ignore_identical_ids: whether a document with the id of the query does not count (BEIR's rule).
        strategies: only these keys, or `all`. Default: windows over whole documents, and one position
            strategy, `se` on rotary models and `ntk` on others.
        target: the target length in tokens. Default: for windows, what covers 95 % of the text; for other strategies,
            8 times the trained length.
        sizes: tokens of a vector, which are also tried, such as 64, 128 and 254.
        chunkers: one's own, by their names: each base, or a name whose base takes no part, also encodes each chunk on
            its own. See `mteb_longembed.search`.
        runs: rankings that other programs made, by their names: TREC run files, dicts, DataFrames or ranx' `Run`. Each
            is a candidate `run/NAME`. A DataFrame with query and score alone has what each query scores by the metric.
        run_bytes: what these programs store of a document, in bytes, by the same names, where that is known.
        bm25: whether BM25 and the fusion with it take part.
        budget: seconds; what would take longer is left out and named.
        device: where models run. Default: the best device of this machine.
        dtype: the compute type of all passes of bases, such as `fp32`. Default: bf16 where it is at least twice as fast
            here and its vectors agree, and the names say so; else that of their files.
        folder: finished work is kept here.
        show: whether a progress bar is shown; those of other libraries never are.
        on_message: called with every sentence for the user.
        sources: in the place of `data`, what `Data.of` takes: `tasks`, `benchmarks` and `eval_splits`; or `corpus`,
            `queries`, `qrels` or `n_synthetic_queries`, and `language`.

    Raises:
        InputError: if models, data or options do not go together.
        DataError: if a file breaks a rule.
    """
    until = math.inf
    if budget is not None:
        until = time.monotonic() + budget
    make_folder("--output-folder", Path(folder))
    models = _listed(models)
    metrics = [read_metric(text) for text in _listed(metric)]
    asked = None
    if strategies is not None:
        asked = _listed(strategies)
    _check_options(models, {"--strategies": asked, "--target": target, "--sizes": sizes or None})
    data = Data.of(data, Path(folder), **sources)
    splits, notes = _prepared(data, metrics, sample, ignore_identical_ids=ignore_identical_ids)
    bases = [model for model in models if isinstance(model, str) and has_checkpoint(model)]
    measured = {base: document_lengths(splits, _tokenizer_of(base)) for base in bases}
    # the tokens of the first base stand for those of all others
    lengths, scale = next(iter(measured.values()), None) or document_lengths(splits, None)
    candidates = []
    for model in models:
        if isinstance(model, Candidate):
            candidates.append(model)
            continue
        if not isinstance(model, str):
            candidates.append(of_scorer(model))
            continue
        of_base, _ = measured.get(model, (lengths, scale))
        of_model, untried = candidates_of(model, asked, target, sizes, covering_len(of_base))
        candidates += of_model
        notes += [Note("untried", text) for text in untried]
    cache = Cache(Path(folder))
    for base in bases:
        own = [one for one in candidates if one.base == base and not one.is_named]
        others = [one for one in candidates if one not in own]
        _, n_tokens = _work(own, splits, *measured[base])
        in_type, chosen = in_compute_type(own, dtype, splits, n_tokens, device)
        candidates = others + in_type
        notes += [Note("finding", text) for text in chosen]
    candidates += with_chunkers(candidates, chunkers or {})
    for name, source in (runs or {}).items():
        ranked, missing = _ranked(name, source, (run_bytes or {}).get(name), splits)
        candidates.append(of_scorer(ranked))
        notes += missing
    if bm25:
        candidates += bm25_candidates(int(lengths.max()), bases)
    # BM25 first, then full names and bases
    candidates = sorted(
        dict.fromkeys(candidates), key=lambda one: (one.kind != "bm25", not one.is_named, not one.is_base)
    )
    for note in notes:
        on_message(note.text)
    if all(data.has_synthetic_queries and candidate.matches_words for candidate in candidates):
        raise InputError(
            "compare needs at least one candidate, with synthetic queries one that has vectors, got "
            f"{', '.join(candidate.id for candidate in candidates) or 'none'}."
        )
    runner = Runner(cache, splits, candidates, device, until)
    work = partial(_work, splits=splits, lengths=lengths, scale=scale)
    done = _run_all(runner, work, notes, on_message, bm25=bm25, show=show)
    runner.free()
    if not done:
        reasons = [note.text for note in notes if note.kind in ("left out", "skipped")]
        raise InputError(
            "compare must finish at least one candidate, got none: give a larger --budget or fewer tasks "
            f"({', '.join(reasons[:1])})."
        )
    return _comparison(data, runner, done, notes)


def _ranked(
    name: str, source: RunSource, n_bytes: float | None, splits: Sequence[Split]
) -> tuple[Ranked | Points, list[Note]]:
    """A run as a scorer, and notes about what it lacks."""
    queries: dict[str, str] = {}
    for split in splits:
        queries |= split.judged_queries
    ranked = as_scorer(name, source, queries, n_bytes)
    notes = []
    for split in splits:
        depth = max(metric["cutoff"] for metric in split.metrics)
        sentences = ranked.missing(list(split.judged_queries), split.documents, depth)
        notes += [Note("data", sentence) for sentence in sentences]
    return ranked, notes


def _work(
    candidates: Sequence[Candidate], splits: Sequence[Split], lengths: np.ndarray, scale: float
) -> tuple[int, int]:
    """How many passes the candidates need, and how many tokens these read, short windows that are shown included.

    Args:
        candidates: of which several may come from one pass.
        splits: the data.
        lengths: of drawn documents in tokens.
        scale: how many times as much text all documents have.
    """
    of_models = [one for one in candidates if one.kind not in ("bm25", "api", "own")]
    target_of_pass = {one.passes: one.target_len for one in of_models}
    show_windows = {one.passes for one in of_models if not one.is_multi_vector and one.chunker is None}
    n_documents = sum(len(split.corpus) for split in splits)
    shown = sum(share_shown(split) * len(split.corpus) for split in splits) / n_documents
    n_tokens = 0.0
    for name, target_len in target_of_pass.items():
        n_read = scale * lengths.clip(max=target_len or lengths.max()).sum()
        n_tokens += n_read
        if name in show_windows:
            n_tokens += shown * n_read
    return len(target_of_pass), int(n_tokens)


def _listed(given: str | Scorer | Sequence[T]) -> list[Any]:
    """One text or several values, as a list."""
    if isinstance(given, (str, Scorer)):
        return [given]
    return list(given)


def _check_options(models: Sequence[object], options: Mapping[str, object]) -> None:
    """Refuse options about the candidates of bases where there is no base."""
    given = [name for name, value in options.items() if value is not None]
    if given and all(isinstance(model, str) and is_name(model) for model in models):
        raise InputError(
            f"{' and '.join(given)} need a base, got only full names ({', '.join(map(str, models))}): write the "
            "strategy and the length into the name, or give the base."
        )


def _prepared(
    data: Data, metrics: Sequence[Any], sample: int | None, *, ignore_identical_ids: bool
) -> tuple[list[Split], list[Note]]:
    """The splits, and notes about what is not there or not scored."""
    splits = []
    notes = []
    for task in data.tasks:
        check_text_retrieval("compare", task)
        for split in splits_of(task, metrics, ignore_identical_ids=ignore_identical_ids):
            if sample is not None:
                split, sentence = sampled(split, sample)
                if sentence:
                    notes.append(Note("data", sentence))
            splits.append(split)
            notes += [Note("data", text) for text in split.left_out()]
            notes += [Note("caution", text) for text in split.identical_queries()]
    return splits, notes


def _expectation(n_tokens: int, n_passes: int, cost: Cost) -> str:
    """How much is read and how long that takes on this machine, by the first measured speed."""
    seconds = n_tokens / (cost.tokens_per_second or 1.0)
    passes = "1 pass"
    if n_passes > 1:
        passes = f"{n_passes} passes"
    sentence = (
        f"About {n_tokens:,} tokens of documents in {passes}, about {duration(seconds)} on this machine, "
        "less where the store has them"
    )
    if seconds > _LONG:
        return f"{sentence}: --budget TIME leaves out what takes longer, --sample N reads fewer documents."
    return f"{sentence}."


def _tokenizer_of(base: str) -> Any:
    """The tokenizer of a base; no weights are read.

    Raises:
        InputError: if the model is extended already.
    """
    checkpoint = open_checkpoint(ModelSpec.parse(f"{base}+none"))
    files = checkpoint.base.files
    if checkpoint.base.saved is not None:
        raise InputError(f"{base} is extended already, so nothing is left to compare: give the base instead.")
    return AutoTokenizer.from_pretrained(
        checkpoint.base.path,
        revision=None if files.local else checkpoint.base.revision,
        trust_remote_code=checkpoint.base.runs_code,
    )


def _run_all(
    runner: Runner,
    work: Callable[[Sequence[Candidate]], tuple[int, int]],
    notes: list[Note],
    on_message: Callable[[str], None],
    *,
    bm25: bool,
    show: bool,
) -> list[Done]:
    """Run all candidates, and then those that depend on which is best."""
    done: list[Done] = []
    labels = short_names(runner.candidates)

    def run(candidate: Candidate) -> None:
        bar.set_description_str(f"Comparing, {labels.get(candidate.id, candidate.id)}", refresh=False)
        try:
            done.append(runner.run(candidate))
            if has_neighbours(candidate) and candidate in runner.candidates:
                score = 100 * done[-1].scores["score"].mean()
                say(
                    f"{labels[candidate.id]}: {score:.1f}. No document was encoded; the other candidates follow."
                )
        except OverBudgetError as error:
            notes.append(Note("skipped", str(error)))
        except CandidateError as error:
            notes.append(Note("left out", f"{candidate.id} is left out: {error}"))
            say(notes[-1].text)

    def say(text: str) -> None:
        bar.clear()
        on_message(text)
        bar.refresh()

    passes: set[str] = set()

    def expected(candidates: Sequence[Candidate]) -> int:
        """The tokens of what earlier runs have not finished; a pass is read once. What is read is said, too."""
        ahead = [one for one in candidates if one.passes not in passes and not runner.is_finished(one)]
        passes.update(one.passes for one in ahead)
        n_passes, n_tokens = work(ahead)
        runner.before_first_pass = lambda cost: say(_expectation(n_tokens, n_passes, cost))
        return n_tokens

    # the time left is by the speed of the whole run: that of the last seconds differs from strategy to strategy
    options: dict[str, Any] = {"unit": " tokens", "unit_scale": True, "smoothing": 0, "disable": not show}
    # a file of output gets a line now and then
    if not sys.stderr.isatty():
        options["mininterval"] = 30.0
    with tqdm(total=expected(runner.candidates), **options) as bar, shared_bar(bar):
        for candidate in runner.candidates:
            run(candidate)
        if bm25 and any(one.candidate.kind == "bm25" for one in done):
            further = _further(done, runner.splits, notes)
            bar.total += expected(further)
            for candidate in further:
                run(candidate)
    return done


def _further(done: Sequence[Done], splits: Sequence[Split], notes: list[Note]) -> list[Candidate]:
    """The best candidate so far with BM25 added; and, where queries have several sentences, by sentence."""
    # to a scorer of the user's nothing is added
    dense = [one for one in done if not one.candidate.matches_words and one.candidate.kind != "own"]
    if not dense:
        return []
    means = resamples_of(pd.concat([one.scores for one in dense]), [one.candidate.id for one in dense]).means
    # of equal ones the first: bases come before what is made of them
    best = max(dense, key=lambda one: means[one.candidate.id]).candidate
    wanted = [(best, "fuse=bm25")]
    found = []
    n_of_query = [len(sentences(text)) for split in splits for text in split.judged_queries.values()]
    n_sentences = sum(n_of_query) / len(n_of_query)
    several = [one.candidate for one in dense if one.candidate.is_multi_vector]
    if n_sentences >= _SENTENCES:
        found.append(named(BM25_BY_SENTENCE))
        for one in done:
            if has_neighbours(one.candidate):
                found.append(named(one.candidate.name.replace(BM25, BM25_BY_SENTENCE)))
        if several:
            windows = max(several, key=lambda candidate: means[candidate.id])
            wanted += [(windows, "query=sentences"), (windows, "fuse=bm25,query=sentences")]
        text = f"Queries have {n_sentences:.1f} sentences on average, so each sentence was also asked on its own."
        notes.append(Note("finding", text))
    for candidate, settings in wanted:
        try:
            found.append(candidate.with_settings(settings))
        except InputError as error:
            notes.append(Note("untried", f"{candidate.id} with {settings} is left out: {error}"))
    known = {one.candidate for one in done}
    return [candidate for candidate in dict.fromkeys(found) if candidate not in known]


def _comparison(data: Data, runner: Runner, done: Sequence[Done], notes: list[Note]) -> Comparison:
    """What the candidates that have run say."""
    scores = pd.concat([one.scores for one in done], ignore_index=True)
    candidates = {one.candidate.id: one.candidate for one in done}
    costs = {one.candidate.id: one.costs for one in done}
    synthetic = data.has_synthetic_queries
    summary = summarise(scores, list(candidates.values()), costs, synthetic_queries=synthetic)
    corpus = None
    language = None
    for task in data.tasks:
        if isinstance(task, OwnData):
            language = task.language
            if isinstance(task.corpus_source, Path):
                corpus = str(task.corpus_source)
    splits = runner.splits
    setting = Setting(
        # `mteb run` knows neither the tasks of own data nor a sample, which has a name of its own
        tasks=[task.metadata.name for task in data.tasks if is_known_task(task.metadata.name)],
        n_queries=len(done[0].scores),
        corpus=corpus,
        language=language,
        synthetic_queries=synthetic,
    )
    advice = advise(summary, setting)
    chosen = summary.index[summary["standing"] != "excluded"]
    all_notes = [
        *cautions(scores, summary),
        *notes,
        *findings(setting, expected(scores, list(chosen))),
    ]
    metrics = list(dict.fromkeys(str(metric) for split in splits for metric in split.metrics))
    rule = [split.task.ignore_identical_ids for split in splits]
    parts = [*(split.digest for split in splits), *metrics, *(c.id for c in runner.candidates), *rule]
    return Comparison(
        scores=scores,
        summary=summary,
        by_split=by_split(scores),
        advice=advice,
        notes=all_notes,
        tasks=list(dict.fromkeys(split.label[0] for split in splits)),
        metrics=metrics,
        n_queries=setting.n_queries,
        n_documents=sum(len(split.corpus) for split in splits),
        synthetic_queries=synthetic,
        identity=hashlib.sha256(" ".join(map(str, parts)).encode()).hexdigest(),
        written=f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC",
    )
