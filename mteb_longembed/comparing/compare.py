"""`compare` as a Python call: the candidates of models, on tasks or on one's own files, and what comes of it."""

import hashlib
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any, TypeVar

import pandas as pd
from transformers import AutoTokenizer

from mteb_longembed.data.sources import Data, check_text_retrieval, is_known_task
from mteb_longembed.data.task import OwnData
from mteb_longembed.encoders.batching import shared_bar
from mteb_longembed.encoders.checkpoint import ModelSpec, open_checkpoint
from mteb_longembed.encoders.speed import duration
from mteb_longembed.errors import INTERRUPTED, InputError
from mteb_longembed.evaluation.metrics import read_metric
from mteb_longembed.evaluation.sampling import sampled
from mteb_longembed.evaluation.split import Split, splits_of
from mteb_longembed.files import make_folder, printable
from mteb_longembed.hub import silence
from mteb_longembed.retrieval.chunks import Chunker
from mteb_longembed.retrieval.scorer import Scorer
from mteb_longembed.sentences import sentences
from mteb_longembed.statistics.resampling import N_RESAMPLES, SEED

from .bar import RunBar
from .cache import Cache
from .candidates import (
    BM25_BY_SENTENCE,
    Candidate,
    bm25_candidates,
    candidates_of,
    has_checkpoint,
    is_name,
    named,
    of_scorer,
    with_chunkers,
)
from .costs import Cost, Lengths, document_lengths, tokens_of_words
from .labels import legend, short_names
from .notes import Note, cautions
from .objects import way_out
from .questions import failed_questions
from .ranked import Ranked, RunSource, read_run
from .run import CandidateError, Done, Runner
from .summary import by_split, resamples_of, summarise
from .trust import Trust, best_trust
from .verdict import Advice, Setting, advise, counted

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
        questions: those that the recommended candidate failed, see `failed_questions`.
        trust: what the best fusion would score with another trust in words; None without a fusion that tells.
        tasks: names of the tasks.
        metrics: what was scored, the first one ranks; if each task has its own, all of them.
        n_queries: queries that all candidates answered.
        n_groups: of these queries: those that share a relevant document belong together.
        asked: the number of queries, and of what they are about, in words.
        n_documents: documents of all splits.
        is_complete: whether it was not interrupted.
        identity: a hash of data, candidates and metrics.
        written: when it was made, in UTC.
    """

    scores: pd.DataFrame
    summary: pd.DataFrame
    by_split: pd.DataFrame
    advice: Advice
    notes: list[Note]
    questions: pd.DataFrame
    trust: Trust | None = None
    tasks: list[str]
    metrics: list[str]
    n_queries: int
    n_groups: int
    asked: str
    n_documents: int
    is_complete: bool
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

    @property
    def signature(self) -> str:
        """What all numbers depend on, in one line."""
        made_by = f"mteb-longembed {version('mteb-longembed')}"
        return (
            f"{self.asked} | {self.n_groups:,} groups, {N_RESAMPLES:,} resamples, seed {SEED} | "
            f"{', '.join(self.metrics)} | {made_by}"
        )

    def texts(self, *kinds: str) -> list[str]:
        """The notes of some kinds."""
        return [note.text for note in self.notes if note.kind in kinds]


def say_on_stderr(sentence: str) -> None:
    """Print a sentence for people, apart from results."""
    print(printable(sentence), file=sys.stderr)


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
    bm25: bool = True,
    device: str | None = None,
    dtype: str | None = None,
    folder: str | Path = "results",
    show: bool = True,
    on_message: Callable[[str], None] = say_on_stderr,
    **sources: Any,
) -> Comparison:
    """Run the ways of embedding long documents that fit a model, on the same data, and say which one to use.

    Each candidate is loaded once, only one model is in memory, and candidates that differ in pooling share a pass.
    An interrupt (Ctrl-C) ends with what has finished; the same call goes on from there.

    Args:
        models: bases: aliases, hub ids or folders. A full name, with a strategy, is one candidate, and so is a scorer.
        data: as `mteb_longembed.Data`; or a folder in BEIR's layout.
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
            is a candidate `run/NAME`, whose scores count exactly as they are written.
        bm25: whether BM25 and the fusion with it take part.
        device: where models run. Default: the best device of this machine.
        dtype: the compute type of all passes of bases, such as `bf16`. Default: that of their files.
        folder: finished work is kept here.
        show: whether a progress bar is shown; those of other libraries never are.
        on_message: called with every sentence for the user.
        sources: in the place of `data`, the fields of `mteb_longembed.Data`: `tasks`, `benchmarks` and `eval_splits`;
            or `corpus`, `queries`, `qrels` and `language`.

    Raises:
        InputError: if models, data or options do not go together.
        DataError: if a file breaks a rule.
        KeyboardInterrupt: if nothing had finished.
    """
    data = _data_of(data, sources)
    make_folder("--output-folder", Path(folder))
    models = _listed(models)
    metrics = [read_metric(text) for text in _listed(metric)]
    asked = None
    if strategies is not None:
        asked = _listed(strategies)
    _check_options(models, {"--strategies": asked, "--target": target, "--sizes": sizes or None})
    splits, notes = _prepared(data, metrics, sample, ignore_identical_ids=ignore_identical_ids)
    bases = [model for model in models if isinstance(model, str) and has_checkpoint(model)]
    lengths_of = {base: document_lengths(splits, _tokenizer_of(base)) for base in bases}
    # the tokens of the first base stand for those of all others
    lengths = next(iter(lengths_of.values()), None) or document_lengths(splits, None)
    candidates = []
    for model in models:
        if isinstance(model, Candidate):
            candidates.append(model)
        elif isinstance(model, str):
            covering = lengths_of.get(model, lengths).covering()
            of_model, untried = candidates_of(model, asked, target, sizes, covering)
            if dtype is not None and model in bases:
                of_model = [one.in_type(dtype) for one in of_model]
            candidates += of_model
            notes += [Note("untried", text) for text in untried]
        else:
            candidates.append(of_scorer(model))
    candidates += with_chunkers(candidates, chunkers or {})
    for name, source in (runs or {}).items():
        ranked = Ranked(name, read_run(name, source), splits)
        candidates.append(of_scorer(ranked))
        notes += [Note("data", sentence) for sentence in ranked.missing(splits)]
    if bm25:
        candidates += bm25_candidates(lengths.longest, bases)
    else:
        candidates = [one for one in candidates if one.is_named or one.kind != "fusion"]
    candidates = sorted(dict.fromkeys(candidates), key=_place)
    for note in notes:
        on_message(note.text)
    if not candidates:
        raise InputError("compare needs at least one candidate, got none.")
    cache = Cache(Path(folder))
    runner = Runner(cache, splits, candidates, device)
    done, is_complete = _run_all(runner, lengths, notes, on_message, bm25=bm25, show=show)
    runner.free()
    if cache.refused:
        notes.append(Note("caution", f"Finished work is not kept: {cache.refused}"))
    if not done and not is_complete:
        raise KeyboardInterrupt
    if not done:
        reasons = [note.text for note in notes if note.kind == "left out"]
        raise InputError(f"compare must finish at least one candidate, got none ({', '.join(reasons[:1])}).")
    return _comparison(splits, runner, done, notes, is_complete=is_complete)


def _data_of(data: Data | str | Path | None, sources: Mapping[str, Any]) -> Data:
    """The data, or what the fields of `Data` among the keywords make of them.

    Raises:
        InputError: if both are given, or a keyword is none of these fields.
    """
    known = [field.name for field in fields(Data) if field.name != "folder"]
    for name in sources:
        if name not in known:
            raise InputError(
                f"compare has no option {name}: where results are kept is folder, and data are {', '.join(known)}."
            )
    if not isinstance(data, Data):
        return Data(folder=data, **sources)
    given = [name for name, value in sources.items() if value is not None]
    if given:
        raise InputError(f"compare needs one kind of data, got data= and {', '.join(given)}=.")
    return data


def _listed(given: str | Scorer | Sequence[T]) -> list[Any]:
    """One text or several values, as a list."""
    if isinstance(given, (str, Scorer)):
        return [given]
    return list(given)


def _check_options(models: Sequence[object], options: Mapping[str, object]) -> None:
    """Refuse options about the candidates of bases where there is no base."""
    given = [name for name, value in options.items() if value is not None]
    if given and not models:
        raise InputError(f"{' and '.join(given)} need a base, got no model: name one, or leave them out.")
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
    for task in data.load():
        check_text_retrieval(task)
        for split in splits_of(task, metrics, ignore_identical_ids=ignore_identical_ids):
            if sample is not None:
                split, sentence = sampled(split, sample)
                if sentence:
                    notes.append(Note("data", sentence))
            splits.append(split)
            notes += [Note("data", text) for text in split.left_out()]
            notes += [Note("caution", text) for text in split.identical_queries()]
    return splits, notes


def _expectation(of_passes: Mapping[str, int], cost: Cost) -> str:
    """How much is read and how long that takes on this machine, by the first measured speed."""
    n_tokens = sum(of_passes.values())
    seconds = n_tokens / (cost.tokens_per_second or 1.0)
    sentence = (
        f"About {n_tokens:,} tokens of documents in {counted(len(of_passes), 'pass', 'passes')}, about "
        f"{duration(seconds)} on this machine, less where the store has them"
    )
    if seconds > _LONG:
        return f"{sentence}: --sample N reads fewer documents, and Ctrl-C ends with what has finished."
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
    lengths: Lengths,
    notes: list[Note],
    on_message: Callable[[str], None],
    *,
    bm25: bool,
    show: bool,
) -> tuple[list[Done], bool]:
    """Run all candidates, and then those that depend on which is best; and whether nobody interrupted that."""
    done: list[Done] = []
    begun: set[str] = set()

    def say(text: str) -> None:
        bar.clear()
        on_message(text)
        bar.refresh()

    def run(candidates: Sequence[Candidate], n_of_words: int) -> None:
        """Run some candidates. The first one of a pass reads its documents, and its words have so many tokens."""
        labels = short_names([*runner.candidates, *candidates])
        ahead = [one for one in candidates if one.passes not in begun and not runner.is_finished(one)]
        of_documents = {one.passes: lengths.read(one.target_len) for one in ahead if one.model is not None}
        tokens = Counter(of_documents) + Counter({one.passes: n_of_words for one in ahead if one.reads_words})
        begun.update(tokens)
        runner.before_first_pass = lambda cost: say(_expectation(of_documents, cost))
        bar.total += tokens.total()
        for candidate in candidates:
            bar.set_description_str(f"Comparing, {labels[candidate.id]}", refresh=False)
            bar.begin(tokens.pop(candidate.passes, 0))
            try:
                done.append(runner.run(candidate))
                if candidate.neighbours and n_of_words and done[-1].costs["share_encoded"] is None:
                    score = 100 * done[-1].scores["score"].mean()
                    say(f"{labels[candidate.id]}: {score:.1f}. No document was encoded; the others follow.")
            except CandidateError as error:
                notes.append(Note("left out", f"{candidate.id} is left out: {error}"))
                say(notes[-1].text)
            bar.finish()

    with RunBar(show=show) as bar, shared_bar(bar):
        try:
            run(runner.candidates, tokens_of_words(runner.splits))
            if bm25 and any(one.candidate.kind == "bm25" for one in done):
                run(_further(done, runner.splits, notes), 0)  # words are those of before
        except KeyboardInterrupt:
            left = {one.id for one in runner.candidates} - {one.candidate.id for one in done}
            notes.append(
                Note("left out", f"{len(left):,} candidates and fusions have not run: {INTERRUPTED}")
            )
            say(notes[-1].text)
            return done, False
    return done, True


def _place(candidate: Candidate) -> tuple[bool, ...]:
    """BM25 comes first, then full names, then fusions and bases."""
    return candidate.kind != "bm25", not candidate.is_named, candidate.kind != "fusion", not candidate.is_base


def _further(done: Sequence[Done], splits: Sequence[Split], notes: list[Note]) -> list[Candidate]:
    """The best candidate so far with BM25 added; and, where queries have several sentences, by sentence."""
    dense = [one for one in done if one.candidate.model is not None and one.candidate.kind != "fusion"]
    if not dense:
        return []
    means = resamples_of(pd.concat([one.scores for one in dense]), [one.candidate.id for one in dense]).means
    # of equal ones the first: bases come before what is made of them
    ranked = sorted((one.candidate for one in dense), key=lambda candidate: -means[candidate.id])
    wanted: list[tuple[Candidate, dict[str, str]]] = [(ranked[0], {"fuse": "words"})]
    found = []
    n_of_query = [len(sentences(text)) for split in splits for text in split.judged_queries.values()]
    n_sentences = sum(n_of_query) / len(n_of_query)
    if n_sentences >= _SENTENCES:
        found.append(named(BM25_BY_SENTENCE))
        for one in done:
            if one.candidate.neighbours:
                found.append(named(f"{BM25_BY_SENTENCE},neighbours={one.candidate.neighbours}"))
        for windows in [candidate for candidate in ranked if candidate.is_multi_vector][:1]:
            wanted += [(windows, {"query": "sentences"}), (windows, {"fuse": "words", "query": "sentences"})]
        text = f"Queries have {n_sentences:.1f} sentences on average, so each sentence was also asked on its own."
        notes.append(Note("finding", text))
    for candidate, settings in wanted:
        try:
            found.append(candidate.with_search(**settings))
        except InputError as error:
            asked = ",".join(map("=".join, settings.items()))
            notes.append(Note("untried", f"{candidate.id} with {asked} is left out: {error}"))
    known = {one.candidate for one in done}
    return [candidate for candidate in dict.fromkeys(found) if candidate not in known]


def _comparison(
    splits: Sequence[Split], runner: Runner, done: Sequence[Done], notes: list[Note], *, is_complete: bool
) -> Comparison:
    """What the candidates that have run say."""
    scores = pd.concat([one.scores for one in done], ignore_index=True)
    candidates = {one.candidate.id: one.candidate for one in done}
    summary = summarise(scores, list(candidates.values()), {one.candidate.id: one.costs for one in done})
    tasks = list(dict.fromkeys(split.label[0] for split in splits))
    corpus = None
    language = None
    are_named = False
    for split in splits:
        if isinstance(split.task, OwnData):
            language = split.task.language
            are_named = are_named or bool(split.task.groups)
            if isinstance(split.task.corpus_source, Path):
                corpus = str(split.task.corpus_source)
    setting = Setting(
        # `mteb run` knows neither the tasks of own data nor a sample, which has a name of its own
        tasks=[task for task in tasks if is_known_task(task)],
        n_queries=len(done[0].scores),
        n_groups=resamples_of(scores, [done[0].candidate.id]).n_groups,
        are_named=are_named,
        corpus=corpus,
        language=language,
    )
    advice = advise(summary, setting)
    if advice.typed:
        advice = replace(advice, way_out=way_out(candidates[advice.recommended]))
    all_notes = [*cautions(scores, summary), *notes]
    short = legend(list(candidates.values()))
    if short:
        all_notes.append(Note("data", short))
    metrics = list(dict.fromkeys(str(metric) for split in splits for metric in split.metrics))
    rule = [split.task.ignore_identical_ids for split in splits]
    parts = [*(split.digest for split in splits), *metrics, *(one.id for one in runner.candidates), *rule]
    return Comparison(
        scores=scores,
        summary=summary,
        by_split=by_split(scores),
        advice=advice,
        notes=all_notes,
        questions=failed_questions(scores, advice.recommended, splits),
        trust=best_trust(scores, summary["label"]),
        tasks=tasks,
        metrics=metrics,
        n_queries=setting.n_queries,
        n_groups=setting.n_groups,
        asked=setting.queries,
        n_documents=sum(len(split.corpus) for split in splits),
        is_complete=is_complete,
        identity=hashlib.sha256(" ".join(map(str, parts)).encode()).hexdigest(),
        written=f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC",
    )
