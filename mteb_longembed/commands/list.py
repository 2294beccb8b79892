"""Strategies, presets, aliases of models, and tasks."""

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from itertools import chain

from tabulate import tabulate  # type: ignore[import-untyped]

from mteb_longembed.commands import JSON

#: The text of a section, and its data for JSON.
Part = tuple[str, Sequence[Mapping[str, object]]]


def main(args: argparse.Namespace) -> int:
    """Print one section or all."""
    chosen = {name: part() for name, part in _PARTS.items() if args.what in (None, name)}
    if args.json:
        print(json.dumps({name: data for name, (_, data) in chosen.items()}, indent=2))
    else:
        print("\n\n".join(text for text, _ in chosen.values()))
    return 0


def strategies() -> Part:
    """Return every strategy with its parameters, their defaults and their meaning."""
    from dataclasses import fields

    from mteb_longembed.encoders.method import BM25_SETTINGS, MODEL_SETTINGS, SEARCH_SETTINGS, SETTINGS
    from mteb_longembed.encoders.strategies import STRATEGIES
    from mteb_longembed.values import spell

    lines = ["Strategies, for names such as e5-base+ntk@4096:logn=off"]
    data: list[dict[str, object]] = []
    for key, strategy in STRATEGIES.items():
        title = (sys.modules[strategy.__module__].__doc__ or "").strip().partition("\n")[0]
        defaults = {one.name: one.default for one in fields(strategy) if one.name in strategy.declared()}
        lines.append(f"  {key:<10}{title}")
        meaning = {field.name: field.metadata.get("help", "") for field in fields(strategy)}
        for name, default in defaults.items():
            text = ""
            if default is not None:
                text = spell(default)
            lines.append(f"  {'':<12}{f'{name}={text}':<20}{meaning[name]}")
        parameters = {name: str(default) for name, default in defaults.items()}
        data.append({"strategy": key, "title": title, "parameters": parameters})
    parts = {
        "Settings of every model": MODEL_SETTINGS,
        "Settings of a search with it (docs/adapt.md)": SEARCH_SETTINGS,
        "Settings of bm25 and MODEL+lexical": BM25_SETTINGS,
    }
    for title, settings in parts.items():
        lines.append(title)
        lines += [f"  {f'{name}=':<22}{SETTINGS[name]}" for name in settings]
    return "\n".join(lines), data


def presets() -> Part:
    """Return every preset with its full name."""
    from mteb_longembed.presets import LEXICAL, LEXICAL_MEANING, PRESET_STRATEGY, PRESET_TARGET, PRESETS

    data = []
    for key, preset in PRESETS.items():
        full = f"MODEL+{PRESET_STRATEGY}@{PRESET_TARGET}:{preset.settings}"
        data.append({"preset": f"MODEL+{key}", "full name": full, "what it does": preset.meaning})
    data.append({"preset": f"MODEL+{LEXICAL}", "full name": "", "what it does": LEXICAL_MEANING})
    return f"Presets, which take a target and settings too, such as MODEL+hybrid@8k\n{_table(data)}", data


def models() -> Part:
    """Return every alias with its model."""
    from mteb_longembed.zoo import ZOO

    data = []
    for alias, entry in ZOO.items():
        facts = {
            "trained_len": entry.trained_len,
            "shipped": bool(entry.folder),
            "run_by_mteb": entry.source == "mteb",
        }
        data.append({"alias": alias, "model": entry.hub_id, **facts})
    return (
        "Models: these aliases, any name that mteb knows, hub id or folder. Only those shipped with this package were\n"
        f"run with their real weights by us, the others with small random ones.\n{_table(data)}"
    ), data


def tasks() -> Part:
    """Return all our tasks and benchmarks."""
    from mteb_longembed.tasks.benchmark import make_benchmarks

    benchmarks = make_benchmarks()
    known = [task.metadata for task in chain.from_iterable(benchmark.tasks for benchmark in benchmarks)]
    data = [{"task": one.name, "score": one.main_score, "splits": list(one.eval_splits)} for one in known]
    rows = [{**row, "splits": ", ".join(one.eval_splits)} for row, one in zip(data, known, strict=True)]
    names = " and ".join(benchmark.name for benchmark in benchmarks)
    return f"Tasks, together the benchmarks {names}\n{_table(rows)}\nVariants: docs/tasks.md", data


_PARTS = {part.__name__: part for part in (strategies, presets, models, tasks)}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of this command."""
    parser.add_argument("what", nargs="?", choices=tuple(_PARTS), help="only this part (default: all)")
    parser.add_argument("--json", action="store_true", help=JSON)


def _table(rows: Sequence[Mapping[str, object]]) -> str:
    """Format rows as lines with columns of equal width."""
    lines = tabulate(rows, "keys", "plain", numalign="left").splitlines()
    return "\n".join(f"  {line}" for line in lines)
