"""What is shown of a passage: the sentences that share most words with the question."""

from collections.abc import Sequence

import numpy as np
import pytest

from mteb_longembed.retrieval.analyzer import Language
from mteb_longembed.retrieval.passages import (
    WINDOW_CHARS,
    best_run,
    excerpt,
    short_windows,
    whole_sentences,
    window_borders,
)

ENGLISH = Language.of("eng-Latn")

FILLER = "Nothing of interest happened on that long and quiet day. " * 12
ANSWER = "Ada Brandt signed the lease of the lighthouse."


@pytest.mark.parametrize("at", [0, 4, 11])
def test_the_sentence_that_answers_is_shown_wherever_it_stands(at: int) -> None:
    sentences = [FILLER[:57]] * 12
    sentences.insert(at, ANSWER + " ")
    shown = excerpt("".join(sentences), "Who signed the lease?", 240, ENGLISH)
    assert ANSWER in shown and len(shown) < 300
    assert shown.startswith("[...]") == (at > 1)
    whole = set("".join(sentences).split())
    assert set(shown.replace("[...]", " ").split()) <= whole


def test_words_that_a_scorer_matched_count_too() -> None:
    shown = excerpt(FILLER + ANSWER + FILLER, "Who rents the beacon?", 240, ENGLISH, ["lighthouse"])
    assert ANSWER in shown


def test_a_model_that_scores_texts_chooses_the_sentences() -> None:
    queries = []

    def scores(query: str, texts: Sequence[str]) -> np.ndarray:
        queries.append(query)
        return np.array([float("lighthouse" in text) for text in texts])

    shown = excerpt(f"{FILLER}{ANSWER} {FILLER}", "What happened on that day?", 60, ENGLISH, scores=scores)
    assert shown == f"[...] {ANSWER} [...]" and queries == ["What happened on that day?"]
    # nothing is to be chosen
    assert excerpt(ANSWER, "Who?", 60, ENGLISH, scores=scores) == ANSWER and len(queries) == 1


def test_a_model_chooses_between_two_sentences_and_is_not_asked_about_one_that_just_fits() -> None:
    def scores(query: str, texts: Sequence[str]) -> np.ndarray:
        assert len(texts) == 2
        return np.array([0.0, 1.0])

    assert (
        excerpt(f"{FILLER[:57]}{ANSWER}", "What happened?", 60, ENGLISH, scores=scores) == f"[...] {ANSWER}"
    )
    assert excerpt(ANSWER, "Who?", len(ANSWER), ENGLISH, scores=scores) == ANSWER


def test_pieces_of_a_long_sentence_overlap_by_half() -> None:
    text = " ".join(f"item{number:03}" for number in range(60))
    # the first two words are 96 to 111
    assert excerpt(text, "item012 item013", 100, ENGLISH) == f"[...] {text[50:150].strip()} [...]"


def test_a_text_without_blanks_is_cut_by_characters() -> None:
    text = "海边没有发生任何事情" * 40 + "阿达签署了灯塔的租约" + "海边没有发生任何事情" * 40
    shown = excerpt(text, "谁签署了灯塔的租约", 240, Language.of("zho-Hans"))
    assert "阿达签署了灯塔的租约" in shown and 200 <= len(shown.replace("[...]", "").strip()) < 300


def test_a_short_passage_is_shown_whole_with_blanks_for_line_breaks() -> None:
    assert excerpt("One\n\ttwo.\u2029", "one", 240, ENGLISH) == "One two."


@pytest.mark.parametrize("seed", range(20))
def test_the_run_of_chunks_with_the_best_maxsim_is_shown(seed: int) -> None:
    draw = np.random.default_rng(seed)
    ends = np.cumsum(draw.integers(1, 700 if seed % 2 else 120, 30))
    spans = [(int(start), int(end)) for start, end in zip([0, *ends[:-1]], ends, strict=True)]
    similarities = draw.normal(size=(5, len(spans)))
    scores = {}
    for first in range(len(spans)):
        for last in range(first, len(spans)):
            span = spans[first][0], spans[last][1]
            if first == last or span[1] - span[0] <= WINDOW_CHARS:
                scores[span] = similarities[:, first : last + 1].max(axis=1).mean()
    shown = best_run(similarities, spans)
    assert scores[shown] == max(scores.values())


def test_of_equal_runs_of_chunks_the_first_is_shown() -> None:
    assert best_run(np.ones((2, 3)), [(0, 400), (400, 800), (800, 1200)]) == (0, 400)


def test_short_windows_have_whole_sentences_where_these_are_short_and_no_blank_ones() -> None:
    assert short_windows("x" * 1100) == [(0, 500), (500, 1000), (1000, 1100)]
    text = f"{'A' * 300}. {'B' * 190}. {'C' * 8}. {'D' * 20}."
    assert [text[slice(*span)].split() for span in short_windows(text)] == [
        text.split()[:2],
        text.split()[2:],
    ]
    assert short_windows("") == short_windows(" \n " * 300) == []


@pytest.mark.parametrize(
    ("n", "size", "windows"),
    [
        (0, 4, [(0, 0)]),
        (1, 2, [(0, 1)]),
        (2, 2, [(0, 2)]),
        (3, 2, [(0, 2), (1, 3)]),
        (5, 4, [(0, 4), (2, 5)]),
        (7, None, [(0, 7)]),
    ],
)
def test_windows_of_words_overlap_by_half_and_there_is_at_least_one(
    n: int, size: int | None, windows
) -> None:
    firsts, lasts = window_borders(n, size)
    assert list(zip(firsts.tolist(), lasts.tolist(), strict=True)) == windows


def test_a_passage_that_begins_or_ends_inside_a_sentence_is_widened_to_whole_ones() -> None:
    text = f"{FILLER}{ANSWER} If it rains, the lamp is lit. {FILLER}"
    at = text.index("Brandt signed")
    for start, end in ((at, at + 20), (at, text.index("If it") + 5)):
        first, last = whole_sentences(text, start, end)
        assert text[first:last] in (ANSWER, f"{ANSWER} If it rains, the lamp is lit.")
        assert (first, last) == whole_sentences(text, first, last)
    endless = "word " * 500
    assert whole_sentences(endless, 1000, 1100) == (1000, 1100)
