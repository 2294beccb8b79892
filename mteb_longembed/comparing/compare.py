"""Compare models and their candidates from Python, on tasks or on your own files."""

import sys
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import fields, replace
from pathlib import Path

from mteb_longembed.data.sources import Data
from mteb_longembed.data.task import OwnData, files_task
from mteb_longembed.encoders.batching import shared_bar
from mteb_longembed.errors import INTERRUPTED, InputError, LongEmbedError, UnknownNameError
from mteb_longembed.evaluation.metrics import read_metric
from mteb_longembed.evaluation.sampling import sampled
from mteb_longembed.evaluation.split import Split, splits_of
from mteb_longembed.files import make_folder, printable
from mteb_longembed.hub import silence
from mteb_longembed.names import Settings
from mteb_longembed.retrieval.scorer import Scorer
from mteb_longembed.zoo import full_base

from .bases import MeasuredBase, measured_base
from .cache import Cache
from .candidates import (
    Candidate,
    bm25_candidates,
    candidates_of,
    free_candidates,
    has_checkpoint,
    is_name,
    of_scorer,
)
from .comparison import Comparison, comparison_of, not_judged, rows_of
from .costs import Lengths, document_lengths
from .equal import without_equals
from .failures import shown_passages
from .judging import Judging
from .labels import short_names
from .live import Display
from .options import Options
from .ranked import Ranked, RunSource, read_run
from .run import Result, Runner
from .schedule import Work, derived_candidates, expected_time, in_order, work_of
from .verdict import Note


def say_on_stderr(sentence: str) -> None:
    """Print a message on standard error, which is above the display of a running comparison."""
    print(printable(sentence), file=sys.stderr)


@silence("mteb_longembed.encoders.batching")  # the table says how much each candidate reads
def compare(
    models: str | Scorer | Sequence[str | Candidate | Scorer] = (),
    data: Data | str | Path | None = None,
    *,
    runs: Mapping[str, RunSource] | None = None,
    show: bool = True,
    on_message: Callable[[str], None] = say_on_stderr,
    **options: object,
) -> Comparison:
    """Compare methods of embedding long documents that fit a model, on the same data, and recommend one.

    Each candidate is loaded once, only one model is in memory, and candidates that differ in pooling share a pass.
    An interrupt (Ctrl-C) returns the finished candidates; the same call resumes from there. Without judgements the
    candidates are only ranked, and `judge()` of the result writes a page that asks for judgements.

    Args:
        models: bases: aliases, hub ids or folders. A full name, with a strategy, is one candidate, and so is a scorer.
        data: a `mteb_longembed.Data`, or a folder in BEIR's layout.
        runs: rankings of other programs by name: TREC run files, dicts, DataFrames or ranx' `Run`. Each is a
            candidate `run/NAME`, whose scores are used exactly as written.
        show: whether to show a progress bar; bars of other libraries are never shown.
        on_message: called with each message for the user.
        options: the fields of `Options`, and, without `data`, the fields of `mteb_longembed.Data`.

    Raises:
        InputError: if models, data or options do not go together.
        DataError: if a file breaks a rule.
        KeyboardInterrupt: if no candidate had finished.
    """
    chosen, data = _read(data, options)
    folder = Path(chosen.output_folder)
    make_folder("--output-folder", folder)
    notes: list[Note] = []
    if data.corpus is not None and data.queries is None:
        return not_judged([], Judging(), [])  # nothing to rank yet
    splits = _prepared(data, chosen, notes)
    cache = Cache(folder)
    asked = _asked(splits, chosen, cache)
    chosen = _with_quick(chosen, asked, splits[0], notes)
    if isinstance(models, str) or not isinstance(models, Iterable):
        models = [models]
    models = [full_base(one) if isinstance(one, str) and not is_name(one) else one for one in models or ()]
    bases = [model for model in models if isinstance(model, str) and has_checkpoint(model)]
    measured = {base: measured_base(base, splits) for base in bases}
    # token counts of the first base stand in for models of mteb's own
    lengths = next((one.lengths for one in measured.values()), None) or document_lengths(splits, None)
    candidates = _of_models(models, chosen, measured, lengths, notes)
    candidates += _of_runs(runs or {}, splits if asked is None else [asked], notes)
    if chosen.bm25:
        expanding = [name for name, one in measured.items() if one.base.family == "dense"]
        candidates += bm25_candidates(lengths.longest, expanding, quick=bool(chosen.quick))
        candidates += free_candidates(candidates) if asked is not None or not chosen.quick else []
    else:
        candidates = [one for one in candidates if one.is_named or one.kind != "fusion"]
    candidates = in_order(list(dict.fromkeys(candidates)))
    for note in notes:
        on_message(note.text)
    if not candidates:
        raise InputError("compare needs at least one candidate, got none.")
    runner = Runner(cache, splits, candidates, chosen.device, asked)

    def leave_out(text: str) -> None:
        notes.append(Note("left out", text))
        on_message(text)

    work = work_of(runner, lengths) if show else {}
    expected = expected_time(runner, work)
    if expected is not None:
        on_message(expected)
    derives = chosen.bm25 and not chosen.quick and splits[0].is_judged
    done, n_left = _run_all(runner, lengths, work, leave_out, bm25=derives, show=show)
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
    comparison = comparison_of(splits, runner, done, notes, n_left=n_left)
    if comparison.is_complete and comparison.is_judged:
        # optional on the page: a model that has become unavailable shows none, and an interrupt ends the search
        with suppress(LongEmbedError, OSError, KeyboardInterrupt):
            passages = shown_passages(comparison, runner, [one.candidate for one in done])
            comparison = replace(comparison, passages=passages)
    runner.free()
    return comparison


def _with_quick(options: Options, asked: Split | None, split: Split, notes: list[Note]) -> Options:
    """Return options that say whether the comparison is quick, as it is by default for judging on a page."""
    if options.quick is not None:
        return options
    if asked is not None and split.is_judged:
        notes.append(
            Note("data", "Only a quick comparison runs, as for judging on a page (--no-quick for all).")
        )
    return replace(options, quick=asked is not None)


def _of_runs(runs: Mapping[str, RunSource], splits: Sequence[Split], notes: list[Note]) -> list[Candidate]:
    """Return the candidates of rankings of other programs; note what they lack."""
    candidates = []
    for name, source in runs.items():
        ranked = Ranked(name, read_run(name, source), splits)
        candidates.append(of_scorer(ranked))
        notes += [Note("data", sentence) for sentence in ranked.missing(splits)]
    return candidates


def _of_models(
    models: Sequence[str | Candidate | Scorer],
    options: Options,
    measured: Mapping[str, MeasuredBase],
    lengths: Lengths,
    notes: list[Note],
) -> list[Candidate]:
    """Return the candidates of bases, full names and scorers; note what does not fit."""
    strategies = _listed(options.strategies)
    if (strategies or options.target is not None) and not measured:
        raise InputError("--strategies and --target need a base, got none: name one, or leave them out.")
    candidates: list[Candidate] = []
    for model in models:
        if isinstance(model, Candidate):
            candidates.append(model)
        elif isinstance(model, str):
            base = measured.get(model)
            of_model, refused = candidates_of(
                model,
                strategies,
                options.target,
                (base.lengths if base else lengths).covering(),
                quick=bool(options.quick),
                plain=base and base.candidate,
            )
            # strategies that the user names run
            if base is not None and not strategies:
                of_model, equal = without_equals(of_model, base.longest)
                refused += equal
            if options.dtype is not None and base is not None:
                of_model = [one.in_type(options.dtype) for one in of_model]
            candidates += of_model
            notes += [Note("left out", text) for text in refused]
        else:
            candidates.append(of_scorer(model))
    return candidates


def _read(data: Data | str | Path | None, keywords: Settings) -> tuple[Options, Data]:
    """Return options and data. Without `data`, its fields are among the keywords."""
    known = {one.name for one in fields(Options)}
    # `compare` takes a folder as `data`
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


def _listed(value: str | Sequence[str] | None) -> list[str]:
    """Return a string or a sequence of strings as a list."""
    if isinstance(value, str):
        return [value]
    return list(value or ())


def _prepared(data: Data, options: Options, notes: list[Note]) -> list[Split]:
    """Load the splits; note missing and unscored data."""
    metrics = [read_metric(text) for text in _listed(options.metric)]
    splits = []
    for task in data.load():
        for split in splits_of(task, metrics, ignore_identical_ids=options.ignore_identical_ids):
            if options.sample is not None and not split.is_judged:
                raise InputError("--sample keeps all judged documents, so it needs --qrels: leave it out.")
            if options.sample is not None:
                split, sentences = sampled(split, options.sample)
                notes += [Note("data", text) for text in sentences]
            splits.append(split)
            notes += [Note("data", text) for text in split.left_out()]
            notes += [Note("caution", text) for text in split.identical_queries()]
    return splits


def _asked(splits: Sequence[Split], options: Options, cache: Cache) -> Split | None:
    """Return the queries whose rankings are kept for judging; None in a comparison that nobody judges on a page."""
    task = splits[0].task
    if not isinstance(task, OwnData) or len(splits) > 1:
        if options.judge:
            raise InputError("--judge asks about your own documents: give --corpus and --queries.")
        return None
    if not options.judge:
        return splits[0] if not splits[0].is_judged or cache.has_rankings(splits[0]) else None
    everything = files_task(task.corpus_source, task.query_source, None, language=task.language)
    (asked,) = splits_of(everything, splits[0].metrics, ignore_identical_ids=options.ignore_identical_ids)
    return asked


def _run_all(
    runner: Runner,
    lengths: Lengths,
    work: Mapping[str, Work],
    leave_out: Callable[[str], None],
    *,
    bm25: bool,
    show: bool,
) -> tuple[list[Result], int]:
    """Run all candidates, and then those derived from the best one.

    Args:
        runner: the runner.
        lengths: the lengths of the documents.
        work: the tokens of each unfinished pass, which the bar counts.
        leave_out: called with the reason why a candidate did not run.
        bm25: whether there are derived candidates.
        show: whether to show a progress bar.

    Returns:
        The finished candidates, and how many an interrupt left out.
    """
    done: list[Result] = []
    begun: set[str] = set(work)
    tokens = Counter({name: of_pass.left for name, of_pass in work.items()})
    display = Display(tokens.total(), show=show)
    waiting = list(runner.candidates)

    def run(candidates: Sequence[Candidate]) -> None:
        """Run candidates. The first one of a pass reads its documents."""
        labels = short_names([*runner.candidates, *candidates])
        new = {one.passes: one for one in candidates if one.resolved is not None and one.passes not in begun}
        new = {name: one for name, one in new.items() if not runner.is_finished(one)}
        for name, one in new.items() if show else ():  # a pass of a derived candidate
            tokens[name] = lengths.read(one.target_len)
            display.total += tokens[name]
        begun.update(new)
        for candidate in candidates:
            display.begin(labels[candidate.id])
            end = display.n + tokens.pop(candidate.passes, 0)
            try:
                done.append(runner.run(candidate))
            except Exception as error:  # whatever the reason, such as an API's rate limit: the others can run
                reason = str(error).partition("\n")[0]
                if not isinstance(error, (LongEmbedError, ImportError, OSError)):
                    reason = f"{type(error).__name__}: {reason}"
                leave_out(f"{candidate.id} is left out: {reason}")
            else:
                if display.is_shown and runner.splits[0].is_judged:
                    display.show_rows(rows_of(done), candidate.id, len(done) + len(waiting) - 1)
            waiting.remove(candidate)
            # the expected tokens are an estimate
            display.total += max(display.n - end, 0)
            display.update(max(end - display.n, 0))

    try:
        with display.shown(), shared_bar(display):
            run(runner.candidates)
            if bm25 and any(one.candidate.kind == "bm25" for one in done):
                waiting += derived_candidates(done, runner.splits, leave_out)
                run(list(waiting))
    except KeyboardInterrupt:
        return done, len(waiting)
    return done, 0
