"""How much should a fusion trust words on these queries? A curve, and whether another value than its own is better."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from operator import itemgetter

import pandas as pd

from mteb_longembed.evaluation.evaluate import TRUST
from mteb_longembed.statistics.resampling import LEAST_GROUPS, Interval

from .summary import resamples_of

#: What the choice of the other groups of queries is called among the values.
_CHOSEN = "chosen"


@dataclass(frozen=True)
class Trust:
    """What the best fusion would score with another trust in words.

    Args:
        candidate: its id.
        label: what tables call it.
        own: its trust: what words count beside an encoder.
        curve: its score with each trust, in percent.
        gain: the points that the best trust on all other groups of queries gains on each, against its own.
        better: the best trust, if that gain is surely above 0; else None.
    """

    candidate: str
    label: str
    own: float
    curve: dict[float, float]
    gain: Interval
    better: float | None

    @property
    def sentence(self) -> str:
        """What follows, in one line."""
        gained = (
            f"chosen by the other groups of queries, it gains {self.gain.mean:+.1f} points (95 % interval "
            f"{self.gain.low:+.1f} to {self.gain.high:+.1f})"
        )
        if self.better is None:
            return f"Trust in words of {self.label}: its value, {self.own:g}, is within the spread; {gained}."
        return f"Trust in words of {self.label}: {self.better:g} is better than {self.own:g}; {gained}."


def best_trust(scores: pd.DataFrame, labels: Mapping[str, str]) -> Trust | None:
    """The curve of the fusion with the highest score; None without a fusion, or with too few groups of queries.

    Each value of the curve is a plain score, and only the choice between them could be fitted to the queries. So it is
    scored by leaving groups out.

    Args:
        scores: of all candidates, as `evaluate` makes them.
        labels: what tables call candidates, by their ids.
    """
    if TRUST not in scores:
        return None
    known = scores.dropna(subset=TRUST)
    means = resamples_of(known, list(known["candidate"].unique())).means
    candidate = max(means, key=means.__getitem__)
    rows = known[known["candidate"] == candidate]
    own = float(rows[TRUST].iloc[0])
    values = {}
    for name in rows.columns[rows.columns.str.startswith(f"{TRUST}=") & rows.notna().all()]:
        values[name] = float(name.removeprefix(f"{TRUST}="))
    samples = resamples_of(
        pd.concat(rows.assign(candidate=name, score=rows[name]) for name in values), list(values)
    )
    if samples.n_groups < LEAST_GROUPS:
        return None
    default = f"{TRUST}={own:g}"
    gain = samples.chosen_by_others(_CHOSEN, default).difference(default, _CHOSEN).scaled(100)
    # of equal ones its own
    best = max(values, key=lambda name: (round(samples.means[name], 9), name == default))
    curve = {value: 100 * samples.means[name] for name, value in sorted(values.items(), key=itemgetter(1))}
    better = None
    if gain.low > 0 and best != default:
        better = values[best]
    return Trust(candidate, labels[candidate], own, curve, gain, better)
