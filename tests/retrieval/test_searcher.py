"""Search over your own documents: the scores of mteb, passages of the text, safe in threads and when a call fails."""

import copy
import pickle
import pkgutil
import sys
import tracemalloc
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, cast

import mteb
import numpy as np
import pandas as pd
import pytest
from datasets import Dataset
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

import mteb_longembed as longembed
from mteb_longembed.encoders import identity, windows
from mteb_longembed.encoders.embedding_cache import EmbeddingCache
from mteb_longembed.encoders.whitening import Whitening
from mteb_longembed.encoders.windows import vector_spans
from mteb_longembed.errors import InputError, StorageError
from mteb_longembed.plugin.search import MTEBSearch
from mteb_longembed.retrieval import passages
from mteb_longembed.retrieval.encoder import Encoder
from mteb_longembed.retrieval.make import make_scorer
from mteb_longembed.retrieval.passage_bm25 import PassageBM25
from mteb_longembed.retrieval.scorer import Documents, Scorer, Span, whole_documents
from mteb_longembed.retrieval.searcher import Searcher
from tests import tiny
from tests.retrieval.indexes import DOCUMENTS, searcher
from tests.retrieval.test_searching import WHERE

QUERY = tiny.text(6, 3)
FUSED = "+pi@64:fusion=bm25"
WINDOWS = "+pcw@64:size=16,vectors=window"


@pytest.mark.parametrize("tail", ["+pi@64", "+pi@64:vectors=8", f"{WINDOWS},fusion=bm25"])
def test_scores_are_those_of_mteb_and_adding_in_parts_changes_nothing_and_shows_no_bars(
    folder: Path, tail: str, capfd: pytest.CaptureFixture[str]
) -> None:
    model: Any = mteb.get_model(f"{folder}{tail}", device="cpu")
    if hasattr(model, "encode"):
        from mteb.models.search_wrappers import SearchEncoderWrapper

        model = SearchEncoderWrapper(model)
    columns = {"id": list(DOCUMENTS), "title": [""] * len(DOCUMENTS), "text": list(DOCUMENTS.values())}
    model.index(Dataset.from_dict(columns), **WHERE)
    asked = Dataset.from_dict({"id": ["q"], "text": [QUERY]})
    want = model.search(asked, top_k=10, **WHERE)["q"]

    made = longembed.search(f"{folder}{tail}", device="cpu")
    keys = list(DOCUMENTS)
    capfd.readouterr()
    made.add(keys[:4], [DOCUMENTS[key] for key in keys[:4]])
    made.search(QUERY)
    made.add(keys[4:], [DOCUMENTS[key] for key in keys[4:]])
    got = {hit.id: hit.score for hit in made.search(QUERY)}
    assert capfd.readouterr().err == ""
    assert list(got) == sorted(want, key=lambda key: -want[key])
    assert max(abs(got[key] - want[key]) for key in want) < 1e-5


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=12)
@given(st.integers(1, 70), st.sampled_from(["+pi@64", "+pi@64:vectors=7", WINDOWS]))
def test_each_vector_has_the_characters_of_its_tokens(folder: Path, n: int, tail: str) -> None:
    model: Any = longembed.load(f"{folder}{tail}", device="cpu")
    text = tiny.text(n + 2, n)  # words of two letters are tokens
    spans = vector_spans(model, text)[0].tolist()
    vectors = np.atleast_2d(np.asarray(model.encode_document([text])[0]))
    assert len(spans) == len(vectors)
    assert spans[0][0] == 0 and all(0 <= start < end <= len(text) for start, end in spans)
    words = [text[start:end].split() for start, end in spans]
    if "vectors=7" in tail:
        assert all(len(window) == 7 for window in words[:-1])
        assert " ".join(map(" ".join, words)) == text[: spans[-1][1]]
    elif "window" in tail and len(spans) > 1:
        assert len({len(window) for window in words}) == 1  # the last window is moved back to be full
    if n <= 50:
        assert spans[-1][1] == len(text)


def test_a_hit_of_one_vector_shows_a_window_only_if_passages_are_requested(folder: Path) -> None:
    texts = {"long": tiny.text(300), "short": "a b"}
    for shows in (True, False):
        made = longembed.search(f"{folder}{FUSED}", device="cpu", passages=shows)
        made.add(list(texts), list(texts.values()))
        hits = {hit.id: hit for hit in made.search(QUERY)}
        # without a window a hit shows all the text that was read
        assert (len(hits["long"].passage) <= passages.WINDOW_CHARS) or not shows
        assert hits["long"].passage == texts["long"][hits["long"].start : hits["long"].end]
        assert hits["long"].end < len(texts["long"]) / 2
        assert (hits["short"].start, hits["short"].end, hits["short"].passage) == (0, 3, "a b")


@given(st.text("ab .!?\n\x1f", max_size=40))
def test_windows_hold_every_character_but_blanks_once_and_in_order(text: str) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(passages, "WINDOW_CHARS", 7)
        windows = passages.short_windows(text)
    assert all(0 < end - start <= 7 and not text[start:end].isspace() for start, end in windows)
    assert "".join("".join(text[start:end] for start, end in windows).split()) == "".join(text.split())
    assert windows == sorted(windows)


@pytest.mark.parametrize("tail", ["+none", WINDOWS, "+pcw@64:query=tokens,vectors=4"])
def test_a_text_scores_as_it_would_as_a_document(folder: Path, tail: str) -> None:
    made = longembed.search(f"{folder}{tail}", device="cpu", precision="fp32")
    texts = {f"d{i}": tiny.text(4, i) for i in range(5)}  # each is one vector
    made.add(list(texts), list(texts.values()))
    (want,) = made.scorer.scores([QUERY])
    assert np.abs(made.index.shown.text_scores(QUERY, list(texts.values())) - want).max() < 1e-5


PARTS = [f"{tiny.text(10, seed)}.".capitalize() for seed in range(8)]
PARTS_OF = {"a": PARTS[:5], "b": PARTS[5:], "short": ["a b c."]}


@pytest.mark.parametrize("name", ["+pi@128", "+pi@128:fusion=bm25", "+none"])
def test_a_hit_of_one_vector_shows_the_sentence_that_is_nearest_and_encodes_it_once(
    folder: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(passages, "WINDOW_CHARS", 40)
    texts = {key: " ".join(parts) for key, parts in PARTS_OF.items()}
    encoded: list[str] = []
    encode = Encoder.encode

    def noting(self: Any, texts: Any, *args: Any, **options: Any) -> Any:
        encoded.extend(texts)
        return encode(self, texts, *args, **options)

    model: Any = longembed.load(f"{folder}+pi@128", device="cpu")
    made = searcher(f"{folder}{name}", texts)
    monkeypatch.setattr(Encoder, "encode", noting)
    for query in (PARTS[6], PARTS[3]):
        hits = made.search(query)
        assert len(hits) == 3
        for hit in hits:
            parts = PARTS_OF[hit.id]
            rows = model.encode_document(parts)
            scores = rows @ model.encode_query(query) / np.linalg.norm(rows, axis=1)
            assert hit.passage == texts[hit.id][hit.start : hit.end]
            if name != "+none":
                assert hit.passage == parts[scores.argmax()]
            else:  # without a strategy our model reads the beginning of its 16 tokens alone
                assert hit.start == 0 and hit.end < 40
    # the two questions are sentences too
    assert [encoded.count(part) for part in (PARTS[0], PARTS[4])] == ([0, 0] if name == "+none" else [1, 1])


#: What is wrong, and what is said.
WRONG: list[tuple[Callable[[Searcher], object], str]] = [
    (lambda s: s.add(["d1"], ["x"]), "ids must be new, got 'd1' a second time"),
    (lambda s: s.add(["x"], ["a", "b"]), "every document needs an id, got more of one"),
    (lambda s: s.add(["x"], [None]), "documents must be texts, got a NoneType at index 0"),
    (lambda s: s.add("ab", ["a", "b"]), "ids must be texts in a list or another iterable, got a str"),
    (lambda s: s.add(["a\ud800"], ["a"]), "an id must have at least one character and no surrogates"),
    (lambda s: s.add(["x"], Dataset.from_dict({"text": ["a"]})), "documents .*got a Dataset: give"),
    (lambda s: s.add(pd.DataFrame({"id": ["x"]}), ["a"]), "ids must be .*got a DataFrame"),
    (lambda s: s.search({"q": "a"}.keys()), "queries must be texts .*got a dict_keys"),
    (lambda s: longembed.search("bm25", language="klingon"), "a language must be an ISO 639-3 code"),
    (lambda s: s.search(" "), "a query must be a text with words"),
    (lambda s: s.search("a", k=0), "k must be a whole number of at least 1 document, got 0"),
    (
        lambda s: Searcher(make_scorer("mini-ape")).search("a"),
        "search needs documents with text: add some first",
    ),
]


def test_wrong_input_is_one_sentence_and_changes_nothing(folder: Path) -> None:
    made = searcher(f"{folder}+pi@32", {"d1": "a b", "d2": "c d"})
    hits = made.search(QUERY)
    for call, message in WRONG:
        with pytest.raises(InputError, match=message):
            call(made)
        assert made.search(QUERY) == hits


def test_generators_and_halves_of_characters_are_read(folder: Path) -> None:
    made = searcher(f"{folder}+pi@32", {"d1": "a \ud800b", "d2": "c d"})
    assert {hit.passage for hit in made.search("a\udfff")} == {"a \ufffdb", "c d"}
    made.add((f"n{i}" for i in range(2)), (text for text in ["e f", "g h"]))
    assert {hit.id for hit in made.search("a")} == {"d1", "d2", "n0", "n1"}


def test_what_compare_takes_as_a_corpus_is_read() -> None:
    rows = [{"id": key, "title": "One", "text": text} for key, text in DOCUMENTS.items()]
    made = longembed.search("bm25:window=8")
    made.read(iter(rows))
    hit = made.search(QUERY)[0]
    assert hit.document == f"One {DOCUMENTS[hit.id]}"
    with pytest.raises(InputError, match="ids must be new, got 'd0' a second time"):
        made.read(rows)


def test_texts_are_on_disk_and_never_in_memory_as_a_whole() -> None:
    class Nothing:
        meta: Any = None

        def fit(self, documents: Documents) -> None:
            self.n = len(documents)

    n, text = 2_000, "word " * 1_000
    made = Searcher(cast("Scorer", Nothing()), language="eng-Latn")
    tracemalloc.start()
    try:
        made.add(map(str, range(n)), (f"{number} {text}" for number in range(n)))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(made) == cast("Any", made.scorer).n == n and peak < 0.4 * n * len(text)


def test_an_empty_search_has_its_language_and_keeps_no_vector_of_removed_documents(folder: Path) -> None:
    made = longembed.search(f"{folder}{FUSED}", device="cpu", language="deu-Latn")
    assert made.language.code == longembed.search("bm25", language="deu-Latn").language.code == "deu-Latn"
    made.add(["a", "b"], ["Das Haus.", "Die Boote."])
    assert made.n_vectors
    made.remove(["a", "b"])
    assert (len(made), made.n_vectors, made.language.code) == (0, 0, "deu-Latn")


def test_an_interrupt_of_bm25_leaves_a_hybrid_as_it_was(folder: Path, monkeypatch) -> None:
    made = longembed.search(f"{folder}{FUSED}", device="cpu")
    made.add(["a", "b", "c"], [tiny.text(9, 1), tiny.text(9, 2), tiny.text(9, 3)])
    want = made.search(QUERY)
    made.add(["d"], [tiny.text(9, 4)])
    with monkeypatch.context() as patched:
        patched.setattr(PassageBM25, "_count", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            made.remove(["d"])
    assert len(made.search(QUERY)) == 4
    made.remove(["d"])
    assert [hit.id for hit in made.search(QUERY)] == [hit.id for hit in want]


def test_a_custom_scorer_is_fitted_again_when_documents_come_and_go() -> None:
    class First:
        """The document with the id that comes first is the best."""

        name, revision = "own/first", "1"

        def fit(self, documents: Documents) -> None:
            self.documents = documents
            if "full" in documents.ids:
                raise RuntimeError("no room")

        def scores(self, queries: Sequence[str]) -> np.ndarray:
            order = sorted(self.documents.ids)
            return np.array([[-order.index(key) for key in self.documents.ids]] * len(queries))

        def passages(self, queries: Sequence[str], indices: Sequence[Sequence[int]]) -> list[list[Span]]:
            return whole_documents(self.documents, indices)

    made = Searcher(First())
    made.add(["b", "c"], ["one", "two"])
    assert [hit.id for hit in made.search("x")] == ["b", "c"]
    with pytest.raises(RuntimeError, match="no room"):
        made.add(["full"], ["three"])
    assert [hit.id for hit in made.search("x")] == ["b", "c"]
    made.replace(["c", "a"], ["three", "four"])
    made.remove(["b"])
    assert [(hit.id, hit.passage) for hit in made.search("x")] == [("a", "four"), ("c", "three")]
    made.remove(["a", "c"])
    with pytest.raises(InputError, match="search needs documents with text"):
        made.search("x")
    made.add(["d"], ["five"])
    assert [hit.id for hit in made.search("x")] == ["d"]


@pytest.mark.parametrize("tail", [FUSED, WINDOWS])
def test_documents_without_text_are_kept_and_never_found(folder: Path, tail: str) -> None:
    made = searcher(f"{folder}{tail}", {"e1": "", **DOCUMENTS, "e2": " \n"})
    want = [(hit.id, pytest.approx(hit.score, abs=1e-5)) for hit in searcher(f"{folder}{tail}").search(QUERY)]
    assert (len(made), made.empty) == (14, ["e1", "e2"])
    assert [(hit.id, hit.score) for hit in made.search(QUERY)] == want


@pytest.mark.parametrize("tail", [FUSED, WINDOWS])
def test_a_list_of_questions_gives_the_hits_of_each(folder: Path, tail: str) -> None:
    made = searcher(f"{folder}{tail}")
    questions = [QUERY, DOCUMENTS["d4"], QUERY]
    for hits, question in zip(made.search(questions, k=3), questions, strict=True):
        alone = made.search(question, k=3)
        assert [(hit.id, hit.passage) for hit in hits] == [(hit.id, hit.passage) for hit in alone]
        assert [hit.score for hit in hits] == pytest.approx([hit.score for hit in alone], rel=1e-6)
        for hit in hits:
            text = DOCUMENTS[hit.id]
            assert hit.around(5) == text[max(hit.start - 5, 0) : hit.end + 5]
            assert hit.around(0) == hit.passage and hit.around(10**6) == text
    assert made.search([]) == []


VECTORS = "mteb_longembed.retrieval.vectors.CorpusVectors"
FULL = OSError(28, "No space left on device")


@pytest.mark.parametrize("tail", [FUSED, f"{WINDOWS},weights=sif"])
@pytest.mark.parametrize(
    ("place", "at", "error"),
    [
        ("torch.nn.functional.embedding", 1, RuntimeError("injected")),
        ("torch.nn.functional.embedding", 11, RuntimeError("injected")),
        (f"{VECTORS}.append", 1, KeyboardInterrupt()),
        ("os.pwrite", 2, FULL),
        ("tests.tiny.text", 3, ConnectionError("gone")),  # from which the stream of documents is made
    ],
)
def test_a_call_that_fails_changes_nothing(folder: Path, tail, place, at, error, monkeypatch) -> None:
    monkeypatch.setattr("mteb_longembed.retrieval.encoding.CALL_BYTES", 1)
    made = searcher(f"{folder}{tail}", {"a": DOCUMENTS["d1"], "b": DOCUMENTS["d2"]})
    want = made.search(QUERY)
    work = pkgutil.resolve_name(place)
    calls: list[int] = []

    def failing(*args: Any, **kwargs: Any) -> Any:
        calls.append(1)
        if len(calls) == at:
            raise error
        return work(*args, **kwargs)

    def add() -> None:
        made.add((f"n{seed}" for seed in range(9)), (tiny.text(30, seed) for seed in range(9)))

    with monkeypatch.context() as patch:
        patch.setattr(place, failing)
        with pytest.raises(StorageError if error is FULL else type(error)):
            add()
    assert len(made) == 2 and made.search(QUERY) == want
    add()
    with monkeypatch.context() as patch:
        patch.setattr(f"{VECTORS}.blocks", lambda *_: exec("raise KeyboardInterrupt"))
        with pytest.raises(KeyboardInterrupt):
            made.search(QUERY)
    assert len(made.search(QUERY, k=20)) == 11


@pytest.mark.parametrize("tail", ["+pi@64:vectors=8", FUSED])
def test_a_question_costs_no_look_at_the_model_or_the_cache(folder, tail, tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("MTEB_LONGEMBED_CACHE", str(tmp_path))
    made = searcher(f"{folder}{tail}")
    want = made.search(QUERY)  # its passages are encoded and kept
    monkeypatch.setattr(identity, "digest", lambda *_: pytest.fail("the model was compared"))
    monkeypatch.setattr(EmbeddingCache, "get_many", lambda *_: pytest.fail("the cache was read"))
    assert made.search(QUERY) == want


@pytest.mark.parametrize("name", ["bm25", "+pi@64", FUSED])
def test_of_equal_scores_the_first_document_comes_first_whatever_k_is(folder: Path, name: str) -> None:
    keys = [f"d{number}" for number in (10, 9, 2, 1, 30)]
    made = searcher(name if name == "bm25" else f"{folder}{name}", dict.fromkeys(keys, "ab cd. Ef gh."))
    made.add(["d0"], ["ab cd. Ef gh."])
    for k in (1, 3, 6):
        assert [hit.id for hit in made.search("ab", k)] == [*keys, "d0"][:k]


def test_documents_without_words_are_searched(folder: Path) -> None:
    assert len(searcher(f"{folder}{FUSED}", {"a": "!!! ???", "b": "the of"}).search("key")) == 2


def test_bm25_alone_shows_the_window_with_its_highest_score(monkeypatch) -> None:
    monkeypatch.setattr(passages, "WINDOW_CHARS", 20)
    cat, dog = "A cat sat there. The key is here. Keys are lost.", "Nothing at all. The dog has a key."
    made = searcher("bm25", {"a": cat, "b": dog})
    shown = [hit.passage for hit in made.search("dog with a key")]
    assert shown == ["The dog has a key.", "The key is here."]
    assert made.search("zebra") == []


def test_documents_that_are_added_one_by_one_stay_in_few_files() -> None:
    made = longembed.search("bm25")
    for number in range(20):
        made.add([f"d{number}"], [f"lamp{number} text"])
    assert len(made._tables) <= 5
    assert [made.search(f"lamp{number}")[0].id for number in range(20)] == [f"d{i}" for i in range(20)]


@pytest.mark.parametrize("again", [pickle.dumps, copy.copy, copy.deepcopy])
def test_a_searcher_that_is_pickled_or_copied_is_refused_in_one_sentence(again):
    with pytest.raises(InputError, match=r"^only a saved searcher can be pickled, .*: save it first\.$"):
        again(longembed.search("bm25"))


def test_what_a_notebook_shows_of_a_search_is_short(folder):
    text = tiny.text(20_000, 1)
    for name in ("bm25", f"{folder}+pi@128", f"{folder}+pi@128:fusion=bm25"):
        searcher = longembed.search(name, device="cpu", passages=False)
        searcher.add(["a", "b"], [text, tiny.text(30, 2)])
        hits = searcher.search(text[:60])
        shown = [*hits, searcher, searcher.scorer, MTEBSearch(searcher.scorer), searcher._documents]
        assert max(len(repr(one)) for one in shown) < 500
    rows = {f"d{number}": text for number in range(50)}
    assert len(repr(longembed.Data(corpus=rows, queries=[rows] * 50, qrels={"q": rows}))) < 2_000


@pytest.mark.parametrize("before", ["", "  ", "\n\n   \t"])
@pytest.mark.parametrize(
    "tail", ["+pcw@64:vectors=window", "+pcw@64:vectors=4", "+pcw@64:vectors=4,query=tokens"]
)
def test_passages_of_a_byte_level_tokenizer_are_right_where_a_text_begins_with_white_space(
    tmp_path: Path, tail: str, before: str
) -> None:
    letters = ["[PAD]", *sorted(pre_tokenizers.ByteLevel.alphabet())]
    backend = Tokenizer(models.BPE({letter: number for number, letter in enumerate(letters)}, []))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokens = PreTrainedTokenizerFast(
        tokenizer_object=backend, pad_token="[PAD]", model_max_length=tiny.TRAINED
    )
    base = tiny.saved("modernbert", tmp_path, tokens=tokens)
    searcher = longembed.search(f"{base}{tail}", device="cpu")
    text = "one two three four five six seven eight nine ten"
    searcher.add(["plain", "spaced"], [text, before + text])
    for query in text.split():
        plain, spaced = sorted(searcher.search(query), key=lambda hit: hit.id)
        assert plain.passage == spaced.passage
        assert spaced.document[spaced.start : spaced.end] == spaced.passage
        assert spaced.start == plain.start + len(before)


def test_showing_a_passage_tokenises_no_document(folder: Path, tmp_path: Path, monkeypatch) -> None:
    made = longembed.search(f"{folder}+pcw@64:size=16,vectors=4,query=tokens", device="cpu")
    made.add(["a", "b"], [tiny.text(60, 1), tiny.text(40, 2)])
    made.save(tmp_path / "index")
    want = made.search(tiny.text(6, 3))
    opened = longembed.open_index(tmp_path / "index", device="cpu")
    monkeypatch.setattr(windows, "tokens_read", lambda *_: pytest.fail("a document is tokenised"))
    assert made.search(tiny.text(6, 3)) == want == opened.search(tiny.text(6, 3))


def test_search_index_and_compare_never_ask_mteb_for_our_names(
    folder: Path, tmp_path: Path, monkeypatch
) -> None:
    def refuse(name: str, *_: object, **__: object) -> None:
        pytest.fail(f"mteb is asked for {name}")

    for module in list(sys.modules.values()):
        for known in ("get_model", "get_model_meta"):
            if vars(module).get(known) in (mteb.get_model, mteb.get_model_meta):
                monkeypatch.setattr(module, known, refuse)
    name = f"{folder}+pcw@64:size=16,vectors=window,fusion=bm25"
    made = longembed.search(name, device="cpu")
    documents = {f"d{i}": tiny.text(40, i) for i in range(6)}
    made.add(documents, documents.values())
    made.save(tmp_path / "index")
    want = made.search(tiny.text(6, 3))
    assert longembed.open_index(tmp_path / "index", device="cpu").search(tiny.text(6, 3)) == want
    queries = {f"q{i}": " ".join(documents[f"d{i}"].split()[:4]) for i in range(6)}
    judged = {f"q{i}": {f"d{i}": 1} for i in range(6)}
    data = {"corpus": documents, "queries": queries, "qrels": judged}
    found = longembed.compare([name], **data, output_folder=tmp_path / "out", device="cpu", show=False)
    assert len(found.summary) > 1


# ---- changes read their input whole before they change anything


def state(of: Searcher) -> object:
    return dict(of.texts()), of.search(["lamp", "bells"], 9), of.empty


CHANGES: dict[str, tuple[Callable[[Searcher], object], str]] = {
    "an id twice": (lambda made: made.replace(["a", "a"], ["x", "y"]), "ids must be new, got 'a' a second time"),
    "a new id twice": (lambda made: made.replace(["z", "z"], ["x", "y"]), "ids must be new, got 'z' a second time"),
    "numbers that differ": (lambda made: made.replace(["a", "b"], ["x"]), "every document needs an id"),
    "a number for a text": (lambda made: made.replace(["a"], [3]), "documents must be texts"),  # type: ignore[list-item]
    "None for a text": (lambda made: made.replace(["a"], [None]), "documents must be texts"),  # type: ignore[list-item]
    "an empty id": (lambda made: made.replace(["a", ""], ["x", "y"]), "an id must have at least one character"),
    "a text for the texts": (lambda made: made.replace(["a"], "x"), "documents must be texts in a list"),
    "a stream that breaks": (lambda made: made.replace(["a", "b"], broken()), "injected"),
    "a number for an added text": (lambda made: made.change(["a"], {"n": 3}), "documents must be texts"),  # type: ignore[dict-item]
    "None for an added text": (lambda made: made.change([], {"n": None}), "documents must be texts"),  # type: ignore[dict-item]
    "a number for an added id": (lambda made: made.change(["a"], {3: "x"}), "ids must be texts"),  # type: ignore[dict-item]
    "an unknown id": (lambda made: made.change(["a", "x"], {"n": "y"}), "an id must be known to be removed, got 'x'"),
    "a list of pairs": (lambda made: made.change(["a"], [("n", "y")]), "added documents must be texts by id"),  # type: ignore[arg-type]
    "a text for the removed ids": (lambda made: made.change("a", {"n": "y"}), "ids must be texts in a list"),
    "a number for a removed id": (lambda made: made.change([3], {"n": "y"}), "ids must be texts"),  # type: ignore[list-item]
}  # fmt: skip


def broken() -> Any:
    yield "one"
    raise InputError("injected")


@pytest.mark.parametrize("fault", CHANGES)
@pytest.mark.parametrize("saves", [False, True])
def test_a_change_that_is_refused_changes_nothing(fault: str, saves: bool, tmp_path: Path) -> None:
    change, message = CHANGES[fault]
    made = searcher("bm25", {"a": "one lamp", "b": "two bells", "c": " "})
    if saves:
        made.save(tmp_path / "index")
    want = state(made)
    with pytest.raises(InputError, match=message):
        change(made)
    assert state(made) == want and len(made) == 3
    if saves:
        assert state(longembed.open_index(tmp_path / "index")) == want


@pytest.mark.parametrize("tail", [FUSED, f"{WINDOWS},fusion=bm25,whiten=0.5"])
@pytest.mark.parametrize("place", ["torch.nn.functional.embedding", f"{VECTORS}.append"])
def test_documents_are_removed_only_when_the_new_ones_are_encoded(folder, tail, place, monkeypatch) -> None:
    rows = {key: DOCUMENTS[key] for key in ("d1", "d2", "d3", "d4", "d5", "d6")}
    made = searcher(f"{folder}{tail}", rows)
    made.search(QUERY)
    want = made.search(QUERY)

    def failing(*_: Any, **__: Any) -> Any:
        raise RuntimeError("injected")

    for change in (
        lambda: made.replace(["d2"], [tiny.text(30, 77)]),
        lambda: made.change(["d1"], {"n": tiny.text(40, 78)}),
        lambda: made.replace(rows, [tiny.text(9, 80 + number) for number in range(6)]),
    ):
        with monkeypatch.context() as patch:
            patch.setattr(place, failing)
            with pytest.raises(RuntimeError, match="injected"):
                change()
        assert made.search(QUERY) == want


def test_documents_may_get_and_lose_their_texts_in_one_change() -> None:
    made = searcher("bm25", {"a": "one lamp", "b": "two bells", "c": " "})
    made.change(["b"], {"c": "three lamps", "a": "", "n": "four bells"})
    assert dict(made.texts()) == {"c": "three lamps", "n": "four bells", "a": ""} and made.empty == ["a"]
    assert made.search("bells")[0].id == "n"
    made.change([], {"c": " ", "n": " "})
    assert sorted(made.empty) == ["a", "c", "n"] and len(made) == 3
    made.change([], {})
    made.replace(["a"], ["five lamps"])
    assert made.search("lamps")[0].id == "a"


# ---- what is fitted does not depend on when people search


@pytest.mark.parametrize(
    "tail",
    [
        f"{WINDOWS},whiten=0.5",
        f"{WINDOWS},weights=sif,whiten=0.5,fusion=bm25",
        "+pcw@64:size=16,whiten=0.5,fusion=bm25",
        f"{WINDOWS},score=softmax",
        FUSED,
    ],
)
@pytest.mark.parametrize("saves", [False, True])
def test_scores_are_the_same_with_and_without_a_search_in_between(folder, tail, saves, tmp_path) -> None:
    """Whitening and weights are of the first documents, and temperatures of the documents at each change."""
    found = []
    for searches in (False, True):
        made = longembed.search(f"{folder}{tail}", device="cpu")
        for first, last in ((0, 5), (5, 9), (9, 14)):
            keys = [f"n{number}" for number in range(first, last)]
            made.add(keys, [tiny.text(20 + 7 * number, number) for number in range(first, last)])
            if saves and not first:
                made.save(tmp_path / str(searches))
            if searches:
                made.search(QUERY)
        made.remove(["n1", "n7"])
        made.replace(["n3"], [tiny.text(50, 99)])
        found.append(made.scorer.scores([QUERY]))
    assert found[0] == pytest.approx(found[1], abs=1e-6)


# ---- few documents, and equal ones

FEW = {
    "one": ["ab cd. Ef gh."],
    "two equal": ["ab cd. Ef gh."] * 2,
    "two": ["ab cd. Ef gh.", "cc dd ee ff. Aa."],
    "equal and one": ["ab cd. Ef gh."] * 9 + ["cc dd ee ff. Aa."],
    "equal, one first": ["cc dd ee ff. Aa.", *["ab cd. Ef gh."] * 9],
    "equal and four": ["ab cd. Ef gh."] * 30 + ["cc dd.", "aa ab.", "ee. Ef.", "gh cd."],
    "equal and twelve": ["ab cd. Ef gh."] * 40 + [f"{tiny.text(9, seed)}." for seed in range(12)],
    "equal but for what no model reads": [f"{tiny.text(64, 1)} tail{number}" for number in range(20)],
}


@pytest.mark.parametrize("texts", FEW)
@pytest.mark.parametrize(
    "tail",
    [
        "+pcw@64:size=16,vectors=4,query=tokens,fusion=bm25",
        f"{WINDOWS},fusion=bm25,query=sentences",
        f"{WINDOWS},fusion=bm25,whiten=0.5",
        f"{WINDOWS},score=softmax",
        "bm25",
    ],
)
def test_scores_of_few_and_of_equal_documents_are_bounded_and_the_first_of_equals_comes_first(
    folder: Path, tail: str, texts: str
) -> None:
    made = longembed.search(tail if tail == "bm25" else f"{folder}{tail}", device="cpu", passages=False)
    half = len(FEW[texts]) // 2 + 1
    keys = [f"d{number}" for number in range(len(FEW[texts]))]
    made.add(keys[:half], FEW[texts][:half])
    made.add(keys[half:], FEW[texts][half:])
    for query in ("ab", "cd ef", "cc dd. Ab cd.", "zz"):
        (scores,) = made.scorer.scores([query])
        assert abs(scores).max() <= 1000 + 50 * len(keys) * ("tokens" in tail)
        for k in (1, 2, 5, 99):
            hits = made.search(query, k)
            shown = [FEW[texts][int(hit.id[1:])] for hit in hits]
            for text in set(shown):
                numbers = [int(hit.id[1:]) for hit in hits if FEW[texts][int(hit.id[1:])] == text]
                first = [number for number, other in enumerate(FEW[texts]) if other == text]
                assert numbers == first[: len(numbers)]
            assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)


@pytest.mark.parametrize(("n", "warns"), [(34, True), (35, False)])
def test_whitening_on_few_vectors_is_reported(n: int, warns: bool, caplog) -> None:
    Whitening.fit(np.random.default_rng(0).normal(size=(n, 8)), 0.5)
    assert ("fewer than 35 vectors, got 34" in caplog.text) == warns
