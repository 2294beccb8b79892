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
    data.add_argument("--corpus", type=Path, metavar="FILE", help="JSON Lines with an id and text")
    data.add_argument("--queries", type=Path, metavar="FILE", help="JSON Lines with an id and text")
    data.add_argument(
        "--qrels", type=Path, metavar="FILE", help="lines with query id, document id, score and tabs"
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
    _be_quiet()
    candidates = _candidates(args)
    tasks, proxy = _tasks(args)
    from mteb_longembed.comparing import tables
    from mteb_longembed.comparing.comparison import compare
    from mteb_longembed.reports.writers.terminal import show

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
        show=not args.json,
        say=say,
    )
    folder: Path = args.output_folder
    (folder / "compare.json").write_text(tables.as_json(found), encoding="utf-8")
    pictures = _pictures(found, say, asked=args.figures is not None)
    (folder / "compare.html").write_text(tables.page(found, pictures), encoding="utf-8")
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


def _tasks(args: argparse.Namespace) -> tuple[list[AbsTaskRetrieval], bool]:
    """The tasks to run, and whether the queries were drawn from the documents."""
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
        return [_made(args.corpus, args.make_queries, args.output_folder)], True
    if args.data is not None:
        return [beir_task(args.data, *(args.eval_splits or ())[:1])], False
    if any(files):
        if not all(files):
            raise InputError(
                "--corpus, --queries and --qrels belong together: give all three, or --corpus and --make-queries."
            )
        return [files_task(*files)], False
    return _named(args.tasks, args.benchmarks, args.eval_splits), False


def _named(
    names: Sequence[str], benchmarks: Sequence[str], splits: Sequence[str] | None
) -> list[AbsTaskRetrieval]:
    import mteb

    from mteb_longembed.tasks.diagnose import find_task

    names = [*names, *(t.metadata.name for name in benchmarks for t in mteb.get_benchmark(name).tasks)]
    return [find_task(name, splits) for name in dict.fromkeys(names)]


def _made(corpus: Path, n_queries: int, folder: Path) -> AbsTaskRetrieval:
    """The task with drawn queries. Its files are in the output folder, so that people can read them."""
    from mteb_longembed.comparing.made_queries import make_queries
    from mteb_longembed.tasks.beir import files_task, read_corpus

    queries, relevant = make_queries(read_corpus(corpus), n_queries)
    made = folder / "made-queries"
    made.mkdir(parents=True, exist_ok=True)
    lines = [json.dumps({"_id": name, "text": text}, ensure_ascii=False) for name, text in queries.items()]
    (made / "queries.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    judged = [f"{query}\t{document}\t1" for query, documents in relevant.items() for document in documents]
    (made / "qrels.tsv").write_text(
        "query-id\tcorpus-id\tscore\n" + "\n".join(judged) + "\n", encoding="utf-8"
    )
    return files_task(corpus, made / "queries.jsonl", made / "qrels.tsv")


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
