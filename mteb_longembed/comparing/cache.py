"""What earlier runs have found: each query's scores, and costs, in one output folder."""

import hashlib
import json
import platform
from collections.abc import Callable, Sequence
from dataclasses import asdict, fields
from importlib.metadata import version
from pathlib import Path

import pandas as pd
import torch
from mteb.models import ModelMeta

from mteb_longembed.errors import StorageError
from mteb_longembed.evaluation.evaluate import VERSION
from mteb_longembed.evaluation.split import Split
from mteb_longembed.files import make_folder, slug, write_file
from mteb_longembed.retrieval.scorer import full_name, full_revision

from .costs import Cost

#: Folder inside the output folder, with scores by model, revision, split and identity of the data.
SCORES = "scores"


class Cache:
    """The finished work of one output folder.

    Scores are found by the model's name and revision, the hash of the data, the metrics, the rule on identical ids,
    and the version of the evaluation. So a deeper metric never uses what a shallower one has kept.

    Args:
        folder: where results are.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        #: Why the disk did not keep something; empty if it kept all.
        self.refused = ""

    def find(self, meta: ModelMeta, split: Split) -> pd.DataFrame | None:
        """Return each query's scores from an earlier run, as `evaluate` returns them; None if there are none."""
        return self._table(self._scores(meta, split))

    def keep(self, meta: ModelMeta, split: Split, scores: pd.DataFrame) -> None:
        """Keep each query's scores. If the disk refuses that, it is noted in `refused`."""
        self._keep_table(self._scores(meta, split), scores)

    def find_passages(self, meta: ModelMeta, split: Split) -> pd.DataFrame | None:
        """Return the passages that an earlier run has kept, see `shown_passages`; None if there are none."""
        return self._table(self._passages(meta, split))

    def keep_passages(self, meta: ModelMeta, split: Split, passages: pd.DataFrame) -> None:
        """Keep passages for the same command's page."""
        self._keep_table(self._passages(meta, split), passages)

    def _table(self, path: Path) -> pd.DataFrame | None:
        """Return a table that was kept. Its pages have checksums: a file that is damaged does not count."""
        try:
            return pd.read_parquet(path, page_checksum_verification=True)
        except (OSError, ValueError):  # there is none, or it is made again
            return None

    def _keep_table(self, path: Path, table: pd.DataFrame) -> None:
        self._keep(path, table.to_parquet(write_page_checksum=True))

    def _keep(self, path: Path, content: bytes | str) -> None:
        make_folder("the folder of scores", path.parent)
        try:
            write_file(path, content)
        except StorageError as error:
            self.refused = str(error)

    def cost(
        self, meta: ModelMeta, splits: Sequence[Split], device: str, measured: Callable[[], Cost]
    ) -> Cost:
        """Return the cost measured by an earlier run on the same data, versions, machine and device, or measure it."""
        machine = (platform.node(), platform.processor(), device, torch.get_num_threads())
        versions = (version("mteb-longembed"), torch.__version__)
        data = [split.digest for split in splits]
        place = _hash(*data, *machine, *versions, *(field.name for field in fields(Cost)))
        path = self._folder(meta) / f"cost-{place}.json"
        try:
            return Cost(**json.loads(path.read_bytes()))
        except (OSError, ValueError, TypeError):  # there is none, it is cut off, or another program wrote it
            found = measured()
        self._keep(path, json.dumps(asdict(found)))
        return found

    def _scores(self, meta: ModelMeta, split: Split) -> Path:
        rule = split.task.ignore_identical_ids
        digest = _hash(split.digest, split.label, *split.metrics, rule, VERSION)
        return self._folder(meta) / f"{slug(split.label[1])}-{digest}.parquet"

    def _passages(self, meta: ModelMeta, split: Split) -> Path:
        return self._scores(meta, split).with_suffix(".passages.parquet")

    def _folder(self, meta: ModelMeta) -> Path:
        return self.folder / SCORES / slug(full_name(meta)) / slug(full_revision(meta))


def _hash(*parts: object) -> str:
    return hashlib.sha256(" ".join(map(str, parts)).encode()).hexdigest()[:12]
