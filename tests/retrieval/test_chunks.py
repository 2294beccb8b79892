"""One's own chunkers: a document scores as its best chunk, each encoded on its own."""

import re
from functools import partial
from types import SimpleNamespace
from unittest.mock import Mock

import numpy as np
import pytest
from sentence_transformers import SentenceTransformer

import mteb_longembed as longembed
from mteb_longembed.errors import InputError
from mteb_longembed.retrieval.chunks import apply_chunker, read_chunker, warn_of_cut_chunks
from tests import tiny
from tests.own_data import beir

DOCUMENTS = {f"d{i}": "  " + "! ".join(tiny.text(n, i) for n in (9, 30, 5)) for i in range(6)}


def ranges(text: str) -> list[tuple[int, int]]:
    return [match.span() for match in re.finditer(r"[^!]+!?", text)]


def like_chonkie(text: str) -> list[SimpleNamespace]:
    return [SimpleNamespace(start_index=a, end_index=b, text=text[a:b]) for a, b in ranges(text)]


def like_llama_index(text: str) -> list[SimpleNamespace]:
    return [
        SimpleNamespace(start_char_idx=a, end_char_idx=b, text=text[a:b].strip()) for a, b in ranges(text)
    ]


def like_langchain(text: str) -> list[SimpleNamespace]:
    return LikeLangChain().create_documents([text])


def with_texts(text: str) -> list[tuple[str, int, int]]:
    return [(text[a:b], a, b) for a, b in ranges(text)]


def starts_and_texts(text: str) -> list[tuple[int, str]]:
    return [(a, text[a:b]) for a, b in ranges(text)]


def arrays(text: str) -> np.ndarray:
    return np.array(ranges(text))


class LikeLangChain:
    def create_documents(self, texts: list[str], key: str = "start_index") -> list[SimpleNamespace]:
        return [SimpleNamespace(page_content=texts[0][a:b], metadata={key: a}) for a, b in ranges(texts[0])]


@pytest.mark.parametrize(
    "chunker",
    [
        ranges,
        arrays,
        with_texts,
        starts_and_texts,
        like_chonkie,
        like_langchain,
        like_llama_index,
        LikeLangChain(),
    ],
)
def test_a_document_scores_as_its_best_chunk(folder, chunker):
    searcher = longembed.search(f"{folder}+pi@128", chunker=(chunker, "v1"), device="cpu")
    searcher.add(DOCUMENTS, DOCUMENTS.values())
    query = tiny.text(8, 3)
    hits = searcher.search(query, k=9)
    model = longembed.load(f"{folder}+pi@128", device="cpu")
    assert len(hits) == len(DOCUMENTS)
    for hit in hits:
        assert (type(hit.start), type(hit.end)) == (int, int)
        chunks = [text.strip() for text in re.findall("[^!]+!?", DOCUMENTS[hit.id])]
        query_vector = model.encode_query(query)
        score, best = max((float(query_vector @ model.encode_document(text)), text) for text in chunks)
        assert (hit.passage.strip(), hit.score) == (best, pytest.approx(score, abs=1e-5))


def test_a_comparison_finds_only_versioned_chunkers_again(folder, tmp_path):
    chunkers = {"fixed": (ranges, "v1"), "loose": like_chonkie}
    texts = [tiny.text(40, seed) for seed in range(6)]
    data = beir(tmp_path / "data", texts, [text[:20] for text in texts])
    options = {"data": data, "bm25": False, "show": False}
    options |= {"chunkers": chunkers, "output_folder": tmp_path, "device": "cpu"}
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
    with pytest.raises(
        InputError, match=r"^a chunker must be a function of a text, or a splitter of LangChain, got 3"
    ):
        longembed.search(str(folder), chunker=(3, "v1"), device="cpu")
    for result in (
        3,
        ["ab"],
        [(0, 1, 2)],
        [(0, "1", "2")],
        [(3, 6)],
        [{"start": 0, "end": 1}],
        "ab",
        [(2, 1)],
        [(2, 2)],
        [(0, 1, "a", None)],
        [object_with(start_index=0)],
        [object_with(start_char_idx=0)],
        [object_with(page_content="a")],
    ):
        with pytest.raises(InputError, match=r"^a chunk must be \(start, end\) with 0 <= start < end <= 5"):
            apply_chunker(lambda text, result=result: result, "a b c")


def object_with(**values: object) -> SimpleNamespace:
    return SimpleNamespace(**values)


@pytest.mark.parametrize(
    "chunk",
    [
        object_with(text="five six", start_index=10, end_index=18),
        (10, 18, "five six"),
        ("five six", 10, 18),
        (10, "five six"),
        object_with(page_content="five six", metadata={"start_index": 10}),
        object_with(text="five six", start_char_idx=10, end_char_idx=18),
        object_with(text="one two   three", start_index=0, end_index=3 + 18),
    ],
)
def test_a_chunk_whose_text_is_not_at_its_offsets_is_refused(chunk):
    with pytest.raises(
        InputError, match=r"^a chunk's own text must contain the text of its span, got '.*' for .*'.*': give"
    ):
        apply_chunker(lambda text: [chunk], "one  two  three  four  five  six")


def test_a_chunk_with_more_text_than_its_span_is_encoded_with_it_and_shows_the_span(folder):
    def with_header(text: str) -> list[tuple[str, int, int]]:
        return [(f"{text[:20]} | {text[a:b]}", a, b) for a, b in ranges(text)]

    name = f"{folder}+pi@128"
    searcher = longembed.search(name, chunker=(with_header, "v1"), device="cpu")
    searcher.add(DOCUMENTS, DOCUMENTS.values())
    query = tiny.text(8, 3)
    model = longembed.load(name, device="cpu")
    for hit in searcher.search(query, k=9):
        text = DOCUMENTS[hit.id].strip()
        query_vector = model.encode_query(query)
        expected = []
        for own, start, end in with_header(text):
            expected.append((float(query_vector @ model.encode_document(own)), text[start:end]))
        score, best = max(expected)
        assert (hit.passage, hit.score) == (best, pytest.approx(score, abs=1e-5))


def test_own_text_may_differ_from_its_span_in_white_space():
    chunks = apply_chunker(lambda text: [("one two three", 0, len(text))], " one\n two  three ")
    assert chunks == [((1, 16), "one two three")]


@pytest.mark.parametrize(
    ("attributes", "chunks", "remedy"),
    [
        (
            {"token_counter": len},
            ["a b"],
            r"give a function such as lambda text: chunker\(text, offsets=True\)\[1\]",
        ),
        ({"chunk_indices": list}, ["a b"], r"give the splitter's method chunk_indices"),
        ({"get_nodes_from_documents": list}, ["a b"], r"give a function such as .*get_nodes_from_documents"),
        (
            {"create_documents": list},
            ["a b"],
            r"give the splitter itself, made with add_start_index=True, .*",
        ),
        ({}, ["a b"], r"give a function that returns the offsets of each chunk in the text that it gets"),
        (
            {},
            [object_with(text="a b", start_index=None, end_index=None)],
            r"give a function that returns the offsets",
        ),
    ],
)
def test_the_remedy_names_what_was_given(attributes, chunks, remedy):
    class Splitter:
        def split_text(self, text: str) -> list[object]:
            return chunks

    for name, value in attributes.items():
        setattr(Splitter, name, value)
    with pytest.raises(InputError, match=rf"^a chunk must be .*, got .*: {remedy}"):
        apply_chunker(Splitter().split_text, "a b c")


@pytest.mark.parametrize("attribute", ["chunk_indices", "get_nodes_from_documents"])
def test_a_splitter_that_takes_no_text_is_refused_with_its_remedy(folder, attribute):
    kind = type("Splitter", (), {attribute: None, "__call__": lambda self, nodes: nodes})
    if attribute == "chunk_indices":
        del kind.__call__
    with pytest.raises(InputError, match=rf"^a chunker must be a function of a text, .*{attribute}"):
        longembed.search(str(folder), chunker=(kind(), "v1"), device="cpu")


def test_langchain_documents_without_start_index_are_refused():
    for metadata in ({}, {"start_index": -1}):
        chunk = SimpleNamespace(page_content="a", metadata=metadata)
        splitter = SimpleNamespace(create_documents=lambda texts, chunk=chunk: [chunk])
        for chunker in (splitter, lambda text, chunk=chunk: [chunk]):
            with pytest.raises(InputError, match=r"made with add_start_index=True, and with lengths in char"):
                apply_chunker(chunker, "a b c")


@pytest.mark.parametrize("base", ["{}+pi@32", "{}+none@16"])
def test_chunks_longer_than_the_model_are_told_once_with_the_share_that_is_read(folder, base):
    def whole(text: str) -> list[tuple[int, int]]:
        return [(0, len(text))]

    searcher = longembed.search(base.format(folder), chunker=(whole, "v1"), device="cpu")
    limit = int(base[-2:])
    room = limit - 4  # without special tokens and the prompt
    # 98 and 1 tokens of two letters, with blanks between them
    share = (2 * 293 * room / 98 + 2) / (2 * 293 + 2)
    message = (
        rf"^2 of 3 chunks are longer than the {limit} tokens .* reads {share:.0%} of .* at most {room} tokens"
    )
    with pytest.warns(UserWarning, match=message) as told:
        searcher.add(["a", "b", "c"], [tiny.text(100, 1), tiny.text(100, 2), tiny.text(3, 3)])
    assert len([one for one in told if "chunks are longer" in str(one.message)]) == 1
    # a hit shows what was read
    hits = {hit.id: hit for hit in searcher.search(tiny.text(5))}
    ids = searcher.scorer.encoded.model.tokenizer(hits["a"].passage, add_special_tokens=False)["input_ids"]
    assert (hits["a"].start, len(ids)) == (0, room) and hits["a"].end < len(hits["a"].document)
    assert hits["c"].passage == hits["c"].document


def test_chunks_that_the_model_reads_to_their_ends_are_not_told_of(folder, recwarn):
    searcher = longembed.search(f"{folder}+pi@128", chunker=(ranges, "v1"), device="cpu")
    searcher.add(DOCUMENTS, DOCUMENTS.values())
    assert not [one for one in recwarn if "chunks are longer" in str(one.message)]


def test_a_chunk_is_cut_if_it_has_one_token_more_than_there_is_room(folder):
    model = longembed.load(f"{folder}+none", device="cpu")
    # 12, 13, 52 and no tokens; there is room for 12 beside the special ones and the prompt
    texts = [tiny.text(14, 1), tiny.text(15, 2), "x " * 12 + "#" * 40, "\u200b" * 40]
    share = (35 + 38 * 12 / 13 + 64 * 12 / 52 + 40) / (35 + 38 + 64 + 40)
    message = f"^2 of 4 chunks are longer than the 16 tokens .* reads {share:.0%} of .* at most 12 tokens"
    cut = partial(apply_chunker, lambda text: [(0, len(text))])
    with pytest.warns(UserWarning, match=message):
        warn_of_cut_chunks(model, cut, texts)
    with pytest.warns(UserWarning, match=r"^1 of 1 chunks .* reads 50% of"):
        warn_of_cut_chunks(model, cut, ["#" * 24])


def test_chunks_are_cut_to_texts_and_remembered() -> None:
    asked = []

    def two(text: str) -> list[tuple[int, int]]:
        asked.append(text)
        return [(0, 2), (3, 5)]

    named = read_chunker((two, "v1"))
    assert (named.name, named.version) == ("two", "v1")
    for _ in range(2):
        assert named.cut(" ab cd") == [((1, 3), "ab"), ((4, 6), "cd")]
    assert asked == ["ab cd"]
    assert read_chunker((two, "v1"), "mine").name == "mine"
    assert read_chunker((lambda text: [], "v1")).name == "lambda"


def test_a_model_that_tells_no_limit_is_not_said_to_cut_chunks(recwarn) -> None:
    for model in (object(), Mock(spec=SentenceTransformer, max_seq_length=None)):
        warn_of_cut_chunks(model, partial(apply_chunker, ranges), ["a " * 10_000])
    assert not recwarn.list


def test_warnings_name_the_line_that_gave_the_chunker_or_the_documents(folder) -> None:
    with pytest.warns(UserWarning, match="^the chunker lambda has no version") as of_search:
        searcher = longembed.search(f"{folder}+none", chunker=lambda text: [(0, len(text))], device="cpu")
    with pytest.warns(UserWarning, match="^1 of 1 chunks are longer") as of_add:
        searcher.add(["a"], [tiny.text(40)])
    assert [of_search[-1].filename, of_add[-1].filename] == [__file__, __file__]
