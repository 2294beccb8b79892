import math
from statistics import median

import pytest

from mteb_longembed.reports.scores.public_results import Window, public_results, reference_curves, window
from mteb_longembed.reports.scores.published_numbers import LENGTHS

# Ten models whose window is known from elsewhere than these scores: 512 where a learned table of positions has 512 or
# 514 rows, so that nothing beyond can be read; 2,048 and 8,192 where mteb's own loader cuts (`max_seq_length` in its
# registry) or the model ends; None where a bag of words reads everything.
KNOWN = {
    "intfloat/e5-base-v2": 512,  # BERT, 512 rows
    "intfloat/multilingual-e5-base": 512,  # XLM-RoBERTa, 514 rows
    "Snowflake/snowflake-arctic-embed-l": 512,  # BERT, 512 rows
    "thenlper/gte-large": 512,  # BERT, 512 rows
    "ibm-granite/granite-embedding-125m-english": 512,  # RoBERTa, 514 rows
    "NovaSearch/jasper_en_vision_language_v1": 2048,  # mteb's loader: 2,048, though 131,072 are advertised
    "codefuse-ai/F2LLM-v2-4B": 8192,  # mteb's loader: 8,192, though 40,960 are advertised
    "hotchpotch/bekko-embedding-v1-a25m": 8192,  # the longest input in mteb's registry
    "mteb/baseline-bm25s": None,  # BM25 counts all words
    "sentence-transformers/static-similarity-mrl-multilingual-v1": None,  # the mean of all words' vectors
}


def _values(model):
    (match,) = (row.line for row in public_results().lines if row.line.model.name.full == model)
    return match.by_length["Passkey"]


@pytest.mark.parametrize("model", KNOWN)
def test_the_window_of_a_model_that_is_known_is_found_without_its_own_scores(model):
    curves = reference_curves(row for row in public_results().lines if row.line.model.name.full != model)
    result = window(_values(model), curves)
    assert result is not None
    assert result.near == KNOWN[model]
    assert result.is_complete == (KNOWN[model] is None)


def test_the_curves_are_medians_of_the_models_that_read_so_many_tokens():
    curves = reference_curves(public_results().lines)
    assert list(curves) == [512, 2048, 8192]
    by_hand = [
        row.line.by_length["Passkey"]
        for row in public_results().lines
        if row.is_open and row.advertised == 8192 and row.line.by_length["Passkey"]
    ]
    by_hand = [values for values in by_hand if min(values[n] for n in LENGTHS if n <= 8192) >= 90]
    assert len(by_hand) == 6
    assert curves[8192] == {n: median(values[n] for values in by_hand) for n in LENGTHS}
    assert [round(curves[512][n]) for n in LENGTHS[2:]] == [62, 22, 14, 4, 4, 2]


def _curve(*values):
    return dict(zip(LENGTHS, map(float, values), strict=True))


CURVES = {512: _curve(100, 100, 62, 22, 14, 4, 4, 2), 8192: _curve(100, 100, 100, 100, 100, 100, 54, 26)}


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({2048: 26.0}, Window(512)),  # two queries away
        ({2048: 28.0}, Window(None)),  # three
        ({256: 92.0}, Window(512)),  # only lengths beyond the window count
        ({512: 84.0}, Window(None)),  # misses what it reads
    ],
)
def test_a_window_is_near_within_two_queries_beyond_it(changed, expected):
    assert window({**CURVES[512], **changed}, CURVES) == expected
    assert (expected.label == "unclear") == (expected.near is None)


def test_a_missing_length_gives_no_window():
    assert window({256: 100.0}, CURVES) is None


@pytest.mark.parametrize(
    ("seen", "advertised", "differs"),
    [
        (Window(512), 514, False),
        (Window(512), 1023, False),
        (Window(512), 1024, True),
        (Window(512), math.inf, True),
        (Window(8192), 4096, True),
        (Window(8192), 4097, False),
        (Window(None, is_complete=True), 8192, True),
        (Window(None, is_complete=True), math.inf, False),
        (Window(None), 32768, False),
        (Window(512), None, False),
    ],
)
def test_a_mismatch_is_a_factor_of_two(seen, advertised, differs):
    assert seen.differs_from(advertised) == differs


def test_the_shipped_file_is_that_of_its_commit():
    results = public_results()
    assert results.commit == "f4cc6c8b365a3c779dbc708d6affe0b0355b2ddf"
    assert len(results.lines) == 205
    assert sum(row.line.average.complete is not None for row in results.lines) == 166


def test_facts_of_mteb_stand_beside_the_scores():
    rows = {row.line.model.name.full: row for row in public_results().lines}
    assert rows["Qwen/Qwen3-Embedding-0.6B"].advertised == 32768
    assert rows["minishlab/potion-base-8M"].advertised == math.inf
    assert rows["google/gemini-embedding-001"].is_open is False
