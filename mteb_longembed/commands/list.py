"""`mteb-longembed list`: strategies, models and tasks, read from the registries."""

import argparse
import json
import sys
from collections.abc import Mapping, Sequence

from mteb_longembed.commands import JSON, Options

#: The text of a part, and its data for JSON.
Part = tuple[str, Sequence[Mapping[str, object]]]

_OF_EVERY_NAME = {
    "vectors": "content tokens for each vector, or window: one for each window of pcw (default one vector)",
    "fuse": "words: search adds the evidence of words to that of vectors",
    "trust": "what the evidence of words counts in a fused score (1)",
    "temperature": "what scores of vectors are divided by; default: their spread in the corpus",
    "weights": "sif or idf: each token counts by its rarity in the corpus that is searched (docs/adapt.md)",
    "whiten": "0 to 1: a map from mean and covariance of the corpus' vectors (0.5 is half of full whitening)",
    "query": "sentences: each sentence of a query is asked on its own, and the score is their mean",
    "score": "softmax: all vectors of a document count, and not only the best one (max, the default)",
    "neighbours": "only in bm25:window=200,neighbours=MODEL: words that are near by a model match too",
    "rerank": "only beside neighbours: the windows of the first N documents by words count too (rerank=50)",
}


def main(args: argparse.Namespace) -> int:
    """Print one part or all parts."""
    chosen = {name: part() for name, part in _PARTS.items() if args.what in (None, name)}
    if args.json:
        print(json.dumps({name: data for name, (_, data) in chosen.items()}, indent=2))
    else:
        print("\n\n".join(text for text, _ in chosen.values()))
    return 0


def strategies() -> Part:
    """Every strategy with its parameters, their defaults and their meaning."""
    from dataclasses import fields

    from mteb_longembed.encoders.strategies import STRATEGIES
    from mteb_longembed.names import spell

    lines = ["Strategies, for names such as e5-base+ntk@4096:logn=off"]
    data: list[dict[str, object]] = []
    for key, kind in STRATEGIES.items():
        title = (sys.modules[kind.__module__].__doc__ or "").strip().partition("\n")[0]
        defaults = {name: getattr(kind, name) for name in kind.declared()}
        lines.append(f"  {key:<10}{title}")
        meaning = {field.name: field.metadata.get("help", "") for field in fields(kind)}
        for name, default in defaults.items():
            text = ""
            if default is not None:
                text = spell(default)
            lines.append(f"  {'':<12}{f'{name}={text}':<20}{meaning[name]}")
        parameters = {name: str(default) for name, default in defaults.items()}
        data.append({"strategy": key, "title": title, "parameters": parameters})
    lines.append(f"  {'any':<10}Parameters that every name takes (docs/search.md).")
    lines += [f"  {'':<12}{f'{name}=':<20}{text}" for name, text in _OF_EVERY_NAME.items()]
    return "\n".join(lines), data


def models() -> Part:
    """Every alias with its model."""
    from mteb_longembed.names import ZOO

    rows = [("alias", "model", "trained on", "note")]
    data = []
    for alias, entry in ZOO.items():
        run_by_mteb = entry.kind == "mteb"
        length = "what its files say"
        note = ""
        if run_by_mteb:
            length = "no limit"
            note = "run by mteb"
        if entry.trained_len:
            length = f"{entry.trained_len:,} tokens"
        if entry.bundled:
            note = "shipped with this package"
        rows.append((alias, entry.hub_id, length, note))
        facts = {"trained_len": entry.trained_len, "shipped": bool(entry.bundled), "run_by_mteb": run_by_mteb}
        data.append({"alias": alias, "model": entry.hub_id, **facts})
    return (
        "Models: these aliases, any name that mteb knows, hub id or folder. Only those shipped with this package were\n"
        f"run with their real weights by us, the others with small random ones.\n{_table(rows)}"
    ), data


def tasks() -> Part:
    """All our tasks and benchmarks."""
    from mteb_longembed.tasks.benchmark import make_benchmarks

    rows = [("task", "score", "splits")]
    data = []
    benchmarks = make_benchmarks()
    for task in [task for benchmark in benchmarks for task in benchmark.tasks]:
        metadata = task.metadata
        splits = list(metadata.eval_splits)
        text = ", ".join(splits)
        if len(splits) > 2:
            text = f"{splits[0]} ... {splits[-1]}"
        rows.append((metadata.name, metadata.main_score, text))
        data.append({"task": metadata.name, "score": metadata.main_score, "splits": splits})
    names = " and ".join(benchmark.name for benchmark in benchmarks)
    return f"Tasks, together the benchmarks {names}\n{_table(rows)}\nVariants: docs/tasks.md", data


_PARTS = {part.__name__: part for part in (strategies, models, tasks)}
DESCRIPTION = "Strategies, aliases of models, and tasks."
OPTIONS: Options = {"": [
    ("what", {"nargs": "?", "choices": tuple(_PARTS)}, "only this part (default: all)"),
    JSON,
]}  # fmt: skip


def _table(rows: Sequence[Sequence[str]]) -> str:
    """Rows as lines with columns of equal width."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for row in rows:
        cells = map(str.ljust, row, widths)
        lines.append("  " + "  ".join(cells).rstrip())
    return "\n".join(lines)
