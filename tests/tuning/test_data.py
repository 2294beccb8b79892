import json

import pytest
from datasets import Dataset

from mteb_longembed.errors import DataError
from mteb_longembed.tuning.data import open_data, prepare_data


def rows(n=12, **extra):
    texts = {name: [f"{sign}{i}" for i in range(n)] for name, sign in (("anchor", "q"), ("positive", "p"))}
    return Dataset.from_dict({**texts, **extra})


def test_missing_negatives_are_drawn_from_other_rows_by_the_seed():
    data = rows(negative_1=["own", None, ""] + ["own"] * 9)
    first, second, other = (prepare_data(data, 3, seed) for seed in (1, 1, 2))
    assert first.column_names == ["anchor", "positive", "negative_1", "negative_2", "negative_3"]
    assert first.to_dict() == second.to_dict() != other.to_dict()
    assert first[0]["negative_1"] == "own"
    for i, row in enumerate(first):
        drawn = [row[c] for c in ("negative_1", "negative_2", "negative_3") if row[c] != "own"]
        assert set(drawn) <= {f"p{k}" for k in range(12)} - {f"p{i}"}
        assert len(set(drawn)) == len(drawn)


def test_more_negatives_than_wanted_are_left_out():
    data = rows(negative_2=["b"] * 12, negative_1=["a"] * 12, negative_10=["c"] * 12)
    prepared = prepare_data(data, 2, 0)
    assert (prepared[0]["negative_1"], prepared[0]["negative_2"]) == ("a", "b")
    assert "negative_3" not in prepared.column_names
    assert prepare_data(data, 3, 0)[0]["negative_3"] == "c"


def test_with_scores_nothing_is_drawn():
    data = rows(negative_1=["n"] * 12, scores=[[2.0, 1.0]] * 12)
    prepared = prepare_data(data, 7, 0)
    assert prepared.column_names == ["anchor", "positive", "negative_1", "scores"]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (Dataset.from_dict({"text": ["a"]}), "columns anchor and positive"),
        (Dataset.from_dict({"anchor": ["a"]}), "columns anchor and positive"),
        (Dataset.from_dict({"anchor": [], "positive": []}), "at least one row"),
        (Dataset.from_dict({"anchor": ["a", " "], "positive": ["b", "c"]}), "row 2 must have a text in"),
        (Dataset.from_dict({"anchor": ["a"], "positive": [None]}), "row 1 must have a text in positive"),
        (Dataset.from_dict({"anchor": [1], "positive": ["b"]}), "row 1 must have a text in anchor, got 1"),
        (rows(2, scores=[[1.0]] * 2), "must have a column negative_1"),
        (rows(2, negative_1=["n", ""], scores=[[1.0, 0.0]] * 2), "row 2 must have a text in negative_1"),
        (rows(2, negative_1=["n"] * 2, scores=[[1.0]] * 2), "row 1 must have 2 finite scores"),
        (rows(2, negative_1=["n"] * 2, scores=[[1.0, float("nan")]] * 2), "row 1 must have 2 finite scores"),
        (rows(3), "enough different positives"),
    ],
)
def test_unusable_data_is_refused_in_one_sentence(data, message):
    with pytest.raises(DataError, match=message):
        prepare_data(data, 7 if "enough" in message else 1, 0)


def test_files_of_every_format_give_the_same_rows(tmp_path):
    data = rows(4)
    data.to_json(str(tmp_path / "a.jsonl"))
    data.to_csv(str(tmp_path / "a.csv"))
    data.to_parquet(str(tmp_path / "a.parquet"))
    data.save_to_disk(str(tmp_path / "saved"))
    for name in ("a.jsonl", "a.csv", "a.parquet", "saved"):
        assert open_data(tmp_path / name).to_dict() == data.to_dict(), name


def test_a_folder_of_files_is_read_whole(tmp_path):
    for k in range(2):
        (tmp_path / f"{k}.jsonl").write_text(json.dumps({"anchor": f"q{k}", "positive": f"p{k}"}) + "\n")
    assert open_data(tmp_path)["anchor"] == ["q0", "q1"]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("missing.jsonl", None, "does not exist"),
        ("missing", None, "does not exist"),
        ("a/b/c", None, "does not exist"),
        ("a.jsonl", "{no json\n", r"a\.jsonl cannot be read"),
    ],
)
def test_a_missing_or_unreadable_file_is_named(tmp_path, name, content, message):
    if content is not None:
        (tmp_path / name).write_text(content)
    with pytest.raises(DataError, match=message):
        open_data(tmp_path / name)
