"""The head of a report's page: what was run, when and with which versions."""

from __future__ import annotations

from collections.abc import Sequence

from mteb_longembed.reports.scores.base_groups import shortened
from mteb_longembed.reports.scores.public_results import PublicResults
from mteb_longembed.reports.scores.results import Result
from mteb_longembed.reports.tables.public_ranking import n_mismatches


def overview(
    results: Sequence[Result], public: PublicResults | None = None
) -> tuple[list[tuple[str, str]], list[str]]:
    """What a page says at its head.

    Args:
        results: one's own results.
        public: the public results, if they are shown.

    Returns:
        Pairs of a title and a fact, and sentences with conclusions.
    """
    facts = []
    conclusions = []
    if results:
        names = sorted({shortened(row.model.name.full) for row in results})
        tasks = sorted({row.task for row in results})
        days = sorted({row.date for row in results} - {""}) or ["the result files have no date"]
        facts += [
            ("Models", f"{len(names)}: {_listed(names, 8)}"),
            ("Tasks", f"{len(tasks)}: {_listed(tasks, 20)}"),
            ("Run", " to ".join(dict.fromkeys((days[0], days[-1])))),
            ("mteb", ", ".join(sorted({row.mteb_version for row in results} - {""})) or "unknown"),
            ("Model revisions", str(len({row.model.revision for row in results}))),
        ]
    if public is not None:
        n_public = len(public.lines)
        facts.append(("Public results", f"{n_public} model revisions at {public.commit[:12]}"))
        conclusions.append(
            f"{n_mismatches(public)} of {n_public} public rows score as if the model had read far fewer or far more "
            "tokens than it advertises (marked ‡): compare these with care."
        )
    return facts, conclusions


def _listed(names: Sequence[str], n: int) -> str:
    """The first names, and how many more there are."""
    listed = ", ".join(names[:n])
    if len(names) > n:
        listed += f" and {len(names) - n} more"
    return listed
