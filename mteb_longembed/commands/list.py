"""`mteb-longembed list`: strategies, models and tasks, read from the registries."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from mteb_longembed.commands import JSON, Options
from mteb_longembed.errors import InputError

_OF_EVERY_NAME = {
    "vectors": "content tokens for each vector, or window: one for each window of pcw (default one vector)",
    "max_vectors": "with several vectors, pool those of a document by similarity to at most so many",
    "center": "corpus, or corpus+queries: search subtracts the mean vector of the corpus",
    "fuse": "bm25: search adds the scores of BM25",
    "weight": "the share of the encoder's score in a fused score",
    "index": "ivf: search compares a part of the vectors, through FAISS; flat: all of them, through FAISS",
}


def main(args: argparse.Namespace) -> int:
    """Print one part or all parts; return the exit status."""
    if args.model is not None:
        if args.what != "fit":
            raise InputError(
                f"a model can only follow fit, got {args.what} {args.model}: write mteb-longembed list fit MODEL."
            )
        from mteb_longembed.comparing.candidates import fitting

        print(fitting(args.model))
        return 0
    chosen = [args.what] if args.what else list(_PARTS)
    if args.json:
        print(json.dumps({part: _PARTS[part][1]() for part in chosen}, indent=2))
        return 0
    print("\n\n".join(_PARTS[part][0]() for part in chosen))
    return 0


def strategies() -> str:
    """Every strategy with its parameters, their defaults and their meaning."""
    from dataclasses import fields

    from mteb_longembed.encoders.strategies import STRATEGIES
    from mteb_longembed.names.parameters import spell

    lines = ["Strategies, for names such as e5-base+ntk@4096:logn=off"]
    for key, kind in STRATEGIES.items():
        lines.append(f"  {key:<10}{_title(kind)}")
        meaning = {f.name: f.metadata.get("help", "") for f in fields(kind)}
        for name, default in kind.parameters().items():
            shown = "" if default is None else spell(default)
            lines.append(f"  {'':<12}{f'{name}={shown}':<20}{meaning[name]}")
    lines.append(f"  {'any':<10}Parameters that every name takes (docs/windows.md).")
    for name, text in _OF_EVERY_NAME.items():
        lines.append(f"  {'':<12}{f'{name}=':<20}{text}")
    return "\n".join(lines)


def models() -> str:
    """Every alias with its model."""
    rows = [("alias", "model", "trained on", "")]
    for each in _model_data():
        length = f"{each['trained_len']:,} tokens" if each["trained_len"] else ""
        note = (
            "shipped with this package" if each["shipped"] else "run by mteb" if each["run_by_mteb"] else ""
        )
        rows.append((each["alias"], each["model"], length, note))
    return (
        "Models: these aliases, any name that mteb knows, hub id or folder. Only those shipped with this package were\n"
        f"run with their real weights by us, the others with small random ones.\n{_table(rows)}"
    )


def tasks() -> str:
    """All our tasks and benchmarks."""
    from mteb_longembed.tasks.benchmark import NAME, QUICK_NAME, WIDER_NAME, WIDER_TASKS

    rows = [("task", "score", "splits")]
    for each in _task_data():
        splits = each["splits"]
        shown = f"{splits[0]} ... {splits[-1]}" if len(splits) > 2 else ", ".join(splits)
        rows.append((each["task"], each["score"], shown))
    return (
        f"Tasks, together the benchmark {NAME}\n{_table(rows)}\n"
        f"The benchmark {QUICK_NAME} has a tenth of their queries (TASK-quick). "
        "Variants: docs/tasks.md\n"
        f"The benchmark {WIDER_NAME} has these tasks of mteb: {', '.join(WIDER_TASKS)}"
    )


def fit() -> str:
    """Which strategy fits which family: those that share a hook."""
    from mteb_longembed.encoders.strategies import STRATEGIES

    rows = [("positions", *STRATEGIES)]
    for each in _fit_data():
        rows.append((each["positions"], *("yes" if key in each["strategies"] else "-" for key in STRATEGIES)))
    return "Which strategy fits which models, by the kind of their positions\n" + _table(rows)


def _strategy_data() -> list[dict[str, Any]]:
    from mteb_longembed.encoders.strategies import STRATEGIES

    return [
        {
            "strategy": key,
            "title": _title(kind),
            "parameters": {n: str(v) for n, v in kind.parameters().items()},
        }
        for key, kind in STRATEGIES.items()
    ]


def _model_data() -> list[dict[str, Any]]:
    from mteb_longembed.names.zoo import ZOO

    return [
        {
            "alias": alias,
            "model": entry.hub_id,
            "trained_len": entry.trained_len,
            "shipped": bool(entry.bundled),
            "run_by_mteb": entry.kind == "mteb",
        }
        for alias, entry in ZOO.items()
    ]


def _task_data() -> list[dict[str, Any]]:
    from mteb_longembed.tasks import TASKS

    found = [task.metadata for task in TASKS]
    return [{"task": m.name, "score": m.main_score, "splits": list(m.eval_splits)} for m in found]


def _fit_data() -> list[dict[str, Any]]:
    from mteb_longembed.encoders.families import FAMILIES
    from mteb_longembed.encoders.strategies import STRATEGIES

    # families with the same kind of positions have the same strategies
    families = {family.name: family for family in FAMILIES}
    fits = {name: [k for k, kind in STRATEGIES.items() if each.fits(kind)] for name, each in families.items()}
    return [{"positions": name, "strategies": keys} for name, keys in fits.items()]


#: Part -> its text, and its data for JSON.
_PARTS: dict[str, tuple[Callable[[], str], Callable[[], list[dict[str, Any]]]]] = {
    "strategies": (strategies, _strategy_data),
    "models": (models, _model_data),
    "tasks": (tasks, _task_data),
    "fit": (fit, _fit_data),
}
DESCRIPTION = "Strategies, aliases of models, tasks, and which strategy fits which family of models."
OPTIONS: Options = {"": [
    ("what", {"nargs": "?", "choices": tuple(_PARTS)}, "only this part (default: all)"),
    ("model", {"nargs": "?"}, "only with fit: the strategies that fit this model, best first"),
    JSON,
]}  # fmt: skip


def _title(kind: type) -> str:
    return (sys.modules[kind.__module__].__doc__ or "").strip().partition("\n")[0]


def _table(rows: Sequence[Iterable[str]]) -> str:
    cells = [list(row) for row in rows]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return "\n".join(
        "  " + "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in cells
    )
