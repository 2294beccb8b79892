"""The data of a comparison: what is drawn and written for it."""

import json
from pathlib import Path

from mteb_longembed.data.sources import Data
from mteb_longembed.data.task import OwnData
from tests.data_formats import content


def drawn(documents: dict[str, str], folder: Path) -> list[Path]:
    (task,) = Data.from_documents(documents, 5, folder=folder).tasks
    assert isinstance(task, OwnData)
    return [Path(str(task.query_source)), *(Path(str(source)) for source in task.judgement_sources.values())]


def test_two_draws_at_once_never_share_a_file_and_the_same_draw_does(tmp_path: Path) -> None:
    first = {
        "a": "The red ferry leaves the old harbour at nine.",
        "b": "Fish is sold on Friday before the market ends.",
    }
    second = {key: text.replace("Friday", "Monday").replace("red", "blue") for key, text in first.items()}
    files = drawn(first, tmp_path)
    texts = [path.read_text() for path in files]
    assert not set(drawn(second, tmp_path)) & set(files)
    assert [path.read_text() for path in files] == texts
    assert drawn(first, tmp_path) == files


def test_queries_are_drawn_from_files_and_from_streams_alike(tmp_path: Path) -> None:
    rows = [
        {"id": key, "text": f"The {key} ferry leaves the old harbour at nine."} for key in ("red", "blue")
    ]
    path = tmp_path / "docs.jsonl"
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    tasks = [Data.from_documents(source, 5, folder=tmp_path).tasks[0] for source in (path, iter(rows))]
    assert content(tasks[0]) == content(tasks[1])
    # advice names the file, so that a search of it can be typed
    assert isinstance(tasks[0], OwnData) and tasks[0].corpus_source == path
