"""One's own chunkers: a document scores as its best chunk, each encoded on its own."""

from __future__ import annotations

import re
from types import SimpleNamespace

import numpy as np
import pytest

import mteb_longembed as longembed
from mteb_longembed.errors import DataError, InputError
from tests import tiny

DOCUMENTS = {f"d{i}": "  " + "! ".join(tiny.text(n, i) for n in (9, 30, 5)) for i in range(6)}


def ranges(text: str) -> list[tuple[int, int]]:
    return [match.span() for match in re.finditer(r"[^!]+!?", text)]


class Chonkies:
    """What Chonkie's chunkers give."""

    def __call__(self, text: str) -> list[SimpleNamespace]:
        return [SimpleNamespace(start_index=start, end_index=end) for start, end in ranges(text)]


class LangChains:
    """What LangChain's splitters give."""

    def __init__(self, add_start_index: bool = True) -> None:
        self.add_start_index = add_start_index

    def create_documents(self, texts: list[str]) -> list[SimpleNamespace]:
        return [
            SimpleNamespace(
                page_content=text[a:b], metadata={"start_index": a} if self.add_start_index else {}
            )
            for text in texts
            for a, b in ranges(text)
        ]


@pytest.mark.parametrize("chunker", [ranges, Chonkies(), LangChains()])
def test_a_document_scores_as_its_best_chunk(folder, tmp_path, chunker):
    searcher = longembed.search(f"{folder}+pi@128", chunker=(chunker, "v1"), device="cpu")
    searcher.add(DOCUMENTS, DOCUMENTS.values())
    query = tiny.text(8, 3)
    hits = searcher.search(query, k=9)
    model = longembed.load(f"{folder}+pi@128", device="cpu")
    assert len(hits) == len(DOCUMENTS)
    for hit in hits:
        chunks = [
            chunk
            for start, end in ranges(DOCUMENTS[hit.id])
            if (chunk := DOCUMENTS[hit.id][start:end].strip())
        ]
        scores = np.stack([model.encode_document(chunk) for chunk in chunks]) @ model.encode_query(query)
        assert (hit.passage.strip(), hit.score) == (
            chunks[scores.argmax()],
            pytest.approx(scores.max(), abs=1e-5),
        )

    searcher.save(tmp_path / "index")
    assert (
        longembed.open_search(tmp_path / "index", chunker=(chunker, "v1"), device="cpu").search(query, 9)
        == hits
    )
    for other, message in (
        (None, r"was made with a chunker: say open_search\("),
        ((chunker, "v2"), r"v1, and"),
    ):
        with pytest.raises(DataError, match=message):
            longembed.open_search(tmp_path / "index", chunker=other, device="cpu")


def test_a_comparison_finds_only_versioned_chunkers_again(folder, tmp_path):
    def compare() -> longembed.comparing.comparison.Comparison:
        with pytest.warns(
            UserWarning, match="the chunker loose has no version, so no result of it is found again"
        ):
            return longembed.compare(
                f"{folder}+none", tasks=["LongEmbedPasskey"], eval_splits=["test_256"], bm25=False, folder=tmp_path,
                chunkers={"fixed": (ranges, "v1"), "loose": Chonkies()}, show=False, device="cpu",
            )  # fmt: skip

    first, second = compare(), compare()
    names = {"local/fixed-model-none-16", "local/loose-model-none-16"}
    assert names < {row.name for row in first.rows} == {row.name for row in second.rows}
    for name in names:
        revisions = list((tmp_path / "rankings" / name.replace("/", "__")).iterdir())
        assert len(revisions) == (1 if "fixed" in name else 2)


def test_what_cannot_be_chunked_is_refused(folder):
    with pytest.raises(InputError, match=r"^a chunker needs a model with one vector a text"):
        longembed.search(f"{folder}+pi@128:vectors=4", chunker=(ranges, "v1"), device="cpu")
    with pytest.raises(InputError, match=r"^a chunker's name and version must have letters"):
        longembed.search(str(folder), chunker=(ranges, "v/1"), device="cpu")
    for wrong in (LangChains(add_start_index=False), lambda text: [(3, len(text) + 1)]):
        searcher = longembed.search(str(folder), chunker=(wrong, "v1"), device="cpu")
        with pytest.raises(
            InputError, match=r"^a chunk must be \(start, end\) with 0 <= start < end <= 5 characters"
        ):
            searcher.add(["a"], ["ab cd"])
