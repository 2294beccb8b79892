"""The head of a report: what was run, when, with which versions, and the conclusions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from mteb_longembed.reports.scores.base_groups import group_by_base, labels, shortened
from mteb_longembed.reports.scores.public_results import PublicResults
from mteb_longembed.reports.scores.published_numbers import COLUMNS
from mteb_longembed.reports.scores.results import Result
from mteb_longembed.reports.scores.scoreboard import AVERAGE, Line
from mteb_longembed.reports.tables.paper_tables import data_words
from mteb_longembed.reports.tables.public_ranking import n_mismatches
from mteb_longembed.reports.tables.table import rounded
from mteb_longembed.statistics.intervals import Interval


@dataclass(frozen=True)
class Overview:
    """The head of a report: pairs of a title and a fact, and the conclusions in sentences."""

    facts: tuple[tuple[str, str], ...]
    conclusions: tuple[str, ...]


def overview(
    results: Sequence[Result], lines: Sequence[Line], *, written: str, public: PublicResults | None = None
) -> Overview:
    """Make the head."""
    facts = [("Written", written)]
    if results:
        names = sorted({shortened(row.model.name.full) for row in results})
        tasks = sorted({row.task for row in results})
        facts += [
            ("Models", f"{len(names)}: {_listed(names)}"),
            ("Tasks", f"{len(tasks)}: {_listed(tasks, 20)}"),
            ("Run", _days(row.date for row in results)),
            ("mteb", ", ".join(sorted({row.mteb_version for row in results} - {""})) or "unknown"),
            ("Model revisions", str(len({row.model.revision for row in results}))),
        ]
    conclusions = [*_best(lines), *_strategies(lines)]
    if public is not None:
        n_public = len(public.lines)
        facts.append(("Public results", f"{n_public} model revisions at {public.commit[:12]}"))
        conclusions.append(
            f"{n_mismatches(public)} of {n_public} public rows score as if the model had read far fewer or far more "
            "tokens than it advertises (marked ‡): compare these with care."
        )
    none = "There are too few whole scores to conclude anything."
    return Overview(tuple(facts), tuple(conclusions or [none]))


def _best(lines: Sequence[Line]) -> list[str]:
    """For each kind of data, the complete model with the highest average, and how many models are not complete."""
    sentences = []
    names = labels(line.model for line in lines)
    for data in dict.fromkeys(line.data for line in lines):
        members = [line for line in lines if line.data == data]
        averages = [
            (line.average.complete.mean, names[line.model]) for line in members if line.average.complete
        ]
        ranked = sorted(averages, key=lambda pair: -pair[0])
        what = data_words(data, "data")
        if len(ranked) > 1:
            (first, best), (second, next_best) = ranked[:2]
            sentences.append(
                f"On {what}, {best} has the highest average of {len(ranked)} complete models: "
                f"{rounded(first)}, {rounded(first - second)} points before {next_best}."
            )
        if n_partial := len(members) - len(ranked):
            models = "model has" if n_partial == 1 else "models have"
            sentences.append(f"On {what}, {n_partial} {models} only a part of the tasks and no average.")
    return sentences


def _strategies(lines: Sequence[Line]) -> list[str]:
    """The best strategy of every base, by the average, or else by the first column with whole scores."""
    sentences = []
    for group in group_by_base(lines):
        if group.line is None:
            continue
        for key in (AVERAGE, *(column.key for column in COLUMNS)):
            base = group.line.score(key).complete
            scored = [(interval, line) for line in group.variants if (interval := line.score(key).complete)]
            if base is None or not scored:
                continue
            best, line = max(scored, key=lambda pair: pair[0].mean)
            target = f"@{line.model.name.target_len}" if line.model.name.target_len else ""
            of = f"of {len(scored)} extensions, " if len(scored) > 1 else ""
            sentences.append(
                f"{group.label}, {data_words(group.data, 'data')}: {of}{group.name(line)}{target} has "
                f"the best {key}, {rounded(best.mean - base.mean):+f} points over the base{_certainty(best, base)}."
                + (f" {group.warning}" if group.warning else "")
            )
            break
    return sentences


def _certainty(best: Interval, base: Interval) -> str:
    if not best.is_known or not base.is_known:
        return "; without the scores of single queries (--predictions) we cannot say how sure this is"
    if best.low > base.high:
        return "; the 95 % intervals do not overlap"
    return "; the 95 % intervals overlap: mteb-longembed compare tests it"


def _days(dates: Iterable[str]) -> str:
    known = sorted({date for date in dates if date})
    if not known:
        return "the result files have no date"
    return known[0] if len(known) == 1 else f"{known[0]} to {known[-1]}"


def _listed(names: Sequence[str], n: int = 8) -> str:
    return ", ".join(names[:n]) + (f" and {len(names) - n} more" if len(names) > n else "")
