"""The result of a comparison."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cached_property
from importlib.metadata import version
from itertools import chain
from pathlib import Path

import pandas as pd
from tabulate import tabulate  # type: ignore[import-untyped]

from mteb_longembed.data.task import OwnData, is_known_task
from mteb_longembed.errors import InputError
from mteb_longembed.evaluation.resampling import N_RESAMPLES, SEED
from mteb_longembed.evaluation.split import Split
from mteb_longembed.files import counted

from .candidates import Candidate, default_of
from .judging import PAGE, Judging
from .kinds import by_kind, differing
from .labels import last_part
from .run import Result, Runner
from .summary import Row, by_split, frame_of, resamples_of, summarise
from .verdict import FEW_QUERIES, Advice, Note, Setting, advise, cautions, cautious


@dataclass(frozen=True, kw_only=True, repr=False)
class Comparison:
    """The result of a comparison.

    Args:
        scores: one row for each query of each candidate: candidate, task, split, query, score and other metrics.
        rows: one for each candidate, the best first.
        by_split: one row for each candidate and split.
        queries: one row for each query: task, split, query, its text, and the ids of its relevant documents.
        advice: the recommendation.
        notes: further notes, each with its kind.
        tasks: names of the tasks.
        metrics: the metrics, the first one ranks; if each task has its own, all of them.
        setting: the number of queries that all candidates answered, and of their clusters.
        n_documents: documents of all splits.
        is_complete: whether it was not interrupted.
        identity: a hash of data, candidates and metrics.
        written: when it was made, in UTC.
        passages: passages of the recommended candidate's worst failures, see `shown_passages`.
        by_kind: one row for each candidate and kind of query; empty if the queries have no kinds.
        judging: the rankings for the page that asks for judgements; None if none are kept.
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
    judging: Judging | None = None
    by_kind: pd.DataFrame = field(default_factory=pd.DataFrame)

    def __repr__(self) -> str:
        first = [(row.label, f"{row.score.mean:.1f}", row.standing) for row in self.rows[:10]]
        return "\n".join([*self.advice.answer, tabulate(first, ["label", "score", "standing"], "plain")])

    @property
    def is_judged(self) -> bool:
        """Whether there are scores: without judgements there are only rankings."""
        return bool(self.rows)

    def judge(
        self, path: str | Path = PAGE, command: str = 'longembed.compare(..., qrels="qrels.tsv")'
    ) -> Path:
        """Write the page that asks for the judgements that are missing.

        Args:
            path: the file to write.
            command: what to type next with the judgements, for the page.

        Returns:
            The path.

        Raises:
            InputError: if no rankings are kept, because the data are not files or tables of your own, or are judged.
        """
        if self.judging is None:
            raise InputError(
                "a page asks about kept rankings of your own documents, got none: compare with judge=True."
            )
        self.judging.write(Path(path), command)
        return Path(path)

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
        """The ranking metric; `main score` if the tasks have different ones."""
        ranking = [metric for metric in self.metrics if metric not in self.scores.columns]
        if len(ranking) == 1:
            return ranking[0]
        return "main score"

    @property
    def signature(self) -> str:
        """The settings behind all numbers, in one line."""
        parts = [self.setting.queries, f"{N_RESAMPLES:,} resamples, seed {SEED}", ", ".join(self.metrics)]
        return " | ".join([*parts, f"mteb-longembed {version('mteb-longembed')}"])

    def texts(self, kind: str) -> list[str]:
        """Return the notes of a kind."""
        return [note.text for note in self.notes if note.kind == kind]


def rows_of(done: Sequence[Result]) -> list[Row]:
    """Return the rows of the finished candidates."""
    scores = pd.concat([one.scores for one in done], ignore_index=True)
    costs = {one.candidate.id: one.cost for one in done}
    return summarise(scores, [one.candidate for one in done], costs)


def _judging_of(runner: Runner, candidates: Sequence[Candidate]) -> Judging | None:
    """Return the kept rankings of candidates; None if no rankings are kept."""
    if runner.asked is None or not candidates:
        return None
    known = {}
    for split in runner.splits:
        if isinstance(split.task, OwnData):
            known.update(split.task.judgements.get(split.split, {}))
    rankings = {}
    for one in candidates:
        rows = runner.rankings(one)
        if rows is not None:
            rankings[one.id] = rows
    return Judging(
        split=runner.asked,
        candidates=candidates,
        default=default_of(candidates).id,
        rankings=rankings,
        known=known,
    )


def not_judged(
    splits: Sequence[Split], judging: Judging, notes: list[Note], *, n_left: int = 0
) -> Comparison:
    """Return the comparison of candidates that have ranked and wait for judgements."""
    n_queries = sum(len(split.queries) for split in splits)
    n_documents = sum(len(split.corpus) for split in splits)
    use = "Nothing is compared yet: there is no question."
    if splits:
        use = (
            f"Nothing is compared yet: {counted(len(judging.candidates), 'candidate', 'candidates')} ranked "
            f"{counted(n_documents, 'document', 'documents')} for {counted(n_queries, 'question', 'questions')}, "
            "and nobody has judged them."
        )
    return Comparison(
        scores=pd.DataFrame(),
        rows=[],
        by_split=pd.DataFrame(),
        queries=_queries_of(splits),
        advice=Advice("nothing", "", "", "", use, "", ""),
        notes=notes,
        tasks=[split.label[0] for split in splits] or ["questions"],
        metrics=[str(metric) for split in splits for metric in split.metrics],
        setting=Setting(n_queries=n_queries, n_clusters=n_queries),
        n_documents=n_documents,
        is_complete=not n_left,
        identity=judging.signature,
        written=_now(),
        judging=judging,
    )


def comparison_of(
    splits: Sequence[Split],
    runner: Runner,
    done: Sequence[Result],
    notes: list[Note],
    *,
    n_left: int,
) -> Comparison:
    """Build the comparison of the finished candidates."""
    judging = _judging_of(runner, [one.candidate for one in done])
    if judging is not None and not splits[0].is_judged:
        return not_judged(splits, judging, notes, n_left=n_left)
    scores = pd.concat([one.scores for one in done], ignore_index=True)
    candidates = [one.candidate for one in done]
    rows = rows_of(done)
    tasks = list(dict.fromkeys(split.label[0] for split in splits))
    own = splits[0].task
    corpus = language = None
    if isinstance(own, OwnData):
        language = own.language
        if isinstance(own.corpus_source, Path):
            corpus = str(own.corpus_source.resolve())
    setting = Setting(
        # `mteb run` knows neither tasks of your own data nor samples, which have other names
        tasks=[task for task in tasks if is_known_task(task)],
        n_queries=len(done[0].scores),
        n_clusters=resamples_of(scores, [candidates[0].id]).n_clusters,
        corpus=corpus,
        language=language,
    )
    of_kinds = by_kind(scores, splits)
    by_kinds = [Note("data", sentence) for sentence in differing(of_kinds, rows)]
    notes = [*cautions(scores, rows), *by_kinds, *notes]
    if judging is not None:
        of_candidate = judging.unjudged(splits[0].judged)
        rows = [replace(row, n_unjudged=of_candidate[row.id]) for row in rows]
        counts = of_candidate.values()
        notes.append(
            Note(
                "caution",
                f"Of a candidate's ten best documents nobody judged {min(counts):.1f} to {max(counts):.1f} (column "
                "`not judged`): they count as not relevant.",
            )
        )
    models = dict.fromkeys(one.base or one.expand for one in candidates)
    short = [f"{last_part(model)} is {model}" for model in models if model != last_part(model)]
    if short:
        notes.append(Note("data", f"Short names: {', '.join(short)}."))
    unfinished = ""
    if n_left:
        unfinished = f"{len(done)} of {len(done) + n_left} candidates, interrupted"
    advice = advise(rows, setting, unfinished=unfinished)
    if judging is not None and setting.n_queries < FEW_QUERIES and not unfinished:
        advice = cautious(advice, scores, rows, setting, default_of(candidates).id)
    metrics = list(dict.fromkeys(map(str, chain.from_iterable(split.metrics for split in splits))))
    rule = [split.task.ignore_identical_ids for split in splits]
    parts = [*(split.digest for split in splits), *metrics, *(one.id for one in runner.candidates), *rule]
    return Comparison(
        scores=scores,
        rows=rows,
        by_split=by_split(scores),
        by_kind=of_kinds,
        queries=_queries_of(splits),
        advice=advice,
        notes=notes,
        tasks=tasks,
        metrics=metrics,
        setting=setting,
        n_documents=sum(len(split.corpus) for split in splits),
        is_complete=not n_left,
        identity=hashlib.sha256(" ".join(map(str, parts)).encode()).hexdigest(),
        written=_now(),
        judging=judging,
    )


def _now() -> str:
    return f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC"


def _queries_of(splits: Sequence[Split]) -> pd.DataFrame:
    """Return the judged queries, for `Comparison.queries`."""
    rows = []
    for split in splits:
        for query, text in split.judged_queries.items():
            relevant = sorted(document for document, grade in split.judged[query].items() if grade > 0)
            rows.append((*split.label, query, text, relevant))
    return pd.DataFrame(rows, columns=["task", "split", "query", "text", "relevant"])
