"""The results of earlier runs in one output folder: the scores of each query, rankings, and costs."""

import hashlib
import json
import platform
from collections.abc import Callable, Sequence
from dataclasses import asdict, fields
from importlib.metadata import version
from pathlib import Path

import pandas as pd
import torch

from mteb_longembed.errors import StorageError
from mteb_longembed.evaluation.evaluate import VERSION
from mteb_longembed.evaluation.split import Split
from mteb_longembed.files import make_folder, slug, write_file
from mteb_longembed.names import Identity

from .costs import Cost

#: Folder inside the output folder, with scores by model, revision, split and identity of the data.
SCORES = "scores"


class Cache:
    """Cache of finished results in one output folder.

    The key of scores is the model's name and revision, the hash of the data, the metrics, the rule on identical ids,
    and the version of the evaluation. So a deeper metric never reuses the scores of a shallower one.

    Args:
        folder: the output folder.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        #: The error of the last failed write; empty if every write succeeded.
        self.refused = ""

    def find(self, identity: Identity, split: Split) -> pd.DataFrame | None:
        """Return each query's scores from an earlier run, as `evaluate` returns them; None if there are none."""
        return self._table(self._scores(identity, split))

    def save(self, identity: Identity, split: Split, scores: pd.DataFrame) -> None:
        """Save each query's scores. A failed write is noted in `refused`."""
        self._save_table(self._scores(identity, split), scores)

    def find_passages(self, identity: Identity, split: Split) -> pd.DataFrame | None:
        """Return the passages saved by an earlier run, see `shown_passages`; None if there are none."""
        return self._table(self._passages(identity, split))

    def save_passages(self, identity: Identity, split: Split, passages: pd.DataFrame) -> None:
        """Save passages for the page of a later run."""
        self._save_table(self._passages(identity, split), passages)

    def find_rankings(self, identity: Identity, split: Split) -> pd.DataFrame | None:
        """Return the rankings of a split's queries from earlier runs, see `ranked_rows`; None if one is missing."""
        kept = self._table(self._rankings(identity, split))
        wanted = set(split.judged_queries.values())
        if kept is None or not wanted <= set(kept["query"]):
            return None
        return kept[kept["query"].isin(wanted)]

    def save_rankings(self, identity: Identity, split: Split, rankings: pd.DataFrame) -> None:
        """Save rankings, beside the ones of further queries about the same documents."""
        kept = self._table(self._rankings(identity, split))
        if kept is not None:
            rankings = pd.concat([rankings, kept]).drop_duplicates("query")
        self._save_table(self._rankings(identity, split), rankings)

    def has_rankings(self, split: Split) -> bool:
        """Return whether rankings of the documents of a split are kept, whatever the candidate."""
        return any((self.folder / SCORES).glob(f"*/*/{_rankings_file(split)}"))

    def _table(self, path: Path) -> pd.DataFrame | None:
        """Read a saved table; None if the file is missing, or the checksums of its pages show damage."""
        try:
            return pd.read_parquet(path, page_checksum_verification=True)
        except (OSError, ValueError):  # missing or damaged: computed again
            return None

    def _save_table(self, path: Path, table: pd.DataFrame) -> None:
        self._write(path, table.to_parquet(write_page_checksum=True))

    def _write(self, path: Path, content: bytes | str) -> None:
        make_folder("the folder of scores", path.parent)
        try:
            write_file(path, content)
        except StorageError as error:
            self.refused = str(error)

    def cost(
        self, identity: Identity, splits: Sequence[Split], device: str, measured: Callable[[], Cost]
    ) -> Cost:
        """Return the cost measured by an earlier run on the same data, versions, machine and device, or measure it."""
        machine = (platform.node(), platform.processor(), device, torch.get_num_threads())
        versions = (version("mteb-longembed"), torch.__version__)
        # a cost depends on the documents alone
        data = [split.corpus_digest for split in splits]
        key = _hash(*data, *machine, *versions, *(field.name for field in fields(Cost)))
        path = self._folder(identity) / f"cost-{key}.json"
        try:
            return Cost(**json.loads(path.read_bytes()))
        except (OSError, ValueError, TypeError):  # missing, truncated, or written by another program
            cost = measured()
        self._write(path, json.dumps(asdict(cost)))
        return cost

    def _scores(self, identity: Identity, split: Split) -> Path:
        rule = split.task.ignore_identical_ids
        digest = _hash(split.digest, split.label, *split.metrics, rule, VERSION)
        return self._folder(identity) / f"{slug(split.label[1])}-{digest}.parquet"

    def _passages(self, identity: Identity, split: Split) -> Path:
        return self._scores(identity, split).with_suffix(".passages.parquet")

    def _rankings(self, identity: Identity, split: Split) -> Path:
        return self._folder(identity) / _rankings_file(split)

    def _folder(self, identity: Identity) -> Path:
        return self.folder / SCORES / slug(identity.name) / slug(identity.result_revision)


def _rankings_file(split: Split) -> str:
    return f"rankings-{_hash(split.corpus_digest, VERSION)}.parquet"


def _hash(*parts: object) -> str:
    return hashlib.sha256(" ".join(map(str, parts)).encode()).hexdigest()[:12]
