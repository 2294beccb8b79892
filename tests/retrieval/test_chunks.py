"""One's own chunkers: a document scores as its best chunk, each encoded on its own."""

import re
from types import SimpleNamespace

import pytest

import mteb_longembed as longembed
from mteb_longembed.errors import InputError
from mteb_longembed.retrieval.chunks import apply_chunker
from tests import tiny
from tests.own_data import beir

DOCUMENTS = {f"d{i}": "  " + "! ".join(tiny.text(n, i) for n in (9, 30, 5)) for i in range(6)}


def ranges(text: str) -> list[tuple[int, int]]:
    return [match.span() for match in re.finditer(r"[^!]+!?", text)]


def like_chonkie(text: str) -> list[SimpleNamespace]:
    return [SimpleNamespace(start_index=start, end_index=end) for start, end in ranges(text)]


class LikeLangChain:
    def create_documents(self, texts: list[str], key: str = "start_index") -> list[SimpleNamespace]:
        return [SimpleNamespace(page_content=texts[0][a:b], metadata={key: a}) for a, b in ranges(texts[0])]


@pytest.mark.parametrize("chunker", [ranges, like_chonkie, LikeLangChain()])
def test_a_document_scores_as_its_best_chunk(folder, chunker):
    searcher = longembed.search(f"{folder}+pi@128", chunker=(chunker, "v1"), device="cpu")
    searcher.add(DOCUMENTS, DOCUMENTS.values())
    query = tiny.text(8, 3)
    hits = searcher.search(query, k=9)
    model = longembed.load(f"{folder}+pi@128", device="cpu")
    assert len(hits) == len(DOCUMENTS)
    for hit in hits:
        chunks = [text.strip() for text in re.findall("[^!]+!?", DOCUMENTS[hit.id])]
        asked = model.encode_query(query)
        score, best = max((float(asked @ model.encode_document(text)), text) for text in chunks)
        assert (hit.passage.strip(), hit.score) == (best, pytest.approx(score, abs=1e-5))


def test_a_comparison_finds_only_versioned_chunkers_again(folder, tmp_path):
    chunkers = {"fixed": (ranges, "v1"), "loose": like_chonkie}
    texts = [tiny.text(40, seed) for seed in range(6)]
    data = beir(tmp_path / "data", texts, [text[:20] for text in texts])
    options = {"data": data, "bm25": False, "show": False}
    options |= {"chunkers": chunkers, "folder": tmp_path, "device": "cpu"}
    message = "the chunker loose has no version, so no result of it is found again"
    for n_runs in (1, 2):
        with pytest.warns(UserWarning, match=message):
            result = longembed.compare(f"{folder}+none", **options)
        for key, n_revisions in (("fixed", 1), ("loose", n_runs)):
            name = f"local/{key}-model-none-16"
            assert name in result.summary.index
            assert len(list((tmp_path / "scores" / name.replace("/", "__")).iterdir())) == n_revisions


def test_what_cannot_be_chunked_is_refused(folder):
    with pytest.raises(InputError, match=r"^a chunker needs a model with one vector a text"):
        longembed.search(f"{folder}+pi@128:vectors=4", chunker=(ranges, "v1"), device="cpu")
    with pytest.raises(InputError, match=r"^a chunker's name and version must have letters"):
        longembed.search(str(folder), chunker=(ranges, "v/1"), device="cpu")
    with pytest.raises(InputError, match=r"^a chunker must be a function or a splitter, got 3"):
        longembed.search(str(folder), chunker=(3, "v1"), device="cpu")
    for result in (3, ["ab"], [(0, 1, 2)], [(0, "1")], [(3, 6)]):
        with pytest.raises(InputError, match=r"^a chunk must be \(start, end\) with 0 <= start < end <= 5"):
            apply_chunker(lambda text, result=result: result, "a b c")
    for metadata in ({}, {"start_index": -1}):
        chunk = SimpleNamespace(page_content="a", metadata=metadata)
        splitter = SimpleNamespace(create_documents=lambda texts, chunk=chunk: [chunk])
        with pytest.raises(InputError, match=r"need add_start_index=True, and lengths .* or chunk_overlap=0"):
            apply_chunker(splitter, "a b c")
