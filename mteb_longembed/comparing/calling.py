"""`compare` as a Python call: the candidates of models, on tasks or on one's own files."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import mteb
from mteb.abstasks.retrieval import AbsTaskRetrieval

from mteb_longembed.comparing.candidates import BM25, Candidate, candidates_of, fused
from mteb_longembed.comparing.cells import Cells
from mteb_longembed.comparing.comparison import Comparison, Work, corpora_of
from mteb_longembed.comparing.documents import make_queries, take_sample
from mteb_longembed.encoders.engine.progress import one_bar
from mteb_longembed.errors import InputError
from mteb_longembed.reports.safe_files import make_folder, write_file
from mteb_longembed.tasks.beir import beir_task, files_task
from mteb_longembed.tasks.diagnose import find_task
from mteb_longembed.tasks.reading import read_documents
from mteb_longembed.tasks.scoring import left_out, read_metric


def say_on_stderr(sentence: str) -> None:
    """Print a sentence for people, apart from results."""
    print(sentence, file=sys.stderr)


def compare(
    models: str | Sequence[str | Candidate],
    *,
    tasks: Sequence[str | AbsTaskRetrieval] = (),
    benchmarks: Sequence[str] = (),
    eval_splits: Sequence[str] | None = None,
    data: str | Path | None = None,
    corpus: str | Path | None = None,
    queries: str | Path | None = None,
    qrels: str | Path | None = None,
    make: int | None = None,
    sample: int | None = None,
    language: str = "eng-Latn",
    metric: Sequence[str] = (),
    strategies: Sequence[str] | None = None,
    target: int | str | None = None,
    bm25: bool = True,
    budget: float | None = None,
    device: str | None = None,
    folder: str | Path = "results",
    show: bool = True,
    say: Callable[[str], None] = say_on_stderr,
) -> Comparison:
    """Run all ways of embedding long documents that fit a model, on the same data.

    Exactly one kind of data: `tasks` or `benchmarks`, a folder (`data`), or `corpus` with `queries` and `qrels`, or
    with `make`.

    Args:
        models: bases: aliases, hub ids or folders. A name with a strategy is one candidate.
        tasks: retrieval tasks of mteb, or their names. `sample` changes the object.
        benchmarks: benchmarks of mteb.
        eval_splits: only these splits.
        data: a folder in BEIR's layout, or of the datasets library.
        corpus: a file of documents.
        queries: a file of queries.
        qrels: a file of judgements.
        make: draw so many sentences of the documents as queries.
        sample: so many documents stay in each corpus: the judged ones, hard ones for BM25, and random ones.
        language: of one's own files.
        metric: such as nDCG@10; the first one ranks. Default: the task's main score.
        strategies: only these keys. Default: all that fit.
        target: the target length in tokens. Default: 8 times the trained length.
        bm25: whether BM25 and the fusion with it take part.
        budget: seconds; what would take longer is left out and named.
        device: where models run. Default: the best device of this machine.
        folder: finished work is kept here, in mteb's form.
        show: whether a progress bar is shown.
        say: called with every sentence for the user.

    Returns:
        The rows, best first, and the recommendation: what the page of `mteb-longembed compare` shows.

    Raises:
        InputError: if models, data or options do not go together.
        DataError: if a file breaks a rule.
    """
    make_folder("--output-folder", Path(folder))
    cells = Cells(Path(folder), [read_metric(text) for text in metric])
    candidates, without = _candidates([models] if isinstance(models, str) else models, strategies, target)
    if bm25:
        candidates = list(dict.fromkeys([*candidates, Candidate(BM25, "")]))
    if all(make is not None and candidate.matches_words for candidate in candidates):
        raise InputError(
            "compare needs at least one candidate, with drawn queries one that has vectors, got "
            f"{', '.join(candidate.name for candidate in candidates) or 'none'}."
        )
    if eval_splits and not all(isinstance(task, str) for task in tasks):
        raise InputError(
            "eval_splits needs names of tasks, got a task object: choose its splits when you make it."
        )
    for sentence in without:
        say(sentence)
    chosen = _tasks(
        tasks, benchmarks, eval_splits, data, (corpus, queries, qrels), make, Path(folder), language
    )
    counted, names = [], [task.metadata.name for task in chosen]  # before a sample gets its own
    if len(set(names)) < len(names):
        raise InputError(f"each task may be compared once, got {', '.join(names)}.")
    for task in chosen:
        cells.prepare(task)
        counted += take_sample(task, sample) if sample is not None else []
    counted += [said for task in chosen for split in task.eval_splits for said in left_out(task, split)]
    for sentence in counted:
        say(sentence)
    work = Work(cells, chosen, corpora_of(chosen), budget, device, say)
    work.measure(candidates)
    say(work.estimate(candidates))
    with one_bar(sum(sum(work.cost(c).tokens.values()) for c in candidates), "Comparing", show=show):
        for candidate in candidates:
            work.run(candidate)
        if bm25 and (best := work.best_dense()) is not None and (joined := fused(best)) is not None:
            work.run(joined)
    result = work.result(names, counted, candidates, proxy=make is not None)
    result.left_out += without
    return result


def _candidates(
    models: Sequence[str | Candidate], strategies: Sequence[str] | None, target: int | str | None
) -> tuple[list[Candidate], list[str]]:
    """The candidates of all models, and sentences about strategies that do not fit one of them."""
    found: list[Candidate] = []
    without: list[str] = []
    for model in models:
        own = [model] if isinstance(model, Candidate) else candidates_of(model, strategies, target)
        found += own
        missing = [key for key in strategies or () if not any(f"+{key}@" in each.name for each in own)]
        without += [f"{key} does not fit {model} and is left out." for key in missing if len(own) > 1]
    return list(dict.fromkeys(found)), without


def _tasks(
    tasks: Sequence[str | AbsTaskRetrieval],
    benchmarks: Sequence[str],
    splits: Sequence[str] | None,
    data: str | Path | None,
    files: tuple[str | Path | None, ...],
    make: int | None,
    folder: Path,
    language: str,
) -> list[AbsTaskRetrieval]:
    given = [bool(tasks or benchmarks), data is not None, any(files)]
    if sum(given) != 1:
        raise InputError(
            "compare needs exactly one kind of data: tasks (-t, -b), --data FOLDER, or --corpus with --queries and "
            f"--qrels; got {sum(given)} kinds."
        )
    if make is not None:
        if files[0] is None or any(files[1:]) or make < 1:
            raise InputError(
                "--make-queries N needs --corpus, no --queries, no --qrels, and N of at least 1 query, "
                f"got N={make}."
            )
        return [_made(Path(files[0]), make, folder, language)]
    if data is not None:
        return [beir_task(Path(data), splits or ["test"], language=language)]
    if any(files):
        paths = [Path(file) for file in files if file is not None]
        if len(paths) < len(files):
            raise InputError(
                "--corpus, --queries and --qrels belong together: give all three, or --corpus and --make-queries."
            )
        return [files_task(*paths, language=language)]
    wanted = [*tasks, *(t.metadata.name for name in benchmarks for t in mteb.get_benchmark(name).tasks)]
    return [find_task(each, splits) if isinstance(each, str) else each for each in dict.fromkeys(wanted)]


def _made(corpus: Path, n_queries: int, folder: Path, language: str) -> AbsTaskRetrieval:
    """The task with drawn queries. Its files are in the output folder, so that people can read them."""
    queries, relevant = make_queries(read_documents(corpus), n_queries, language=language)
    made = folder / "made-queries"
    make_folder("made-queries", made)
    rows = [
        [json.dumps({"_id": name, "text": text}) for name, text in queries.items()],
        [
            json.dumps({"query-id": query, "corpus-id": document, "score": 1})
            for query, documents in relevant.items()
            for document in documents
        ],
    ]
    paths = [made / "queries.jsonl", made / "qrels.jsonl"]
    for path, lines in zip(paths, rows, strict=True):
        write_file(path, "\n".join(lines) + "\n")
    task = files_task(corpus, *paths, language=language)
    if len(queries) < n_queries:
        task.unjudged["test"].append(f"{len(queries):,} queries were drawn, {n_queries:,} were asked for.")
    return task
