"""`mteb-longembed compare`: which way of embedding long documents is best for a model and data, at what cost."""

from __future__ import annotations

import argparse
import json
import logging
import re
import sys
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mteb_longembed.errors import InputError

if TYPE_CHECKING:
    from mteb.abstasks.retrieval import AbsTaskRetrieval

    from mteb_longembed.comparing.candidates import Candidate

_TIME = re.compile(r"(?P<number>[0-9]+(?:\.[0-9]+)?)(?P<unit>[smh]?)")
_SECONDS = {"s": 1.0, "m": 60.0, "h": 3600.0, "": 60.0}
_QUERIES = 200


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of the sub-command."""
    parser.description = (
        "Run all ways of embedding long documents that fit a model, on the same data. The answer says which one is "
        "best, which one is nearly as good but cheaper, and what to type next. Results are ordinary mteb results. If "
        "the command was interrupted, the same command continues from there."
    )
    parser.epilog = (
        "examples: mteb-longembed compare mini-rope -t LongEmbedPasskey --eval-splits test_512 test_2048;  "
        "mteb-longembed compare ./my-model --corpus docs.jsonl --queries questions.jsonl --qrels qrels.tsv"
    )
    parser.add_argument("models", nargs="+", metavar="MODEL", help="bases: an alias, a hub id, a folder")
    data = parser.add_argument_group("data")
    data.add_argument("-t", "--tasks", nargs="+", default=[], metavar="TASK", help="retrieval tasks of mteb")
    data.add_argument(
        "-b",
        "--benchmarks",
        nargs="+",
        default=[],
        metavar="NAME",
        help="benchmarks of mteb, such as LongEmbed+",
    )
    data.add_argument("--eval-splits", nargs="+", metavar="SPLIT", help="only these splits of the tasks")
    data.add_argument(
        "--data", type=Path, metavar="FOLDER", help="a folder in BEIR's layout, or of the datasets library"
    )
    rows = "with an id and text: JSON Lines, CSV, TSV or Parquet"
    data.add_argument("--corpus", type=Path, metavar="FILE", help=f"documents {rows}")
    data.add_argument("--queries", type=Path, metavar="FILE", help=f"queries {rows}")
    data.add_argument(
        "--qrels",
        type=Path,
        metavar="FILE",
        help="query id, document id and score: the same formats, or TREC's",
    )
    data.add_argument(
        "--language",
        default="eng-Latn",
        metavar="CODE",
        help="the language of your own files, such as deu or zho-Hans; BM25 cuts words by it (default: eng-Latn)",
    )
    data.add_argument(
        "--metric",
        nargs="+",
        default=[],
        metavar="METRIC",
        help="such as nDCG@10 R@100 RR@10; the first one ranks (default: the task's main score)",
    )
    data.add_argument(
        "--make-queries",
        nargs="?",
        type=int,
        const=_QUERIES,
        metavar="N",
        help=f"only with --corpus: draw N sentences of the documents as queries (default: {_QUERIES}); they only "
        "approximate real queries",
    )
    who = parser.add_argument_group("candidates")
    who.add_argument(
        "--strategies", type=_keys, metavar="KEY,KEY,...", help="only these (default: all that fit)"
    )
    who.add_argument(
        "--target", metavar="TOKENS", help="the target length (default: 8 times the trained length)"
    )
    who.add_argument("--no-bm25", action="store_true", help="leave out BM25 and the fusion with BM25")
    run = parser.add_argument_group("run")
    run.add_argument(
        "--budget",
        type=_budget,
        metavar="TIME",
        help="such as 20m, 90s or 2h: skip everything that would take longer",
    )
    run.add_argument("--device", help="cpu, cuda, cuda:1, mps, ... (default: the best of this machine)")
    out = parser.add_argument_group("output")
    out.add_argument(
        "--output-folder", type=Path, default=Path("results"), metavar="DIR", help="(default: results)"
    )
    out.add_argument("--figures", type=Path, metavar="DIR", help="write the figures as PNG and SVG")
    out.add_argument("--json", action="store_true", help="print only JSON")


def main(args: argparse.Namespace) -> int:
    """Compare, print and write; return the exit status.

    Raises:
        InputError: if models, tasks or options do not go together.
    """
    from mteb_longembed.reports.files import make_folder, write_file

    folder: Path = args.output_folder
    make_folder("--output-folder", folder)
    _be_quiet()
    from mteb_longembed.comparing import tables
    from mteb_longembed.comparing.comparison import compare
    from mteb_longembed.reports.writers.terminal import show
    from mteb_longembed.tasks.scoring import read_metric

    metrics = [read_metric(text) for text in args.metric]
    candidates = _candidates(args)
    tasks, proxy, counted = _tasks(args)

    def say(sentence: str) -> None:
        print(sentence, file=sys.stderr)

    found = compare(
        candidates,
        tasks,
        args.output_folder,
        budget=args.budget,
        device=args.device,
        fuse=not args.no_bm25,
        proxy=proxy,
        metrics=metrics,
        counted=counted,
        show=not args.json,
        say=say,
    )
    write_file(folder / "compare.json", tables.as_json(found))
    pictures = _pictures(found, say, asked=args.figures is not None)
    write_file(folder / "compare.html", tables.page(found, pictures))
    for picture in pictures if args.figures else ():
        picture.save(args.figures)
    if args.json:
        print(tables.as_json(found), end="")
        return 0
    from rich.console import Console

    show([t for t in (tables.ranking_table(found), tables.split_table(found)) if t is not None], Console())
    for sentence in found.recommendation.sentences:
        print(sentence)
    for sentence in found.skipped:
        print(f"Skipped because of the budget: {sentence}")
    if found.tokens_shared:
        print(
            f"Encoded {found.tokens_encoded:,} tokens; the embeddings of {found.tokens_shared:,} more were known "
            "already, from other candidates or earlier runs."
        )
    print(f"Written: {folder / 'compare.html'}, {folder / 'compare.json'}, and mteb's results in {folder}.")
    return 0


def _be_quiet() -> None:
    """Switch off the libraries' progress bars, and warnings about their own code. Our own bar is enough."""
    import datasets
    from transformers.utils.logging import disable_progress_bar

    datasets.disable_progress_bars()
    disable_progress_bar()
    warnings.filterwarnings("ignore", category=FutureWarning, module="mteb")
    # the table says how much each candidate reads
    logging.getLogger("mteb_longembed.encoders.engine.reading").setLevel(logging.ERROR)


def _candidates(args: argparse.Namespace) -> list[Candidate]:
    from mteb_longembed.comparing.candidates import BM25, Candidate, candidates_of

    found = [each for model in args.models for each in candidates_of(model, args.strategies, args.target)]
    if not args.no_bm25:
        found.append(Candidate(BM25, ""))
    return list(dict.fromkeys(found))


def _tasks(args: argparse.Namespace) -> tuple[list[AbsTaskRetrieval], bool, list[str]]:
    """The tasks to run, whether the queries were drawn from the documents, and what is missing of those."""
    from mteb_longembed.tasks.beir import beir_task, files_task

    files = [args.corpus, args.queries, args.qrels]
    given = [bool(args.tasks or args.benchmarks), args.data is not None, any(files)]
    if sum(given) != 1:
        raise InputError(
            "compare needs exactly one kind of data: tasks (-t, -b), --data FOLDER, or --corpus with --queries and "
            f"--qrels; got {sum(given)} kinds."
        )
    if args.make_queries is not None:
        if args.corpus is None or args.queries or args.qrels or args.make_queries < 1:
            raise InputError(
                "--make-queries N needs --corpus, no --queries, no --qrels, and N of at least 1 query, "
                f"got N={args.make_queries}."
            )
        task, counted = _made(args.corpus, args.make_queries, args.output_folder, args.language)
        return [task], True, counted
    if args.data is not None:
        return [beir_task(args.data, args.eval_splits or ["test"], language=args.language)], False, []
    if any(files):
        if not all(files):
            raise InputError(
                "--corpus, --queries and --qrels belong together: give all three, or --corpus and --make-queries."
            )
        return [files_task(*files, language=args.language)], False, []
    return _named(args.tasks, args.benchmarks, args.eval_splits), False, []


def _named(
    names: Sequence[str], benchmarks: Sequence[str], splits: Sequence[str] | None
) -> list[AbsTaskRetrieval]:
    import mteb

    from mteb_longembed.tasks.diagnose import find_task

    names = [*names, *(t.metadata.name for name in benchmarks for t in mteb.get_benchmark(name).tasks)]
    return [find_task(name, splits) for name in dict.fromkeys(names)]


def _made(corpus: Path, n_queries: int, folder: Path, language: str) -> tuple[AbsTaskRetrieval, list[str]]:
    """The task with drawn queries. Its files are in the output folder, so that people can read them."""
    from mteb_longembed.comparing.made_queries import make_queries
    from mteb_longembed.reports.files import make_folder, write_file
    from mteb_longembed.tasks.beir import files_task
    from mteb_longembed.tasks.reading import read_documents

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
    counted = (
        []
        if len(queries) == n_queries
        else [f"{len(queries):,} queries were drawn, {n_queries:,} were asked for."]
    )
    return files_task(corpus, *paths, language=language), counted


def _pictures(found: Any, say: Any, *, asked: bool) -> list[Any]:
    from mteb_longembed.comparing import tables

    try:
        return tables.drawings(found)
    except InputError as error:  # matplotlib is an extra
        if asked:
            raise
        say(f"The page has no figures: {error}")
        return []


def _keys(text: str) -> list[str]:
    return [key.strip() for key in text.split(",") if key.strip()]


def _budget(text: str) -> float:
    match = _TIME.fullmatch(text)
    if match is None or float(match["number"]) == 0:
        raise argparse.ArgumentTypeError(f"expected a time such as 20m, 90s or 2h, got {text!r}")
    return float(match["number"]) * _SECONDS[match["unit"]]
