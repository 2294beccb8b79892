"""A task from local files: which files of a folder are read, and what the task is called."""

import re
from pathlib import Path

import pyarrow
import pyarrow.parquet
import pytest
from datasets import Dataset, DatasetDict

from mteb_longembed.errors import DataError, InputError
from mteb_longembed.tasks.beir import beir_task, files_task
from mteb_longembed.tasks.scoring import data_identity
from tests.data_formats import DOCUMENTS, HEADING, JUDGED, QUERY_ROWS, content, json_lines, parquet, write

ROWS = {
    "corpus": [{"_id": f"d{i}", "text": f"word{i}"} for i in range(4)],
    "queries": [{"_id": f"q{i}", "text": f"word{i}"} for i in range(4)],
    "qrels": [{"query-id": f"q{i}", "corpus-id": f"d{i}", "score": 1} for i in range(4)],
}


def written(root: Path) -> Path:
    return write(root, *ROWS.values())


def write_shards(root: Path, name: str, files: dict[str, list[int]]) -> None:
    """Replace a file by Parquet files of some of its rows."""
    (root / f"{name}.jsonl").unlink(missing_ok=True)
    (root / name).mkdir(exist_ok=True)
    for file, chosen in files.items():
        table = pyarrow.Table.from_pylist([ROWS[name][i] for i in chosen])
        pyarrow.parquet.write_table(table, root / name / file)


@pytest.mark.parametrize("ending", [".parquet", "-0123456789abcdef.parquet", ".PARQUET"])
@pytest.mark.parametrize("name", ["corpus", "queries", "qrels"])
def test_all_shards_of_a_split_are_read_and_no_other_split(tmp_path: Path, name: str, ending: str) -> None:
    expected = beir_task(written(tmp_path), ["test"]).dataset["default"]["test"]
    files = {f"train-0000{i}-of-00002{ending}": [2 * i, 2 * i + 1] for i in range(2)}
    files |= {f"test-00000-of-00001{ending}": [0], f"train2-00000-of-00001{ending}": [0]}
    files |= {f"train-new-0000{i}-of-00002{ending}": [i] for i in range(2)}
    write_shards(tmp_path, name, files)
    read = beir_task(tmp_path, ["train"]).dataset["default"]["train"]
    assert read["corpus"][:] == expected["corpus"][:]
    assert read["queries"][:] == expected["queries"][:]
    assert read["relevant_docs"] == expected["relevant_docs"]


@pytest.mark.parametrize("other", [{}, {"test-00000-of-00001.parquet": [0]}])
def test_a_shard_that_is_missing_is_noticed(tmp_path: Path, other: dict[str, list[int]]) -> None:
    write_shards(written(tmp_path), "corpus", {"train-00000-of-00003.parquet": [0, 1, 2, 3], **other})
    rule = r"corpus: expected 3 files of train, found train-00000-of-00003\.parquet"
    with pytest.raises(DataError, match=rule):
        beir_task(tmp_path, ["train"])


def test_a_mistake_in_a_shard_is_named_with_the_shards(tmp_path: Path) -> None:
    files = {f"train-0000{i}-of-00002.parquet": [0] for i in range(2)}
    write_shards(written(tmp_path), "corpus", {**files, "test.parquet": [0]})
    rule = r"corpus/train-\?{5}-of-00002\*\.parquet, row 2: expected each id once, got 'd0' again"
    with pytest.raises(DataError, match=rule):
        beir_task(tmp_path, ["train"])


@pytest.mark.parametrize("name", ["corpus.JSONL", "corpus.Jsonl", "corpus/TEST.PARQUET", "corpus.PARQUET"])
def test_files_are_found_whose_endings_are_in_capitals(tmp_path: Path, name: str) -> None:
    expected = beir_task(written(tmp_path)).dataset["default"]["test"]["corpus"][:]
    (tmp_path / "corpus.jsonl").unlink()
    (tmp_path / name).parent.mkdir(exist_ok=True)
    if name.lower().endswith(".jsonl"):
        (tmp_path / name).write_bytes(json_lines(ROWS["corpus"]))
    else:
        pyarrow.parquet.write_table(pyarrow.Table.from_pylist(ROWS["corpus"]), tmp_path / name)
    assert beir_task(tmp_path).dataset["default"]["test"]["corpus"][:] == expected


def test_parts_of_a_published_table_are_one_and_splits_are_kept_apart(tmp_path: Path) -> None:
    for name, rows in (("corpus", DOCUMENTS), ("queries", QUERY_ROWS)):
        (tmp_path / name).mkdir()
        for part in range(2):
            parquet(rows[part::2], tmp_path / name / f"{name}-0000{part}-of-00002.parquet")
    (tmp_path / "qrels").mkdir()
    parquet(JUDGED[:4], tmp_path / "qrels" / "test-00000-of-00001.parquet")
    parquet(JUDGED[4:], tmp_path / "qrels" / "dev-00000-of-00001.parquet")
    splits = beir_task(tmp_path, ["dev", "test"]).dataset["default"]
    assert {name: len(split["queries"]) for name, split in splits.items()} == {"dev": 2, "test": 4}
    assert len(splits["dev"]["corpus"]) == 6


def test_saved_tables_are_read_and_a_selection_keeps_its_order(tmp_path: Path) -> None:
    write(tmp_path, DOCUMENTS, QUERY_ROWS, JUDGED, "saved")
    plain = beir_task(write(tmp_path / "x", DOCUMENTS, QUERY_ROWS, JUDGED))
    assert content(beir_task(tmp_path)) == content(plain)
    both = {"dev": Dataset.from_list(JUDGED), "test": Dataset.from_list(JUDGED).select([3])}
    DatasetDict(both).save_to_disk(str(tmp_path / "qrels"))
    assert content(beir_task(tmp_path))[2] == {"q3": {"d3": 1}}


def test_several_splits_share_documents_and_have_their_own_queries(tmp_path: Path) -> None:
    root = write(tmp_path, DOCUMENTS, QUERY_ROWS, JUDGED)
    (root / "qrels.jsonl").unlink()
    (root / "qrels").mkdir()
    (root / "qrels" / "test.tsv").write_text(HEADING + "q0\td0\t2\n")
    (root / "qrels" / "dev.tsv").write_text("q1\td1\t1\n")
    task = beir_task(root, ["test", "dev"])
    assert [list(content(task, split)[2]) for split in task.eval_splits] == [["q0"], ["q1"]]
    assert task.unjudged["test"] == ["test.tsv: 5 of 6 queries have no relevant document and are not scored."]
    with pytest.raises(DataError, match=r"found no qrels/train\.tsv in it \(.*: dev\.tsv, test\.tsv\)"):
        beir_task(root, ["test", "train"])


def test_a_task_is_named_by_what_is_in_its_files_and_never_like_another_task(tmp_path: Path) -> None:
    def name(documents=DOCUMENTS, queries=QUERY_ROWS, judged=JUDGED, **options: str) -> str:
        root = tmp_path / f"{len(list(tmp_path.iterdir()))}" / "LongEmbedPasskey"
        return str(beir_task(write(root, documents, queries, judged), **options).metadata.name)

    texts = [row["text"] for row in DOCUMENTS]
    rotated = [{**row, "text": text} for row, text in zip(DOCUMENTS, texts[1:] + texts[:1], strict=True)]
    other, better = {"_id": "q5", "text": "other"}, {**JUDGED[-1], "score": 2}
    task_names = [name(), name(documents=rotated), name(language="deu")]
    task_names += [name(queries=[*QUERY_ROWS[:-1], other]), name(judged=[*JUDGED[:-1], better])]
    assert name() == task_names[0] and len(set(task_names)) == len(task_names)
    assert all(re.fullmatch(r"LongEmbedPasskey-[0-9a-f]{8}", task_name) for task_name in task_names)


def test_files_that_change_while_they_are_used_are_noticed(tmp_path: Path) -> None:
    root = write(tmp_path, DOCUMENTS, QUERY_ROWS, JUDGED)
    task = beir_task(root)
    task.unload_data()
    task.load_data()
    identity = data_identity(task, "test")
    (root / "corpus.jsonl").write_bytes(json_lines([{**row, "text": "other"} for row in DOCUMENTS]))
    task.unload_data()
    with pytest.raises(DataError, match=r"expected unchanged files, but they have changed"):
        task.load_data()
    assert identity != data_identity(beir_task(root), "test")


def test_an_unknown_language_is_refused(tmp_path: Path) -> None:
    root = write(tmp_path, DOCUMENTS, QUERY_ROWS, JUDGED)
    assert beir_task(root, language="jpn-Jpan").metadata.eval_langs == ["jpn-Jpan"]
    with pytest.raises(InputError, match=r"a language must be an ISO 639-3 code, .* got 'klingon'"):
        beir_task(root, language="klingon")


def test_missing_files_are_named(tmp_path: Path) -> None:
    root = write(tmp_path / "mine", DOCUMENTS, QUERY_ROWS, JUDGED, ".parquet")
    (root / "queries.parquet").unlink()
    with pytest.raises(DataError, match=r"mine: expected a folder in BEIR's format, found no queries\.jsonl"):
        beir_task(root)
    with pytest.raises(DataError, match=r"nothing\.jsonl: expected a file or a folder with files, found"):
        files_task(tmp_path / "nothing.jsonl", root / "queries.parquet", root / "qrels.parquet")
