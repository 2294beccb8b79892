"""Scores by kind of query."""

import json

import pytest

import mteb_longembed
from mteb_longembed.commands.compare import _print
from mteb_longembed.comparing.candidates import named
from mteb_longembed.comparing.page import as_json, page, tables
from mteb_longembed.data.sources import Data
from mteb_longembed.errors import DataError, InputError
from tests import tiny


@pytest.fixture(scope="module")
def sources() -> dict[str, object]:
    """Ten documents; BM25 answers the exact queries, and no word of the others is in their document."""
    texts = {f"d{i}": tiny.text(30, i) for i in range(10)}
    rows = []
    for i, text in enumerate(texts.values()):
        words = " ".join(text.split()[:6])
        rows.append({"id": f"q{i}", "text": words if i % 2 else "zzz", "kind": "exact" if i % 2 else "other"})
    return {"corpus": texts, "queries": rows, "qrels": {f"q{i}": {f"d{i}": 1} for i in range(10)}}


def test_each_kind_has_its_scores_and_the_whole_is_their_mean(sources, tmp_path, capsys, base) -> None:
    quiet = {"show": False, "on_message": lambda text: None, "output_folder": tmp_path, "bm25": False}
    found = mteb_longembed.compare([named("bm25:window=20"), named(f"{base}+none")], **sources, **quiet)
    assert set(found.by_kind["kind"]) == {"exact", "other"} and set(found.by_kind["n_queries"]) == {5}
    means = found.by_kind.groupby("candidate")["score"].mean()
    for row in found.rows:
        assert means[row.id] == pytest.approx(row.score.mean)
    assert tables(found)[-1].key == "kinds" and 'id="table-kinds"' in page(found)
    _print(found)
    shown = capsys.readouterr().out
    assert "by kind of query, in percent" in shown and "exact (5)" in shown
    assert len(json.loads(as_json(found))["by_kind"]) == 4
    of_other = found.by_kind[found.by_kind["kind"] == "other"].set_index("candidate")["score"]
    differs = of_other.idxmax() != found.rows[0].id and of_other.max() > of_other[found.rows[0].id]
    assert differs == any("On the kind 'other' (5 queries)" in text for text in found.texts("data"))


def test_another_column_may_have_the_kinds_and_a_missing_one_is_named(sources) -> None:
    rows = [{**row, "asked": row["kind"]} for row in sources["queries"]]
    plain = [{key: row[key] for key in ("id", "text", "asked")} for row in rows]
    (task,) = Data(**{**sources, "queries": plain}, by="asked").load()
    assert task.kinds["q1"] == "exact"
    with pytest.raises(DataError, match=r"row 1: expected a column 'who' \(--by\), got id, text, kind"):
        Data(**sources, by="who").load()
    with pytest.raises(InputError, match="--by names a column of your own queries"):
        Data(tasks=["LongEmbedPasskey"], by="who")
    (other,) = Data(
        **{**sources, "queries": [{"id": "q0", "text": "zzz"}], "qrels": {"q0": {"d0": 1}}}
    ).load()
    assert other.kinds == {}
