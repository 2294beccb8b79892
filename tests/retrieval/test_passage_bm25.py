"""BM25 of documents and by passage: scores equal loops over words and windows, also when documents are added."""

import math
import re
import shutil
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import mteb
import numpy as np
import pytest
from datasets import Dataset
from mteb.models.model_implementations.bm25 import BM25Search

import mteb_longembed as longembed
from mteb_longembed.comparing.candidates import named
from mteb_longembed.encoders.method import BM25_VERSION, Method
from mteb_longembed.errors import IncompatibleError, InputError
from mteb_longembed.names import MTEB_BM25
from mteb_longembed.retrieval import passage_bm25, postings
from mteb_longembed.retrieval.analyzer import Analyzer
from mteb_longembed.retrieval.expansion import QueryExpansion
from mteb_longembed.retrieval.index import Index
from mteb_longembed.retrieval.make import make_scorer
from mteb_longembed.retrieval.passage_bm25 import PassageBM25
from mteb_longembed.retrieval.passages import WINDOW_CHARS
from mteb_longembed.retrieval.scorer import Documents
from tests import tiny
from tests.metas import full_name, full_revision
from tests.own_data import terms_of
from tests.retrieval.test_expansion import Model, slow_neighbours
from tests.retrieval.test_searching import WHERE

VOCABULARY = ["lamp", "bell", "fox", "key", "gate", "moss", "reef", "kiln", "bark", "dune"]
#: The last ones have few words, and no document has "zebra".
DOCUMENTS = [" ".join(VOCABULARY[(i * j) % 10] for j in range(5 + 7 * i)) for i in range(6)] + ["fox", ""]
QUERIES = ["fox kiln", "zebra", "Fox moss. Bell dune reef! Zebra.", "", "fox fox key"]


def slow_matches(word: str, corpus: Sequence[str]) -> dict[str, float]:
    """The shares of the words that a word matches."""
    own = {word: 1.0} if word in corpus else {}
    near = slow_neighbours(Model(), corpus, word)
    return own | {other: 0.5 * cosine for other, cosine in near.items()}


def slow_bm25(
    texts: Sequence[str], query: str, matches: Mapping[str, Mapping[str, float]] | None = None
) -> list[float]:
    """Lucene's BM25, word by word; of the words that a word matches, the best one counts."""
    split = terms_of(texts, "eng-Latn")
    mean = sum(map(len, split)) / len(split)

    def idf(word: str) -> float:
        n = sum(word in other for other in split)
        return math.log(1 + (len(split) - n + 0.5) / (n + 0.5))

    scores = []
    for words in split:
        counts = Counter(words)
        score = 0.0
        for word in terms_of([query], "eng-Latn")[0]:
            shares = {word: 1.0} if matches is None else matches[word]
            best = 0.0
            for other, share in shares.items():
                tf = counts[other]
                weight = tf / (tf + 1.5 * (0.25 + 0.75 * len(words) / mean))
                best = max(best, share * min(idf(word), idf(other)) * weight)
            score += best
        scores.append(score)
    return scores


def slow_windows(text: str, size: int) -> list[str]:
    words = text.split()
    step = size // 2
    return [" ".join(words[start : start + size]) for start in range(0, max(len(words) - step, 1), step)]


def slow_join(scores: Sequence[float], highest: float, join: str) -> float:
    if join == "max" or not highest:
        return max(scores)
    powers = [math.exp(score / highest / 0.05) for score in scores]
    return highest * 0.05 * math.log(sum(powers) / len(powers))


def slow_joined(
    texts: Sequence[str],
    size: int,
    query: str,
    join: str,
    matches: Mapping[str, Mapping[str, float]] | None = None,
) -> list[float]:
    """The scores of the windows of each text, joined."""
    windows = [(i, window) for i, text in enumerate(texts) for window in slow_windows(text, size)]
    scores = slow_bm25([window for _, window in windows], query, matches)
    joined = []
    for number in range(len(texts)):
        own = [score for score, (owner, _) in zip(scores, windows, strict=True) if owner == number]
        joined.append(slow_join(own, max(scores), join))
    return joined


def slow_scores(
    query: str,
    size: int | None,
    rule: str | None,
    join: str,
    matches: Mapping[str, Mapping[str, float]] | None,
) -> list[float]:
    """The document and its windows for each part of a query, each divided by the query's highest."""
    whole = slow_bm25(DOCUMENTS, query, matches)
    if size is None and rule is None:
        return whole
    parts = [query] if rule is None else re.split(r"(?<=[.!]) ", query)
    joined = np.sum(
        [slow_joined(DOCUMENTS, size or 10_000, part, join, matches) for part in parts], 0
    ).tolist()
    return [a / max(*whole, 1e-9) + b / max(*joined, 1e-9) for a, b in zip(whole, joined, strict=True)]


def as_documents(texts: Sequence[str], language: str = "eng-Latn") -> Documents:
    return Documents(list(map(str, range(len(texts)))), texts, language)


def fitted(texts: Sequence[str], language: str = "eng-Latn", window: int | None = None) -> PassageBM25:
    scorer = PassageBM25(Method(MTEB_BM25, None, window=window))
    scorer.fit(as_documents(texts, language))
    return scorer


@pytest.mark.parametrize("expands", [False, True])
@pytest.mark.parametrize("rule", [None, "sentences"])
@pytest.mark.parametrize(("size", "join"), [(None, "max"), (4, "max"), (4, "softmax"), (100, "softmax")])
def test_scores_are_those_of_loops_at_once_and_in_parts(
    size: int | None, rule, join, expands: bool, monkeypatch
) -> None:
    matches = None
    if expands:
        corpus = list(dict.fromkeys(word for words in terms_of(DOCUMENTS, "eng-Latn") for word in words))
        matches = {word: slow_matches(word, corpus) for word in [*VOCABULARY, "zebra"]}
    settings = Method(MTEB_BM25, None, window=size, query=rule, score=join if size else None)
    want = [slow_scores(query, size, rule, join, matches) for query in QUERIES]
    for n_terms, n_first in ((1 << 20, 8), (20, 8), (20, 3)):
        monkeypatch.setattr(passage_bm25, "_BATCH_TERMS", n_terms)  # counted at the same time
        scorer = PassageBM25(settings, expansion=QueryExpansion(Model()) if expands else None)
        scorer.fit(as_documents(DOCUMENTS[:n_first]))
        scorer.scores(QUERIES)
        scorer.add(as_documents(DOCUMENTS))
        for query, row in zip(QUERIES, want, strict=True):
            assert scorer.scores([query])[0] == pytest.approx(row, abs=2e-5)
        assert scorer.scores(QUERIES) == pytest.approx(np.array(want), abs=2e-5)


def test_a_few_queries_at_a_time_have_the_same_scores(monkeypatch: pytest.MonkeyPatch) -> None:
    want = fitted(DOCUMENTS, window=4).scores(QUERIES)
    for n_scores in (1, 200):  # less than one query has, and two queries
        monkeypatch.setattr(passage_bm25, "_MATRIX", n_scores)
        assert fitted(DOCUMENTS, window=4).scores(QUERIES) == pytest.approx(want, abs=1e-6)


def test_new_documents_bring_their_own_language() -> None:
    scorer = fitted(["die Häuser", "das Boot"])
    assert (scorer.scores(["Haus"])[0] > 0).tolist() == [False, False]
    scorer.fit(as_documents(["die Häuser", "das Boot"], "deu-Latn"))
    assert (scorer.scores(["Haus"])[0] > 0).tolist() == [True, False]


def test_a_passage_has_the_sentences_whose_terms_weigh_most_in_the_best_window() -> None:
    before, after = "It rained all day. " * 40, "Nobody came to see. " * 40
    texts = ["moss and reef", f"{before}The fox took a key. {after}", "Gate."]
    for window in (None, 60):
        found = fitted(texts, window=window).passages(["a fox with a key", "gate"], [[1], [2, 0]])
        (of_second,), (of_third, of_first) = (
            [texts[i][slice(*span)] for i, span in zip(indices, spans, strict=True)]
            for indices, spans in zip([[1], [2, 0]], found, strict=True)
        )
        assert "The fox took a key." in of_second and len(of_second) <= WINDOW_CHARS
        assert (of_third, of_first) == ("Gate.", "moss and reef")


def test_a_passage_is_found_also_where_a_text_or_the_corpus_has_few_words() -> None:
    scorer = fitted(["fox", ""])
    assert scorer.passages(["zebra lynx fox", ""], [[0, 1], [1]]) == [[(0, 3), (0, 0)], [(0, 0)]]


def test_the_weights_that_are_shown_have_four_digits() -> None:
    scorer = PassageBM25(expansion=QueryExpansion(Model()))
    scorer.fit(as_documents(DOCUMENTS))
    weights = [one for of_term in scorer.weighted_terms("fox kiln moss").values() for one in of_term.values()]
    assert [one for one in weights if one != round(one, 4)] == []
    assert [one for one in weights if one != round(one, 3)] != []


def test_what_is_added_is_counted_once_and_nothing_else_again(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []
    counted: list[int] = []
    analyze, counts = Analyzer.analyze, postings._frequencies
    monkeypatch.setattr(
        postings, "_frequencies", lambda rows, *rest: counted.append(len(rows)) or counts(rows, *rest)
    )
    monkeypatch.setattr(Analyzer, "analyze", lambda self, text: read.append(text) or analyze(self, text))
    made = longembed.search("bm25:window=4")
    for number, text in enumerate(DOCUMENTS[:7]):
        made.add([str(number)], [text])
        made.search("fox")
    assert read == DOCUMENTS[:7] and counted[::2] == [1] * 7


def test_an_interrupted_reading_is_made_good(monkeypatch: pytest.MonkeyPatch) -> None:
    scorer = fitted(DOCUMENTS, window=4)
    want = scorer.scores(QUERIES)
    other = fitted(DOCUMENTS[:3], window=4)
    other.scores(QUERIES)
    other.add(as_documents(DOCUMENTS))
    with monkeypatch.context() as patch:
        patch.setattr(postings, "_idf", lambda *_: exec("raise KeyboardInterrupt"))
        with pytest.raises(KeyboardInterrupt):
            other.scores(QUERIES)
    assert other.scores(QUERIES) == pytest.approx(want, abs=1e-6)


def test_english_scores_are_those_of_mtebs_baseline() -> None:
    texts = [text for text in DOCUMENTS if text] + ["Nothing was written about the foxes, nor of keys."]
    corpus = Dataset.from_dict({"id": list(map(str, range(len(texts)))), "text": texts})
    baseline = BM25Search()
    baseline.index(corpus, **WHERE)
    queries = Dataset.from_dict({"id": ["0", "1"], "text": ["the fox and keys", "kiln moss dune"]})
    expected = baseline.search(queries, top_k=len(texts), **WHERE)
    found = fitted(texts).scores(list(queries["text"]))
    for key, row in zip(queries["id"], found, strict=True):
        assert row == pytest.approx([expected[key][number] for number in corpus["id"]], abs=1e-5)


def test_the_terms_that_match_are_shown_as_people_write_them() -> None:
    texts = ["The Keys were lost.", "a lamp"]
    scorer = fitted(texts)
    assert scorer.matches("which key, lamp or fox?", texts[0]) == {"key": "keys"}


def test_the_words_of_a_document_that_is_left_out_are_forgotten() -> None:
    scorer = fitted(["keys keys and keys", "a key", "a lamp"])
    assert scorer.matches("key", "a key") == {"key": "keys"}
    scorer.keep(as_documents(["a key", "a lamp"]), np.array([False, True, True]))
    assert scorer.matches("key", "a key") == {"key": "key"}


@pytest.mark.parametrize("texts", [[], ["", " "], ["the and", "of"]])
def test_an_empty_and_a_wordless_corpus_have_no_scores(texts: list[str]) -> None:
    for expansion in (None, QueryExpansion(Model())):
        scorer = PassageBM25(Method(MTEB_BM25, None, window=4), expansion=expansion)
        scorer.fit(as_documents(texts))
        assert scorer.scores(["fox"]).tolist() == [[0.0] * len(texts)]


def test_with_query_expansion_a_model_finds_other_forms_and_not_stems() -> None:
    texts = ["The lamps were lit.", "A lamp was lit.", "Nobody came."]

    def far(words: Sequence[str]) -> np.ndarray:
        """Vectors of words that are all far from each other."""
        known = {"lamps": 0, "lamp": 1}
        return np.eye(8, dtype=np.float32)[[known.get(word, 2 + len(word) % 6) for word in words]]

    assert (fitted(texts).scores(["lamp"])[0] > 0).tolist() == [True, True, False]
    scorer = PassageBM25(expansion=QueryExpansion(far))
    scorer.fit(as_documents(texts))
    assert (scorer.scores(["lamp"])[0] > 0).tolist() == [False, True, False]
    assert scorer.weighted_terms("lamps")["lamps"] == {"lamps": 1.0}


def test_only_the_first_tokens_are_read() -> None:
    scorer = make_scorer("bm25@8")  # 6 words
    scorer.fit(as_documents(["one two three four five six lighthouse", "lighthouse"]))
    assert (scorer.scores(["lighthouse"]) > 0).tolist() == [[False, True]]


def test_a_scorer_has_the_name_and_the_revision_that_mteb_has_for_it() -> None:
    for name in ("bm25:window=9", "mini-ape+lexical:query=sentences"):
        meta = mteb.get_model_meta(name)
        scorer = make_scorer(name)
        assert (scorer.name, scorer.revision) == (full_name(meta), full_revision(meta))


def test_names_are_canonical_and_never_those_of_mtebs_baseline() -> None:
    meta = mteb.get_model_meta("bm25:query=sentences,window=200")
    baseline = mteb.get_model_meta("bm25")
    assert (meta.name, meta.revision) == (baseline.name, baseline.revision)
    assert meta.experiment_kwargs == {"query": "sentences", "window": 200, "algorithm": BM25_VERSION}
    assert baseline.experiment_kwargs is None
    old_name = mteb.get_model_meta("mteb-longembed/bm25,query=sentences,window=200")
    assert old_name.experiment_kwargs == meta.experiment_kwargs
    assert full_name(mteb.get_model_meta("bm25:window=9,score=softmax")) == "mteb/baseline-bm25s,window=9"
    near = mteb.get_model_meta("mini-ape+lexical:dtype=bf16,window=200,score=max")
    model = mteb.get_model_meta("mini-ape+none:dtype=bf16")
    assert full_name(near) == "mteb-longembed/mini-ape+lexical,dtype=bf16,score=max"
    assert near.revision == model.revision and BM25_VERSION in full_revision(near)
    assert full_revision(near).endswith(str((model.experiment_kwargs or {})["algorithm"]))
    assert near.max_tokens == baseline.max_tokens and near.embed_dim is None
    again = mteb.get_model_meta(full_name(near))
    assert (full_name(again), full_revision(again)) == (full_name(near), full_revision(near))


#: Scores that `bm25:window=200,expand=MODEL`, with the settings of the key behind it, gave in version 0.9.
GIVEN = {
    "mini-ape+lexical": [
        [0, 0, 2, 0, 0, 0],
        [0.2515, 2, 0.3531, 1.0752, 1.249, 0.9402],
        [0, 0, 0, 0, 0.695, 2],
    ],
    "mini-ape+lexical:query=sentences": [
        [0, 0, 2, 0, 0, 0],
        [0.2515, 2, 0.353, 1.0752, 1.249, 0.9402],
        [0, 0, 0, 0, 0.695, 2],
    ],
    "mini-ape+lexical:score=max": [
        [0, 0, 2, 0, 0, 0],
        [0.2509, 2, 0.3555, 1.0724, 1.2458, 0.9377],
        [0, 0, 0, 0, 0.695, 2],
    ],
    "mini-rope+lexical": [
        [0, 0, 2, 0, 0, 0],
        [0, 2, 0, 0.9287, 1.4354, 0.7575],
        [0, 0, 0, 0, 0.6513, 2],
    ],
}
COAST = {
    "harbour": "The ferry leaves the harbour at nine. Ships wait for the tide before they sail to the island.",
    "market": "Fish and bread are sold at the market on Friday. The baker opens first. " * 30,
    "engine": "The motor of the boat would not start. A mechanic repaired the engine with a new pump. " * 12,
    "garden": "Roses and tulips grow in the garden behind the house, and bees visit the flowers.",
    "storm": "Heavy rain and wind hit the coast. The storm broke two masts and sank a small vessel. " * 8,
    "lighthouse": "Ada Brandt owns the red lighthouse. She paints the walls each summer.",
}
ASKED = [
    "How do people repair motors on a ship?",
    "Rains and storms at the coastline. Fishes and breads on a Friday.",
    "Who paints the houses? The gardens had flower beds.",
]


@pytest.mark.parametrize("name", GIVEN)
def test_the_lexical_preset_has_the_scores_of_the_name_that_it_replaced(name: str) -> None:
    searcher = longembed.search(name, device="cpu")
    searcher.add(list(COAST), list(COAST.values()))
    assert searcher.scorer.scores(ASKED) == pytest.approx(np.array(GIVEN[name]), abs=1e-4)
    assert searcher.n_vectors == 0  # no document is encoded


def test_an_index_with_query_expansion_opens_from_any_working_folder(folder, tmp_path, monkeypatch) -> None:
    (tmp_path / "models").mkdir()
    shutil.copytree(folder, tmp_path / "models" / "tiny")
    monkeypatch.chdir(tmp_path)
    searcher = longembed.search("./models/tiny+lexical", device="cpu")
    searcher.add(list(COAST), list(COAST.values()))
    searcher.save("index")
    want = searcher.search(ASKED)
    monkeypatch.chdir("/")
    assert longembed.open_index(tmp_path / "index", device="cpu").search(ASKED) == want


@pytest.mark.parametrize(
    "name",
    [
        "bm25:window=200,expand=mini-ape",
        "bm25:expand=mini-ape,query=sentences",
        "bm25@512:expand=mini-ape+pcw:size=64,overlap=8,window=200",
        "mteb/baseline-bm25s,expand=mini-ape+none@512,window=200",
    ],
)
def test_an_old_name_is_refused_with_the_new_one(name: str) -> None:
    doors: list[Callable[[], object]] = [
        lambda: longembed.search(name),
        lambda: mteb.get_model_meta(name),
        lambda: named(name),
    ]
    message = r"is mini-ape\+lexical since version 0\.10, got .*write mini-ape\+lexical"
    for door in doors:
        with pytest.raises(InputError, match=message):
            door()


def test_a_lexical_search_is_no_model() -> None:
    with pytest.raises(InputError, match="lexical is a search and no model, got mini-ape"):
        longembed.load("mini-ape+lexical")


@pytest.mark.parametrize("tail", ["", ",dtype=bf16"])
def test_any_model_expands_queries(tail: str, folder: Path) -> None:
    searcher = longembed.search(f"{folder}+lexical:window=4{tail}", device="cpu")
    searcher.add(list("abcdefg"), DOCUMENTS[:7])
    weighted = searcher.scorer.lexical.weighted_terms("Fox and zebra")  # type: ignore[attr-defined]
    assert list(weighted) == ["fox", "zebra"] and weighted["fox"]["fox"] == 1
    assert all(share <= 0.5 for word, share in weighted["fox"].items() if word != "fox")
    searcher.add(["h"], ["zebra"])
    assert searcher.search("zebra")[0].id == "h"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("bm25:window=1", "bm25's window must be a whole number of at least 2 words, got '1'"),
        ("bm25:query=words", "query must be sentences, got 'words'"),
        ("bm25:whiten=0.5", "bm25 takes score, query, window, got whiten"),
        ("mini-ape+lexical:whiten=0.5", "lexical takes score, query, window, got whiten"),
        ("bm25:score=max", "score=max needs windows, such as bm25:window=200,score=max"),
        ("bm25:window=9,score=mean", "score must be one of max, softmax, got 'mean'"),
        ("bm25@few", "target_len must be a whole number of at least 1 token"),
    ],
)
def test_a_wrong_setting_is_one_sentence(name: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        mteb.get_model(name)


def test_bm25_alone_is_ours_in_a_search_and_mtebs_own_in_mteb() -> None:
    texts = ["Wrocław jest piękny", "Kraków jest stary"]
    baseline = mteb.get_model("bm25")
    assert isinstance(baseline, BM25Search)
    ours = make_scorer("bm25")
    ours.fit(as_documents(texts, "pol-Latn"))
    assert isinstance(ours, Index) and ours.name == "mteb/baseline-bm25s"
    assert (ours.scores(["jest"]) > 0).all()  # bm25s takes a word of all documents away
    theirs = make_scorer("mteb/baseline-bm25s")
    theirs.fit(as_documents(texts, "pol-Latn"))
    assert theirs.name == "mteb/baseline-bm25s" and (theirs.scores(["jest"]) <= 0).all()


@pytest.mark.parametrize("kind", ["sparse", "late", "bm25"])
def test_only_a_dense_model_expands_queries(kind: str, tmp_path: Path) -> None:
    name = "mteb/baseline-bm25s"
    if kind != "bm25":
        getattr(tiny, kind)("bert", tmp_path)
        name = str(tmp_path / kind)
    with pytest.raises(IncompatibleError, match=f"lexical needs a dense model, .* got '{name}'"):
        make_scorer(f"{name}+lexical", "cpu")
