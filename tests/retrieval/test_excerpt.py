"""What is shown of a passage: the sentences that share most words with the question."""

from collections.abc import Sequence

import numpy as np
import pytest

from mteb_longembed.retrieval.analyzer import Language
from mteb_longembed.retrieval.passages import WINDOW_CHARS, best_run, excerpt

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
