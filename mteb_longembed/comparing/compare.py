"""Compare models and their candidates from Python, on tasks or on your own files."""

import hashlib
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, fields, replace
from datetime import UTC, datetime
from functools import cached_property
from importlib.metadata import version
from itertools import chain
from pathlib import Path
from typing import Any

import pandas as pd
from tabulate import tabulate  # type: ignore[import-untyped]
from tqdm.auto import tqdm  # type: ignore[import-untyped]
from transformers import AutoTokenizer

from mteb_longembed.base_names import full_base
from mteb_longembed.data.sources import Data
from mteb_longembed.data.task import OwnData, is_known_task
from mteb_longembed.encoders.batching import shared_bar
from mteb_longembed.encoders.checkpoint import ModelSpec, open_checkpoint
from mteb_longembed.errors import INTERRUPTED, InputError, LongEmbedError, UnknownNameError
from mteb_longembed.evaluation.metrics import read_metric
from mteb_longembed.evaluation.resampling import N_RESAMPLES, SEED
from mteb_longembed.evaluation.sampling import sampled
from mteb_longembed.evaluation.split import Split, splits_of
from mteb_longembed.files import is_terminal, make_folder, printable
from mteb_longembed.hub import silence
from mteb_longembed.names import PRESETS
from mteb_longembed.retrieval.chunks import Chunker
from mteb_longembed.retrieval.scorer import Scorer
from mteb_longembed.sentences import sentences

from .cache import Cache
from .candidates import (
    BM25_BY_SENTENCE,
    Candidate,
    bm25_candidates,
    candidates_of,
    embeds_terms,
    has_checkpoint,
    is_name,
    last_part,
    named,
    of_scorer,
    short_names,
    with_chunkers,
)
from .costs import Lengths, document_lengths
from .failures import shown_passages
from .live import LiveTable
from .options import Options
from .ranked import Ranked, RunSource, read_run
from .run import Done, Runner
from .summary import Row, by_split, frame_of, resamples_of, summarise
from .verdict import Advice, Note, Setting, advise, cautions

#: Queries with at least this many sentences on average are also searched sentence by sentence.
_SENTENCES = 2.0


@dataclass(frozen=True, kw_only=True, repr=False)
class Comparison:
    """The result of a comparison.

    Args:
        scores: one row for each query of each candidate: candidate, task, split, query, score and other metrics.
        rows: one for each candidate, the best first.
        by_split: one row for each candidate and split.
        queries: one row for each query: task, split, query, its text, and the ids of its relevant documents.
        advice: what to use.
        notes: further sentences, each with its kind.
        tasks: names of the tasks.
        metrics: what was scored, the first one ranks; if each task has its own, all of them.
        setting: the numbers of queries that all candidates answered, and of their clusters.
        n_documents: documents of all splits.
        is_complete: whether it was not interrupted.
        identity: a hash of data, candidates and metrics.
        written: when it was made, in UTC.
        passages: what the recommended candidate shows on its worst failures, see `shown_passages`.
    """

    scores: pd.DataFrame
    rows: list[Row]
    by_split: pd.DataFrame
    queries: pd.DataFrame
    advice: Advice
    notes: list[Note]
    tasks: list[str]
    metrics: list[str]
    setting: Setting
    n_documents: int
    is_complete: bool
    identity: str
    written: str
    passages: pd.DataFrame = field(default_factory=pd.DataFrame)

    def __repr__(self) -> str:
        first = [(row.label, f"{row.score.mean:.1f}", row.standing) for row in self.rows[:10]]
        return "\n".join([*self.advice.answer, tabulate(first, ["label", "score", "standing"], "plain")])

    @cached_property
    def summary(self) -> pd.DataFrame:
        """One row for each candidate, by its id, the best first."""
        return frame_of(self.rows)

    def to_dataframe(self) -> pd.DataFrame:
        """Return one row for each candidate, the best first: scores with intervals, shares, standing and cost."""
        return self.summary.copy()

    @property
    def recommended(self) -> Row:
        """The row of the candidate to use."""
        return next(row for row in self.rows if row.id == self.advice.recommended)

    @property
    def metric(self) -> str:
        """What ranks: the metric, or `main score` if the tasks have different ones."""
        ranking = [metric for metric in self.metrics if metric not in self.scores.columns]
        if len(ranking) == 1:
            return ranking[0]
        return "main score"

    @property
    def signature(self) -> str:
        """What all numbers depend on, in one line."""
        parts = [self.setting.queries, f"{N_RESAMPLES:,} resamples, seed {SEED}", ", ".join(self.metrics)]
        return " | ".join([*parts, f"mteb-longembed {version('mteb-longembed')}"])

    def texts(self, kind: str) -> list[str]:
        """Return the notes of a kind."""
        return [note.text for note in self.notes if note.kind == kind]


def say_on_stderr(sentence: str) -> None:
    """Print a sentence for people, apart from results and beside a bar."""
    tqdm.write(printable(sentence), file=sys.stderr)


@silence("mteb_longembed.encoders.batching")  # the table says how much each candidate reads
def compare(
    models: str | Sequence[str | Candidate | Scorer] = (),
    data: Data | str | Path | None = None,
    *,
    chunkers: Mapping[str, Chunker] | None = None,
    runs: Mapping[str, RunSource] | None = None,
    show: bool = True,
    on_message: Callable[[str], None] = say_on_stderr,
    **options: Any,
) -> Comparison:
    """Run the ways of embedding long documents that fit a model, on the same data, and say which one to use.

    Each candidate is loaded once, only one model is in memory, and candidates that differ in pooling share a pass.
    An interrupt (Ctrl-C) ends with what has finished; the same call goes on from there.

    Args:
        models: bases: aliases, hub ids or folders. A full name, with a strategy, is one candidate, and so is a scorer.
        data: as `mteb_longembed.Data`; or a folder in BEIR's layout.
        chunkers: custom chunkers by name: each base, or a name whose base takes no part, also encodes each chunk on
            its own. See `mteb_longembed.search`.
        runs: rankings that other programs made, by their names: TREC run files, dicts, DataFrames or ranx' `Run`. Each
            is a candidate `run/NAME`, whose scores count exactly as they are written.
        show: whether to show a progress bar; bars of other libraries are never shown.
        on_message: called with every sentence for the user.
        options: the fields of `Options`, and, without `data`, the fields of `mteb_longembed.Data`.

    Raises:
        InputError: if models, data or options do not go together.
        DataError: if a file breaks a rule.
        KeyboardInterrupt: if nothing had finished.
    """
    chosen, data = _read(data, options)
    folder = Path(chosen.output_folder)
    make_folder("--output-folder", folder)
    notes: list[Note] = []
    splits = _prepared(data, chosen, notes)
    models = [full_base(one) if isinstance(one, str) and not is_name(one) else one for one in _listed(models)]
    bases = [model for model in models if isinstance(model, str) and has_checkpoint(model)]
    lengths_of = {base: document_lengths(splits, _tokenizer_of(base)) for base in bases}
    # the tokens of the first base stand for the tokens of all others
    lengths = next(iter(lengths_of.values()), None) or document_lengths(splits, None)
    candidates = _of_models(models, chosen, lengths_of, lengths, notes)
    candidates += with_chunkers(candidates, chunkers or {})
    for name, source in (runs or {}).items():
        ranked = Ranked(name, read_run(name, source), splits)
        candidates.append(of_scorer(ranked))
        notes += [Note("data", sentence) for sentence in ranked.missing(splits)]
    if chosen.bm25:
        expanding = list(filter(embeds_terms, bases))
        candidates += bm25_candidates(lengths.longest, expanding, quick=chosen.quick)
    else:
        candidates = [one for one in candidates if one.is_named or one.kind != "fusion"]
    candidates = _in_order(list(dict.fromkeys(candidates)))
    for note in notes:
        on_message(note.text)
    if not candidates:
        raise InputError("compare needs at least one candidate, got none.")
    runner = Runner(Cache(folder), splits, candidates, chosen.device)

    def leave_out(text: str) -> None:
        notes.append(Note("left out", text))
        on_message(text)

    expected = _expected(runner, lengths) if show else None
    if expected is not None:
        on_message(expected)
    done, n_left = _run_all(runner, lengths, leave_out, bm25=chosen.bm25 and not chosen.quick, show=show)
    if runner.cache.refused:
        notes.append(Note("caution", f"Finished work is not kept: {runner.cache.refused}"))
    if not done and n_left:
        raise KeyboardInterrupt
    if n_left:
        leave_out(
            f"{n_left:,} {'candidate has' if n_left == 1 else 'candidates have'} not run: {INTERRUPTED}"
        )
    if not done:
        raise InputError(f"compare must finish at least one candidate, got none ({notes[-1].text}).")
    made = _comparison(splits, runner, done, notes, n_left=n_left)
    if made.is_complete:
        # the page can do without, and a model that is gone since has no passages
        with suppress(LongEmbedError, OSError):
            made = replace(made, passages=shown_passages(made, runner, [one.candidate for one in done]))
    runner.free()
    return made


def _of_models(
    models: Sequence[Any],
    options: Options,
    lengths_of: Mapping[str, Lengths],
    lengths: Lengths,
    notes: list[Note],
) -> list[Candidate]:
    """Return the candidates of bases, full names and scorers; note what does not fit."""
    strategies = _listed(options.strategies)
    if (strategies or options.target is not None) and not lengths_of:
        raise InputError("--strategies and --target need a base, got none: name one, or leave them out.")
    candidates: list[Candidate] = []
    for model in models:
        if isinstance(model, Candidate):
            candidates.append(model)
        elif isinstance(model, str):
            covering = lengths_of.get(model, lengths).covering()
            of_model, refused = candidates_of(
                model, strategies, options.target, covering, quick=options.quick
            )
            if options.dtype is not None and model in lengths_of:
                of_model = [one.in_type(options.dtype) for one in of_model]
            candidates += of_model
            notes += [Note("left out", text) for text in refused]
        else:
            candidates.append(of_scorer(model))
    return candidates


def _read(data: Data | str | Path | None, keywords: Mapping[str, Any]) -> tuple[Options, Data]:
    """Return the options and the data, which may be given as the fields of `Data` among the keywords."""
    known = {one.name for one in fields(Options)}
    # a folder of data is `data`
    of_data = {one.name for one in fields(Data)} - {"folder"}
    for name in keywords:
        if name not in known | of_data:
            raise UnknownNameError("keyword of compare", name, known | of_data)
    options = Options(**{name: value for name, value in keywords.items() if name in known})
    sources = {name: value for name, value in keywords.items() if name not in known}
    if not isinstance(data, Data):
        return options, Data(folder=data, **sources)
    if sources:
        raise InputError(f"compare needs one kind of data, got data= and {', '.join(sources)}=.")
    return options, data


def _listed(given: Any) -> list[Any]:
    """Return one text or scorer, or several values, as a list."""
    if isinstance(given, (str, Scorer)):
        return [given]
    return list(given or ())


def _prepared(data: Data, options: Options, notes: list[Note]) -> list[Split]:
    """Return the splits; note what is missing or not scored."""
    metrics = [read_metric(text) for text in _listed(options.metric)]
    splits = []
    for task in data.load():
        for split in splits_of(task, metrics, ignore_identical_ids=options.ignore_identical_ids):
            if options.sample is not None:
                split, told = sampled(split, options.sample)
                notes += [Note("data", text) for text in told]
            splits.append(split)
            notes += [Note("data", text) for text in split.left_out()]
            notes += [Note("caution", text) for text in split.identical_queries()]
    return splits


def _tokenizer_of(base: str) -> Any:
    """Return the tokenizer of a base; no weights are read. `InputError` if the model is extended already."""
    checkpoint = open_checkpoint(ModelSpec.parse(f"{base}+none"))
    files = checkpoint.base.files
    if checkpoint.base.made is not None:
        raise InputError(f"{base} is extended already, so nothing is left to compare: give the base instead.")
    return AutoTokenizer.from_pretrained(
        files.path,
        revision=None if files.local else checkpoint.base.revision,
        trust_remote_code=checkpoint.base.runs_code,
    )


def _run_all(
    runner: Runner, lengths: Lengths, leave_out: Callable[[str], None], *, bm25: bool, show: bool
) -> tuple[list[Done], int]:
    """Run all candidates, and then those that depend on which is best.

    Returns:
        What has run, and how many candidates have not, because somebody interrupted that.
    """
    done: list[Done] = []
    begun: set[str] = set()
    # the remaining time follows the speed of the whole run, because recent speed differs between strategies
    options: dict[str, Any] = {"unit": " tokens", "unit_scale": True, "smoothing": 0}
    options["disable"] = not show or sys.stderr is None
    # a file of output gets a line now and then
    if not is_terminal(sys.stderr):
        options["mininterval"] = 30.0
    # the total is not yet known, so nothing is shown before the first candidate
    bar = tqdm(total=0, delay=1e-9, **options)
    table = LiveTable(bar, show=show)
    waiting = list(runner.candidates)

    def run(candidates: Sequence[Candidate], n_of_terms: int) -> None:
        """Run some candidates. The first one of a pass reads its documents, and its terms have this many tokens."""
        labels = short_names([*runner.candidates, *candidates])
        ahead = [one for one in candidates if one.passes not in begun]
        tokens = Counter({one.passes: lengths.read(one.target_len) for one in ahead if one.model is not None})
        tokens += Counter({one.passes: n_of_terms for one in ahead if one.reads_words})
        begun.update(tokens)
        bar.total += tokens.total()
        for candidate in candidates:
            bar.set_description_str(f"Comparing, {labels[candidate.id]}", refresh=False)
            end = bar.n + tokens.pop(candidate.passes, 0)
            try:
                done.append(runner.run(candidate))
            except Exception as error:  # whatever the reason, such as an API's rate limit: the others can run
                reason = str(error).partition("\n")[0]
                if not isinstance(error, (LongEmbedError, ImportError, OSError)):
                    reason = f"{type(error).__name__}: {reason}"
                leave_out(f"{candidate.id} is left out: {reason}")
            else:
                if table.is_shown:
                    table.update(_rows_of(done), candidate.id, len(done) + len(waiting) - 1)
            waiting.remove(candidate)
            # what was expected is an estimate, and earlier runs may have read it
            bar.update(end - bar.n)

    try:
        with bar, shared_bar(bar):
            run(runner.candidates, runner.tokens_of_words)
            if bm25 and any(one.candidate.kind == "bm25" for one in done):
                waiting += _further(done, runner.splits, leave_out)
                run(list(waiting), 0)  # the terms have not changed
    except KeyboardInterrupt:
        return done, len(waiting)
    return done, 0


def _rows_of(done: Sequence[Done]) -> list[Row]:
    """Return the rows of the candidates that have run."""
    scores = pd.concat([one.scores for one in done], ignore_index=True)
    costs = {one.candidate.id: one.cost for one in done}
    return summarise(scores, [one.candidate for one in done], costs)


def _expected(runner: Runner, lengths: Lengths) -> str | None:
    """Return how long a comparison will take, from a timed sample; None if nothing is left to encode."""
    tokens: dict[str, int] = {}
    for one in runner.candidates:
        if one.model is not None and not runner.is_finished(one):
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


def _in_order(candidates: Sequence[Candidate]) -> list[Candidate]:
    """Return candidates in the order in which they run.

    The base and what the user named come first, then windows and what shares their pass and is recommended, BM25, all
    others of that pass, and then other passes. So an interrupted run has compared the methods that differ most.
    """
    first_pass = [
        one.passes for one in candidates if one.model is not None and one.model.vectors is not None
    ][:1]
    presets = [PRESETS[key].settings for key in ("windows", "late")]

    def place(candidate: Candidate) -> int:
        if candidate.is_base or candidate.is_named:
            return 0
        tail = candidate.name.rpartition(":")[2]
        if candidate.passes in first_pass and tail in presets:
            return 1 + presets.index(tail)
        if candidate.kind == "bm25" or (candidate.kind == "fusion" and candidate.passes in first_pass):
            return 3
        return 4 if candidate.passes in first_pass else 5

    return sorted(candidates, key=place)


def _further(
    done: Sequence[Done], splits: Sequence[Split], leave_out: Callable[[str], None]
) -> list[Candidate]:
    """Return the best candidate so far with BM25 added, and, where queries have several sentences, by sentence."""
    dense = [one for one in done if one.candidate.model is not None and one.candidate.kind != "fusion"]
    if not dense:
        return []
    means = resamples_of(pd.concat([one.scores for one in dense]), [one.candidate.id for one in dense]).means
    # of equal candidates the first: bases come before their extensions
    ranked = sorted((one.candidate for one in dense), key=lambda candidate: -means[candidate.id])
    wanted = [(ranked[0], {"fusion": "bm25"})]
    found = []
    texts = chain.from_iterable(split.judged_queries.values() for split in splits)
    n_of_query = [len(sentences(text)) for text in texts]
    if sum(n_of_query) >= _SENTENCES * len(n_of_query):
        near = [one.candidate.expand for one in done if one.candidate.expand]
        found = [named(BM25_BY_SENTENCE), *(named(f"{BM25_BY_SENTENCE},expand={base}") for base in near)]
        for windows in [one for one in ranked if one.model and one.model.vectors is not None][:1]:
            wanted += [
                (windows, {"query": "sentences"}),
                (windows, {"fusion": "bm25", "query": "sentences"}),
            ]
    for candidate, settings in wanted:
        try:
            found.append(candidate.with_search(**settings))
        except InputError as error:
            leave_out(f"{candidate.id} with {', '.join(settings)} is left out: {error}")
    known = {one.candidate for one in done}
    return [candidate for candidate in dict.fromkeys(found) if candidate not in known]


def _comparison(
    splits: Sequence[Split], runner: Runner, done: Sequence[Done], notes: list[Note], *, n_left: int
) -> Comparison:
    """Return what the candidates that have run say."""
    scores = pd.concat([one.scores for one in done], ignore_index=True)
    candidates = [one.candidate for one in done]
    rows = _rows_of(done)
    tasks = list(dict.fromkeys(split.label[0] for split in splits))
    own = splits[0].task
    corpus = None
    if isinstance(own, OwnData) and isinstance(own.corpus_source, Path):
        corpus = str(own.corpus_source.resolve())
    setting = Setting(
        # `mteb run` knows neither tasks of your own data nor samples, which have other names
        tasks=[task for task in tasks if is_known_task(task)],
        n_queries=len(done[0].scores),
        n_clusters=resamples_of(scores, [candidates[0].id]).n_clusters,
        corpus=corpus,
        language=getattr(own, "language", None),
    )
    notes = [*cautions(scores, rows), *notes]
    models = dict.fromkeys(one.base or one.expand for one in candidates)
    short = [f"{last_part(model)} is {model}" for model in models if model != last_part(model)]
    if short:
        notes.append(Note("data", f"Short names: {', '.join(short)}."))
    unfinished = ""
    if n_left:
        unfinished = f"{len(done)} of {len(done) + n_left} candidates, interrupted"
    metrics = list(dict.fromkeys(map(str, chain.from_iterable(split.metrics for split in splits))))
    rule = [split.task.ignore_identical_ids for split in splits]
    parts = [*(split.digest for split in splits), *metrics, *(one.id for one in runner.candidates), *rule]
    return Comparison(
        scores=scores,
        rows=rows,
        by_split=by_split(scores),
        queries=_queries_of(splits),
        advice=advise(rows, setting, unfinished=unfinished),
        notes=notes,
        tasks=tasks,
        metrics=metrics,
        setting=setting,
        n_documents=sum(len(split.corpus) for split in splits),
        is_complete=not n_left,
        identity=hashlib.sha256(" ".join(map(str, parts)).encode()).hexdigest(),
        written=f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC",
    )


def _queries_of(splits: Sequence[Split]) -> pd.DataFrame:
    """Return the judged queries, for `Comparison.queries`."""
    rows = []
    for split in splits:
        for query, text in split.judged_queries.items():
            relevant = sorted(document for document, grade in split.judged[query].items() if grade > 0)
            rows.append((*split.label, query, text, relevant))
    return pd.DataFrame(rows, columns=["task", "split", "query", "text", "relevant"])
