"""Training data for tuning: anchor, positive, hard negatives, and perhaps the scores of a re-ranker."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import cast

import numpy as np
from datasets import Dataset, load_dataset, load_from_disk

from mteb_longembed.errors import DataError, HubError

FORMATS = (".jsonl", ".json", ".gz", ".csv", ".parquet")
ANCHOR = ("anchor", "query", "question")
SCORES = ("scores", "score", "labels", "label")


def open_data(data: str | Path | Dataset) -> Dataset:
    """A dataset from a local file (JSON lines, CSV, Parquet), a folder of such files, or the hub."""
    if isinstance(data, Dataset):
        return data
    path = Path(data)
    if not path.exists() and (path.suffix in FORMATS or str(data).count("/") != 1):
        raise DataError(
            f"training data must be an existing file or folder, or a hub id, got {data}, which does not exist."
        )
    try:
        if (path / "dataset_info.json").exists() or (path / "dataset_dict.json").exists():
            loaded = load_from_disk(str(path))
        elif path.is_dir():
            files = sorted(file.name for file in path.iterdir() if file.suffix in FORMATS)
            loaded = load_dataset(str(path), data_files=files or None)
        elif path.is_file():
            loaded = load_dataset(str(path.parent), data_files=path.name)
        else:
            loaded = load_dataset(str(data))
    except Exception as error:
        kind, where = (DataError, "") if path.exists() else (HubError, " from the hub")
        raise kind(f"the training data in {data} cannot be read{where}: {error}.") from error
    if isinstance(loaded, Dataset):
        return loaded
    if "train" not in loaded:
        raise DataError(f"training data must have a split named train, got {', '.join(loaded)} in {data}.")
    return loaded["train"]


def prepare_data(data: Dataset, n_negatives: int, seed: int) -> Dataset:
    """The columns `anchor, positive, negative_1 .. negative_n`, and `scores` if the data have them.

    If a row has too few negatives, the others are positives of other rows, drawn with `seed`. If there are scores,
    nothing is drawn, because the re-ranker has given no score to such pairs.
    """
    columns = data.column_names
    anchor = next((c for c in ANCHOR if c in columns), None)
    if anchor is None or "positive" not in columns:
        raise DataError(
            "training data must have the columns anchor and positive (negative_1, ... and scores are optional), "
            f"got {', '.join(columns) or 'none'}."
        )
    if not len(data):
        raise DataError("training data must have at least one row, got none.")
    scores = next((c for c in SCORES if c in columns), None)
    negatives = [column for column in columns if re.fullmatch(r"negative(_?\d+)?", column)]
    negatives = sorted(negatives, key=lambda column: int(re.sub(r"\D", "", column) or 0))[:n_negatives]
    wanted = len(negatives) if scores else n_negatives
    if scores and not negatives:
        raise DataError(
            "training data with scores must have a column negative_1, got none: add it, or leave out the scores."
        )
    positives = data["positive"]

    def row(given: dict[str, object], index: int) -> dict[str, object]:
        texts = {"anchor": given[anchor], "positive": given["positive"]}
        for column, text in texts.items():
            if not isinstance(text, str) or not text.strip():
                raise DataError(f"row {index + 1} must have a text in {column}, got {text!r}.")
        out = [str(text) for text in texts.values()]
        for column in negatives:
            text = given[column]
            if isinstance(text, str) and text.strip():
                out.append(text)
            elif scores or not (text is None or isinstance(text, str)):
                raise DataError(f"row {index + 1} must have a text in {column}, got {text!r}.")
        out += _drawn(positives, set(out), 2 + wanted - len(out), np.random.default_rng([seed, index]))
        names = ["anchor", "positive", *(f"negative_{k + 1}" for k in range(wanted))]
        new: dict[str, object] = dict(zip(names, out, strict=True))
        if scores:
            new["scores"] = _checked_scores(cast("Sequence[float]", given[scores]), 1 + wanted, index)
        return new

    return data.map(
        row, with_indices=True, remove_columns=columns, load_from_cache_file=False, desc="Negatives"
    )


def _drawn(positives: Sequence[object], taken: set[str], count: int, rng: np.random.Generator) -> list[str]:
    """`count` different positives that are not in `taken`."""
    out: list[str] = []
    tries = 0
    while len(out) < count:
        text = positives[int(rng.integers(len(positives)))]
        tries += 1
        if text not in taken and isinstance(text, str) and text.strip():
            out.append(text)
            taken.add(text)
        elif tries > 100 * count:
            raise DataError(
                f"training data must have enough different positives to draw {count} negatives for each row, "
                f"got {len(positives)} rows: give more rows, more negatives or a smaller n_negatives."
            )
    return out


def _checked_scores(scores: Sequence[float], count: int, index: int) -> list[float]:
    try:
        values = [float(score) for score in scores[:count]]
    except (TypeError, ValueError):
        values = []
    if len(values) != count or not all(np.isfinite(values)):
        raise DataError(
            f"row {index + 1} must have {count} finite scores, one for the positive and each negative, "
            f"got {scores!r}."
        )
    return values
