"""Numbers that must not change: the generated data, QMSum's statistics, and BM25's score on QMSum.

QMSum is not part of this project: `LONGEMBED_QMSUM` names a folder with its `corpus.jsonl`, `queries.jsonl` and
`qrels.jsonl` (also `.jsonl.gz`) from the hub's `dwzhu/LongEmbed`. Without it its test is left out.
"""

import hashlib
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import mteb
import pytest

from mteb_longembed.tasks import LongEmbedNeedle, LongEmbedPasskey, LongEmbedQMSum
from mteb_longembed.tasks.generated.synthetic import LENGTHS, SyntheticRetrieval
from tests.own_data import bm25

PARAPHRASE = type(LongEmbedNeedle.variant(kind="paraphrase", n_queries=100))
#: The splits that revisions cover; longer ones came later.
COVERED = (*LENGTHS, 65536, 131072)
LONGEST = (524288, 1048576)


def content_hash(task: type[SyntheticRetrieval], lengths: Sequence[int]) -> str:
    """Twelve hex digits over these splits' documents, queries and judgements."""
    digest = hashlib.sha256()
    for length in lengths:
        data = task.generate(f"test_{length}")
        for row in data["corpus"]:
            digest.update(f"{row['id']}\t{row['text']}\t{row['depth']}\t{row['n_words']}\n".encode())
        for query in data["queries"]:
            documents = [*data["relevant_docs"][query["id"]]]
            digest.update(f"{query['id']}\t{query['text']}\t{documents}\n".encode())
    return digest.hexdigest()[:12]


@pytest.mark.parametrize(
    ("task", "lengths", "digest"),
    [
        (LongEmbedPasskey, COVERED, "b375e51c72dc"),
        (LongEmbedNeedle, COVERED, "81f4a65fbaa5"),
        (PARAPHRASE, (1024,), "ea85f5df53b0"),
        (LongEmbedPasskey, (262144,), "24bd7719374e"),
        (LongEmbedNeedle, (262144,), "0c86db336985"),
        pytest.param(LongEmbedPasskey, LONGEST, "739ccf1a2af4", marks=pytest.mark.long),
        pytest.param(LongEmbedNeedle, LONGEST, "1162a295adc6", marks=pytest.mark.long),
    ],
)
def test_the_generated_data_are_those_that_results_were_stored_under(task, lengths, digest) -> None:
    """On failure: a change of the data needs another `generator`, another revision, and a line in the changelog."""
    assert content_hash(task, lengths) == digest
    if lengths is COVERED:
        assert task.metadata.revision == f"{task.generator}-{digest}"


def test_the_revision_of_paraphrases_is_that_of_stored_results() -> None:
    assert LongEmbedNeedle.variant(kind="paraphrase").metadata.revision == "g2-d76fd0f708b6"


@pytest.mark.skipif(not os.environ.get("LONGEMBED_QMSUM"), reason="LONGEMBED_QMSUM names no copy of QMSum")
def test_qmsum_has_the_statistics_that_mteb_ships_and_bm25_scores_83_2(tmp_path: Path, monkeypatch) -> None:
    """nDCG@10 in percent, to 0.2 (the paper's BM25: 81.3)."""
    (tmp_path / "qmsum").symlink_to(Path(os.environ["LONGEMBED_QMSUM"]).resolve(), target_is_directory=True)
    monkeypatch.setenv("MTEB_LONGEMBED_DATA", str(tmp_path))
    shipped = mteb.get_task("LEMBQMSumRetrieval").metadata.descriptive_stats["test"]
    monkeypatch.setattr("mteb_longembed.tasks.task_metadata.STATISTICS", tmp_path)
    monkeypatch.setattr(type(LongEmbedQMSum.metadata), "descriptive_stats", None)
    stats: dict[str, Any] = LongEmbedQMSum().calculate_descriptive_statistics(overwrite_results=True)["test"]
    assert (stats["num_documents"], stats["num_queries"]) == (197, 1527)
    for kind in ("documents_text_statistics", "queries_text_statistics"):
        for name in ("min_text_length", "average_text_length", "max_text_length"):
            assert stats[kind][name] == pytest.approx(shipped[kind][name], rel=1e-6), (kind, name)
    assert 100 * bm25(LongEmbedQMSum()).get_score() == pytest.approx(83.2, abs=0.2)
