from statistics import fmean

import pytest

from mteb_longembed.reports.scores.columns import AVERAGE, COLUMNS
from mteb_longembed.reports.scores.paper import paper_lines, trained_len

SCORES = {
    line.model.name.full: {key: score.complete.mean for key, score in line.scores.items()}
    for line in paper_lines()
}


def test_the_papers_averages_are_the_means_of_its_columns():
    # Printed with one decimal from unrounded scores, so up to a tenth apart.
    # GTR is printed as 36.5, which its columns are not.
    for model, scores in SCORES.items():
        if model != "sentence-transformers/gtr-t5-base":
            mean = fmean(scores[column.key] for column in COLUMNS)
            assert scores[AVERAGE] == pytest.approx(mean, abs=0.1)


def test_known_facts():
    assert SCORES["dwzhu/e5rope-base+se@4096"]["Needle"] == 53.5
    assert SCORES["intfloat/e5-mistral-7b-instruct+ntk@32768"][AVERAGE] == 75.3
    known = ("intfloat/e5-base-v2", "intfloat/e5-mistral-7b-instruct", "somebody/else")
    assert list(map(trained_len, known)) == [512, 4096, None]
